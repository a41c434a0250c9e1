"""Small benchmarks on disk, for the tests of replaying."""

import json
from pathlib import Path

import numpy as np

from speciate_schemas import BenchmarkConfig, DataOptions, KnownClasses, MethodConfig, Recipe, SupportRule

METHOD = MethodConfig(title="Full", density={"plugin": "full"}, policy={"plugin": "dp", "alpha": 1e-3})
NEAREST = MethodConfig(title="Nearest", density={"plugin": "nearest-mean"}, policy={"plugin": "dp", "alpha": 1.0})


def write_bench(folder: Path, *, classes: int = 5, each: int = 12, dimension: int = 4, **changes: np.ndarray) -> Path:
    """Well separated classes named a, b, c …, recorded in turn; some of a split of their own, in two groups."""
    rng = np.random.default_rng(3)
    truth = np.tile(np.arange(classes), each)
    arrays = {
        "features": (20.0 * rng.normal(size=(classes, dimension)))[truth] + rng.normal(size=(len(truth), dimension)),
        "labels": np.array([chr(ord("a") + one) for one in truth]),
        "split": np.array(["train" if place % 10 else "test" for place in range(len(truth))]),
        "domain": np.array(["real", "sketch"])[np.arange(len(truth)) // classes % 2],
    } | changes
    folder.mkdir(parents=True, exist_ok=True)
    np.savez(folder / "made-features.npz", **{key: value for key, value in arrays.items() if value is not None})
    (folder / "splits.json").write_text(json.dumps({"made": {"known": ["a", "b", "c"]}}))
    return folder


def bench(**changes: object) -> BenchmarkConfig:
    """A benchmark for those files."""
    given = {
        "title": "Made",
        "about": "Made by\nthe tests.",
        "data": DataOptions(features="made-*.npz"),
        "known": KnownClasses(classes=("a", "b", "c")),
        "support": SupportRule(),
    } | changes
    return BenchmarkConfig(**given)  # type: ignore[arg-type]


def recipe(**changes: object) -> Recipe:
    """A recipe for them."""
    given = {
        "benchmark": "made",
        "method": "full",
        "benchmark_config": bench(),
        "method_config": METHOD,
        "order": "random",
        "seed": 0,
        "batch": 16,
    } | changes
    return Recipe(**given)  # type: ignore[arg-type]
