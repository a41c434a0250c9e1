"""Screening by rows: all categories at once by one matrix product, then only what a learnt event changes.

A squared distance is that to the mean less the energy along the rows; or, where the rows are a root, that energy. The
products of the batch with all rows are kept. A category that learns has another mean, so other offsets, and one
row more: the products with that row are all that is new for the events behind.
"""

import math
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from speciate.stages import Matrix, Vector
from speciate_plugins.densities.rows import RowStore, product

BLUR = 0.25
"""Of a screening, in nats: more than rounding does to most scores, and little enough to leave few contenders."""
FAR = 1e30
"""Squared whitened distance from the prior mean at which an event is impossible: squares of it are still numbers."""

Places = npt.NDArray[np.intp] | slice | int


class Rowed(Protocol):
    """A density of categories with means and rows."""

    rows: RowStore
    rounded_means: npt.NDArray[np.floating]
    mean_norms: Vector
    roots: npt.NDArray[np.bool_]

    def log_density(self, squares: Matrix, places: Places) -> Matrix:
        """From squared distances to log densities."""

    def tolerance(self, squares: Any, places: Places) -> Any:
        """How far off squared distances may be to move log densities by no more than the blur."""

    def score(self, point: Vector, categories: list[int]) -> Vector:
        """See `Density`."""


class RowScreening:
    """See `Screening`."""

    blur = BLUR

    def __init__(self, density: Rowed, points: Matrix) -> None:
        self._density = density
        norms = square_norms(points)
        self._far = too_far(norms)
        self._exact = np.where(self._far[:, np.newaxis], 0.0, points) if self._far.any() else points
        self._norms = np.where(self._far, 0.0, norms)
        self._longest = float(self._norms.max(initial=0.0))
        self._points = self._exact.astype(density.rows.dtype)
        self._rounding = 2.0 * (8.0 + 2.0 * math.sqrt(points.shape[1])) * density.rows.epsilon
        """Of a squared distance, relative to the squared norms it is the difference of."""
        self._size = len(density.mean_norms)
        self._scores = np.empty((len(points), self._size + len(points)))
        self._doubtful: npt.NDArray[np.bool_] | None = None
        """Which of the scores rounding may have moved by more than the blur; None if there are none."""
        self._products: dict[int, npt.NDArray[Any]] = {}
        """With the rows of each category that has learnt, a column an event."""
        self._rewrites = density.rows.all_rewrites()
        self._screen()

    def _screen(self) -> None:
        rows = self._density.rows
        everyone = slice(0, self._size)
        if len(self._points) == 1:
            energies = rows.energies(self._points[0])[np.newaxis]
        else:
            self._all, self._bounds = rows.products(self._points)
            squares = self._all - rows.all_offsets()[:, np.newaxis]
            energies = segment_sums(np.square(squares, out=squares), self._bounds).T
        products = product(self._points, self._density.rounded_means.T)
        self._store(slice(0, None), everyone, products, energies)

    def row(self, place: int) -> Vector:
        """See `Screening`. What rounding could move by more than the blur is scored at once."""
        size = len(self._density.mean_norms)
        if self._far[place]:
            return np.full(size, -np.inf)
        row: Vector = self._scores[place, :size]
        if self._doubtful is not None:
            places = self._doubtful[place, :size].nonzero()[0].tolist()
            if places:
                row[places] = self._density.score(self._exact[place], places)
        return row

    def refresh(self, place: int, category: int) -> None:
        """See `Screening`."""
        behind = slice(place + 1, None)
        if place + 1 == len(self._points):
            return
        rows, mean = self._density.rows, self._density.rounded_means[category : category + 1]
        known = self._known(category)
        # One product for the new rows and the new mean.
        fresh = np.concatenate((rows.of(category)[len(known) :], mean), dtype=mean.dtype, casting="same_kind")
        found = product(fresh, self._points[behind].T)
        # Columns of events that are done are of no use to anybody.
        products = np.concatenate((known[:, -found.shape[1] :], found[:-1]))
        self._products[category] = products
        along = products - rows.offsets(category)[:, np.newaxis]
        self._store(behind, category, found[-1], np.einsum("nb,nb->b", along, along))

    def _known(self, category: int) -> npt.NDArray[Any]:
        """Products of the events with those rows of a category that it had before it learnt."""
        count = self._density.rows.rewrites(category)
        if category >= len(self._rewrites):
            self._rewrites.append(count)
        elif self._rewrites[category] != count:
            self._rewrites[category] = count
        elif category in self._products:
            return self._products[category]
        elif category < self._size:
            return self._all[self._bounds[category] : self._bounds[category + 1]]
        return np.empty((0, len(self._points)), dtype=self._points.dtype)

    def _store(self, events: slice, places: slice | int, products: Matrix, energies: Matrix) -> None:
        """From products with the means, and energies, to scores."""
        norms = self._norms[events] if isinstance(places, int) else self._norms[events, np.newaxis]
        mean_norms = self._density.mean_norms[places]
        squares = norms + mean_norms
        squares -= 2.0 * products
        squares -= energies
        roots = self._density.roots[places]
        if roots.any():
            squares = np.where(roots, energies, squares)
        self._scores[events, places] = self._density.log_density(squares, places)
        # Most often nothing can be in doubt, and that is quickly seen.
        if self._doubtful is None:
            least = self._density.tolerance(squares.min(initial=np.inf), places).min(initial=np.inf)
            if self._rounding * (self._longest + mean_norms.max(initial=0.0)) <= least:
                return
            self._doubtful = np.zeros(self._scores.shape, dtype=np.bool_)
        tolerance = self._density.tolerance(squares, places)
        self._doubtful[events, places] = self._rounding * (norms + mean_norms) > tolerance


def square_norms(points: npt.NDArray[np.float64]) -> Any:
    """Of one point or of each of several: a sum of its own, so its bits do not depend on the others."""
    with np.errstate(over="ignore", invalid="ignore"):
        return np.vecdot(points, points)


def too_far(square_norm: Any) -> Any:
    """True of what is not finite, too."""
    return np.logical_not(square_norm <= FAR)


def segment_sums(values: npt.NDArray[Any], bounds: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
    """The sums of successive groups of rows; a group may be empty."""
    sums = np.zeros((len(bounds) - 1, values.shape[1]), dtype=values.dtype)
    starts, filled = bounds[:-1], bounds[1:] > bounds[:-1]
    if filled.any():
        sums[filled] = np.add.reduceat(values, starts[filled], axis=0)
    return sums
