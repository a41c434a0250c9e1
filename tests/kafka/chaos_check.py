"""Checks what the workers left behind in Kafka, with code of its own: a plain consumer that sees what is committed.

Every input is answered once and in order, every rejection has its dead letter, every birth its copy, and answers and
state are those of a fold that nothing ever disturbed.
"""

import asyncio
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from aiokafka.errors import (
    GroupCoordinatorNotAvailableError,
    GroupLoadInProgressError,
    NotCoordinatorForGroupError,
)
from aiokafka.structs import ConsumerRecord
from broker import Broker, _admin
from chaos_stream import ANSWERS, BIRTHS, CONTROL, DEAD_LETTERS, EVENTS, GROUP

from speciate.config import Resolved, load, resolve
from speciate.household import Household
from speciate.outcomes import Outcome
from speciate.plugins import installed
from speciate.sealed import digest
from speciate.snapshot import Snapshot, whole_snapshots
from speciate.stages import Record, Seat
from speciate.task import Task
from speciate_plugins.kafka.records import make_record
from speciate_schemas import Answer, Assignment, ControlApplied, DeadLetter, Rejection, Tally, decode, encode

BATCH = 256
OFFSETS_SECONDS = 10.0
"""How long the offsets of a group may take to show what was just committed."""

Logs = dict[str, dict[int, list[ConsumerRecord]]]
"""All records of all topics, by topic and partition."""


class Found(NamedTuple):
    """What was found of one partition, all of it in order."""

    tally: Tally
    digest: str
    """Of the state that the answers lead to."""


def check_everything(broker: Broker, config: Path, partitions: int) -> dict[int, Found]:
    """Check every partition; raises AssertionError at the first thing that is wrong."""
    logs = {name: broker.read_all(name) for name in (EVENTS, CONTROL, ANSWERS, DEAD_LETTERS, BIRTHS)}
    for number in range(partitions):
        answers = check_answers(logs, number)
        check_dead_letters(logs, number, answers)
        check_births(logs, number, answers)
    asyncio.run(_check_offsets(broker, logs))
    return asyncio.run(_check_folds(config, logs, partitions))


def check_answers(logs: Logs, number: int) -> list[Answer]:
    """Every input of the partition is answered exactly once, in its order, and numbered without a gap."""
    answers = [decode(record.value, Answer, "json") for record in logs[ANSWERS][number]]
    where = f"{ANSWERS}/{number}"
    asked = {_origin(record) for name in (EVENTS, CONTROL) for record in logs[name][number]}
    counted = Counter(answer.origin for answer in answers)
    twice = [origin for origin, count in counted.items() if count > 1]
    assert not twice, f"{where}: {len(twice)} inputs are answered more than once, such as {twice[:3]}"
    lost = sorted(asked - counted.keys())
    assert not lost, f"{where}: {len(lost)} of {len(asked)} inputs are not answered, such as {lost[:3]}"
    strange = sorted(counted.keys() - asked)
    assert not strange, f"{where}: {len(strange)} answers have no input, such as {strange[:3]}"
    for place, answer in enumerate(answers):
        assert answer.sequence == place, f"{where}: answer {place} has the number {answer.sequence}"
    for name in (EVENTS, CONTROL):
        offsets = [_offset(answer.origin) for answer in answers if answer.origin.startswith(f"{name}/{number}@")]
        disorder = next(((former, latter) for former, latter in pairwise(offsets) if former >= latter), None)
        assert disorder is None, f"{where}: {name}/{number}@{disorder} were answered in this order"
    return answers


def check_dead_letters(logs: Logs, number: int, answers: Sequence[Answer]) -> None:
    """One dead letter for each rejection, in the same order, with the bytes of the input."""
    inputs = {_origin(record): record.value or b"" for name in (EVENTS, CONTROL) for record in logs[name][number]}
    letters = [decode(record.value, DeadLetter) for record in logs[DEAD_LETTERS][number]]
    rejected = [answer for answer in answers if isinstance(answer, Rejection)]
    where = f"{DEAD_LETTERS}/{number}"
    assert len(letters) == len(rejected), f"{where}: {len(letters)} dead letters for {len(rejected)} rejections"
    for letter, rejection in zip(letters, rejected, strict=True):
        assert _gist(letter) == _gist(rejection), f"{where}: {_gist(letter)} for {_gist(rejection)}"
        assert bytes(letter.original) == inputs[letter.origin], f"{where}: {letter.origin} has other bytes"


def check_births(logs: Logs, number: int, answers: Sequence[Answer]) -> None:
    """One copy of each answer that founded a category, in the same order."""
    records = zip(logs[ANSWERS][number], answers, strict=True)
    born = [record.value for record, answer in records if isinstance(answer, Assignment) and answer.birth]
    copies = [record.value for record in logs[BIRTHS][number]]
    assert copies == born, f"{BIRTHS}/{number}: {len(copies)} records for {len(born)} births, or in another order"


