"""Questions to the pipeline's loop from the page's: one at a time of each, and none that was answered just now."""

import asyncio
import concurrent.futures
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Generic, TypeVar

T = TypeVar("T")

PATIENCE_SECONDS = 5.0
"""A loop that does not turn for so long is stuck."""
FRESH_SECONDS = 0.5
"""Who asks again within this time is told the same."""


class StuckError(Exception):
    """The pipeline's loop does not turn, or the pipeline does not come to what is asked."""


class UnreadyError(StuckError):
    """The pipeline has not come so far yet."""


@asynccontextmanager
async def patience(seconds: float, doing: str) -> AsyncIterator[None]:
    """Wait for so long at most; raises `StuckError` with what the pipeline has not done."""
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError as error:
        raise StuckError(f"for {seconds:g} s the pipeline has not {doing}") from error


class Question(Generic[T]):
    """A function that is called on the pipeline's loop, what is made of it here, and the last answer."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        function: Callable[[], Any],
        finish: Callable[[Any], T],
        *,
        fresh: float | None = None,
    ) -> None:
        self._loop = loop
        self._function = function
        self._finish = finish
        self._fresh = FRESH_SECONDS if fresh is None else fresh
        self._asked: tuple[float, asyncio.Future[T]] | None = None

    async def ask(self) -> T:
        """The answer; raises `StuckError` if there is none in time."""
        now = asyncio.get_running_loop().time()
        if self._asked is None or (self._asked[1].done() and now - self._asked[0] > self._fresh):
            self._asked = (now, asyncio.ensure_future(self._answer()))
        try:
            # Not cut off: others may be waiting for the same answer.
            return await asyncio.wait_for(asyncio.shield(self._asked[1]), PATIENCE_SECONDS)
        except TimeoutError as error:
            raise StuckError(f"the event loop has not turned for {PATIENCE_SECONDS:g} s") from error

    async def _answer(self) -> T:
        answer: concurrent.futures.Future[Any] = concurrent.futures.Future()

        def call() -> None:
            if not answer.set_running_or_notify_cancel():
                return  # the page has ended meanwhile
            try:
                answer.set_result(self._function())
            except Exception as error:  # noqa: BLE001  # for whoever asked
                answer.set_exception(error)

        self._loop.call_soon_threadsafe(call)
        return self._finish(await asyncio.wrap_future(answer))
