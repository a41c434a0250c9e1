"""The parts of a refold that need no broker: what is answered, whose a record is, in which order, and the command."""

from collections import deque
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka.partitioner import DefaultPartitioner
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from speciate.cli import group
from speciate_plugins.commands import refold as refold_command
from speciate_plugins.kafka import refolding
from speciate_plugins.kafka.answered import History, Survey, merge_marks
from speciate_plugins.kafka.dealing import Dealer
from speciate_plugins.kafka.logs import Span
from speciate_plugins.kafka.marks import Mark
from speciate_plugins.kafka.merging import by_time
from speciate_plugins.kafka.positions import Log
from speciate_plugins.kafka.refolding import Plan, Result
from speciate_plugins.kafka.seating import TaskLogs
from speciate_schemas import decode, encode


def message(log: Log, offset: int, *, key: bytes | None = None, timestamp: int = 0) -> Any:
    return SimpleNamespace(topic=log.topic, partition=log.partition, offset=offset, key=key, timestamp=timestamp)


A0, A1, A2, C0 = Log("a", 0), Log("a", 1), Log("a", 2), Log("c", 0)


def test_a_mark_of_before_is_still_read_and_nothing_new_costs_bytes():
    old = {"sequence": 3, "source": ("a", 0, 7), "tasks": 2}
    assert decode(encode(old), Mark) == Mark(3, ("a", 0, 7), 2)
    assert encode(Mark(3, ("a", 0, 7), 2)) == encode(old)


def test_a_log_is_answered_as_far_as_the_farthest_mark_says():
    marks = [Mark(5, ("a", 0, 5, "c", 0, 2), 2), Mark(9, ("a", 0, 4, "a", 1, 9), 1), Mark(0, None, 2)]
    history = merge_marks(marks, {"a": 2, "c": 2})
    assert history.answered == {A0: 5, A1: 9, C0: 2}
    assert history.moved == {A0: 0, A1: 0, C0: 0}


def test_what_was_written_for_another_number_of_partitions_is_known_from_then_on():
    before = merge_marks([Mark(5, ("a", 0, 5), 2), Mark(9, ("a", 1, 9), 2)], {"a": 4})
    assert before.moved == {A0: 5, A1: 9}
    # The same four partitions later, read by four tasks or by one.
    after = [Mark(7, ("a", 0, 20), 4, ("a", 0, 5)), Mark(11, ("a", 1, 30), 4, ("a", 1, 9)), Mark(3, ("a", 2, 3), 4)]
    assert merge_marks(after, {"a": 4}).moved == {A0: 5, A1: 9, A2: 0}
    together = Mark(60, ("a", 0, 20, "a", 1, 30, "a", 2, 3, "a", 3, 0), 1, ("a", 0, 5, "a", 1, 9))
    assert merge_marks([together], {"a": 4}).moved == {A0: 5, A1: 9, A2: 0, Log("a", 3): 0}
    # And once more enlarged.
    assert merge_marks(after, {"a": 8}).moved == {A0: 20, A1: 30, A2: 3}


def test_tasks_go_on_where_answers_end_and_new_logs_begin_at_their_oldest():
    logs = (TaskLogs((A0,), C0), TaskLogs((A1,), Log("c", 1)))
    spans = {A0: Span(2, 9), A1: Span(0, 4), C0: Span(0, 1), Log("c", 1): Span(3, 3)}
    gone = Log("gone", 0)
    found = Survey(logs, spans, History({A0: 7, C0: 1, gone: 5}, {A0: 4, C0: 0}), {})
    assert found.ends == {A0: 7, C0: 1}
    assert found.records == 5 + 1
    assert found.position(0) == ("a", 0, 7, "c", 0, 1)
    assert found.position(1) == ("a", 1, 0, "c", 1, 3)
    assert (found.moved(0), found.moved(1)) == (("a", 0, 4), ())
    # What lay before a first start at the end was no input, and is not learnt.
    latest = found._replace(begun={A0: 1, A1: 2})
    assert (latest.ends, latest.position(0)) == (found.ends, found.position(0))
    assert latest.position(1) == ("a", 1, 2, "c", 1, 3)


