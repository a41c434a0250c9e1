"""Full covariance: the exact Student-t predictive of DP-BOA, at the cost of one pass over a few rows a category.

The paper keeps a d × d inverse a category. Whitened by the prior, (I + WᵀW)⁻¹ = I - AᵀA with one row of A an event, and

    log t = base - (ν+1)/2 · log1p(q · κ/(κ+1)),   q = ‖y-m‖² - ‖A(y-m)‖²

where everything but q changes only when the category does. Nothing here is an approximation: A never has more than d
rows, because a QR of it keeps AᵀA. Sections of the derivation are named in the comments.
"""

import math
from collections.abc import Sequence
from typing import Annotated, Any, Literal

import msgspec
import numpy as np
import numpy.typing as npt
from scipy.linalg import qr
from scipy.linalg.blas import dtrmv
from scipy.special import gammaln

from speciate.errors import StateMismatchError
from speciate.hooks import Provider, hookimpl
from speciate.stages import Density, DensityState, Matrix, Screening, Vector
from speciate_plugins.densities.devices import namespace
from speciate_plugins.densities.prior import Prior, PriorOptions, estimate
from speciate_plugins.densities.rows import RowStore
from speciate_schemas import Array

BLUR = 0.25
"""Of a screening, in nats: more than rounding does to most scores, and little enough to leave few contenders."""
FAR = 1e30
"""Squared whitened distance from the prior mean at which an event is impossible: squares of it are still numbers."""


class FullOptions(PriorOptions, frozen=True):
    """Options of the density `full`: those of the prior, and how it is computed."""

    dtype: Annotated[
        Literal["float32", "float64"], msgspec.Meta(description="Of the rows; means and updates are float64 anyway.")
    ] = "float32"
    device: Annotated[
        Literal["cpu", "cuda"], msgspec.Meta(description="Where the rows of the categories live and are multiplied.")
    ] = "cpu"
    frozen: Annotated[
        bool, msgspec.Meta(description="Learn no more than how many events a category has, once it is founded.")
    ] = False


