"""Alone: the share of a process that has its source to itself."""

import asyncio
import math
import time

from speciate.errors import FencedError

SETTLED_SECONDS = 60.0
"""Shut out again within this time, it was not because we slept: somebody else is there."""


class Alone:
    """One task, and it is ours."""

    def __init__(self) -> None:
        self._news = asyncio.Event()
        self._news.set()
        self._shut_out = -math.inf

    async def join(self) -> int:
        """See `Share`."""
        return 1

    async def changed(self) -> frozenset[int]:
        """See `Share`. Known at once, and the same after every `rejoin`."""
        await self._news.wait()
        self._news.clear()
        return frozenset({0})

    def keep_ready(self, numbers: frozenset[int]) -> None:
        """See `Share`. There is nobody to tell."""

    async def rejoin(self) -> None:
        """See `Share`. A transaction that a process slept through is ended, too; only once more tells who did it."""
        now = time.monotonic()
        if now - self._shut_out < SETTLED_SECONDS:
            raise FencedError(
                "another process writes to the same outputs: stop one of them, or let them share the input as a group"
            )
        self._shut_out = now
        self._news.set()

    async def leave(self) -> None:
        """See `Share`. There is nobody to leave."""
