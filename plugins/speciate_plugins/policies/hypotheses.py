"""What the policies share: choosing among hypotheses by their log evidence, and candidates for what is tuned."""

import math
from collections.abc import Sequence

import numpy as np

from speciate.stages import BIRTH, Choice, Vector

CANDIDATES = 15
"""Values tried for an option that is tuned."""


def choose(evidence: Vector, birth: float) -> Choice:
    """The hypothesis with the most evidence; a birth must be strictly ahead, among equal categories the first wins.

    The margin is the lead over the runner-up, a birth included; the probability is the share of the choice in the sum
    of exp(evidence) over all categories and a birth.
    """
    if not len(evidence):
        return Choice(BIRTH, birth, None, 1.0)
    best = int(evidence.argmax())
    top = float(evidence[best])
    leader = max(top, birth)
    if leader == -math.inf:
        return Choice(best, top, None, 0.0)
    total = float(np.exp(evidence - leader).sum()) + math.exp(birth - leader)
    if birth > top:
        return Choice(BIRTH, birth, birth - top, 1.0 / total)
    sides = (evidence[:best], evidence[best + 1 :])
    second = max([birth, *(float(side.max()) for side in sides if len(side))])
    return Choice(best, top, top - second, 1.0 / total)


def candidates(known: Sequence[float], novel: Sequence[float]) -> list[float]:
    """Thresholds to try between values of known events, which should lie above, and of novel ones, below.

    Quantiles of both, each with the same weight, so that they are dense where a threshold matters; none above the
    median of the known ones, which would refuse half of them. In ascending order.
    """
    shares = np.linspace(0.0, 1.0, 8 * CANDIDATES)
    values = np.sort(np.concatenate([np.quantile(known, shares), np.quantile(novel, shares)]))
    values = values[values <= np.median(known)]
    spread = np.quantile(values, np.linspace(0.0, 1.0, CANDIDATES), method="nearest")
    return [float(value) for value in np.unique(spread)]
