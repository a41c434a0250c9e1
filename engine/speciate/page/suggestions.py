"""Suggested merges, found bit by bit: each look at the head is a short one, and others come first."""

import asyncio
import math
from collections.abc import Iterable

from speciate.errors import UnknownCategoryError
from speciate.page.asking import StuckError
from speciate.page.budget import MOST_SECONDS
from speciate.page.listing import Listing, Row
from speciate.page.subject import Subject, Where
from speciate.pipeline import Inside
from speciate.suggesting import NEIGHBOURS, Suggestion, ranked
from speciate_schemas.page import Suggestions, SuggestionView

MOST = 20
MOST_EXAMINED = 200
"""Categories that are compared with their nearest; of more those that events came to last."""
FRESH_SECONDS = 30.0
MOST_SETS = 16
"""Sets of categories whose examinations are kept; the one asked about longest ago gives way."""
PAUSE_SECONDS = 1.0
PATIENCE_SECONDS = 2.0
"""Who asks waits so long for all of them, and is then told what was found so far."""

Gains = dict[tuple[int, int], float]


class Examination:
    """Compares the categories of a set with their nearest, one after another."""

    def __init__(self, subject: Subject, where: Where, candidates: list[int]) -> None:
        self._subject = subject
        self._where = where
        self._candidates = candidates
        self.gains: Gains = {}
        self.examined = 0
        self.running = asyncio.create_task(self._run())

    async def _run(self) -> None:
        waiting = self._candidates[::-1]
        while waiting:
            try:
                gains = await self._look(waiting[-1])
            except StuckError:
                # Others come first, or the pipeline is busy: not now, but the ones that are left are not given up.
                await asyncio.sleep(PAUSE_SECONDS)
                continue
            except UnknownCategoryError:
                gains = None  # gone by now
            waiting.pop()
            if gains is not None:
                self.gains |= {(one, other): gain for one, other, gain in gains}
                self.examined += 1

    async def _look(self, category: int) -> list[tuple[int, int, float]]:
        def look(inside: Inside) -> list[tuple[int, int, float]]:
            return inside.head.merge_gains(NEIGHBOURS, category)

        return await self._subject.look(self._where, look, leaving=MOST_SECONDS / 2)


class Suggester:
    """The merges that the events speak for, of every set that somebody asks about."""

    def __init__(self, subject: Subject) -> None:
        self._subject = subject
        self._last: dict[Where, tuple[float, int, Examination]] = {}

    async def suggest(self, where: Where, listing: Listing) -> Suggestions:
        """The best supported merges of categories as they were a moment ago."""
        examination = self._examination(where, listing)
        await asyncio.wait({examination.running}, timeout=PATIENCE_SECONDS)
        gains = ((one, other, gain) for (one, other), gain in examination.gains.items() if math.isfinite(gain))
        found = views(ranked(listing.rows, gains, MOST))
        return Suggestions(suggestions=found, examined=examination.examined)

    def _examination(self, where: Where, listing: Listing) -> Examination:
        """The last one, if it is new enough; behind a control event none is."""
        now, controls = asyncio.get_running_loop().time(), self._subject.audience.controls
        when, before, last = self._last.get(where, (0.0, -1, None))
        if last is not None and before == controls and (not last.running.done() or now - when < FRESH_SECONDS):
            self._last[where] = self._last.pop(where)
            return last
        given_up = [where] if last is not None else list(self._last)[: len(self._last) + 1 - MOST_SETS]
        for one in given_up:
            self._last.pop(one)[2].running.cancel()
        new = Examination(self._subject, where, candidates(listing.rows.values()))
        self._last[where] = (now, controls, new)
        return new


def candidates(rows: Iterable[Row]) -> list[int]:
    """The categories to examine: all, or of many those discovered ones that events came to last."""
    every = list(rows)
    if len(every) <= MOST_EXAMINED:
        return [row.id for row in every]
    born = [row for row in every if not row.known and row.last_sequence is not None]
    born.sort(key=lambda row: -(row.last_sequence or 0))
    return [row.id for row in born[:MOST_EXAMINED]]


def views(found: Iterable[Suggestion]) -> list[SuggestionView]:
    """Suggestions as the page tells them."""
    return [
        SuggestionView(
            keep=one.keep,
            absorb=one.absorb,
            keep_label=one.labels[0],
            absorb_label=one.labels[1],
            keep_count=one.counts[0],
            absorb_count=one.counts[1],
            log_bayes_factor=one.log_bayes_factor,
        )
        for one in found
    ]
