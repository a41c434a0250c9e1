"""Undoing the last change by hand: what was there before is kept, and what was learnt since is learnt again."""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec
import numpy as np

from speciate.stages import Density, Policy, Vector
from speciate_schemas import Array, CategoryState, LastChange, Relabel

MOST_SINCE = 1000
"""Events of a merged category that are remembered: a merge that has been lived with for longer stands."""


class Memory:
    """Remembers the last rename, merge or forget of a head, until the next one or until it is undone."""

    def __init__(self, last: LastChange | None = None) -> None:
        # Copies: what was read from a snapshot must not hold all of it in memory.
        self._last = None if last is None else LastChange(kind=last.kind, before=[_copy(one) for one in last.before])
        self._since: list[Vector] = [] if last is None else [np.array(one.numpy()) for one in last.since]

    @property
    def merged(self) -> int | None:
        """The number of the category whose events must be remembered, if there is one."""
        return self._last.before[0].id if self._last is not None and self._last.kind == "merge" else None

    def take(self) -> LastChange | None:
        """What can be undone, which is forgotten by that."""
        last, self._last = self.state(), None
        self._since = []
        return last

    def keep(self, last: LastChange) -> None:
        """Remember another change; what was before it stands."""
        self._last, self._since = last, []

    def learnt(self, point: Vector) -> None:
        """The merged category has learnt from another event."""
        if len(self._since) < MOST_SINCE:
            self._since.append(np.array(point))
        else:
            self._last, self._since = None, []

    def state(self) -> LastChange | None:
        """What is remembered."""
        if self._last is None:
            return None
        return LastChange(
            kind=self._last.kind, before=self._last.before, since=[Array.of(point) for point in self._since]
        )


def _copy(one: CategoryState) -> CategoryState:
    arrays = {key: Array.of(np.array(array.numpy())) for key, array in one.arrays.items()}
    return msgspec.structs.replace(one, arrays=arrays)


class Undone(NamedTuple):
    """What was taken back."""

    relabels: list[Relabel]
    """What that means for decisions made before."""
    shares: list[int]
    """Of a merge: which of the two, 0 the kept one, each event went to that the merged category had learnt since."""


def learn_again(density: Density, policy: Policy, places: tuple[int, int], since: Sequence[Array]) -> list[int]:
    """Give each event that a merged category has learnt to the one of the two that it would have gone to; which it was.

    Which is decided as the head decides, so if nothing but the two was ever in question, they never were merged.
    """
    shares = []
    for one in since:
        point = np.asarray(one.numpy())
        birth = float(density.score_birth(point[None])[0])
        evidence, _ = policy.weigh(density.score(point, list(places)), density.counts[list(places)], birth)
        shares.append(int(np.argmax(evidence)))
        density.absorb(places[shares[-1]], point)
    return shares


def relabels_of(last: LastChange) -> list[Relabel]:
    """What undoing a change means: the categories are again what they were."""
    changed = last.before[1:] if last.kind == "merge" else last.before
    return [Relabel(category=one.id, becomes=one.id, label=one.label) for one in changed]
