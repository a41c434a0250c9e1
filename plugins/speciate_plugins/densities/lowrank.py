"""Low rank: DP-BOA-L, the Student-t predictive with a sketch of each category's scatter (the paper's appendix K).

The density `full` keeps one row an event. Here Frequent Directions keeps at most r: a category's scale, in coordinates
where the prior's is the identity, is

    Ψ = (1+ρ) I + Σ λ u uᵀ,   at most r pairs λ, u,   ρ = (tr WᵀW - Σ λ) / d

with W the rows √(κ/(κ+1)) (y-m) of all its events. A row beyond r makes r+1 pairs; the smallest λ is subtracted from
each, which leaves r. What is so dropped is counted exactly and given back evenly in all directions, so the trace is
that of `full`. The inverse is again a multiple of the identity less rows, so the pass over the rows is that of `full`:

    Ψ⁻¹ = (I - AᵀA) / (1+ρ),   A = √(λ/(1+ρ+λ)) u,   log|Ψ| = d log(1+ρ) + Σ log1p(λ/(1+ρ))

Degrees of freedom, κ and means are exact, and so is the predictive of a birth. Up to r events nothing is dropped, and
the category is that of `full`, bit for bit.

Which coordinates decides what the residual looks like. `whitened`: those of `full`, y = L⁻¹(z-μ₀) with Ψ₀ = L Lᵀ; what
is dropped comes back in the shape of the prior. `features`: the paper's letter, Ψ_k = σ²I + U diag(λ) Uᵀ for the
features themselves, where y = (z-μ₀)/s with s² = tr(Ψ₀)/d; the sketch holds the category's own events and the prior
enters by its trace alone: σ² = s²(1+ρ). It is there to be compared: a ball has the largest determinant of its trace, so
where the prior is far from one, a category predicts even its own less well than the exact prior does, and most events
give birth.
"""

import math
from typing import Annotated, Literal

import msgspec
import numpy as np
import numpy.typing as npt
from scipy.linalg import solve_triangular

from speciate.hooks import Provider, hookimpl
from speciate.stages import Density, DensityState, Extent, Matrix, Vector
from speciate_plugins.densities.algebra import NOISE
from speciate_plugins.densities.columns import Column
from speciate_plugins.densities.full import FullDensity, FullOptions
from speciate_plugins.densities.states import take
from speciate_schemas import Array


class LowRankOptions(FullOptions, frozen=True):
    """Options of the density `lowrank`: those of `full`, and what it keeps."""

    rank: Annotated[int, msgspec.Meta(ge=0, description="Most rows a category keeps.")] = 32
    space: Annotated[
        Literal["whitened", "features"],
        msgspec.Meta(description="Where the sketch is taken, so what the rest looks like: the prior, or a ball."),
    ] = "whitened"


class LowRankDensity(FullDensity):
    """Categories as in `full`, their rows a sketch; λ are kept beside the rows in double precision.

    A category is a sketch from the first time it had a row too many; from then on it has r rows, or fewer
    if its events leave no more directions.
    """

    _spectra: Matrix
    """The λ of each category's rows; zeros while it is no sketch."""
    _dropped: Vector
    """Trace of what a category's sketch does not hold, d·ρ."""

    def __init__(self, options: LowRankOptions) -> None:
        self._most = options.rank
        super().__init__(options)

    def _reset(self, dimension: int) -> None:
        self._rank = min(self._most, dimension)
        super()._reset(dimension)

    def _make_columns(self, dimension: int) -> dict[str, Column]:
        own = {"_spectra": Column(np.float64, self._rank), "_dropped": Column(np.float64)}
        return super()._make_columns(dimension) | own

    def merge(self, keep: int, absorb: int) -> None:
        """See `Density`. Sketches add up and are cut to r rows again; the trace stays exact."""
        self._dropped[keep] += self._dropped[absorb]
        super().merge(keep, absorb)

    def _export(self, category: int) -> dict[str, Array]:
        return super()._export(category) | {
            "spectrum": Array.of(self._spectra[category].copy()),
            "dropped": Array.of(self._dropped[category].copy()),
        }

    def _import(self, one: dict[str, Array]) -> None:
        super()._import(one)
        self._spectra[-1], self._dropped[-1] = take(one, "spectrum", self._rank), take(one, "dropped")
        self._renew(len(self.counts) - 1)

    def _widen(self, category: int, row: Vector) -> None:
        if self.rows.count(category) < self._rank:
            super()._widen(category, row)
        else:
            self._settle(category, *_spectrum(np.concatenate((self._scatter(category), row[np.newaxis]))))

    def _settle(self, category: int, values: Vector, directions: Matrix) -> None:
        """Keep r directions, less what the next would have had; the others count in the residual."""
        kept, dropped = _shrunk(values[::-1], self._rank)
        self._dropped[category] = max(self._dropped[category] + dropped, 0.0)
        if not self._dropped[category]:
            kept = kept[kept > 0.0]
        spread = self._spread(category)
        rows = np.sqrt(kept / (spread + kept))[:, np.newaxis] * directions[::-1][: len(kept)]
        self.rows.rewrite(category, rows)
        self.log_dets[category] = self.dimension * math.log(spread) + float(np.log1p(kept / spread).sum())
        self._spectra[category] = kept if len(kept) == self._rank else 0.0

    def _scatter(self, category: int) -> Matrix:
        values = self._spectra[category]
        if not values.any():
            return super()._scatter(category)
        own = self.rows.of(category)
        lengths = np.sqrt(np.einsum("rd,rd->r", own, own))
        scatter: Matrix = own * (np.sqrt(values) / np.where(lengths > 0.0, lengths, 1.0))[:, np.newaxis]
        return scatter

    def _spread(self, category: int) -> float:
        """1+ρ."""
        return 1.0 + float(self._dropped[category]) / self.dimension

    def _renew(self, category: int) -> None:
        super()._renew(category)
        self.scales[category] /= self._spread(category)
        self.tolerances[category] = self._tolerance(category)


