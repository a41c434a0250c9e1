"""Distance threshold: the nearest category, or a birth where even that one is too far.

Nearness is log density, without the sizes of the categories: an event goes to the category of the highest log density
if that reaches a fixed threshold, and founds a category otherwise. Made for the density `mahalanobis`, whose log
density is half the negative squared distance plus a constant that is the same for every category, so that a threshold
on one is a radius in the other (DP-BOA, appendix "Comparison with Simpler Probabilistic Heads", Mahalanobis-threshold
variant); it works with any density.

A birth has the threshold as its evidence, and margin and probability are taken against it as against a category.
"""

from collections.abc import Sequence

import msgspec
import numpy as np
import numpy.typing as npt

from speciate.hooks import Held, Provider, hookimpl
from speciate.stages import Choice, Policy, Vector
from speciate_plugins.policies.hypotheses import choose
from speciate_plugins.policies.thresholds import ThresholdOptions, birth_evidence, fixed, thresholds


class DistanceThresholdOptions(ThresholdOptions, frozen=True):
    """What the nearest category must reach, in log density."""


class DistanceThresholdPolicy:
    """Evidence of a category is its log density; evidence of a birth is the threshold."""

    def __init__(self, options: DistanceThresholdOptions) -> None:
        self._threshold = fixed(options)

    def weigh(
        self,
        log_density: Vector,
        counts: npt.NDArray[np.int64],  # noqa: ARG002  # a distance knows no sizes
        log_birth: float,
    ) -> tuple[Vector, float]:
        """See `Policy`."""
        return log_density, birth_evidence(self._threshold, log_birth)

    def choose(self, evidence: Vector, birth: float) -> Choice:
        """See `Policy`."""
        return choose(evidence, birth)


def tune(options: DistanceThresholdOptions, held: Held) -> Sequence[DistanceThresholdOptions]:
    """See `Provider.tune`."""
    if options.threshold != "auto":
        return []
    known, novel = ([float(one.log_density.max()) for one in part] for part in held)
    return [msgspec.structs.replace(options, threshold=value) for value in thresholds(known, novel)]


@hookimpl
def speciate_policy() -> Provider[Policy]:
    """Register the policy."""
    return Provider(options=DistanceThresholdOptions, create=DistanceThresholdPolicy, tune=tune)
