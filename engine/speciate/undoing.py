"""Undoing the last change by hand: what was there before is kept, and what was learnt since is learnt again."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from speciate.stages import Density, Vector
from speciate_schemas import Array, LastChange, Relabel

MOST_SINCE = 1000
"""Events of a merged category that are remembered: a merge that has been lived with for longer stands."""


class Memory:
    """Remembers the last rename, merge or forget of a head, until the next one or until it is undone."""

    def __init__(self, last: LastChange | None = None) -> None:
        self._last = last
        self._since: list[Vector] = [] if last is None else [np.asarray(one.numpy()) for one in last.since]

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


class Undone(NamedTuple):
    """What was taken back."""

    relabels: list[Relabel]
    """What that means for decisions made before."""
    shares: list[int]
    """Of a merge: which of the two, 0 the kept one, each event went to that the merged category had learnt since."""


def learn_again(density: Density, places: tuple[int, int], since: Sequence[Array]) -> list[int]:
    """Give each event that a merged category has learnt to the likelier of the two it was made of; which that was."""
    shares = []
    for one in since:
        point = np.asarray(one.numpy())
        shares.append(int(np.argmax(density.score(point, list(places)))))
        density.absorb(places[shares[-1]], point)
    return shares


def relabels_of(last: LastChange) -> list[Relabel]:
    """What undoing a change means: the categories are again what they were."""
    changed = last.before[1:] if last.kind == "merge" else last.before
    return [Relabel(category=one.id, becomes=one.id, label=one.label) for one in changed]
