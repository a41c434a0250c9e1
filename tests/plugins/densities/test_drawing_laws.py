"""The conformance check notices densities that are drawn as what they are not."""

import math

import numpy as np
import pytest

from builtin import labelled
from speciate.conformance import check_density
from speciate.stages import Extent, Matrix, Vector
from speciate_plugins.densities.nearest_mean import NearestMean, NearestMeanOptions


class Shifted(NearestMean):
    """Lies beside its centre."""

    def centre(self, category: int) -> Vector:
        return super().centre(category) + 1.0


class Shared(NearestMean):
    """Gives its own arrays away."""

    def centre(self, category: int) -> Vector:
        return self._means[category]


class Narrow(NearestMean):
    """Is drawn as narrower than it scores."""

    def extent(self, category: int, axes: Matrix) -> Extent:
        centre, scale, freedom = super().extent(category, axes)
        return Extent(centre, scale / 2.0, freedom)


class Flat(NearestMean):
    """A birth has no width along an axis."""

    def extent_of_birth(self, axes: Matrix) -> Extent:
        return super().extent_of_birth(axes)._replace(scale=np.diag(np.arange(float(len(axes)))))


class Tailed(NearestMean):
    """Has other tails along few axes than along all."""

    def extent(self, category: int, axes: Matrix) -> Extent:
        return super().extent(category, axes)._replace(freedom=math.inf if len(axes) == self.dimension else 5.0)


class Curious(NearestMean):
    """Learns from being asked."""

    def spread(self, category: int) -> float:
        self.counts[category] += 1
        return 1.0


class Boundless(NearestMean):
    """Has no width."""

    def spread(self, category: int) -> float:
        return math.inf


@pytest.mark.parametrize(
    ("kind", "law"),
    [
        (Shifted, "the extent of category 0 must lie at its centre"),
        (Shared, "to write to the answer"),
        (Narrow, "must be what events are scored by"),
        (Flat, "the extent of a birth along 3 axes must be wide in all directions"),
        (Tailed, "along some axes must be that along all"),
        (Curious, "what events are scored by|must change nothing"),
        (Boundless, "must be a number above 0, not inf"),
    ],
)
def test_a_drawing_that_is_wrong_is_noticed(kind: type[NearestMean], law: str) -> None:
    features, classes = labelled(0, 3)
    events = np.random.default_rng(0).normal(size=(6, 3))
    with pytest.raises(AssertionError, match=law):
        check_density(lambda: kind(NearestMeanOptions()), features, classes, events)
