"""The Dirichlet-process rule: a category by its size times its density, a birth by alpha times the prior's.

Category k is chosen by log n_k + log p(z | k), a birth by log alpha + log p(z | new), both less log(N + alpha); a
birth must be strictly ahead, and among equal categories the first wins (DP-BOA, decision rule of section 3.4).
"""

import math
from typing import Annotated

import msgspec
import numpy as np
import numpy.typing as npt

from speciate.hooks import Provider, hookimpl
from speciate.stages import BIRTH, Choice, Policy, Vector
from speciate_schemas import Strict


class DirichletOptions(Strict, frozen=True):
    """The one knob of the rule."""

    alpha: Annotated[
        float,
        msgspec.Meta(gt=0, le=1e300, description="Concentration: how readily a new category is born."),
    ] = 1e-9


class DirichletPolicy:
    """Evidence of a category grows with its size; evidence of a birth with alpha."""

    def __init__(self, options: DirichletOptions) -> None:
        self._alpha = options.alpha
        self._log_alpha = math.log(options.alpha)

    def choose(self, log_density: Vector, counts: npt.NDArray[np.int64], log_birth: float) -> Choice:
        """See `Policy`."""
        log_total = math.log(float(counts.sum()) + self._alpha)
        birth = self._log_alpha + log_birth - log_total
        if not len(counts):
            return Choice(BIRTH, birth, None, 1.0)
        evidence = np.log(counts)
        evidence += log_density
        evidence -= log_total
        best = int(evidence.argmax())
        top = float(evidence[best])
        leader = max(top, birth)
        if leader == -math.inf:
            return Choice(best, top, None, 0.0)
        total = float(np.exp(evidence - leader).sum()) + math.exp(birth - leader)
        if birth > top:
            return Choice(BIRTH, birth, birth - top, 1.0 / total)
        evidence[best] = -math.inf
        return Choice(best, top, top - max(birth, float(evidence.max())), 1.0 / total)


@hookimpl
def speciate_policy() -> Provider[Policy]:
    """Register the policy."""
    return Provider(options=DirichletOptions, create=DirichletPolicy)
