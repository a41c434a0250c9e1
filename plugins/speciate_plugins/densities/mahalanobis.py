"""Mahalanobis: running means under one fixed covariance, the metric of the paper's threshold baseline (appendix N).

Category k predicts N(z̄_k, Σ_within): its mean is that of its events, and Σ_within is the covariance within the support
classes, shrunk as in `full` and never learnt again, so

    log p(z | k) = c - ½ (z - z̄_k)ᵀ Σ_within⁻¹ (z - z̄_k),   c = -½ log|2π Σ_within|

with c the same for all categories: to threshold the log density is to threshold the distance. A threshold rule does not
ask for births; for a policy that does, one is predicted by N(μ₀, (1 + 1/κ₀) Σ_within), the Gaussian of a category whose
mean is not known yet. In the coordinates of `full`, where Ψ₀ = n₀ Σ_within is the identity, the distance is n₀ ‖y-m‖².
"""

import math
from typing import Any

import numpy as np

from speciate.hooks import Provider, hookimpl
from speciate.stages import Density, Extent, Matrix, Vector
from speciate_plugins.densities.full import FullDensity, FullOptions
from speciate_plugins.densities.row_screening import BLUR, Places


class MahalanobisOptions(FullOptions, frozen=True):
    """Options of the density `mahalanobis`: those of `full`. `n_cap` cancels out; `kappa0`, `mean`: births only."""


class MahalanobisDensity(FullDensity):
    """Categories as counts and means, in coordinates whitened by the prior; none has a row."""

    def __init__(self, options: MahalanobisOptions) -> None:
        super().__init__(options)

    def score_birth(self, points: Matrix) -> Vector:
        """See `Density`."""
        prior = self._prior
        wider = 1.0 + 1.0 / prior.kappa
        constant = self._constant() - 0.5 * prior.dimension * math.log(wider)
        with np.errstate(over="ignore", invalid="ignore"):
            scores = np.array([constant - 0.5 * prior.strength / wider * float(point @ point) for point in points])
        # What is too far out for `full` is so here.
        return np.where(np.isfinite(super().score_birth(points)), scores, -np.inf)

    def merge(self, keep: int, absorb: int) -> None:
        """See `Density`."""
        both = self._weights[[keep, absorb]]
        self.means[keep] = both @ self.means[[keep, absorb]] / both.sum()
        self._weights[keep] = both.sum()
        self.counts[keep] += self.counts[absorb]
        self._renew(keep)
        self.remove(absorb)

    def spread(self, category: int) -> float:  # noqa: ARG002  # all alike
        """See `Drawable`."""
        return 1.0

    def extent(self, category: int, axes: Matrix) -> Extent:
        """See `Drawable`."""
        return Extent(axes @ self.centre(category), self._covariance(axes), math.inf)

    def extent_of_birth(self, axes: Matrix) -> Extent:
        """See `Drawable`."""
        return Extent(axes @ self._prior.mean, (1.0 + 1.0 / self._prior.kappa) * self._covariance(axes), math.inf)

    def _covariance(self, axes: Matrix) -> Matrix:
        """That within classes, along the axes."""
        sides = self._sides(axes)
        covariance: Matrix = sides.T @ sides / self._prior.strength
        return covariance

    def _score(self, point: Vector, category: int) -> float:
        difference = point - self.means[category]
        return self._constant() - 0.5 * self._prior.strength * float(difference @ difference)

    def log_density(self, squares: Matrix, places: Places) -> Matrix:  # noqa: ARG002  # all alike
        """From squared distances to log densities."""
        density: Matrix = self._constant() - 0.5 * self._prior.strength * np.maximum(squares, 0.0)
        return density

    def tolerance(self, squares: Any, places: Places) -> Any:  # noqa: ARG002  # wherever
        """See `FullDensity`."""
        return self.tolerances[places]

    def _tolerance(self, category: int) -> float:  # noqa: ARG002  # all alike
        """The log density falls by n₀/2 a unit of the square, wherever."""
        return BLUR / self._prior.strength

    def _constant(self) -> float:
        prior = self._prior
        return -0.5 * (prior.dimension * math.log(2.0 * math.pi / prior.strength) + prior.log_det)

    def _update(self, category: int, point: Vector) -> float:
        self._weights[category] += 1.0
        step = (point - self.means[category]) / self._weights[category]
        self.means[category] += step
        self._renew(category)
        return math.sqrt(step @ step)


@hookimpl
def speciate_density() -> Provider[Density]:
    """Provide the density."""
    return Provider(options=MahalanobisOptions, create=MahalanobisDensity)
