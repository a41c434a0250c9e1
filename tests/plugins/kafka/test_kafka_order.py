"""In which order the messages of several logs are taken."""

from collections import deque
from typing import NamedTuple

import pytest

from speciate.errors import SourceError, StateMismatchError
from speciate_plugins.kafka.order import ByTime, Expectations, Turns
from speciate_plugins.kafka.positions import Log
from speciate_plugins.kafka.seating import TaskLogs

A, B, C, CONTROL = Log("a", 0), Log("b", 0), Log("c", 0), Log("control", 0)


class Message(NamedTuple):
    name: str
    offset: int
    timestamp: int


def messages(log: Log, *times: int) -> deque[Message]:
    return deque(Message(f"{log.topic}{offset}", offset, time) for offset, time in enumerate(times))


def names(taken: list[Message]) -> list[str]:
    return [message.name for message in taken]


def test_logs_take_turns_over_several_takes() -> None:
    held = {A: messages(A, *range(9)), B: messages(B, *range(9)), C: messages(C, 0)}
    turns = Turns(TaskLogs((A, B, C), None), lambda _: False)
    assert names(turns.take(held, 4)) == ["a0", "b0", "c0", "a1"]
    assert names(turns.take(held, 1)) == ["b1"]
    assert names(turns.take(held, 3)) == ["a2", "b2", "a3"]
    held[B].clear()
    assert names(turns.take(held, 100)) == ["a4", "a5", "a6", "a7", "a8"]
    assert turns.take(held, 100) == []


def test_control_goes_first_and_is_waited_for() -> None:
    reached: set[Log] = set()
    held = {A: messages(A, 0, 0), CONTROL: messages(CONTROL, 0, 0, 0)}
    turns = Turns(TaskLogs((A,), CONTROL), reached.__contains__)
    assert names(turns.take(held, 2)) == ["control0", "control1"]
    assert names(turns.take(held, 2)) == ["control2"]
    assert turns.take(held, 2) == []
    reached.add(CONTROL)
    assert names(turns.take(held, 1)) == ["a0"]
    held[CONTROL].extend(messages(CONTROL, 5))
    assert names(turns.take(held, 9)) == ["control0", "a1"]


@pytest.mark.parametrize("size", [1, 2, 3, 100])
def test_by_time_whatever_the_portions(size: int) -> None:
    held = {A: messages(A, 1, 4, 4, 9), B: messages(B, 2, 3, 4), C: messages(C, -1)}
    turns = ByTime(TaskLogs((A, B, C), None), lambda log: not held[log])
    taken: list[str] = []
    while portion := turns.take(held, size):
        assert len(portion) <= size
        taken += names(portion)
    assert taken == ["c0", "a0", "b0", "b1", "a1", "a2", "b2", "a3"]


def test_by_time_waits_until_the_next_of_each_log_is_known() -> None:
    held = {A: messages(A, 1, 5), B: messages(B, 2)}
    turns = ByTime(TaskLogs((A, B), None), lambda _: False)
    assert names(turns.take(held, 9)) == ["a0", "b0"]
    assert turns.take(held, 9) == []


def test_what_was_answered_comes_as_it_was_answered() -> None:
    held = {A: messages(A, 0, 0, 0), B: messages(B, 0)}
    expectations = Expectations()
    assert not expectations
    expectations.add([(A, 0), (B, 0), (B, 1), (A, 1)])
    assert names(expectations.take(held, 9)) == ["a0", "b0"]
    assert expectations.next == (B, 1)
    held[B].append(Message("b1", 1, 0))
    assert names(expectations.take(held, 1)) == ["b1"]
    assert names(expectations.take(held, 9)) == ["a1"]
    assert not expectations


def test_what_was_answered_is_not_there_or_something_else_is() -> None:
    expectations = Expectations()
    expectations.add([(A, 2)])
    with pytest.raises(StateMismatchError, match="a/0: offset 0 was not answered, but 2 behind it was"):
        expectations.take({A: messages(A, 0)}, 9)
    with pytest.raises(SourceError, match=r"a/0: offset 2 was answered .* the next that is kept is 7"):
        expectations.take({A: deque([Message("a7", 7, 0)])}, 9)