class FullDensity:
    """Categories as counts, means, rows and log determinants, in coordinates whitened by the prior."""

    def __init__(self, options: FullOptions) -> None:
        self._options = options
        self._prior = Prior(np.empty(0), np.empty((0, 0)), 0.0, 1.0, 1.0, 0.0)
        self._reset(0)

    def _reset(self, dimension: int) -> None:
        self.rows = RowStore(dimension, self._options.dtype, namespace(self._options.device))
        self.counts: npt.NDArray[np.int64] = np.empty(0, dtype=np.int64)
        self._weights = np.empty(0)
        """Events a category has learnt from: its counts, unless frozen."""
        self.means = np.empty((0, dimension))
        self.rounded_means = np.empty((0, dimension), dtype=self._options.dtype)
        self.mean_norms = np.empty(0)
        self.log_dets = np.empty(0)
        self.base = np.empty(0)
        self.half_degrees = np.empty(0)
        self.scales = np.empty(0)

    @property
    def dimension(self) -> int:
        """See `Density`."""
        return self._prior.dimension

    @property
    def nbytes(self) -> int:
        """See `Density`."""
        scalars = (
            self.counts,
            self._weights,
            self.log_dets,
            self.mean_norms,
            self.base,
            self.half_degrees,
            self.scales,
        )
        return self.rows.nbytes + self.means.nbytes + self.rounded_means.nbytes + sum(one.nbytes for one in scalars)

    def fit(self, features: Matrix, classes: npt.NDArray[np.int64]) -> None:
        """See `Density`."""
        self._calibrate(features, classes)
        self._reset(features.shape[1])
        points = self.embed(features)
        for number in range(int(classes.max()) + 1):
            self._found_many(points[classes == number])

    def _calibrate(self, features: Matrix, classes: npt.NDArray[np.int64]) -> None:
        self._prior = estimate(features, classes, self._options)

    def embed(self, batch: Matrix) -> Matrix:
        """See `Density`. One product an event: over a batch it would be one, but its last bits would depend on it."""
        # What overflows is too far out to be scored.
        with np.errstate(over="ignore", invalid="ignore"):
            centred = batch - self._prior.mean
            points = np.empty_like(centred)
            # The matrix is triangular: half of it is never read. BLAS wants columns, hence the transpose twice.
            for row, event in zip(points, centred, strict=True):
                row[:] = dtrmv(self._prior.whiten.T, event, trans=1)
        return points

    def screen(self, points: Matrix) -> Screening:
        """See `Density`."""
        return FullScreening(self, points)

    def score(self, point: Vector, categories: Sequence[int]) -> Vector:
        """See `Density`."""
        if _too_far(_square_norm(point)):
            return np.full(len(categories), -np.inf)
        places = np.asarray(categories, dtype=np.intp)
        differences = point - self.means[places]
        # Each distance is a sum of its own, in one fixed order: its bits do not depend on who else is asked about.
        squares = np.square(differences).sum(axis=1) - self.rows.lengths_along(categories, differences)
        return self.log_density(squares, places)

    def score_birth(self, points: Matrix) -> Vector:
        """See `Density`."""
        prior = self._prior
        base, half, scale = _constants(prior, 0.0, 0.0)
        norms = [_square_norm(point) for point in points]
        return np.array([-math.inf if _too_far(norm) else base - half * math.log1p(norm * scale) for norm in norms])

    def absorb(self, category: int, point: Vector) -> None:
        """See `Density`."""
        self.counts[category] += 1
        if not self._options.frozen:
            self._update(category, point)

    def found(self, point: Vector) -> None:
        """See `Density`."""
        self._found_many(point[np.newaxis])

    def merge(self, keep: int, absorb: int) -> None:
        """See `Density`. Scatter matrices add up, and so does what lies between the two means."""
        kappa_keep, kappa_absorb = self._kappa(keep), self._kappa(absorb)
        kappa = kappa_keep + kappa_absorb - self._prior.kappa
        mean = (kappa_keep * self.means[keep] + kappa_absorb * self.means[absorb]) / kappa
        parts = [self._scatter(keep), self._scatter(absorb)]
        parts += [math.sqrt(k) * self.means[[c]] for k, c in ((kappa_keep, keep), (kappa_absorb, absorb))]
        values, directions = spectrum(np.concatenate(parts), math.sqrt(kappa) * mean)
        count, weight = self.counts[[keep, absorb]].sum(), self._weights[[keep, absorb]].sum()
        self.remove(absorb)
        keep -= keep > absorb
        self.counts[keep], self._weights[keep], self.means[keep] = count, weight, mean
        self._settle(keep, values, directions)
        self._renew(keep)

    def remove(self, category: int) -> None:
        """See `Density`."""
        self.rows.remove(category)
        self.counts, self._weights = np.delete(self.counts, category), np.delete(self._weights, category)
        self.means, self.rounded_means = (np.delete(one, category, axis=0) for one in (self.means, self.rounded_means))
        self.log_dets, self.mean_norms, self.base, self.half_degrees, self.scales = (
            np.delete(one, category)
            for one in (self.log_dets, self.mean_norms, self.base, self.half_degrees, self.scales)
        )

    def export_state(self) -> DensityState:
        """See `Density`."""
        prior = self._prior
        shared = {
            "mean": Array.of(prior.mean.copy()),
            "whiten": Array.of(prior.whiten.copy()),
            "log_det": Array.of(np.float64(prior.log_det)),
            "kappa0": Array.of(np.float64(prior.kappa)),
            "n0": Array.of(np.float64(prior.strength)),
            "shrinkage": Array.of(np.float64(prior.shrinkage)),
        }
        return DensityState(shared, [self._export(category) for category in range(len(self.counts))])

    def _export(self, category: int) -> dict[str, Array]:
        return {
            "count": Array.of(self.counts[category].copy()),
            "weight": Array.of(self._weights[category].copy()),
            "mean": Array.of(self.means[category].copy()),
            "log_det": Array.of(self.log_dets[category].copy()),
            "rows": Array.of(self.rows.of(category)),
        }

    def import_state(self, state: DensityState) -> None:
        """See `Density`."""
        try:
            named = {name: array.numpy() for name, array in state.shared.items()}
            numbers = (float(named[name]) for name in ("log_det", "kappa0", "n0", "shrinkage"))
            self._prior = Prior(named["mean"].copy(), named["whiten"].copy(), *numbers)
            self._reset(self.dimension)
            for one in state.categories:
                self._import(one)
        except KeyError as error:
            raise StateMismatchError(f"the state has no array {error}: it is not a state of this density") from error

    def _import(self, one: dict[str, Array]) -> None:
        self._append(
            int(one["count"].numpy()),
            float(one["weight"].numpy()),
            one["mean"].numpy(),
            float(one["log_det"].numpy()),
            one["rows"].numpy(),
        )

    def log_density(self, squares: Matrix, places: npt.NDArray[np.intp] | slice) -> Matrix:
        """Section 4: from squared distances to log densities."""
        scaled = np.maximum(squares, 0.0) * self.scales[places]
        density: Matrix = self.base[places] - self.half_degrees[places] * np.log1p(scaled)
        return density

    def _found_many(self, points: Matrix) -> None:
        self._append(0, 0.0, np.zeros(self.dimension), 0.0, np.empty((0, self.dimension)))
        for point in points:
            self.counts[-1] += 1
            self._update(len(self.counts) - 1, point)

    def _append(self, count: int, weight: float, mean: Vector, log_det: float, rows: npt.NDArray[np.floating]) -> None:
        self.rows.add(rows)
        self.counts = np.append(self.counts, count)
        self._weights = np.append(self._weights, weight)
        self.means = np.concatenate((self.means, mean[np.newaxis]))
        self.rounded_means = np.concatenate((self.rounded_means, self.means[-1:].astype(self.rounded_means.dtype)))
        self.log_dets = np.append(self.log_dets, log_det)
        self.mean_norms, self.base, self.half_degrees, self.scales = (
            np.append(one, 0.0) for one in (self.mean_norms, self.base, self.half_degrees, self.scales)
        )
        self._renew(len(self.counts) - 1)

    def _update(self, category: int, point: Vector) -> None:
        """Sections 1 and 3: one event is one row."""
        kappa = self._kappa(category)
        self._widen(category, math.sqrt(kappa / (kappa + 1.0)) * (point - self.means[category]))
        self.means[category] += (point - self.means[category]) / (kappa + 1.0)
        self._weights[category] += 1.0
        self._renew(category)

    def _widen(self, category: int, row: Vector) -> None:
        """Add wwᵀ to the category's scale."""
        own = self.rows.of(category).astype(np.float64)
        rest = row - (own @ row) @ own
        # wᵀMw ≥ ‖Mw‖² for any M between 0 and I. Rounding can break that where rows are nearly of length one, and
        # then rows longer than one would feed on themselves.
        gain = max(float(row @ rest), float(rest @ rest))
        self.log_dets[category] += math.log1p(gain)
        self._learn_row(category, own, rest / math.sqrt(1.0 + gain))

    def _settle(self, category: int, values: Vector, directions: Matrix) -> None:
        """Make the category's scale I + Σ λuuᵀ; rounding may have made a λ negative."""
        values = np.maximum(values, 0.0)
        self.rows.replace(category, np.sqrt(values / (1.0 + values))[:, np.newaxis] * directions)
        self.log_dets[category] = float(np.log1p(values).sum())

    def _learn_row(self, category: int, own: Matrix, row: Vector) -> None:
        """Section 6: beyond d rows a QR keeps what they say in d."""
        if len(own) < self.dimension:
            self.rows.extend(category, row[np.newaxis])
        else:
            compressed: Matrix = qr(np.concatenate((own, row[np.newaxis])), mode="r")[0][: self.dimension]
            self.rows.overwrite(category, compressed)

    def _scatter(self, category: int) -> Matrix:
        """W from A: WᵀW = Aᵀ(I - AAᵀ)⁻¹A."""
        own = self.rows.of(category).astype(np.float64)
        values, vectors = np.linalg.eigh(np.eye(len(own)) - own @ own.T)
        values = np.maximum(values, np.finfo(self.rows.dtype).eps)
        scatter: Matrix = (vectors / np.sqrt(values)).T @ own
        return scatter

    def _kappa(self, category: int) -> float:
        return self._prior.kappa + float(self._weights[category])

    def _renew(self, category: int) -> None:
        """What of a category's score changes only with the category."""
        constants = _constants(self._prior, float(self._weights[category]), float(self.log_dets[category]))
        self.base[category], self.half_degrees[category], self.scales[category] = constants
        mean = self.means[category]
        self.rounded_means[category] = mean
        self.mean_norms[category] = mean @ mean
        self.rows.set_offsets(category, self.rows.along(category, self.rounded_means[category]))


