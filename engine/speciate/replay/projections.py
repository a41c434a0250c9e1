"""Categories of a run in two dimensions each, for the ellipses that show how evidence shapes them.

After DP-BOA, appendix I: a category's own plane is that of the first two principal components of all its events, the
support's included, and the prior is projected into it. The largest known and the largest born categories are taken.
"""

from pathlib import Path

import numpy as np
import numpy.typing as npt

from speciate.replay.recorded import Recorded
from speciate.replay.running import ASSIGNMENTS
from speciate.replay.streams import Stream, make_stream
from speciate.reporting.ellipses import Category
from speciate_schemas import Recipe, Run

EACH = 3
"""Known categories, and born ones."""
LEAST_EVENTS = 5
BACKGROUND = 1500
"""Gray points behind a category."""


def projections(recipe: Recipe, run: Run, recorded: Recorded, folder: Path) -> list[Category]:
    """The categories to draw; none if the method has no prior to start an ellipse from."""
    estimated = run.info.estimated
    if not {"kappa0", "n0"} <= estimated.keys():
        return []
    config = recipe.benchmark_config
    stream = make_stream(recorded, config.support, recipe.order, config.burst, recipe.seed)
    kept = np.load(folder / ASSIGNMENTS, mmap_mode="r", allow_pickle=False)["category"]
    # The classes of the support set are categories 0 … K-1, sorted by name.
    names = sorted({recorded.names[one] for one in np.unique(recorded.classes[stream.support])})
    residuals, background = _residuals(recorded, stream), _background(recorded, stream)
    centre = recorded.rows(stream.support).mean(axis=0)
    degrees, shrinkage = max(1, len(residuals) - len(names)), estimated.get("shrinkage", 0.0)
    level = float(np.square(residuals).sum()) / degrees / residuals.shape[1]
    drawn = []
    for category in _largest(kept, len(names)):
        known = category < len(names)
        own = stream.stream[np.flatnonzero(kept == category)]
        support = _of_class(recorded, stream, names[category]) if known else np.empty(0, dtype=np.int64)
        points = recorded.rows(np.concatenate((support, own)))
        mean = points.mean(axis=0)
        plane = np.linalg.svd(points - mean, full_matrices=False)[2][:2].T
        projected = residuals @ plane
        within = projected.T @ projected / degrees
        # Shrunk as the prior is: towards a ball of the same trace.
        within = (1.0 - shrinkage) * within + shrinkage * level * np.eye(2)
        drawn.append(
            Category(
                title=names[category] if known else f"category {category}, born in the stream",
                points=(points - mean) @ plane,
                within=within,
                kappa0=estimated["kappa0"],
                n0=estimated["n0"],
                prior_mean=(centre - mean) @ plane,
                support=len(support),
                background=(background - mean) @ plane,
            )
        )
    return drawn


def _largest(kept: npt.NDArray[np.int64], known: int) -> list[int]:
    categories, counts = np.unique(kept, return_counts=True)
    order = categories[np.argsort(-counts, kind="stable")][: np.count_nonzero(counts >= LEAST_EVENTS)].tolist()
    return [one for one in order if one < known][:EACH] + [one for one in order if one >= known][:EACH]


def _of_class(recorded: Recorded, stream: Stream, name: str) -> npt.NDArray[np.int64]:
    places = np.flatnonzero(recorded.classes[stream.support] == recorded.names.index(name))
    return stream.support.take(places)


def _residuals(recorded: Recorded, stream: Stream) -> npt.NDArray[np.float64]:
    """Support events less the mean of their class."""
    rows, classes = recorded.rows(stream.support), recorded.classes[stream.support]
    for number in np.unique(classes):
        rows[classes == number] -= rows[classes == number].mean(axis=0)
    return rows


def _background(recorded: Recorded, stream: Stream) -> npt.NDArray[np.float64]:
    """Some events of the stream, evenly spread over it."""
    step = max(1, len(stream.stream) // BACKGROUND)
    return recorded.rows(stream.stream[::step])
