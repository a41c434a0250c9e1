"""What the image pipeline costs beside the bare model: throughput, latency, decoding, torch against ONNX, precisions.

    python benchmarks/images.py --images FOLDER     a folder with a folder of photographs per class

The bare model gets tensors that were decoded before, in batches of the same size: it is the limit. The pipeline reads
the same photographs from an event log, decodes, encodes, decides and commits. Both are measured alternately and the
best of each counts, because other work on the machine only ever adds time. At a trickle, one image a second, the
pipeline's latency from reading an image to writing its answer stands beside the time the bare model takes for one
image, measured as rarely, so that both find the caches as cold. Of 30 images the p99 is all but the largest: it tells
of the worst moment of the machine, not of a tail.
"""

import argparse
import asyncio
import contextlib
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # as the command does; torch has threads of its own

import numpy as np

from speciate.config import choose, parse, resolve
from speciate.fitting import fit
from speciate.pipeline import Pipeline
from speciate.plugins import installed
from speciate.report import Report
from speciate_schemas import FitConfig, ImageEvent, encode
from speciate_schemas.framing import pack

PLUGINS = installed()


@contextlib.contextmanager
def silent(_: str) -> Iterator[Callable[[int, int, str], None]]:
    """Show nothing of the preparations."""
    yield lambda _done, _total, _word: None


def best(rounds: int, *jobs: Callable[[], float]) -> list[float]:
    """The least that each job took, taken in turns."""
    return [min(times) for times in zip(*[[job() for job in jobs] for _ in range(rounds)], strict=True)]


def timed(job: Callable[[], Any]) -> float:
    """Seconds a job took."""
    start = time.perf_counter()
    job()
    return time.perf_counter() - start


def write_log(path: Path, photographs: list[Path], count: int) -> None:
    """An event log of so many images; photographs come again under another id."""
    with path.open("wb") as log:
        for number in range(count):
            data = photographs[number % len(photographs)].read_bytes()
            log.write(pack(encode(ImageEvent(id=str(number), image=memoryview(data), stream="camera"))))


def pipeline_of(directory: Path, model: Path, log: Path, name: str, **run: Any) -> Pipeline:
    """A new pipeline from an event log to assignments."""
    tree = {
        "model": {"path": str(model)},
        "source": {"plugin": "eventlog", "paths": [str(log)]},
        "sink": {"plugin": "jsonl", "path": f"{directory}/{name}.jsonl"},
        "dead_letters": {"plugin": "eventlog", "path": f"{directory}/{name}.dead"},
        "store": {"plugin": "directory", "path": f"{directory}/{name}.state"},
        "run": run,
    }
    return Pipeline(resolve(parse(tree), PLUGINS), plugins=PLUGINS, fresh=True)


async def load(pipeline: Pipeline) -> None:
    """Load the encoder and the head, so that no clock has to wait for them."""
    household = pipeline._worker._household  # noqa: SLF001
    await household.load_encoder()
    await household.fitted()


async def run_loaded(pipeline: Pipeline) -> Report:
    """Run with everything loaded before the clock starts."""
    await load(pipeline)
    return await pipeline.run()


def report_decoding(encoder: Any, photographs: list[Path]) -> None:
    """Images decoded and cut a second, and what is spent on decoding alone."""
    import simplejpeg  # noqa: PLC0415
    from PIL import Image  # noqa: PLC0415

    files = [path.read_bytes() for path in photographs]
    events = [ImageEvent(id="x", image=memoryview(data)) for data in files]
    with ThreadPoolExecutor(2) as pool:
        found = best(
            3,
            lambda: timed(lambda: [simplejpeg.decode_jpeg(data) for data in files]),
            lambda: timed(lambda: [np.asarray(Image.open(BytesIO(data)).convert("RGB")) for data in files]),
            lambda: timed(lambda: [encoder.prepare(event) for event in events]),
            lambda: timed(lambda: list(pool.map(encoder.prepare, events))),
        )
    names = ("decode, simplejpeg", "decode, Pillow", "prepare, 1 thread", "prepare, 2 threads")
    for name, seconds in zip(names, found, strict=True):
        print(f"{name:<24}{len(files) / seconds:8.0f} images/s")


def report_throughput(directory: Path, model: Path, encoder: Any, photographs: list[Path], options: Any) -> None:
    """The pipeline beside the bare model, in batches of the same size."""
    log = directory / "throughput.log"
    write_log(log, photographs, options.count)
    tensors = [encoder.prepare(ImageEvent(id="x", image=memoryview(path.read_bytes()))) for path in photographs]
    batches = [
        [tensors[place % len(tensors)] for place in range(start, min(start + options.batch, options.count))]
        for start in range(0, options.count, options.batch)
    ]

    def bare() -> float:
        return timed(lambda: [encoder.encode(batch) for batch in batches])

    reports: list[Report] = []

    def whole() -> float:
        pipeline = pipeline_of(directory, model, log, "throughput", encode_events=options.batch)
        reports.append(asyncio.run(run_loaded(pipeline)))
        return reports[-1].status.seconds

    least_bare, least_whole = best(options.rounds, bare, whole)
    print(f"bare model              {options.count / least_bare:8.1f} images/s in batches of {options.batch}")
    print(f"pipeline                {options.count / least_whole:8.1f} images/s: {least_bare / least_whole:.1%} of it")
    fastest = min(reports, key=lambda report: report.status.seconds)
    for name, spent in fastest.status.stages.items():
        print(
            f"  {name:<10} busy {spent.busy:.2f} s, idle {spent.idle:.2f} s, backpressured {spent.backpressured:.2f} s"
        )


