"""What looking may cost: a share of the time of the thread that decides, so that no number of browsers slows it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

SHARE = 0.02
"""Of the time that passes."""
MOST_SECONDS = 0.1
"""What can be saved up: a page that is opened is not made to wait."""


class Budget:
    """Lets one look at a time, as long as there is time left for it; the next ones make up for a long one."""

    def __init__(self) -> None:
        self._left = MOST_SECONDS
        self._since: float | None = None
        self._turn = asyncio.Lock()

    @asynccontextmanager
    async def turn(self, *, leaving: float = 0.0) -> AsyncIterator[None]:
        """Wait for a turn, and until more than `leaving` seconds are left for others."""
        while True:
            async with self._turn:
                missing = leaving - self._refilled()
                if missing < 0.0:
                    yield
                    return
            # Not in the turn: whoever leaves less for others need not wait.
            await asyncio.sleep(max(0.001, missing / SHARE))

    def spend(self, seconds: float) -> None:
        """A look took so long."""
        self._left = self._refilled() - seconds

    def _refilled(self) -> float:
        now = asyncio.get_running_loop().time()
        since, self._since = self._since, now
        if since is not None:
            self._left = min(MOST_SECONDS, self._left + (now - since) * SHARE)
        return self._left
