"""What the policies with a fixed threshold share: the option, the evidence of a birth, and how it is tuned."""

import math
from collections.abc import Iterable
from typing import Annotated, Literal

import msgspec
import numpy as np

from speciate_plugins.policies.hypotheses import candidates
from speciate_schemas import Strict

NEVER = -1e300
"""A threshold that everything reaches: what `"auto"` falls back on where nothing at all can be held out."""
KNOWN_QUANTILE = 0.05
"""Where nothing novel can be held out: the share of the held-out known events that stay below the threshold."""


class ThresholdOptions(Strict, frozen=True):
    """A threshold in nats."""

    threshold: Annotated[
        Literal["auto"] | Annotated[float, msgspec.Meta(ge=-1e300, le=1e300)],
        msgspec.Meta(
            description="What the best category must reach, in nats, or a new one is born; auto: tuned on classes held "
            "out of the support set."
        ),
    ] = "auto"


def fixed(options: ThresholdOptions) -> float:
    """The threshold; until it is tuned, everything reaches it."""
    return NEVER if options.threshold == "auto" else options.threshold


def birth_evidence(threshold: float, log_birth: float) -> float:
    """The threshold, whatever the density of a birth; unless the event is impossible there: then so is a birth."""
    return threshold if log_birth > -math.inf else -math.inf


def thresholds(known: Iterable[float], novel: Iterable[float]) -> list[float]:
    """The thresholds to try, in ascending order; just one where there is nothing novel to tell known events from."""
    inside, outside = ([value for value in part if math.isfinite(value)] for part in (known, novel))
    if inside and outside:
        return candidates(inside, outside)
    return [float(np.quantile(inside, KNOWN_QUANTILE)) if inside else NEVER]
