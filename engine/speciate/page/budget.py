"""What the page may cost: a share of the time, so that no number of browsers slows the pipeline."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TypeVar

from speciate.page.asking import PATIENCE_SECONDS, patience
from speciate.page.costs import Cost

T = TypeVar("T")

LOOK_SHARE = 0.02
"""Of the time of the thread that decides, for looking at what it knows."""
WORK_SHARE = 0.03
"""Of a processor's time, for making answers of that: the thread that decides waits for the interpreter meanwhile."""
MOST_SECONDS = 0.1
"""What can be saved up: a page that is opened is not made to wait."""


class Budget:
    """Lets one do something at a time, as long as there is time left for it; the next ones make up for what is long."""

    def __init__(self, share: float) -> None:
        self._share = share
        self._left = MOST_SECONDS
        self._since: float | None = None
        self._turn = asyncio.Lock()

    async def do(self, function: Callable[[], T], *, apart: bool) -> T:
        """Call a function in a turn of its own and count what it takes, here or on another thread."""
        cost = Cost()

        def counted() -> T:
            with cost:
                return function()

        async with AsyncExitStack() as stack:
            # The waiting only: what is done on another thread cannot be cut off.
            async with patience(PATIENCE_SECONDS, "come to it: try again"):
                await stack.enter_async_context(self.turn())
            try:
                return await asyncio.to_thread(counted) if apart else counted()
            finally:
                self.spend(cost.seconds)

    @asynccontextmanager
    async def turn(self, *, leaving: float = 0.0) -> AsyncIterator[None]:
        """Wait for a turn, and until more than `leaving` seconds are left for others."""
        while True:
            async with self._turn:
                missing = leaving - self._refilled()
                while missing >= 0.0 and not leaving:
                    # In the turn: nobody could go before, and of a crowd only one need wake up.
                    await self._refill(missing)
                    missing = -self._refilled()
                if missing < 0.0:
                    yield
                    return
            # Not in the turn: whoever leaves less for others need not wait.
            await self._refill(missing)

    async def _refill(self, seconds: float) -> None:
        """Wait until so much more is left."""
        await asyncio.sleep(max(0.001, seconds / self._share))

    def spend(self, seconds: float) -> None:
        """It took so long."""
        self._left = self._refilled() - seconds

    def _refilled(self) -> float:
        now = asyncio.get_running_loop().time()
        since, self._since = self._since, now
        if since is not None:
            self._left = min(MOST_SECONDS, self._left + (now - since) * self._share)
        return self._left
