"""Full covariance: the exact Student-t predictive of DP-BOA, at the cost of one pass over a few rows a category.

The paper keeps a d × d inverse a category. Whitened by the prior, (I + WᵀW)⁻¹ = I - AᵀA with one row of A an event, and

    log t = base - (ν+1)/2 · log1p(q · κ/(κ+1)),   q = ‖y-m‖² - ‖A(y-m)‖²

where everything but q changes only when the category does. Nothing here is an approximation. A category that has d rows
and gets one more is kept as a root B of the inverse itself, BᵀB = I - AᵀA, so it never has more than d; then
q = ‖B(y-m)‖², which is no small difference of large numbers. Sections of the derivation are named in the comments.
"""

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Annotated, Any, Literal

import msgspec
import numpy as np
import numpy.typing as npt
from scipy.linalg.blas import dtrmv

from speciate.errors import StateMismatchError
from speciate.hooks import Provider, hookimpl
from speciate.stages import Density, DensityState, Matrix, Screening, Vector
from speciate_plugins.densities.algebra import NOISE, axes, root_of_inverse, scatter, spectrum
from speciate_plugins.densities.columns import Column
from speciate_plugins.densities.devices import namespace
from speciate_plugins.densities.drawing import Drawn
from speciate_plugins.densities.marginal import Evidence, Learnt, nearest
from speciate_plugins.densities.prior import Prior, PriorOptions, estimate, student_constants
from speciate_plugins.densities.row_screening import BLUR, Places, RowScreening, square_norms, too_far
from speciate_plugins.densities.rows import RowStore
from speciate_plugins.densities.states import take
from speciate_schemas import Array


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


