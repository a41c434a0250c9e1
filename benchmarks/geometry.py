"""How far apart classes are before and after whitening by the covariance within the support classes.

    python benchmarks/geometry.py FOLDER              pets and cub, seed 0

Printed is the variance between class means over that within classes, of the stream's known and novel classes: what a
birth, which rests on a single event, has to go by.
"""

import argparse
from pathlib import Path

import numpy as np

from speciate.catalogue import load
from speciate.plugins import installed
from speciate.replay.recorded import load_recorded
from speciate.replay.streams import make_stream
from speciate_plugins.densities.prior import PriorOptions, estimate
from speciate_schemas import BenchmarkConfig


def separation(points: np.ndarray, classes: np.ndarray) -> float:
    """Variance between class means over that within classes."""
    means = np.stack([points[classes == one].mean(axis=0) for one in np.unique(classes)])
    within = np.square(points - means[np.unique(classes, return_inverse=True)[1]]).sum() / len(points)
    return float(np.square(means - means.mean(axis=0)).sum() / len(means) / within)


def main() -> None:
    """Print a line a benchmark and part of its stream."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--benchmarks", nargs="+", default=["pets", "cub"])
    options = parser.parse_args()
    for name in options.benchmarks:
        config = load("benchmarks", name, BenchmarkConfig)[1]
        recorded = load_recorded(name, config, options.folder, installed())
        support, stream = make_stream(recorded, config.support, "random", config.burst, 0)
        numbers = np.unique(recorded.classes[support], return_inverse=True)[1].astype(np.int64)
        prior = estimate(recorded.rows(support), numbers, PriorOptions())
        rows, classes = recorded.rows(stream) - prior.mean, recorded.classes[stream]
        for part, chosen in (("known", recorded.known[classes]), ("novel", ~recorded.known[classes])):
            plain = separation(rows[chosen], classes[chosen])
            whitened = separation(rows[chosen] @ prior.whiten.T, classes[chosen])
            print(f"{name}, {part} classes: between over within {plain:.2f}, whitened {whitened:.2f}")


if __name__ == "__main__":
    main()