class FullScreening:
    """All categories at once by one matrix product; a category that learns is screened again for the events behind."""

    def __init__(self, density: FullDensity, points: Matrix) -> None:
        self._density = density
        self.blur = BLUR
        norms = np.array([_square_norm(point) for point in points])
        self._far = _too_far(norms)
        self._exact = np.where(self._far[:, np.newaxis], 0.0, points)
        self._norms = np.where(self._far, 0.0, norms)
        self._points = self._exact.astype(density.rows.dtype)
        self._rounding = (8.0 + 2.0 * math.sqrt(density.dimension)) * float(np.finfo(density.rows.dtype).eps)
        size = len(density.counts)
        self._squares = np.empty((len(points), size + len(points)))
        if size:
            energies = density.rows.energies(self._points)
            self._squares[:, :size] = self._distances(slice(0, None), slice(0, None)) - energies

    def row(self, place: int) -> Vector:
        """See `Screening`. What rounding could move by more than the blur is scored at once."""
        size = len(self._density.counts)
        if self._far[place]:
            return np.full(size, -np.inf)
        squares = self._squares[place, :size]
        row = self._density.log_density(squares, slice(None))
        unsure = np.flatnonzero(self._unsure(place, squares))
        if len(unsure):
            row[unsure] = self._density.score(self._exact[place], unsure.tolist())
        return row

    def _unsure(self, place: int, squares: Vector) -> npt.NDArray[np.bool_]:
        """Where the square, a small difference of large ones, is not known well enough for its logarithm."""
        density = self._density
        error = 2.0 * self._rounding * (self._norms[place] + density.mean_norms) * density.scales
        bound = np.minimum(0.5, 0.5 * self.blur / density.half_degrees)
        unsure: npt.NDArray[np.bool_] = error > bound * (1.0 + density.scales * np.maximum(squares, 0.0))
        return unsure

    def refresh(self, place: int, category: int) -> None:
        """See `Screening`."""
        behind = slice(place + 1, None)
        points = self._points[behind]
        if not len(points):
            return
        along = self._density.rows.along(category, points) - self._density.rows.offsets(category)
        energies = np.einsum("bn,bn->b", along, along)
        self._squares[behind, category] = self._distances(behind, slice(category, category + 1))[:, 0] - energies

    def _distances(self, places: slice, categories: slice) -> Matrix:
        """Squared distances to the means, as one product."""
        products = self._points[places] @ self._density.rounded_means[categories].T
        norms = self._norms[places, np.newaxis]
        distances: Matrix = norms - 2.0 * products + self._density.mean_norms[categories]
        return distances


