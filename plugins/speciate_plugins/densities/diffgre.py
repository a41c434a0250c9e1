"""Leaders with adaptive balls: the online step of DiffGRE, each leader with a radius that follows its own events.

After Liu et al., "Generate, Refine, and Encode" (DiffGRE, 2025): a memory of leaders started from the class means, an
event goes to a leader in whose Euclidean ball it lies or founds one, and the radius adapts. The formula of the radius
is not published, and neither the generated images nor the encoder trained on them are at hand. Here, plainly,

    radius = a + width · s

with a and s the mean and the standard deviation of the distances at which the events of a category came, the support's
from the mean of the others of their class. All support events together stand before them as `strength` events, and are
all a new leader has. The score is radius - distance: where balls overlap, the event goes where it lies deepest. Merging
pools means and distances, those of the support twice.
"""

from typing import Annotated, Any, ClassVar

import msgspec
import numpy as np
import numpy.typing as npt

from speciate.hooks import Provider, hookimpl
from speciate.stages import Density, Matrix, Vector
from speciate_plugins.densities.leader import Leaders, reachable
from speciate_plugins.densities.prototypes import Classes, distances, own_distances
from speciate_schemas import Strict

Positive = Annotated[float, msgspec.Meta(gt=0, le=1e12)]


class DiffgreOptions(Strict, frozen=True):
    """How wide a ball is, and how slowly it adapts."""

    width: Annotated[
        Annotated[float, msgspec.Meta(ge=0, le=1e12)],
        msgspec.Meta(description="Standard deviations of its events' distances that a radius goes beyond their mean."),
    ] = 2.0
    strength: Annotated[
        Positive, msgspec.Meta(description="Events that the distances of the whole support set count for.")
    ] = 10.0


class AdaptiveLeaders(Leaders):
    """Running means; traits are how many distances there were, their mean, and the sum of squares around it."""

    traits: ClassVar[int] = 3
    shared_names: ClassVar[tuple[str, ...]] = ("pooled",)

    def __init__(self, options: DiffgreOptions) -> None:
        super().__init__(options)
        self._deviations, self._strength = options.width, options.strength

    def _calibrate(self, features: Matrix, classes: Classes) -> dict[str, npt.NDArray[Any]]:
        found = own_distances(features, classes)
        return {"pooled": np.array([self._strength, found.mean(), self._strength * found.var()])}

    def _start(self, own: Matrix) -> tuple[Matrix, Matrix]:
        mean = own.mean(axis=0)
        if len(own) == 1:
            return own, self._shared["pooled"][np.newaxis].copy()
        away = distances(own, mean) * (len(own) / (len(own) - 1))
        theirs = np.array([len(own), away.mean(), len(own) * away.var()])
        return mean[np.newaxis], _pool(self._shared["pooled"], theirs)[np.newaxis]

    def _founding(self, point: Vector) -> Vector:  # noqa: ARG002  # nothing is known of it
        return self._shared["pooled"].copy()

    def _measure(self, vectors: Matrix, traits: Matrix, point: Vector) -> Vector:
        return self._radii(traits) - distances(vectors, point)

    def _radii(self, traits: Matrix) -> Vector:
        radii: Vector = traits[:, 1] + self._deviations * np.sqrt(traits[:, 2] / traits[:, 0])
        return radii

    def score_birth(self, points: Matrix) -> Vector:
        """See `Density`. 0, the rim of every ball."""
        return np.where(reachable(points), 0.0, -np.inf)

    def absorb(self, category: int, point: Vector) -> float:
        """See `Density`. The drift is a distance between features."""
        away = float(distances(self._vectors[category : category + 1], point)[0])
        self._traits[category] = _pool(self._traits[category], np.array([1.0, away, 0.0]))
        return super().absorb(category, point)

    def merge(self, keep: int, absorb: int) -> None:
        """See `Density`."""
        self._traits[keep] = _pool(self._traits[keep], self._traits[absorb])
        super().merge(keep, absorb)


def _pool(one: Vector, other: Vector) -> Vector:
    """Weight, mean and sum of squares around it, of two sets of numbers together."""
    weight = one[0] + other[0]
    apart = other[1] - one[1]
    share = other[0] / weight
    squares = one[2] + other[2] + apart * apart * one[0] * share
    return np.array([weight, one[1] + share * apart, squares])


@hookimpl
def speciate_density() -> Provider[Density]:
    """Provide the density."""
    return Provider(options=DiffgreOptions, create=AdaptiveLeaders)
