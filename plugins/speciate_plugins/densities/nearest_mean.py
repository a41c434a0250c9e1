"""Nearest mean: every category a round Gaussian of one common width around its running mean.

The baseline practitioners reach for first, stated as a density so that any policy can decide over it: category k
predicts N(m_k, s²(1 + 1/n_k) I), a birth is predicted by N(m, (s² + t²) I), where s² is the pooled variance within
the support classes, m their common mean and t² the variance between class means, each per feature.
"""

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from speciate.errors import StateMismatchError, SupportError
from speciate.hooks import Provider, hookimpl
from speciate.screening import ExactScreening
from speciate.stages import Density, DensityState, Extent, Matrix, Screening, Vector
from speciate_plugins.densities.states import take
from speciate_schemas import Array, Strict


class NearestMeanOptions(Strict, frozen=True):
    """Nearest mean has nothing to set: all it needs is estimated from the support set."""


class NearestMean:
    """Running means with one common variance."""

    def __init__(self, options: NearestMeanOptions) -> None:
        self._options = options
        self._within = 1.0
        self._between = 1.0
        self._centre: Vector = np.empty(0)
        self._means: Matrix = np.empty((0, 0))
        self.counts: npt.NDArray[np.int64] = np.empty(0, dtype=np.int64)

    @property
    def dimension(self) -> int:
        """See `Density`."""
        return len(self._centre)

    @property
    def nbytes(self) -> int:
        """See `Density`."""
        return self._means.nbytes + self.counts.nbytes

    def fit(self, features: Matrix, classes: npt.NDArray[np.int64]) -> None:
        """See `Density`. A single class shows no variance between classes: that within it stands in."""
        counts = np.bincount(classes)
        means = np.stack([features[classes == k].mean(axis=0) for k in range(len(counts))])
        degrees = len(features) - len(counts)
        within = float(((features - means[classes]) ** 2).sum() / (degrees * features.shape[1])) if degrees else 0.0
        if within <= 0.0:
            raise SupportError(
                "the support set has no spread within its classes (one sample a class, or equal samples): "
                "give at least one class two different samples"
            )
        self._within, self._centre = within, features.mean(axis=0)
        self._between = _between(means, counts, within)
        self._means, self.counts = means, counts.astype(np.int64)

    def embed(self, batch: Matrix) -> Matrix:
        """See `Density`. The features are their own coordinates."""
        return batch

    def screen(self, points: Matrix) -> Screening:
        """See `Density`."""
        return ExactScreening(self, points)

    def score(self, point: Vector, categories: Sequence[int]) -> Vector:
        """See `Density`."""
        places = np.asarray(categories, dtype=np.intp)
        return _log_density(_square_distances(self._means[places], point), self._variances(places), self.dimension)

    def _variances(self, places: npt.NDArray[np.intp]) -> Vector:
        variances: Vector = self._within * (1.0 + 1.0 / self.counts[places])
        return variances

    def score_birth(self, points: Matrix) -> Vector:
        """See `Density`."""
        distances = np.array([_square_distances(self._centre[None], point)[0] for point in points])
        return _log_density(distances, np.float64(self._within + self._between), self.dimension)

    def absorb(self, category: int, point: Vector) -> float:
        """See `Density`. The drift is a distance between features."""
        self.counts[category] += 1
        step = (point - self._means[category]) / self.counts[category]
        self._means[category] += step
        return math.sqrt(step @ step)

    def found(self, point: Vector) -> None:
        """See `Density`."""
        self._means = np.concatenate((self._means, point[None]))
        self.counts = np.append(self.counts, 1)

    def merge(self, keep: int, absorb: int) -> None:
        """See `Density`."""
        both = self.counts[[keep, absorb]]
        self._means[keep] = both @ self._means[[keep, absorb]] / both.sum()
        self.counts[keep] = both.sum()
        self.remove(absorb)

    def remove(self, category: int) -> None:
        """See `Density`."""
        self._means = np.delete(self._means, category, axis=0)
        self.counts = np.delete(self.counts, category)

    def centre(self, category: int) -> Vector:
        """See `Drawable`."""
        mean: Vector = self._means[category].copy()
        return mean

    def spread(self, category: int) -> float:  # noqa: ARG002  # one width for all
        """See `Drawable`. In standard deviations within a support class."""
        return 1.0

    def extent(self, category: int, axes: Matrix) -> Extent:
        """See `Drawable`."""
        variance = self._variances(np.array([category], dtype=np.intp))
        return Extent(axes @ self._means[category], variance * (axes @ axes.T), math.inf)

    def extent_of_birth(self, axes: Matrix) -> Extent:
        """See `Drawable`."""
        return Extent(axes @ self._centre, (self._within + self._between) * (axes @ axes.T), math.inf)

    def verify(self) -> Vector:
        """See `Density`. A mean is all there is, and scores are taken from it as it is."""
        return np.zeros(len(self.counts))

    def export_state(self) -> DensityState:
        """See `Density`."""
        shared = {
            "within": Array.of(np.float64(self._within)),
            "between": Array.of(np.float64(self._between)),
            "centre": Array.of(self._centre.copy()),
        }
        means, counts = self._means.copy(), self.counts.copy()
        return DensityState(
            shared, [{"mean": Array.of(m), "count": Array.of(n)} for m, n in zip(means, counts, strict=True)]
        )

    def import_state(self, state: DensityState) -> None:
        """See `Density`."""
        self._within = float(take(state.shared, "within"))
        self._between = float(take(state.shared, "between"))
        self._centre = take(state.shared, "centre", None).copy()
        rows = [take(one, "mean", self.dimension) for one in state.categories]
        counts = [int(take(one, "count")) for one in state.categories]
        if min(counts, default=1) < 1:
            raise StateMismatchError(f"the state has a category of {min(counts)} events: no state has that")
        self._means = np.array(rows, dtype=np.float64).reshape(len(rows), self.dimension)
        self.counts = np.array(counts, dtype=np.int64)


def _between(means: Matrix, counts: npt.NDArray[np.int64], within: float) -> float:
    """Variance between class means per feature, less what sampling alone would show; at least a sliver."""
    if len(means) < 2:  # noqa: PLR2004  # a variance needs two
        return within
    observed = float(means.var(axis=0, ddof=1).mean())
    return max(observed - within * float((1.0 / counts).mean()), 1e-3 * within)


def _square_distances(means: Matrix, event: Vector) -> Vector:
    # What lies too far out is infinitely far; the head refuses it.
    with np.errstate(over="ignore"):
        # Summed row by row in one fixed order; einsum's depends on how many rows there are once they are long.
        distances: Vector = np.square(means - event).sum(axis=1)
    return distances


def _log_density(distances: Vector, variances: Vector | np.float64, dimension: int) -> Vector:
    return -0.5 * (dimension * np.log(2.0 * np.pi * variances) + distances / variances)


@hookimpl
def speciate_density() -> Provider[Density]:
    """Register the density."""
    return Provider(options=NearestMeanOptions, create=NearestMean)
