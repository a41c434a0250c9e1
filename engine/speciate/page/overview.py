"""How the pipeline is, with its sets of categories in brief."""

import asyncio
from typing import NamedTuple

import msgspec

from speciate.errors import UnknownCategoryError
from speciate.page.asking import StuckError
from speciate.page.subject import Subject, Where
from speciate.pipeline import Inside
from speciate_schemas.page import StateView, UniverseSummary

MOST_UNIVERSES = 500
"""Sets of categories that are listed; where each stream has its own there may be any number of them."""
LOOKS = 8
"""Sets that are looked at each time: the ones looked at longest ago."""
PATIENCE_SECONDS = 0.5
"""Longer than that nobody waits for newer numbers."""


class _Brief(NamedTuple):
    categories: int
    known: int
    sequence: int
    suggests: bool


class Overview:
    """Keeps what is known of each set of categories, and brings it up to date bit by bit."""

    def __init__(self, subject: Subject) -> None:
        self._subject = subject
        self._briefs: dict[Where, _Brief] = {}
        self._looking: asyncio.Task[None] | None = None

    async def state(self) -> StateView:
        """How it is now, and the categories there were a moment ago."""
        state = await self._subject.state()
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._look_around(running=state.running))
        await asyncio.wait({self._looking}, timeout=PATIENCE_SECONDS)
        universes = [
            UniverseSummary(
                task=where.task,
                stream=where.stream,
                categories=brief.categories,
                known=brief.known,
                sequence=brief.sequence,
            )
            for where, brief in sorted(self._briefs.items(), key=lambda one: (one[0].task, one[0].stream or ""))
        ]
        suggests = any(brief.suggests for brief in self._briefs.values())
        return msgspec.structs.replace(state, universes=universes[:MOST_UNIVERSES], suggests=suggests)

    async def _look_around(self, *, running: bool) -> None:
        """Those not seen yet first, then the ones seen longest ago, which come first in the dictionary."""
        try:
            there = (await self._subject.universes())[:MOST_UNIVERSES]
            for gone in self._briefs.keys() - set(there):
                del self._briefs[gone]
            new = [where for where in there if where not in self._briefs]
            # What does not run stays as it is.
            old = self._briefs if running else ()
            for where in [*new, *old][:LOOKS]:
                brief = await self._subject.look(where, _brief)
                self._briefs.pop(where, None)
                self._briefs[where] = brief
        except (UnknownCategoryError, StuckError):
            return  # the next time again


def _brief(inside: Inside) -> _Brief:
    known = sum(one.known for one in inside.head.categories)
    return _Brief(inside.head.size, known, inside.sequence, inside.head.suggests)
