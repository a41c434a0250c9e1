"""Every backend and policy on recorded benchmark features: one table, All / Known / Novel, mean and spread over seeds.

    python benchmarks/accuracy.py FOLDER                  pets and cub, three seeds, every method
    python benchmarks/accuracy.py FOLDER --sets pets --seeds 1 --methods full spherical

FOLDER holds `NAME-*.npz` with `features`, `labels` and `split` (train, test or all), and `splits.json` with the known
classes of each. Half of the known classes' training samples, drawn by the seed, are the support set; the rest of the
training samples come in an order drawn by the seed. Accuracy is strict: one match over all events.
"""

import argparse
import json
import os
import sys
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from concurrent.futures import ProcessPoolExecutor, as_completed
from typing import Any, NamedTuple

import numpy as np

from speciate.evaluate.accuracy import strict_accuracy
from speciate.head import Head

DP = {"density": "full", "policy": "dp"}
METHODS: dict[str, dict[str, Any]] = {
    "full": DP,
    "full, alpha auto": DP | {"alpha": "auto"},
    "lowrank 32": DP | {"density": "lowrank"},
    "lowrank 32, feature space": DP | {"density": "lowrank", "space": "features"},
    "spherical": DP | {"density": "spherical"},
    "spherical, alpha auto": DP | {"density": "spherical", "alpha": "auto"},
    "mahalanobis + threshold": {"density": "mahalanobis", "policy": "distance-threshold"},
    "posterior threshold": {"density": "full", "policy": "posterior-threshold"},
    "nearest mean + threshold": {"density": "nearest-mean", "policy": "distance-threshold"},
    "without prior mean": DP | {"mean": "zero"},
    "without prior shape": DP | {"scale": "identity"},
    "kappa0 = 1": DP | {"kappa0": 1.0},
    "without DP prior": DP | {"prior": "none"},
    "frozen": DP | {"frozen": True},
}


class Result(NamedTuple):
    """What one run came to."""

    all: float
    known: float
    novel: float
    categories: int


def run(folder: Path, name: str, method: str, seed: int) -> Result:
    """Fit and stream one data set."""
    support, labels, stream, truth, known = load(folder, name, seed)
    head = Head.fit(support, labels, **METHODS[method])
    found = [decision.category for decision in head.process(stream)]
    return Result(*strict_accuracy(found, truth.tolist(), known), head.size)


def load(folder: Path, name: str, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, set[int]]:
    """Support features and labels, the stream and its truth, and the known classes."""
    (path,) = folder.glob(f"{name}-*.npz")
    with np.load(path, allow_pickle=False) as file:
        usable = np.flatnonzero(file["split"] != "test")
        features, labels = file["features"][usable].astype(np.float64), file["labels"][usable]
    known = set(json.loads((folder / "splits.json").read_text())[name]["known"])
    generator = np.random.default_rng(seed)
    candidates = generator.permutation(np.flatnonzero(np.isin(labels, list(known))))
    support = candidates[: len(candidates) // 2]
    rest = generator.permutation(np.setdiff1d(np.arange(len(labels)), support))
    return features[support], labels[support], features[rest], labels[rest], known


def main() -> None:
    """Run everything asked for, as many at a time as there are processors, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--sets", nargs="+", default=["pets", "cub"])
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    results: dict[tuple[str, str], list[Result]] = {}
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        jobs = {
            pool.submit(run, options.folder, name, method, seed): (name, method)
            for name in options.sets
            for method in options.methods
            for seed in range(options.seeds)
        }
        for number, job in enumerate(as_completed(jobs), 1):
            results.setdefault(jobs[job], []).append(job.result())
            print(f"\r{number} of {len(jobs)} runs", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    for name in options.sets:
        print_table(name, {method: results[name, method] for method in options.methods})


def print_table(name: str, results: dict[str, list[Result]]) -> None:
    """One line a method, the most accurate first."""
    print(f"{name:28}{'All':>14}{'Known':>14}{'Novel':>14}{'categories':>14}")
    for method, runs in sorted(results.items(), key=lambda item: -np.mean([one.all for one in item[1]])):
        *shares, sizes = np.array(runs).T
        cells = [f"{100 * share.mean():.1f} ± {100 * share.std():.1f}" for share in shares]
        cells.append(f"{sizes.mean():.0f} ± {sizes.std():.0f}")
        print(f"{method:28}" + "".join(f"{cell:>14}" for cell in cells))


if __name__ == "__main__":
    main()