class FullDensity(Drawn):
    """Categories as counts, means, rows and log determinants, in coordinates whitened by the prior."""

    def __init__(self, options: FullOptions) -> None:
        self._options = options
        self._prior = Prior(np.empty(0), np.empty((0, 0)), 0.0, 1.0, 1.0, 0.0)
        self._reset(0)

    counts: npt.NDArray[np.int64]
    rounded_means: npt.NDArray[np.floating]
    mean_norms: Vector
    log_dets: Vector
    base: Vector
    tolerances: Vector
    """How far off a squared distance of nothing may be for a screening."""

    def _reset(self, dimension: int) -> None:
        self.rows = RowStore(dimension, self._options.dtype, namespace(self._options.device))
        self._columns = self._make_columns(dimension)
        self._bind()

    def _make_columns(self, dimension: int) -> dict[str, Column]:
        numbers = ("_weights", "mean_norms", "log_dets", "_traces", "base", "half_degrees", "scales", "tolerances")
        return {
            "counts": Column(np.int64),
            "roots": Column(np.bool_),
            "means": Column(np.float64, dimension),
            "rounded_means": Column(self._options.dtype, dimension),
            **{name: Column(np.float64) for name in numbers},
        }

    def _bind(self) -> None:
        """The columns as attributes, now that there are more or fewer categories."""
        for name, column in self._columns.items():
            setattr(self, name, column.entries)

    @property
    def dimension(self) -> int:
        """See `Density`."""
        return self._prior.dimension

    @property
    def nbytes(self) -> int:
        """See `Density`."""
        return self.rows.nbytes + sum(column.nbytes for column in self._columns.values())

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
        return RowScreening(self, points)

    def score(self, point: Vector, categories: Sequence[int]) -> Vector:
        """See `Density`."""
        if too_far(square_norms(point)):
            return np.full(len(categories), -np.inf)
        # Each by itself, in one fixed order: its bits do not depend on who else is asked about.
        return np.array([self._score(point, category) for category in categories])

    def _score(self, point: Vector, category: int) -> float:
        difference = point - self.means[category]
        along = np.vecdot(self.rows.of(category), difference)
        square = float(along @ along)
        if not self.roots[category]:
            square = max(float(difference @ difference) - square, 0.0)
        base, half, scale = (column.item(category) for column in (self.base, self.half_degrees, self.scales))
        return base - half * math.log1p(square * scale)

    def score_birth(self, points: Matrix) -> Vector:
        """See `Density`."""
        prior = self._prior
        base, half, scale = student_constants(prior, 0.0, 0.0)
        norms = square_norms(points)
        scores: Vector = base - half * np.log1p(np.where(too_far(norms), np.inf, norms) * scale)
        return scores

    def absorb(self, category: int, point: Vector) -> float:
        """See `Density`. The drift is in standard deviations within a class: √n₀ undoes that of the whitened scale."""
        self.counts[category] += 1
        if self._options.frozen:
            return 0.0
        return math.sqrt(self._prior.strength) * self._update(category, point)

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
        between = sum(float(np.square(part).sum()) for part in parts[2:]) - kappa * float(mean @ mean)
        trace = max(self._traces[[keep, absorb]].sum() + between, 0.0)
        self.remove(absorb)
        keep -= keep > absorb
        self.counts[keep], self._weights[keep], self._traces[keep], self.means[keep] = count, weight, trace, mean
        self._settle(keep, values, directions)
        self._renew(keep)

    def remove(self, category: int) -> None:
        """See `Density`."""
        self.rows.remove(category)
        for column in self._columns.values():
            column.remove(category)
        self._bind()

    def verify(self) -> Vector:
        """See `Density`.

        Log determinants are added up in double precision event by event, while the rows are rounded: the determinant
        of the rows as they are shows what that has done, but for what cancels between directions, and for what was
        before a merge, which takes it from the rows. And a score is compared with that of the axes, a step from the
        mean along the direction in which the category is widest.
        """
        return np.array([self._drift(category) for category in range(len(self.counts))])

    def _drift(self, category: int) -> float:
        squares, directions = axes(self.rows.of(category), root=bool(self.roots[category]))
        log_det = self.dimension * math.log(self._spread(category)) - float(np.log(squares).sum())
        drift = 0.5 * abs(log_det - float(self.log_dets[category]))
        if len(squares):
            point = self.means[category] + directions[0]
            expected = self.log_density(squares[:1], np.array([category]))
            drift = max(drift, float(abs(self.score(point, [category]) - expected)[0]))
        return drift

    def _tolerance(self, category: int) -> float:
        """A step of log1p, and a half of it for what is not linear."""
        return min(0.5, 0.5 * BLUR / self.half_degrees.item(category)) / self.scales.item(category)

    def _spread(self, category: int) -> float:  # noqa: ARG002  # others scale the identity by category
        """What multiplies the identity in a category's scale."""
        return 1.0

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
            "trace": Array.of(self._traces[category].copy()),
            "rows": Array.of(self.rows.of(category).astype(self._options.dtype)),
            "root": Array.of(self.roots[category].copy()),
        }

    def import_state(self, state: DensityState) -> None:
        """See `Density`."""
        mean = take(state.shared, "mean", None)
        whiten = take(state.shared, "whiten", len(mean), len(mean))
        numbers = (float(take(state.shared, name)) for name in ("log_det", "kappa0", "n0", "shrinkage"))
        self._prior = Prior(mean.copy(), whiten.copy(), *numbers)
        self._reset(self.dimension)
        for one in state.categories:
            self._import(one)

    def _import(self, one: dict[str, Array]) -> None:
        rows = take(one, "rows", None, self.dimension)
        count, weight, log_det, root = (take(one, name).item() for name in ("count", "weight", "log_det", "root"))
        trace, whole = take(one, "trace").item(), len(rows) == self.dimension
        if len(rows) > self.dimension or (root and not whole) or count < 1 or not 0 < weight <= count or trace < 0:
            raise StateMismatchError(
                f"the state has a category of {count} events, {weight} learnt, trace {trace}, with {len(rows)} rows of "
                f"{self.dimension} features: it is not a state of this density"
            )
        self._append(count, weight, take(one, "mean", self.dimension), log_det, rows, root=root)
        self._traces[-1] = trace

    def log_density(self, squares: Matrix, places: Places) -> Matrix:
        """Section 4: from squared distances to log densities."""
        scaled = np.maximum(squares, 0.0) * self.scales[places]
        density: Matrix = self.base[places] - self.half_degrees[places] * np.log1p(scaled)
        return density

    def tolerance(self, squares: Any, places: Places) -> Any:
        """How far off squared distances may be to move log densities by no more than the blur."""
        return self.tolerances[places] * (1.0 + self.scales[places] * np.maximum(squares, 0.0))

    def _found_many(self, points: Matrix) -> None:
        self._append(0, 0.0, np.zeros(self.dimension), 0.0, np.empty((0, self.dimension)), root=False)
        for point in points:
            self.counts[-1] += 1
            self._update(len(self.counts) - 1, point)

    def _append(  # all a category is
        self, count: int, weight: float, mean: Vector, log_det: float, rows: npt.NDArray[np.floating], *, root: bool
    ) -> None:
        self.rows.add(rows)
        given: dict[str, npt.ArrayLike] = {"counts": count, "_weights": weight, "means": mean}
        given |= {"log_dets": log_det, "roots": root}
        for name, column in self._columns.items():
            column.append(given.get(name, 0))
        self._bind()
        self._renew(len(self.counts) - 1)

    def _update(self, category: int, point: Vector) -> float:
        """Sections 1 and 3: one event is one row. How far the mean moved."""
        kappa = self._kappa(category)
        difference = point - self.means[category]
        row = math.sqrt(kappa / (kappa + 1.0)) * difference
        self._widen(category, row)
        self._traces[category] += row @ row
        self.means[category] += difference / (kappa + 1.0)
        self._weights[category] += 1.0
        self._renew(category)
        return math.sqrt(difference @ difference) / (kappa + 1.0)

    def _widen(self, category: int, row: Vector) -> None:
        """Add wwᵀ to the category's scale."""
        own = self.rows.of(category)
        if len(own) == self.dimension:
            self._widen_root(category, row)
            return
        rest = row - (own @ row) @ own
        # wᵀMw ≥ ‖Mw‖² for any M between 0 and I. Rounding can break that where rows are nearly of length one, and
        # then rows longer than one would feed on themselves.
        gain = max(float(row @ rest), float(rest @ rest))
        self.log_dets[category] += math.log1p(gain)
        self.rows.extend(category, rest[np.newaxis] / math.sqrt(1.0 + gain))

    def _settle(self, category: int, values: Vector, directions: Matrix) -> None:
        """Make the category's scale I + Σ λuuᵀ; rounding may have made a λ negative, or more than nothing."""
        kept = values > NOISE * max(float(values[-1]), 0.0)
        values, directions = values[kept], directions[kept]
        root = len(values) == self.dimension
        lengths = 1.0 / (1.0 + values) if root else values / (1.0 + values)
        self.rows.rewrite(category, np.sqrt(lengths)[:, np.newaxis] * directions)
        self.roots[category] = root
        self.log_dets[category] = float(np.log1p(values).sum())

    def _widen_root(self, category: int, row: Vector) -> None:
        """Section 6: a root takes in a row in O(d²), (BᵀB)⁻¹ + wwᵀ = (B'ᵀB')⁻¹ with B' = B - βuuᵀB for u = Bw."""
        own = self.rows.of(category)
        if not self.roots[category]:
            own = root_of_inverse(own)
            self.roots[category] = True
        along = own @ row
        gain = float(along @ along)
        length = math.sqrt(1.0 + gain)
        self.log_dets[category] += math.log1p(gain)
        self.rows.rewrite(category, own - np.outer(along / (length * (length + 1.0)), along @ own))

    def _scatter(self, category: int) -> Matrix:
        return scatter(self.rows.of(category), self.rows.epsilon, root=bool(self.roots[category]))

    def _kappa(self, category: int) -> float:
        return self._prior.kappa + float(self._weights[category])

    def _renew(self, category: int) -> None:
        """What of a category's score changes only with the category."""
        constants = student_constants(self._prior, float(self._weights[category]), float(self.log_dets[category]))
        self.base[category], self.half_degrees[category], self.scales[category] = constants
        self.tolerances[category] = self._tolerance(category)
        mean = self.means[category]
        self.rounded_means[category] = mean
        self.mean_norms[category] = mean @ mean
        self.rows.set_offsets(category, self.rows.of(category) @ mean)