def report_trickle(directory: Path, model: Path, encoder: Any, photographs: list[Path], options: Any) -> None:
    """Latency at so many images a second, beside the bare model asked as rarely."""
    log = directory / "trickle.log"
    write_log(log, photographs, options.trickle)
    prepared = [encoder.prepare(ImageEvent(id="x", image=memoryview(path.read_bytes()))) for path in photographs]
    alone: list[float] = []

    async def ask_rarely() -> None:
        """In between the pipeline's images, so that both meet the same machine."""
        await asyncio.sleep(0.5 / options.rate)
        for place in range(options.trickle):
            began = time.perf_counter()
            alone.append(await asyncio.to_thread(timed, lambda: encoder.encode([prepared[place % len(prepared)]])))  # noqa: B023
            await asyncio.sleep(1.0 / options.rate - (time.perf_counter() - began))

    async def both() -> Report:
        pipeline = pipeline_of(directory, model, log, "trickle", pace=options.rate)
        await load(pipeline)
        asking = asyncio.create_task(ask_rarely())
        report = await pipeline.run()
        await asking
        return report

    report = asyncio.run(both())
    p50, p99 = np.percentile(alone, [50, 99])
    print(f"one image, bare model    p50 {p50 * 1e3:6.1f} ms, p99 {p99 * 1e3:6.1f} ms, {options.rate:g} a second")
    print(f"one image, pipeline      p50 {report.latency_p50 * 1e3:6.1f} ms, p99 {report.latency_p99 * 1e3:6.1f} ms")
    print(f"ratio                    p50 {report.latency_p50 / p50:6.2f}, p99 {report.latency_p99 / p99:6.2f}")


def report_onnx(directory: Path, encoder: Any, photographs: list[Path], options: Any) -> None:
    """Torch and ONNX in turns, on the same tensors."""
    from speciate_plugins.vision.exporting import export  # noqa: PLC0415

    path = directory / "encoder.onnx"
    export(encoder._model, path)  # noqa: SLF001
    other = choose(PLUGINS, "encoder", {"plugin": "onnx", "path": str(path)}, "encoder").create()
    other.load()
    tensors = [encoder.prepare(ImageEvent(id="x", image=memoryview(path.read_bytes()))) for path in photographs[:64]]
    for size in (1, 8, options.batch):
        batch = (tensors * options.batch)[:size]
        repeats = max(1, 32 // size)
        found = best(
            options.rounds,
            lambda batch=batch, repeats=repeats: timed(lambda: [encoder.encode(batch) for _ in range(repeats)]),
            lambda batch=batch, repeats=repeats: timed(lambda: [other.encode(batch) for _ in range(repeats)]),
        )
        rates = [size * repeats / seconds for seconds in found]
        print(f"batch {size:>3}: torch {rates[0]:6.1f}, ONNX {rates[1]:6.1f} images/s: {rates[1] / rates[0]:.2f} ×")


def report_precisions(encoder: Any, section: dict[str, Any], photographs: list[Path], options: Any) -> None:
    """Less precision is faster only where the processor has it: which is why `auto` is float32 on a CPU."""
    other = choose(PLUGINS, "encoder", {**section, "precision": "bfloat16"}, "encoder").create()
    other.load()
    tensors = [encoder.prepare(ImageEvent(id="x", image=memoryview(path.read_bytes()))) for path in photographs]
    batch = tensors[: options.batch]
    exact, coarse = best(
        options.rounds, lambda: timed(lambda: encoder.encode(batch)), lambda: timed(lambda: other.encode(batch))
    )
    rates = [len(batch) / seconds for seconds in (exact, coarse)]
    print(f"float32 {rates[0]:.1f}, bfloat16 {rates[1]:.1f} images/s: {rates[1] / rates[0]:.2f} ×")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=Path, required=True, help="folder with a folder of photographs per class")
    parser.add_argument("--model", default="tf_efficientnet_lite0", help="timm model")
    parser.add_argument("--count", type=int, default=512, help="images through the pipeline")
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--trickle", type=int, default=30, help="images at a trickle")
    parser.add_argument("--rate", type=float, default=1.0, help="images a second at a trickle")
    options = parser.parse_args()
    photographs = sorted(options.images.glob("*/*.jpg"))
    section = {"plugin": "timm", "model": options.model}
    encoder = choose(PLUGINS, "encoder", section, "encoder").create()
    encoder.load()
    with tempfile.TemporaryDirectory() as folder:
        directory = Path(folder)
        report_decoding(encoder, photographs[:256])
        model = directory / "model"
        known = sorted({path.parent for path in photographs})[:10]
        config = FitConfig(
            support={"plugin": "images", "paths": [str(one) for one in known]},
            encoder=section,
            density={"plugin": "full"},
            policy={"plugin": "dp", "alpha": 1e-9},
        )
        asyncio.run(fit(config, model, PLUGINS, silent))
        report_throughput(directory, model, encoder, photographs[:256], options)
        report_trickle(directory, model, encoder, photographs[:256], options)
        report_onnx(directory, encoder, photographs, options)
        report_precisions(encoder, section, photographs[:64], options)


if __name__ == "__main__":
    main()
