"""Posterior threshold: the likeliest category by size and density, or a birth where even that one is too unlikely.

Category k has the evidence log n_k - log N + log p(z | k). An event whose best evidence is below a fixed threshold
founds a category; what a new category would predict plays no part (DP-BOA, appendix "Comparison with Simpler
Probabilistic Heads", posterior-threshold variant, where the threshold is log p0).

A birth thus has the threshold as its evidence, and margin and probability are taken against it as against a category.
"""

import math
from collections.abc import Sequence

import msgspec
import numpy as np
import numpy.typing as npt

from speciate.hooks import Evidence, Held, Provider, hookimpl
from speciate.stages import Choice, Policy, Vector
from speciate_plugins.policies.hypotheses import choose
from speciate_plugins.policies.thresholds import ThresholdOptions, birth_evidence, fixed, thresholds


class PosteriorThresholdOptions(ThresholdOptions, frozen=True):
    """What the best category must reach, in log n_k - log N + log density."""


class PosteriorThresholdPolicy:
    """Evidence of a category grows with its size; evidence of a birth is the threshold."""

    def __init__(self, options: PosteriorThresholdOptions) -> None:
        self._threshold = fixed(options)

    def weigh(self, log_density: Vector, counts: npt.NDArray[np.int64], log_birth: float) -> tuple[Vector, float]:
        """See `Policy`."""
        return _evidence(log_density, counts), birth_evidence(self._threshold, log_birth)

    def choose(self, evidence: Vector, birth: float) -> Choice:
        """See `Policy`."""
        return choose(evidence, birth)


def tune(options: PosteriorThresholdOptions, held: Held) -> Sequence[PosteriorThresholdOptions]:
    """See `Provider.tune`."""
    if options.threshold != "auto":
        return []
    values = thresholds(_best(held.known), _best(held.novel))
    return [msgspec.structs.replace(options, threshold=value) for value in values]


def _evidence(log_density: Vector, counts: npt.NDArray[np.int64]) -> Vector:
    evidence: Vector = np.log(counts) + log_density
    # An empty sum: there is no category, and no evidence to normalise.
    return evidence - math.log(float(counts.sum())) if len(counts) else evidence


def _best(held: Sequence[Evidence]) -> list[float]:
    return [float(_evidence(one.log_density, one.counts).max()) for one in held]


@hookimpl
def speciate_policy() -> Provider[Policy]:
    """Register the policy."""
    return Provider(options=PosteriorThresholdOptions, create=PosteriorThresholdPolicy, tune=tune)
