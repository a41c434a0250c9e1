"""Answers that are kept for a moment: a hundred who ask the same cost what one does."""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

T = TypeVar("T")


class Keeping(Generic[T]):
    """The last answers by question, each made once however many ask meanwhile; bounded in number and age."""

    def __init__(self, seconds: float, most: int = 64) -> None:
        self._seconds = seconds
        self._most = most
        self._made: OrderedDict[Hashable, tuple[float, asyncio.Future[T]]] = OrderedDict()

    async def get(self, key: Hashable, make: Callable[[], Awaitable[T]]) -> T:
        """The answer, which is as old as `seconds` at most; an error is told to all who wait for it and not kept."""
        now = asyncio.get_running_loop().time()
        when, answer = self._made.get(key, (0.0, None))
        if answer is None or (answer.done() and (now - when > self._seconds or _failed(answer))):
            answer = asyncio.ensure_future(make())
            self._made[key] = (now, answer)
            while len(self._made) > self._most:
                self._made.popitem(last=False)
        self._made.move_to_end(key)
        # Not cut off: others may be waiting for the same answer.
        return await asyncio.shield(answer)


def _failed(answer: "asyncio.Future[T]") -> bool:
    return answer.cancelled() or answer.exception() is not None
