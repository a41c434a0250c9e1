"""In which order the messages of several logs are taken.

Logs have no order among each other, so whoever reads them makes one. What was answered before comes as it was answered
then. After that control events go first, and the others take turns. If reading ends with what was there when opening,
they go by their times instead: that order can be had again.
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from speciate.errors import SourceError, StateMismatchError
from speciate_plugins.kafka.positions import Log
from speciate_plugins.kafka.remedies import START_OVER
from speciate_plugins.kafka.seating import TaskLogs

Held = Mapping[Log, deque[Any]]
"""The messages of each log that are at hand."""


class Expectations:
    """The messages that were answered before, in that order."""

    def __init__(self) -> None:
        self._wanted: deque[tuple[Log, int]] = deque()

    def __bool__(self) -> bool:
        return bool(self._wanted)

    @property
    def next(self) -> tuple[Log, int]:
        """The log and offset of the next one."""
        return self._wanted[0]

    def add(self, wanted: Iterable[tuple[Log, int]]) -> None:
        """More of them."""
        self._wanted.extend(wanted)

    def take(self, held: Held, limit: int) -> list[Any]:
        """As many as are wanted and at hand."""
        taken: list[Any] = []
        wanted = self._wanted
        while wanted and len(taken) < limit:
            log, offset = wanted[0]
            if not held[log]:
                break
            if held[log][0].offset != offset:
                raise _not_as_expected(log, offset, held[log][0].offset)
            taken.append(held[log].popleft())
            wanted.popleft()
        return taken


def _not_as_expected(log: Log, wanted: int, found: int) -> SourceError | StateMismatchError:
    if found > wanted:
        return SourceError(
            f"{log}: offset {wanted} was answered before and is needed again, but the next that is kept is {found}: it "
            f"expired or was compacted; restore the topic, or {START_OVER}"
        )
    return StateMismatchError(
        f"{log}: offset {found} was not answered, but {wanted} behind it was: the answers do not belong to this "
        f"input; restore [source] and [sink], or {START_OVER}"
    )


class Turns:
    """Control events first; then one message of each log in turn, among those that have any."""

    def __init__(self, logs: TaskLogs, reached: Callable[[Log], bool]) -> None:
        self._logs = logs
        self._reached = reached
        self._last = -1

    def take(self, held: Held, limit: int) -> list[Any]:
        """What is next of what is at hand."""
        control = self._logs.control
        if control is None:
            return self._data(held, limit)
        taken = _pop(held[control], limit)
        # Control events that were there when opening come before all else, even if they arrive later.
        return taken + self._data(held, limit - len(taken)) if self._reached(control) else taken

    def _data(self, held: Held, limit: int) -> list[Any]:
        data = self._logs.data
        if len(data) == 1:
            return _pop(held[data[0]], limit)
        order = [*range(self._last + 1, len(data)), *range(self._last + 1)]
        ready = deque(number for number in order if held[data[number]])
        taken: list[Any] = []
        while ready and len(taken) < limit:
            self._last = ready.popleft()
            taken.append(held[data[self._last]].popleft())
            if held[data[self._last]]:
                ready.append(self._last)
        return taken


class ByTime(Turns):
    """Control events first; then the oldest message of all logs, which takes the next one of each to be known."""

    def _data(self, held: Held, limit: int) -> list[Any]:
        data: Sequence[Log] = self._logs.data
        taken: list[Any] = []
        while len(taken) < limit and all(held[log] or self._reached(log) for log in data):
            ready = [log for log in data if held[log]]
            if not ready:
                break
            oldest = min(ready, key=lambda log: (held[log][0].timestamp, log))
            taken.append(held[oldest].popleft())
        return taken


def _pop(messages: deque[Any], limit: int) -> list[Any]:
    return [messages.popleft() for _ in range(min(limit, len(messages)))]
