"""A policy that is slow to found: the size of a category does not count, and a birth needs a clear lead.

Category k is chosen by log p(z | k), a birth by log p(z | new) - caution, both less log(K + exp(-caution)), which
makes them the logarithms of prior times density for a prior that is flat over the categories. Unlike the
Dirichlet-process rule it does not let large categories grow at the cost of small ones.
"""

import math
from typing import Annotated

import msgspec
import numpy as np
import numpy.typing as npt

from speciate.hooks import Provider, hookimpl
from speciate.stages import BIRTH, Choice, Policy, Vector
from speciate_schemas import Strict


class CautiousOptions(Strict, frozen=True):
    """Options of the policy: the keys one may write below `plugin = "cautious"`."""

    caution: Annotated[
        float, msgspec.Meta(ge=0, le=700, description="Lead in nats a birth needs over the best category.")
    ] = 10.0


class CautiousPolicy:
    """Nothing is kept between two calls, so the same evidence gives the same choice on every replay."""

    def __init__(self, options: CautiousOptions) -> None:
        self._caution = options.caution

    def weigh(self, log_density: Vector, counts: npt.NDArray[np.int64], log_birth: float) -> tuple[Vector, float]:
        """See `speciate.stages.Policy`."""
        log_prior = -math.log(len(counts) + math.exp(-self._caution))
        return log_density + log_prior, log_birth - self._caution + log_prior

    def choose(self, evidence: Vector, birth: float) -> Choice:
        """See `speciate.stages.Policy`."""
        if not len(evidence):
            return Choice(BIRTH, birth, None, 1.0)
        best = int(evidence.argmax())
        top = float(evidence[best])
        leader = max(top, birth)
        if leader == -math.inf:
            # Nothing explains the event, not even a birth: stay with what there is and say how unsure that is.
            return Choice(best, top, None, 0.0)
        probability = 1.0 / (float(np.exp(evidence - leader).sum()) + math.exp(birth - leader))
        if birth > top:
            return Choice(BIRTH, birth, birth - top, probability)
        second = max(birth, float(np.delete(evidence, best).max(initial=-math.inf)))
        return Choice(best, top, top - second, probability)


@hookimpl
def speciate_policy() -> Provider[Policy]:
    """Provide the policy; the entry point `policy.cautious` names this module."""
    return Provider(options=CautiousOptions, create=CautiousPolicy)
