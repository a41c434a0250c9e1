"""Spherical: the paper's ablation of covariance geometry (section 4.4), every category a ball with its own width.

Degrees of freedom, κ and means are those of `full`; of a category's scale only the trace is kept,

    Ψ_k = (tr Ψ₀ + Σ κ/(κ+1) ‖z-m‖²) / d · I,   Ψ₀ = n₀ tr(Σ_within) / d · I

summed over its events with κ and m as they were before each. Making Ψ_k a ball after each update, as the paper says,
gives the same, since that keeps the trace. A birth is predicted by the ball Ψ₀. This is `lowrank` in the features' axes
with no row at all, but for the birth.
"""

import msgspec

from speciate.hooks import Provider, hookimpl
from speciate.stages import Density, Extent, Matrix, Vector
from speciate_plugins.densities.full import FullDensity, FullOptions
from speciate_plugins.densities.lowrank import FeatureSpaceDensity, LowRankOptions


class SphericalOptions(FullOptions, frozen=True):
    """Options of the density `spherical`: those of `full`. Shrinkage moves no trace, so it is nothing here."""


class SphericalDensity(FeatureSpaceDensity):
    """Categories as counts, means and traces."""

    def __init__(self, options: SphericalOptions) -> None:
        super().__init__(LowRankOptions(rank=0, space="features", **msgspec.structs.asdict(options)))

    def score_birth(self, points: Matrix) -> Vector:
        """See `Density`."""
        return FullDensity.score_birth(self, points) - self._rounding()

    def extent_of_birth(self, axes: Matrix) -> Extent:
        """See `Drawable`."""
        return FullDensity.extent_of_birth(self, axes)


@hookimpl
def speciate_density() -> Provider[Density]:
    """Provide the density."""
    return Provider(options=SphericalOptions, create=SphericalDensity)
