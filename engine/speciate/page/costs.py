"""What something has cost: time taken bit by bit, also by a coroutine, whose waiting is not counted."""

import time
from collections.abc import Callable, Coroutine, Generator
from functools import partial
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Cost:
    """Adds up what is done within it; by default the processor's time of the thread that does it."""

    def __init__(self, clock: Callable[[], float] = time.thread_time) -> None:
        self._clock = clock
        self._began = 0.0
        self.seconds = 0.0
        """So far."""

    def __enter__(self) -> None:
        self._began = self._clock()

    def __exit__(self, *_: object) -> None:
        self.seconds += self._clock() - self._began

    def take(self) -> float:
        """What it comes to; from here on it is counted anew."""
        seconds, self.seconds = self.seconds, 0.0
        return seconds


class Counted(Generic[T]):
    """A coroutine to be awaited, each step of which is added to a cost."""

    def __init__(self, coroutine: Coroutine[Any, Any, T], cost: Cost) -> None:
        self._coroutine = coroutine
        self._cost = cost

    def __await__(self) -> Generator[Any, Any, T]:
        step: Callable[[], Any] = partial(self._coroutine.send, None)
        while True:
            try:
                with self._cost:
                    awaited = step()
            except StopIteration as done:
                found: T = done.value
                return found
            try:
                step = partial(self._coroutine.send, (yield awaited))
            except BaseException as error:  # noqa: BLE001  # it is the coroutine's to deal with
                step = partial(self._coroutine.throw, error)
