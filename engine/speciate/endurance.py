"""Endurance: what a service being away costs is time, not the run."""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable

from speciate.errors import AwayError
from speciate.logs import get_logger

FIRST_PAUSE, LONGEST_PAUSE = 0.2, 3.0
STEADY_SECONDS = 60.0
"""Whoever worked for so long and fails has not failed again, but anew."""

log = get_logger(__name__)


class Backoff:
    """Pauses that grow, and differ from worker to worker so that not all come back at once."""

    def __init__(self) -> None:
        self._pause = FIRST_PAUSE

    def reset(self) -> None:
        """It worked: the next pause is the first one again."""
        self._pause = FIRST_PAUSE

    def next(self) -> float:
        """Seconds to wait before trying again."""
        pause, self._pause = self._pause, min(LONGEST_PAUSE, self._pause * 2.0)
        return pause * random.uniform(0.5, 1.0)  # noqa: S311  # jitter, no secret


async def enduring(attempt: Callable[[], Awaitable[None]], stopping: asyncio.Event, **named: object) -> None:
    """Attempt once, and again while it fails because something is away, until it ends or `stopping` is set."""
    backoff = Backoff()
    while True:
        began = time.monotonic()
        try:
            await attempt()
        except AwayError as error:
            if stopping.is_set():
                told = "stopped while something was away: what was not committed is read again"
                log.warning(told, reason=str(error), **named)
                return
            if time.monotonic() - began > STEADY_SECONDS:
                backoff.reset()
            pause = backoff.next()
            log.warning("away, trying again", reason=str(error), seconds=round(pause, 2), **named)
            await pausing(pause, stopping)
            if stopping.is_set():
                return
        else:
            return


async def pausing(seconds: float, stopping: asyncio.Event) -> None:
    """Wait, but not once `stopping` is set."""
    try:
        async with asyncio.timeout(seconds):
            await stopping.wait()
    except TimeoutError:
        pass