async def _check_offsets(broker: Broker, logs: Logs) -> None:
    """The group's offsets, which only lag monitors read, have come to the end as well."""
    ends = {(name, number): len(records) for name in (EVENTS, CONTROL) for number, records in logs[name].items()}
    found: dict[tuple[str, int], int] = {}
    async with _admin(broker.servers) as admin:
        for _ in range(int(OFFSETS_SECONDS)):
            # A coordinator that has just been found again may not know the group yet.
            with suppress(GroupCoordinatorNotAvailableError, NotCoordinatorForGroupError, GroupLoadInProgressError):
                offsets = await admin.list_consumer_group_offsets(GROUP)
                found = {tuple(place): known.offset for place, known in offsets.items()}
            if found == ends:
                return
            await asyncio.sleep(1.0)
    wrong = {place: (found.get(place), end) for place, end in ends.items() if found.get(place) != end}
    raise AssertionError(f"offsets of group {GROUP!r}, and where they should be: {wrong}")


async def _check_folds(config: Path, logs: Logs, partitions: int) -> dict[int, Found]:
    plugins = installed()
    resolved = resolve(load(config, []), plugins)
    home = Household(resolved, plugins)
    return {number: await _check_fold(resolved, home, logs, Seat(number, partitions)) for number in range(partitions)}


async def _check_fold(resolved: Resolved, home: Household, logs: Logs, seat: Seat) -> Found:
    """Decide everything again, here and undisturbed: the same bytes, and the state of the last snapshot."""
    number = seat.number
    task = await home.new_task(lambda sequence: f"{DEAD_LETTERS}/{number}#{sequence}")
    for records, expected in _batches(logs, number):
        for outcome, record in zip(task.fold(records), expected, strict=True):
            _check_outcome(outcome, record)
    state = digest(encode(task.state()))
    snapshot = await asyncio.to_thread(_newest_snapshot, resolved, seat)
    _check_snapshot(snapshot, task, state, number)
    ends = {name: len(logs[name][number]) for name in (EVENTS, CONTROL)}
    source = tuple(part for name in sorted(ends) for part in (name, number, ends[name]))
    assert snapshot.commit.source == source, f"task {number}: saved at {snapshot.commit.source}, not at {source}"
    return Found(task.tally, state)


def _batches(logs: Logs, number: int) -> Iterator[tuple[list[Record], list[ConsumerRecord]]]:
    """The inputs in the order in which they were answered, with the records of their answers."""
    inputs = {_origin(record): record for name in (EVENTS, CONTROL) for record in logs[name][number]}
    answers = logs[ANSWERS][number]
    for start in range(0, len(answers), BATCH):
        expected = answers[start : start + BATCH]
        origins = [decode(record.value, Answer, "json").origin for record in expected]
        records = [
            make_record(inputs[origin], "event", sequence=start + place, position=(), only_control=_is_control(origin))
            for place, origin in enumerate(origins)
        ]
        yield records, expected


def _check_outcome(outcome: Outcome, record: ConsumerRecord) -> None:
    answer = outcome.answer
    assert isinstance(answer, Assignment | Rejection | ControlApplied)
    value = encode(answer, "json")
    assert value == record.value, f"{_origin(record)} is {record.value!r}, but deciding again gives {value!r}"
    assert (answer.stream or "").encode() == (record.key or b""), f"{_origin(record)} has the key {record.key!r}"


def _newest_snapshot(resolved: Resolved, seat: Seat) -> Snapshot:
    store = resolved["store"].create(seat)
    try:
        snapshot = next(whole_snapshots(store), None)
    finally:
        store.close()
    assert snapshot is not None, f"no snapshot is left of task {seat.number}"
    return snapshot


def _check_snapshot(snapshot: Snapshot, task: Task, state: str, number: int) -> None:
    saved = snapshot.commit.sequence
    assert saved == task.sequence, f"task {number}: the last snapshot is of {saved}, not of {task.sequence} inputs"
    assert snapshot.commit.tally == task.tally, f"task {number}: saved {snapshot.commit.tally}, folded {task.tally}"
    found = snapshot.manifest.state_sha256
    assert found == state, f"task {number}: the saved state is {found}, that of the undisturbed fold {state}"


def _gist(item: Rejection | DeadLetter) -> tuple[object, ...]:
    return item.sequence, item.origin, item.id, item.stream, item.stage, item.error, item.message


def _origin(record: ConsumerRecord) -> str:
    return f"{record.topic}/{record.partition}@{record.offset}"


def _offset(origin: str) -> int:
    return int(origin.rpartition("@")[2])


def _is_control(origin: str) -> bool:
    return origin.startswith(f"{CONTROL}/")
