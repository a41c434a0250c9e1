"""From recorded events to a support set and a stream: which events are labelled, and in which order the others come."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from speciate.errors import ConfigError
from speciate.replay.recorded import Indices, Recorded
from speciate_schemas import SupportRule

SUPPORT_DRAW, ORDER_DRAW = 0, 1
"""So that the support set and the order of one seed have nothing to do with each other."""


class Stream(NamedTuple):
    """Places among the used events: what is labelled, and what comes, in order."""

    support: Indices
    stream: Indices


def make_stream(recorded: Recorded, rule: SupportRule, order: str, burst: int, seed: int) -> Stream:
    """Draw a support set and put the rest in order; the same seed gives the same, for every method."""
    support = _support(recorded, rule, seed if rule.seed is None else rule.seed)
    rest = np.setdiff1d(np.arange(len(recorded.classes)), support)
    if not len(support):
        raise ConfigError(f"[support] share = {rule.share} leaves no support event: give a larger share or more events")
    if not len(rest):
        raise ConfigError(f"[support] share = {rule.share} leaves no event for the stream: give a smaller share")
    generator = np.random.default_rng([seed, ORDER_DRAW])
    return Stream(support, rest[_order(recorded.classes[rest], order, burst, generator)])


def _support(recorded: Recorded, rule: SupportRule, seed: int) -> Indices:
    eligible = recorded.known[recorded.classes]
    if recorded.groups is not None and rule.groups:
        places, names = recorded.groups
        eligible = eligible & np.isin(places, [names.index(group) for group in rule.groups])
    generator = np.random.default_rng([seed, SUPPORT_DRAW])
    candidates = generator.permutation(np.flatnonzero(eligible))
    if rule.rule == "pooled":
        return candidates[: int(rule.share * len(candidates))]
    classes = recorded.classes[candidates]
    parts = [candidates[classes == number] for number in np.flatnonzero(recorded.known)]
    # A class of which a share is less than one event still has one.
    return np.concatenate([part[: max(1, int(rule.share * len(part)))] for part in parts])


def _order(classes: Indices, order: str, burst: int, generator: np.random.Generator) -> npt.NDArray[np.intp]:
    """The order in which events of these classes come."""
    if order == "recorded":
        return np.arange(len(classes))
    if order == "class-sorted":
        return np.argsort(classes, kind="stable")
    shuffled = generator.permutation(len(classes))
    if order == "random":
        return shuffled
    grouped = shuffled[np.argsort(classes[shuffled], kind="stable")]
    ends = np.flatnonzero(np.diff(classes[grouped])) + 1
    runs = [run for part in np.split(grouped, ends) for run in np.split(part, range(burst, len(part), burst))]
    return np.concatenate([runs[place] for place in generator.permutation(len(runs))])
