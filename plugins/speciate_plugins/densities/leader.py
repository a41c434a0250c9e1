"""Leader clustering (SLC): the nearest leader within one radius, or a new leader; a leader is a running mean.

After Hartigan, Clustering Algorithms (1975), as the comparisons of this field use it: the known classes are leaders at
the means of their support. The score is the negative Euclidean distance, so the radius is the negative of the threshold
of `distance-threshold`, which tunes it on held-out classes with `threshold = "auto"`. For policies that ask, a birth
scores as an event would at the distance that 95 % of the support events keep from the mean of the others of their
class. Merging gives the mean of all events of both.
"""

import math
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from speciate.hooks import Provider, hookimpl
from speciate.stages import Density, Matrix, Vector
from speciate_plugins.densities.prototypes import Classes, Prototypes, distances, own_distances
from speciate_schemas import Strict

INSIDE = 0.95
"""Share of the support events that lie within the radius a birth is scored by."""


class LeaderOptions(Strict, frozen=True):
    """A leader has nothing to set: its radius is the policy's threshold."""


class Leaders(Prototypes):
    """Categories as running means; prototype k is that of category k."""

    shared_names: ClassVar[tuple[str, ...]] = ("radius",)

    def __init__(self, options: Strict) -> None:
        super().__init__()
        self._options = options

    def _calibrate(self, features: Matrix, classes: Classes) -> dict[str, npt.NDArray[Any]]:
        return {"radius": np.asarray(np.quantile(own_distances(features, classes), INSIDE))}

    def _start(self, own: Matrix) -> tuple[Matrix, Matrix]:
        return own.mean(axis=0)[np.newaxis], np.zeros((1, self.traits))

    def embed(self, batch: Matrix) -> Matrix:
        """See `Density`. The features are their own coordinates."""
        return np.ascontiguousarray(batch)

    def _measure(self, vectors: Matrix, traits: Matrix, point: Vector) -> Vector:  # noqa: ARG002  # one radius for all
        return -distances(vectors, point)

    def score_birth(self, points: Matrix) -> Vector:
        """See `Density`."""
        return np.where(reachable(points), -self._shared["radius"], -np.inf)

    def absorb(self, category: int, point: Vector) -> float:
        """See `Density`. The drift is a distance between features."""
        self.counts[category] += 1
        step = (point - self._vectors[category]) / self.counts[category]
        self._vectors[category] += step
        return math.sqrt(step @ step)

    def merge(self, keep: int, absorb: int) -> None:
        """See `Density`."""
        both = self.counts[[keep, absorb]]
        self._vectors[keep] = both @ self._vectors[[keep, absorb]] / both.sum()
        self.counts[keep] = both.sum()
        self.remove(absorb)


def reachable(points: Matrix) -> npt.NDArray[np.bool_]:
    """Which points are near enough for their distances to be numbers."""
    return np.isfinite(distances(points, np.zeros(points.shape[1])))


@hookimpl
def speciate_density() -> Provider[Density]:
    """Provide the density."""
    return Provider(options=LeaderOptions, create=Leaders)
