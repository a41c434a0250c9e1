"""The Dirichlet-process rule: a category by its size times its density, a birth by alpha times the prior's.

Category k is chosen by log n_k + log p(z | k), a birth by log alpha + log p(z | new), both less log(N + alpha); a
birth must be strictly ahead, and among equal categories the first wins (DP-BOA, decision rule of section 3.4). That is
the log evidence of a decision: the joint log density of the event and of its going there.

How much alpha has to outweigh depends on the density, its dimension and its prior: `alpha = "auto"` tries those values
at which held-out events of known and of novel classes would turn from a birth to a category.
"""

import math
from collections.abc import Sequence
from typing import Annotated, Literal

import msgspec
import numpy as np
import numpy.typing as npt

from speciate.hooks import Evidence, Held, Provider, hookimpl
from speciate.stages import Choice, Policy, Vector
from speciate_plugins.policies.hypotheses import candidates, choose
from speciate_schemas import Strict

DEFAULT_ALPHA = 1e-9
"""The paper's; also what `"auto"` falls back on."""
MOST_NATS = 690.0
"""Bound on |log alpha|: beyond it there is no such number."""


class DirichletOptions(Strict, frozen=True):
    """How readily a category is born."""

    alpha: Annotated[
        Literal["auto"] | Annotated[float, msgspec.Meta(gt=0, le=1e300)],
        msgspec.Meta(
            description="Concentration: how readily a new category is born; auto: tuned on classes held out of the "
            "support set, 1e-9 where none can be."
        ),
    ] = DEFAULT_ALPHA
    prior: Annotated[
        Literal["dp", "none"],
        msgspec.Meta(description="none leaves out the sizes of categories and alpha: densities alone decide."),
    ] = "dp"


class DirichletPolicy:
    """Evidence of a category grows with its size; evidence of a birth with alpha."""

    def __init__(self, options: DirichletOptions) -> None:
        self._weighted = options.prior == "dp"
        self._alpha = DEFAULT_ALPHA if options.alpha == "auto" else options.alpha
        self._log_alpha = math.log(self._alpha)

    def weigh(self, log_density: Vector, counts: npt.NDArray[np.int64], log_birth: float) -> tuple[Vector, float]:
        """See `Policy`."""
        if not self._weighted:
            return log_density, log_birth
        log_total = math.log(float(counts.sum()) + self._alpha)
        evidence = np.log(counts)
        evidence += log_density
        evidence -= log_total
        return evidence, self._log_alpha + log_birth - log_total

    def choose(self, evidence: Vector, birth: float) -> Choice:
        """See `Policy`."""
        return choose(evidence, birth)


def tune(options: DirichletOptions, held: Held) -> Sequence[DirichletOptions]:
    """See `Provider.tune`."""
    if options.alpha != "auto" or options.prior == "none":
        return []
    known, novel = _turning(held.known), _turning(held.novel)
    alphas = [math.exp(value) for value in candidates(known, novel)] if known and novel else [DEFAULT_ALPHA]
    return [msgspec.structs.replace(options, alpha=alpha) for alpha in alphas]


def _turning(held: Sequence[Evidence]) -> list[float]:
    """The log alpha at which each event turns from its best category to a birth."""
    best = [(float((np.log(counts) + log_density).max()), log_birth) for log_density, counts, log_birth in held]
    possible = (top - log_birth for top, log_birth in best if math.isfinite(top) and math.isfinite(log_birth))
    return [min(max(value, -MOST_NATS), MOST_NATS) for value in possible]


@hookimpl
def speciate_policy() -> Provider[Policy]:
    """Register the policy."""
    return Provider(options=DirichletOptions, create=DirichletPolicy, tune=tune)
