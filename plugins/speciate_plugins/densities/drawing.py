"""Where a category lies and how far it reaches: the predictive of `full` and its relatives, seen in the features.

In a density's own coordinates, y = L⁻¹(z-μ₀), a category predicts a Student t around m of f = ν-d+1 degrees of freedom
and of the scale Ψ·(κ+1)/(κf). Along axes of the features, rows of P, that is one of as many degrees of freedom with

    centre P(μ₀ + Lm),   scale SᵀΨS·(κ+1)/(κf),   S = LᵀPᵀ

L itself is not kept, but L⁻¹ is, and triangular: for L and Lᵀ there is an equation to solve, in O(d²) a vector.

How wide a category is, as one number: its covariance is expected to be Ψ/(n₀+n), that of a support class Ψ₀/n₀, the
identity over n₀. The spread is the root mean square over all directions of its deviation in those of a support class,

    √(n₀ (1 + tr WᵀW / d) / (n₀+n))

A mean of logarithms would be at hand too, the determinant. But where a category has fewer events than features, Ψ is
too narrow in most directions, and that would show how few they are, not how wide they lie.
"""

import math

import numpy as np
import numpy.typing as npt
from scipy.linalg import solve_triangular

from speciate.stages import Extent, Matrix, Vector
from speciate_plugins.densities.algebra import scale_along
from speciate_plugins.densities.prior import Prior, student_constants
from speciate_plugins.densities.rows import RowStore


class Drawn:
    """What makes `full` and its relatives `Drawable`."""

    _prior: Prior
    rows: RowStore
    roots: npt.NDArray[np.bool_]
    """Whether a category's rows are a root of its inverse scale, rather than of what that lacks of the identity."""
    means: Matrix
    _weights: Vector
    """Events a category has learnt from: its counts, unless frozen."""
    _traces: Vector
    """tr WᵀW."""
    half_degrees: Vector
    scales: Vector

    def centre(self, category: int) -> Vector:
        """See `Drawable`. The posterior mean."""
        centre: Vector = self._prior.mean + self._root_times(self.means[category])
        return centre

    def spread(self, category: int) -> float:
        """See `Drawable`. In standard deviations within a support class: 1 is as wide as those are."""
        prior = self._prior
        width = 1.0 + float(self._traces[category]) / prior.dimension
        return math.sqrt(prior.strength * width / (prior.strength + float(self._weights[category])))

    def extent(self, category: int, axes: Matrix) -> Extent:
        """See `Drawable`. In O(n²d) with n rows, and O(d²) an axis."""
        rows, root = self.rows.of(category), bool(self.roots[category])
        freedom = 2.0 * float(self.half_degrees[category]) - self._prior.dimension
        along = scale_along(rows, self._sides(axes), root=root) / (freedom * float(self.scales[category]))
        return Extent(axes @ self.centre(category), along, freedom)

    def extent_of_birth(self, axes: Matrix) -> Extent:
        """See `Drawable`."""
        return self._birth(axes, self._sides(axes))

    def _birth(self, axes: Matrix, sides: Matrix) -> Extent:
        _, half, scale = student_constants(self._prior, 0.0, 0.0)
        freedom = 2.0 * half - self._prior.dimension
        return Extent(axes @ self._prior.mean, sides.T @ sides / (freedom * scale), freedom)

    def _root_times(self, point: Vector) -> Vector:
        """Ly."""
        return np.asarray(solve_triangular(self._prior.whiten, point, lower=True, check_finite=False))

    def _sides(self, axes: Matrix) -> Matrix:
        """LᵀPᵀ."""
        return np.asarray(solve_triangular(self._prior.whiten, axes.T, lower=True, trans="T", check_finite=False))
