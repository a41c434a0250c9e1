"""A watch over a consumer that can sit still without a word: is there more to read than we are given?

aiokafka tries again silently for as long as a broker is away, and after some restarts of a broker a consumer never gets
anything any more. So whoever waits for messages reports here, and after a while the ends of the logs are asked for.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping

from speciate.errors import AwayError
from speciate_plugins.kafka.positions import Log


class Watchdog:
    """Raises `AwayError` for a log that had more to give for `seconds` and gave nothing, or if nobody answers."""

    def __init__(
        self,
        seconds: float,
        ask: Callable[[Iterable[Log]], Awaitable[Mapping[Log, int]]],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._seconds = seconds
        # Half of the time a log may be silent before it is asked for, the other half it may fail to deliver.
        self._pause = seconds / 2
        self._ask = ask
        self._clock = clock
        self._silent: dict[Log, float] = {}
        self._behind: dict[Log, tuple[int, float]] = {}
        self._asking: asyncio.Task[Mapping[Log, int]] | None = None
        self._asked = clock()

    def heard(self, logs: Iterable[Log]) -> None:
        """These logs gave something."""
        for log in logs:
            self._silent.pop(log, None)
            self._behind.pop(log, None)

    async def missed(self, places: Mapping[Log, int]) -> Mapping[Log, int]:
        """These logs were waited for and gave nothing; we stand at these offsets in them.

        Gives back the ends of the logs if they were just learnt, else nothing.
        """
        now = self._clock()
        for log, place in places.items():
            self._silent.setdefault(log, now)
            behind = self._behind.get(log)
            if behind is None:
                continue
            if behind[0] != place:
                # Markers and aborted messages are gone through without giving anything: it moves.
                del self._behind[log]
            elif now - behind[1] > self._pause:
                raise AwayError(
                    f"{log} gave nothing for {self._seconds:g} s (stuck_ms) though there is more behind offset {place}"
                )
        return await self._ends(now, places)

    async def _ends(self, now: float, places: Mapping[Log, int]) -> Mapping[Log, int]:
        if self._asking is None:
            overdue = [log for log in places if now - self._silent[log] >= self._pause]
            if overdue and now - self._asked >= self._pause:
                self._asked = now
                self._asking = asyncio.ensure_future(self._ask(overdue))
            return {}
        if not self._asking.done():
            if now - self._asked > self._pause:
                raise AwayError(f"no broker told the ends of the logs within {self._pause:g} s (half of stuck_ms)")
            return {}
        ends = await self._forget()
        for log, end in ends.items():
            if log in places and end > places[log]:
                self._behind.setdefault(log, (places[log], now))
        return ends

    async def _forget(self) -> Mapping[Log, int]:
        asking, self._asking = self._asking, None
        return {} if asking is None else await asking

    def close(self) -> None:
        """Ask no more."""
        if self._asking is not None:
            self._asking.cancel()
            self._asking = None
