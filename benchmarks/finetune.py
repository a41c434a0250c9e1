"""What training the encoder on the support set does to the decisions: frozen features against fine-tuned ones.

    python benchmarks/finetune.py --data FOLDER      pets-images/BREED/*.jpg and splits.json in it

For each seed: half of the photographs of the known breeds, drawn by the seed, are the support set. `speciate fit`
trains the encoder on them, with each of the losses; its features and those of the encoder as it was are replayed in the
same random order with the same heads. Printed are strict accuracies, the mean over the seeds and the range, the number
of categories, kappa0 and the time the fit took.
"""

import argparse
import asyncio
import contextlib
import json
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from speciate import catalogue
from speciate.bundle import Bundle
from speciate.config import choose
from speciate.encoding import BATCH_IMAGES, decoders
from speciate.fitting import fit
from speciate.plugins import installed
from speciate.replay.recorded import load_recorded
from speciate.replay.running import replay
from speciate.replay.streams import make_stream
from speciate_schemas import (
    BenchmarkConfig,
    DataOptions,
    FitConfig,
    ImageEvent,
    KnownClasses,
    MethodConfig,
    Recipe,
    Run,
    SupportRule,
)

PLUGINS = installed()


@contextlib.contextmanager
def telling(what: str) -> Iterator[Callable[[int, int, str], None]]:
    """One line that moves."""

    def show(done: int, total: int, word: str) -> None:
        sys.stderr.write(f"\r{what} {done}/{total} {word:<60}")

    yield show
    sys.stderr.write("\n")


def known_breeds(data: Path) -> list[str]:
    """The names of the known breeds: the file has their places among all of them, cats first."""
    breeds = sorted(path.name for path in (data / "pets-images").iterdir())
    return [breeds[place] for place in json.loads((data / "splits.json").read_text())["pets"]["known"]]


def features_of(section: dict[str, Any], photographs: list[Path]) -> npt.NDArray[np.float32]:
    """Every photograph by one encoder."""
    encoder = choose(PLUGINS, "encoder", section, "encoder").create()
    encoder.load()
    rows = []
    with decoders() as pool, telling("encoding") as show:
        for start in range(0, len(photographs), BATCH_IMAGES):
            part = photographs[start : start + BATCH_IMAGES]
            events = [ImageEvent(id="x", image=memoryview(path.read_bytes())) for path in part]
            rows.append(encoder.encode(list(pool.map(encoder.prepare, events))))
            show(start + len(part), len(photographs), "")
    return np.concatenate(rows)


def benchmark(known: list[str]) -> BenchmarkConfig:
    """The protocol: half of the known events are labelled, the rest comes in random order."""
    return BenchmarkConfig(
        title="Pets photographs",
        data=DataOptions(features="features.npz"),
        known=KnownClasses(classes=tuple(known)),
        support=SupportRule(rule="pooled", share=0.5),
    )


def replayed(folder: Path, config: BenchmarkConfig, method: str, seed: int) -> Run:
    """One replay of the features in a folder."""
    _, given = catalogue.load("methods", method, MethodConfig)
    recipe = Recipe(
        benchmark="pets", method=method, benchmark_config=config, method_config=given, order="random", seed=seed
    )
    recorded = load_recorded("pets", config, folder, PLUGINS)
    return replay(recipe, recorded, folder / f"{method}-{seed}", PLUGINS, lambda _done, _total: None)


def write_features(folder: Path, features: npt.NDArray[Any], photographs: list[Path]) -> Path:
    """Features as a recording that can be replayed."""
    folder.mkdir(parents=True)
    np.savez(folder / "features.npz", features=features, labels=np.array([path.parent.name for path in photographs]))
    return folder


def link_support(folder: Path, photographs: list[Path], support: npt.NDArray[np.int64]) -> None:
    """Some of the photographs as a support set: a folder a breed, below `support`."""
    for place in support.tolist():
        one = photographs[place]
        target = folder / "support" / one.parent.name / one.name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.symlink_to(one.absolute())


def fitted(
    folder: Path,
    photographs: list[Path],
    support: npt.NDArray[np.int64],
    encoder: dict[str, Any],
    training: dict[str, Any],
) -> tuple[Bundle, float]:
    """A model fitted to some of the photographs, and how long it took."""
    link_support(folder, photographs, support)
    config = FitConfig(
        support={"plugin": "images", "paths": [str(folder / "support")]},
        encoder=encoder,
        training=training,
        density={"plugin": "full"},
        policy={"plugin": "dp", "alpha": 1e-9},
    )
    start = time.perf_counter()
    asyncio.run(fit(config, folder / "model", PLUGINS, telling))
    return Bundle.load(folder / "model"), time.perf_counter() - start


def print_table(runs: dict[tuple[str, str], list[Run]], seconds: dict[str, list[float]]) -> None:
    """One line for each kind of features and head."""
    print("| features | head | All | Known | Novel | range of All | categories | kappa0 | fit, s |")
    print("|---|---|---|---|---|---|---|---|---|")
    for (features, method), found in runs.items():
        strict = np.array(
            [[one.metrics.strict.all, one.metrics.strict.known, one.metrics.strict.novel] for one in found]
        )
        shares = " | ".join(f"{100 * share:.1f}" for share in strict.mean(axis=0))
        spread = f"{100 * strict[:, 0].min():.1f}–{100 * strict[:, 0].max():.1f}"
        categories = np.mean([one.metrics.held for one in found])
        kappa0 = np.mean([one.info.estimated.get("kappa0", np.nan) for one in found])
        took = f"{np.mean(seconds[features]):.0f}" if seconds[features] else ""
        print(f"| {features} | {method} | {shares} | {spread} | {categories:.1f} | {kappa0:.3g} | {took} |")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--methods", nargs="+", default=["dp-boa", "dp-boa-auto", "spherical"])
    parser.add_argument("--losses", nargs="+", default=["ce", "ce+supcon"])
    parser.add_argument("--model", default="tf_efficientnet_lite0")
    parser.add_argument("--training", type=json.loads, default={}, help="more options of [training], as JSON")
    options = parser.parse_args()
    photographs = sorted((options.data / "pets-images").glob("*/*.jpg"))
    config, encoder = benchmark(known_breeds(options.data)), {"plugin": "timm", "model": options.model}
    runs: dict[tuple[str, str], list[Run]] = defaultdict(list)
    seconds: dict[str, list[float]] = defaultdict(list)
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        frozen = write_features(root / "frozen", features_of(encoder, photographs), photographs)
        recorded = load_recorded("pets", config, frozen, PLUGINS)
        for seed in options.seeds:
            for method in options.methods:
                runs["frozen", method].append(replayed(frozen, config, method, seed))
            support = make_stream(recorded, config.support, "random", config.burst, seed).support
            for loss in options.losses:
                place = root / f"{loss}-{seed}"
                training = {"loss": loss, "seed": seed, **options.training}
                bundle, took = fitted(place, photographs, support, encoder, training)
                seconds[loss].append(took)
                section = bundle.encoder_section() or {}
                tuned = write_features(place / "features", features_of(section, photographs), photographs)
                for method in options.methods:
                    runs[loss, method].append(replayed(tuned, config, method, seed))
    print(f"seeds {options.seeds}, training {options.training or 'by default'}")
    print_table(runs, seconds)


if __name__ == "__main__":
    main()
