"""What the engine costs: events per second, and the overhead over the same head in a plain loop.

    python benchmarks/engine.py             the rates and ratios, in one run
    python benchmarks/engine.py --memory    resident memory after 100 000 and after 1 000 000 events

The plain loop reads the same event log, decodes, decides with the same head in the same batches and writes the same
JSON Lines, on one thread, with no queue, no commit, no snapshot, no check of ids and no resume. It is the limit: what
the engine takes beyond it is the price of its guarantees. Both are measured alternately and the best of each counts,
because other work on the machine only ever adds time.
"""

import argparse
import asyncio
import resource
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import trivial
from speciate.config import choose, parse, resolve
from speciate.head import Head
from speciate.pipeline import Pipeline
from speciate_schemas import Array, Assignment, Event, FeatureEvent, decode, encode
from speciate_schemas.framing import Frame, next_frame, pack

PLUGINS = trivial.plugins()
BATCH = 256
ROUNDS = 5


def write_inputs(directory: Path, *, events: int, dimension: int, classes: int, seed: int = 0) -> None:
    """A support set and a stream of the same clusters."""
    rng = np.random.default_rng(seed)
    centres = 3.0 * rng.normal(size=(classes, dimension))
    numbers = np.repeat(np.arange(classes), 4)
    # Names that sort as the numbers do: the engine reads labels as text.
    labels = np.array([f"{number:06d}" for number in numbers])
    support = centres[numbers] + rng.normal(size=(len(numbers), dimension))
    np.savez(directory / "support.npz", features=support.astype(np.float32), labels=labels)
    with (directory / "stream.log").open("wb") as log:
        for number in range(events):
            vector = (centres[number % classes] + rng.normal(size=dimension)).astype(np.float32)
            log.write(pack(encode(FeatureEvent(id=f"e{number}", stream="s", features=Array.of(vector)))))


def config_of(directory: Path, density: str, policy: str) -> dict[str, Any]:
    """The pipeline under test."""
    return {
        "source": {"plugin": "eventlog", "paths": [f"{directory}/stream.log"]},
        "support": {"plugin": "npz", "paths": [f"{directory}/support.npz"]},
        "density": {"plugin": density},
        "policy": {"plugin": policy},
        "sink": {"plugin": "jsonl", "path": f"{directory}/engine.jsonl"},
        "dead_letters": {"plugin": "eventlog", "path": f"{directory}/dead.log"},
        "store": {"plugin": "directory", "path": f"{directory}/state"},
        "run": {"batch_events": BATCH},
    }


def run_engine(config: dict[str, Any]) -> float:
    """Seconds from the first read to the last commit and snapshot."""
    pipeline = Pipeline(resolve(parse(config), PLUGINS), plugins=PLUGINS, fresh=True)
    return asyncio.run(pipeline.run()).status.seconds


def run_plain(directory: Path, config: dict[str, Any]) -> float:
    """The same work without an engine."""
    support = np.load(directory / "support.npz")
    chosen = [choose(PLUGINS, stage, config[stage], stage) for stage in ("density", "policy")]
    head = Head(*chosen)
    head.calibrate(support["features"], support["labels"])
    start = time.perf_counter()
    sequence = 0
    with (directory / "stream.log").open("rb") as log, (directory / "plain.jsonl").open("wb") as output:
        rest = b""
        while chunk := log.read(1 << 20):
            buffer, place = rest + chunk, 0
            events: list[FeatureEvent] = []
            while isinstance(frame := next_frame(buffer, place, final=False), Frame):
                events.append(decode(frame.payload, Event))
                place = frame.end
            rest = buffer[place:]
            for first in range(0, len(events), BATCH):
                batch = events[first : first + BATCH]
                output.write(_answers(head, batch, sequence))
                sequence += len(batch)
    return time.perf_counter() - start


def _answers(head: Head, batch: list[FeatureEvent], sequence: int) -> bytes:
    version = head.version
    decisions = head.process(np.stack([event.features.numpy() for event in batch]))  # type: ignore[union-attr]
    lines = []
    for number, (event, decision) in enumerate(zip(batch, decisions, strict=True)):
        answer = Assignment(
            id=event.id,
            stream=event.stream,
            sequence=sequence + number,
            head_version=version + number,
            **decision._asdict(),
        )
        lines.append(encode(answer, "json"))
    return b"\n".join([*lines, b""])


def compare(name: str, density: str, policy: str, *, events: int, dimension: int, classes: int) -> None:
    """Engine and plain loop, alternately; prints the best of each and the ratio."""
    with tempfile.TemporaryDirectory() as folder:
        directory = Path(folder)
        write_inputs(directory, events=events, dimension=dimension, classes=classes)
        config = config_of(directory, density, policy)
        times = [(run_engine(config), run_plain(directory, config)) for _ in range(ROUNDS)]
        same = (directory / "engine.jsonl").read_bytes() == (directory / "plain.jsonl").read_bytes()
    engine, plain = (min(column) for column in zip(*times, strict=True))
    print(
        f"{name:<28} d={dimension} K={classes:<4} engine {events / engine:>8,.0f} events/s   "
        f"plain loop {events / plain:>8,.0f} events/s   overhead {engine / plain - 1:+.0%}   same answers: {same}"
    )


def measure_memory(events: int) -> float:
    """Resident memory, at its highest, of a process that has run so many events; in MiB."""
    import multiprocessing  # noqa: PLC0415  # only needed here

    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(_peak, (events,))


def _peak(events: int) -> float:
    with tempfile.TemporaryDirectory() as folder:
        directory = Path(folder)
        write_inputs(directory, events=events, dimension=64, classes=10)
        run_engine(config_of(directory, "nearest-mean", "dp"))
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    """Print what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--memory", action="store_true", help="measure memory instead of time (a few minutes)")
    if parser.parse_args().memory:
        small, large = measure_memory(100_000), measure_memory(1_000_000)
        print(
            f"peak resident memory: {small:.1f} MiB after 100 000 events, {large:.1f} MiB after 1 000 000: "
            f"{large / small - 1:+.1%}"
        )
        return
    compare("trivial head", "trivial", "trivial", events=20_000, dimension=768, classes=10)
    compare("nearest mean, dp", "nearest-mean", "dp", events=20_000, dimension=768, classes=10)
    compare("nearest mean, dp", "nearest-mean", "dp", events=2_000, dimension=768, classes=200)


if __name__ == "__main__":
    main()
