"""The messages of several logs in one order, by their times: an order that can be had again.

Each log keeps its own order, even where its times go back.
"""

from collections.abc import AsyncIterator, Iterable, Mapping
from heapq import heapify, heappop, heappush
from typing import Any

from speciate_plugins.kafka.logs import TaskReader
from speciate_plugins.kafka.positions import Log

WAIT_SECONDS = 0.5


async def by_time(reader: TaskReader, ends: Mapping[Log, int]) -> AsyncIterator[list[Any]]:
    """What the logs hold before their `ends`, in pieces: always the oldest of the next ones of all logs."""
    unread = set(ends)
    while unread:
        empty = sorted(one for one in unread if not reader.held[one])
        if empty:
            # Which one is the oldest is only known once there is one of each.
            unread -= {one for one in empty if reader.places[one] >= ends[one]}
            wanting = [one for one in empty if one in unread]
            if wanting:
                await reader.fill(wanting, WAIT_SECONDS)
                _cut(reader, wanting, ends)
            continue
        yield _take(reader, unread)


def _cut(reader: TaskReader, logs: Iterable[Log], ends: Mapping[Log, int]) -> None:
    for one in logs:
        held = reader.held[one]
        while held and held[-1].offset >= ends[one]:
            held.pop()


def _take(reader: TaskReader, logs: Iterable[Log]) -> list[Any]:
    """What is certain to be next, until nothing is held of one of the logs."""
    heads = [(reader.held[one][0].timestamp, one) for one in logs]
    heapify(heads)
    taken: list[Any] = []
    while True:
        _, oldest = heappop(heads)
        held = reader.held[oldest]
        taken.append(held.popleft())
        if not held:
            return taken
        heappush(heads, (held[0].timestamp, oldest))