class FeatureSpaceDensity(LowRankDensity):
    """The same in the features' own axes: the prior is a ball for every category, and itself for a birth."""

    def __init__(self, options: LowRankOptions) -> None:
        self._level = 1.0
        """s²: the variance in each direction of a ball with the trace of the prior's scale."""
        super().__init__(options)

    def _calibrate(self, features: Matrix, classes: npt.NDArray[np.int64]) -> None:
        super()._calibrate(features, classes)
        root = solve_triangular(self._prior.whiten, np.eye(self.dimension), lower=True)
        self._level = float(np.square(root).sum()) / self.dimension

    def embed(self, batch: Matrix) -> Matrix:
        """See `Density`."""
        with np.errstate(over="ignore"):
            points: Matrix = (batch - self._prior.mean) / math.sqrt(self._level)
        return points

    def score_birth(self, points: Matrix) -> Vector:
        """See `Density`. One product an event, as in `FullDensity.embed`."""
        whitened = np.empty_like(points)
        with np.errstate(over="ignore", invalid="ignore"):
            for row, point in zip(whitened, points * math.sqrt(self._level), strict=True):
                np.matmul(self._prior.whiten, point, out=row)
        return super().score_birth(whitened)

    def extent_of_birth(self, axes: Matrix) -> Extent:
        """See `Drawable`."""
        return self._birth(axes, super()._sides(axes))

    def _root_times(self, point: Vector) -> Vector:
        return math.sqrt(self._level) * point

    def _sides(self, axes: Matrix) -> Matrix:
        return math.sqrt(self._level) * axes.T

    def export_state(self) -> DensityState:
        """See `Density`."""
        state = super().export_state()
        return state._replace(shared=state.shared | {"level": Array.of(np.float64(self._level))})

    def import_state(self, state: DensityState) -> None:
        """See `Density`."""
        self._level = float(take(state.shared, "level"))
        super().import_state(state)

    def _renew(self, category: int) -> None:
        super()._renew(category)
        self.base[category] -= self._rounding()

    def _rounding(self) -> float:
        """What a log density loses when the prior's scale is made a ball: half the log of their determinants' ratio."""
        return 0.5 * (self.dimension * math.log(self._level) - self._prior.log_det)


def _spectrum(parts: Matrix) -> tuple[Vector, Matrix]:
    """Eigenvalues, ascending, and eigenvectors, as rows, of PᵀP, by way of the smaller PPᵀ."""
    values, vectors = np.linalg.eigh(parts @ parts.T)
    values[values <= NOISE * values[-1]] = 0.0
    return values, (vectors.T @ parts) / np.sqrt(np.where(values > 0.0, values, np.inf))[:, np.newaxis]


def _shrunk(values: Vector, rank: int) -> tuple[Vector, float]:
    """The first of descending eigenvalues, less the one behind them; and the trace that this drops."""
    values = np.where(np.abs(values) > NOISE * values[0], values, 0.0)
    first, rest = values[:rank], values[rank:]
    kept = np.maximum(first - max(float(rest[0]), 0.0) if len(rest) else first, 0.0)
    return kept, float((first - kept).sum() + rest.sum())


def _create(options: LowRankOptions) -> Density:
    return (LowRankDensity if options.space == "whitened" else FeatureSpaceDensity)(options)


@hookimpl
def speciate_density() -> Provider[Density]:
    """Provide the density."""
    return Provider(options=LowRankOptions, create=_create)