class ExactDensity(FullDensity):
    """What an approximation must not inherit: only an exact state knows how likely all its events are together."""

    def merge_gain(self, pairs: Sequence[tuple[int, int]]) -> Vector:
        """See `Mergeable`. Of the events that the categories have learnt from, in O(n_i n_j d) a pair."""
        # Pairs come in order: the first of one is most often that of the next.
        evidence, learnt = Evidence(self._prior), lru_cache(maxsize=2)(self._learnt)
        return np.array([evidence.bayes_factor(learnt(one), learnt(other)) for one, other in pairs])

    def neighbours(self, most: int, of: Sequence[int] | None = None) -> Sequence[tuple[int, int]]:
        """See `Mergeable`. In O(K d) for each that is asked about."""
        weights = self._weights[:, np.newaxis]
        means = self.means * ((self._prior.kappa + weights) / weights)
        asked = np.arange(len(weights)) if of is None else np.asarray(of, dtype=np.intp)
        return nearest(means, self._weights, most, asked)

    def _learnt(self, category: int) -> Learnt:
        rows = self.rows.of(category)
        # What makes a root of the inverse of rows makes rows of a root.
        rows = root_of_inverse(rows) if self.roots[category] else rows
        return Learnt(float(self._weights[category]), self.means[category], rows, float(self.log_dets[category]))


@hookimpl
def speciate_density() -> Provider[Density]:
    """Provide the density."""
    return Provider(options=FullOptions, create=ExactDensity)