@given(st.binary(max_size=30), st.integers(2, 9))
def test_a_key_goes_where_kafkas_own_partitioner_sends_it(key: bytes, count: int):
    dealer = Dealer(count, control="c", moved={A1: 10, C0: 10})
    numbers = list(range(count))
    assert dealer.task_of(message(A1, 9, key=key)) == DefaultPartitioner()(key, numbers, numbers)
    # Written for as many partitions as there are now, by whatever rule.
    assert dealer.task_of(message(A1, 10, key=key)) == 1
    assert dealer.task_of(message(A0, 0, key=key)) == 0
    assert dealer.task_of(message(A1, 9)) == 1
    assert dealer.task_of(message(C0, 9, key=key)) == 0
    assert Dealer(1, control=None, moved={A1: 10}).task_of(message(A1, 9, key=key)) == 0


class Reader:
    """Gives the messages of logs in pieces, and some beyond the ends."""

    def __init__(self, logs: Mapping[Log, Sequence[Any]], piece: int) -> None:
        self._left = {log: deque(messages) for log, messages in logs.items()}
        self._piece = piece
        self.held: dict[Log, deque[Any]] = {log: deque() for log in logs}
        self.places = dict.fromkeys(logs, 0)

    async def fill(self, logs: Sequence[Log], _: float) -> dict[Log, int]:
        assert logs
        assert not any(self.held[log] for log in logs)
        for log in logs[: 1 + len(logs) // 2]:
            for _ in range(min(self._piece, len(self._left[log]))):
                self.held[log].append(self._left[log].popleft())
            # The last offset of a log is a marker's.
            self.places[log] = self.held[log][-1].offset + 1 if self._left[log] and self.held[log] else 1000
        return {}


@given(
    st.lists(st.lists(st.integers(0, 6), max_size=12), min_size=1, max_size=4), st.integers(1, 5), st.integers(0, 12)
)
async def test_logs_are_merged_by_time_and_each_keeps_its_order(times: list[list[int]], piece: int, end: int):
    logs = {
        Log("a", number): [message(Log("a", number), place, timestamp=time) for place, time in enumerate(found)]
        for number, found in enumerate(times)
    }
    reader: Any = Reader(logs, piece)
    merged = [one async for messages in by_time(reader, dict.fromkeys(logs, end)) for one in messages]
    heads = {log: [one for one in messages if one.offset < end] for log, messages in logs.items()}
    expected = []
    while any(heads.values()):
        oldest = min((log for log in heads if heads[log]), key=lambda log: (heads[log][0].timestamp, log))
        expected.append(heads[oldest].pop(0))
    assert merged == expected


class Fake:
    """Stands in for `Refold`."""

    ran = False

    def __init__(self, _resolved: Any, _plugins: Any, answers: str | None) -> None:
        assert answers == "old"

    async def plan(self) -> Plan:
        return Plan(2, "shared", 1234)

    async def run(self, show: Any) -> list[Result]:
        show(1, 1, "")
        Fake.ran = True
        return [Result(0, 1200, 4, 3, 2, 1, 1302)]


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> Any:
    """Calls `speciate refold` on a terminal, if so."""
    from speciate import config, logs

    monkeypatch.setattr(refolding, "Refold", Fake)
    monkeypatch.setattr(config, "load", lambda *_: None)
    monkeypatch.setattr(config, "resolve", lambda *_: None)
    monkeypatch.setattr(logs, "configure", lambda *_: None)
    monkeypatch.setattr(Fake, "ran", False)

    def call(*args: str, terminal: bool, typed: str = "") -> Any:
        monkeypatch.setattr(refold_command, "_on_terminal", lambda: terminal)
        return CliRunner().invoke(group, ["refold", str(tmp_path / "p.toml"), "--answers", "old", *args], input=typed)

    return call


def test_on_a_terminal_it_asks(command: Any):
    done = command(terminal=True, typed="n\n")
    assert (done.exit_code, Fake.ran) == (2, False)
    assert "learn about 1,234 records anew into 2 tasks (run.universe = 'shared')" in done.output
    assert "nothing was changed: answer y, or give --yes" in done.output
    assert command(terminal=True).exit_code == 2
    done = command(terminal=True, typed="y\n")
    assert (done.exit_code, Fake.ran) == (0, True)
    assert "1,200" in done.stdout


@pytest.mark.parametrize("args", [("--yes", "--json"), ("--json",)])
def test_who_said_yes_or_has_no_terminal_is_not_asked(command: Any, args: tuple[str, ...]):
    done = command(*args, terminal="--yes" in args)
    assert (done.exit_code, Fake.ran) == (0, True)
    assert '"records": 1200' in done.stdout