def _square_norm(point: Vector) -> float:
    with np.errstate(over="ignore", invalid="ignore"):
        return float(point @ point)


def _too_far(square_norm: Any) -> Any:
    """True of what is not finite, too."""
    return np.logical_not(square_norm <= FAR)


def _constants(prior: Prior, weight: float, log_det: float) -> tuple[float, float, float]:
    """Section 4: base, (ν+1)/2 and κ/(κ+1) of a category that has learnt from so many events."""
    kappa, degrees, dimension = prior.kappa + weight, prior.degrees + weight, prior.dimension
    base = gammaln((degrees + 1.0) / 2.0) - gammaln((degrees - dimension + 1.0) / 2.0)
    base -= dimension / 2.0 * math.log(math.pi * (kappa + 1.0) / kappa) + 0.5 * (prior.log_det + log_det)
    return float(base), (degrees + 1.0) / 2.0, kappa / (kappa + 1.0)


def spectrum(parts: Matrix, less: Vector) -> tuple[Vector, Matrix]:
    """Eigenvalues, ascending, and eigenvectors, as rows, of PᵀP - ℓℓᵀ, for ℓ in the span of P."""
    basis, triangle = np.linalg.qr(parts.T)
    seen = basis.T @ less
    values, vectors = np.linalg.eigh(triangle @ triangle.T - np.outer(seen, seen))
    return values, vectors.T @ basis.T


@hookimpl
def speciate_density() -> Provider[Density]:
    """Provide the density."""
    return Provider(options=FullOptions, create=FullDensity)
