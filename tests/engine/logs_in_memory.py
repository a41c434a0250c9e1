"""A log service in memory: partitioned logs, writers fenced by epochs, transactions, a group to steer, and faults.

Each task reads two logs, events and control events, which it merges as chance has it: two who read them do not agree on
the order unless they are told. So what was answered, in which order, is in the answers alone, as with a real log.
"""

import asyncio
import random
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec
from worlds import PowerError, make_tree

from speciate.config import Chosen, Resolved, parse, resolve
from speciate.errors import AwayError, DecodeError, FencedError, ForwardedError, StateDamagedError
from speciate.hooks import Provider
from speciate.household import Household
from speciate.plugins import installed
from speciate.snapshot import parse as parse_snapshot
from speciate.stages import Ending, Output, Progress, Record, Seat
from speciate.worker import Worker
from speciate_schemas import Answer, Commit, DeadLetter, Event, Message, Position, Strict, decode, encode

PIECE = 7
"""Answers read back at once."""
LOOK_SECONDS = 0.001
"""How often whoever waits for more looks again."""
LOGS = ("events", "controls")


@dataclass
class Partition:
    """Everything the service holds of one task."""

    events: list[bytes] = field(default_factory=list)
    controls: list[bytes] = field(default_factory=list)
    epoch: int = 0
    answers: list[bytes] = field(default_factory=list)
    expired: int = 0
    """So many of the first answers are gone."""
    dead_letters: list[bytes] = field(default_factory=list)
    mark: tuple[int, Position] | None = None
    """What the last committed answer says of the input."""
    snapshots: dict[int, bytes] = field(default_factory=dict)

    @property
    def inputs(self) -> int:
        return len(self.events) + len(self.controls)

    @property
    def done(self) -> bool:
        return (self.mark[0] if self.mark else 0) == self.inputs


Fault = Callable[[int, str], str | None]
"""What goes wrong with a task's operation: "away", "behind" (away, but it was done), "fence", "slow"; None: nothing."""


class Cluster:
    """The service. Its clients may be cut off one by one."""

    def __init__(self, *partitions: Sequence[Event | bytes], controls: Sequence[Sequence[Event]] = (), seed: int = 0):
        self.partitions = [
            Partition(
                events=[_bytes(event) for event in events],
                controls=[_bytes(event) for event in (controls[number] if number < len(controls) else ())],
            )
            for number, events in enumerate(partitions)
        ]
        self.follow = True
        """Whether sources wait for more at their end."""
        self.chance = random.Random(seed)
        self.fault: Fault = lambda number, operation: None
        self.operations: list[tuple[int, str]] = []
        self.lock = threading.Lock()
        self.members: list[MemoryShare] = []

    @property
    def done(self) -> bool:
        """Whether every input is answered."""
        return all(partition.done for partition in self.partitions)

    def answers(self, number: int) -> list[Answer]:
        return [decode(data, Answer) for data in self.partitions[number].answers]

    def dead_letters(self, number: int) -> list[DeadLetter]:
        return [decode(data, DeadLetter) for data in self.partitions[number].dead_letters]

    def rebalance(self, seed: int | None = None) -> None:
        """Give every task to one of the members; None: to each in turn."""
        living = [member for member in self.members if member.joined]
        if not living:
            return
        chance = random.Random(seed)
        shares: dict[MemoryShare, set[int]] = {member: set() for member in living}
        for number in range(len(self.partitions)):
            owner = living[number % len(living)] if seed is None else chance.choice(living)
            shares[owner].add(number)
        # Nobody hears of it at the same time as the others.
        for member in chance.sample(living, len(living)):
            member.give(frozenset(shares[member]))


def _bytes(event: Event | bytes) -> bytes:
    return event if isinstance(event, bytes) else encode(event)


class Client:
    """One process's access to the service: once it is cut off, nothing that the process does has an effect."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.dead = False

    def check(self) -> None:
        if self.dead:
            raise PowerError("this process is no more")

    async def pass_by(self, number: int, operation: str) -> bool:
        """A moment in which anything may happen; True if the operation is to be done and then reported as failed."""
        self.check()
        self.cluster.operations.append((number, operation))
        fault = self.cluster.fault(number, operation)
        await asyncio.sleep(0.003 if fault == "slow" else 0)
        self.check()
        if fault == "away":
            raise AwayError(f"no answer to {operation} of {number}")
        if fault == "fence":
            self.cluster.partitions[number].epoch += 1
        return fault == "behind"


def make_record(
    partition: Partition, number: int, log: str, offset: int, *, sequence: int, position: Position
) -> Record:
    data = getattr(partition, log)[offset]
    event, error = None, None
    try:
        found = decode(data, Message)
        if isinstance(found, DeadLetter):
            error = ForwardedError.of(found)
        else:
            event = found
    except msgspec.DecodeError as problem:
        error = DecodeError(str(problem))
    origin = f"{log}/{number}@{offset}"
    return Record(
        sequence=sequence, position=position, origin=origin, nbytes=len(data), event=event, original=data, error=error
    )


class MemorySource:
    """Merges the two logs of a task, as expected or as it comes."""

    replayable = True

    def __init__(self, client: Client, seat: Seat) -> None:
        self.waited = 0.0
        self._client = client
        self._number = seat.number
        self._partition = client.cluster.partitions[seat.number]
        self._places = dict.fromkeys(LOGS, 0)
        self._sequence = 0
        self._expected: deque[str] = deque()
        self._stopping = False
        self._opened = False

    async def open(self, position: Position | None, sequence: int) -> Position:
        assert not self._opened, "each attempt has stages of its own"
        self._opened = True
        await self._client.pass_by(self._number, "open")
        self._places = dict(zip(LOGS, position or (0, 0), strict=True))
        self._sequence = sequence
        assert sum(self._places.values()) == sequence
        return self._position

    def expect(self, origins: Sequence[str]) -> None:
        self._expected.extend(origins)

    async def read(self, max_events: int) -> Sequence[Record]:
        await self._client.pass_by(self._number, "read")
        while not self._stopping:
            count = self._client.cluster.chance.randint(1, max_events)
            records = [one for one in (self._next() for _ in range(count)) if one is not None]
            if records or not self._client.cluster.follow:
                return records
            await asyncio.sleep(LOOK_SECONDS)
            self._client.check()
        return ()

    def _next(self) -> Record | None:
        if self._expected:
            origin = self._expected.popleft()
            log = origin.partition("/")[0]
            assert origin == f"{log}/{self._number}@{self._places[log]}", (
                "answered in another order than that of its log"
            )
        else:
            left = [log for log in LOGS if self._places[log] < len(getattr(self._partition, log))]
            if not left:
                return None
            log = self._client.cluster.chance.choice(left)
        offset = self._places[log]
        self._places[log] += 1
        record = make_record(
            self._partition, self._number, log, offset, sequence=self._sequence, position=self._position
        )
        self._sequence += 1
        return record

    @property
    def _position(self) -> Position:
        return tuple(self._places.values())

    def stop(self) -> None:
        self._stopping = True

    def progress(self) -> Progress:
        return Progress(sum(self._places.values()), self._partition.inputs, "records")

    async def close(self) -> None:
        self._stopping = True


class Transaction:
    """What the sinks of a seat have written and not committed."""

    def __init__(self) -> None:
        self.epoch = -1
        self.pending: dict[str, list[bytes]] = {"answers": [], "dead_letters": []}


class MemorySink:
    """A transactional sink: the answers', or the dead letters' of the same seat."""

    durable = transactional = True

    def __init__(self, client: Client, seat: Seat, log: str) -> None:
        self._client = client
        self._number = seat.number
        self._partition = client.cluster.partitions[seat.number]
        self._log = log
        self._transaction: Transaction = seat.common.setdefault("transaction", Transaction())

    async def open(self, position: Position | None, *, fresh: bool = False) -> None:
        assert position is None
        assert not fresh
        await self._client.pass_by(self._number, "open dead letters")

    async def recover(self) -> Ending:
        behind = await self._client.pass_by(self._number, "recover")
        self._partition.epoch += 1
        self._transaction.epoch = self._partition.epoch
        if behind:
            raise AwayError("recovered, perhaps")
        return self._ending()

    async def peek(self) -> Ending:
        await self._client.pass_by(self._number, "peek")
        return self._ending()

    def ended_at(self, position: Position) -> bool:
        return position == (len(self._partition.answers),) and self._partition.expired == len(self._partition.answers)

    def _ending(self) -> Ending:
        first, end = self._partition.expired, len(self._partition.answers)
        # The mark is on the last answer, and gone with it.
        sequence, source = (self._partition.mark or (0, None)) if first < end else (0, None)
        return Ending(sequence, source, (first,), (end,), expired=0 < first == end)

    async def write(self, items: Sequence[Output]) -> None:
        await self._client.pass_by(self._number, f"write {self._log}")
        self._check_epoch()
        self._transaction.pending[self._log] += [encode(item) for item in items]

    async def commit(self, sequence: int, source: Position | None) -> Position:
        behind = await self._client.pass_by(self._number, "commit")
        self._check_epoch()
        pending = self._transaction.pending
        if pending["answers"]:
            assert source is not None
            self._partition.mark = (sequence, source)
        self._partition.answers += pending["answers"]
        self._partition.dead_letters += pending["dead_letters"]
        self._transaction.pending = {"answers": [], "dead_letters": []}
        if behind:
            raise AwayError("committed, perhaps")
        return (len(self._partition.answers),)

    def _check_epoch(self) -> None:
        if self._transaction.epoch != self._partition.epoch:
            raise FencedError(f"epoch {self._transaction.epoch} of {self._number}, now {self._partition.epoch}")

    async def flush(self) -> Position:
        raise AssertionError("a transactional sink is committed")

    async def read_back(self, start: Position, end: Position) -> AsyncIterator[Sequence[Answer]]:
        place, stop = max(start[0], self._partition.expired), end[0]
        while place < stop:
            await self._client.pass_by(self._number, "read back")
            piece = self._partition.answers[place : min(place + PIECE, stop)]
            place += len(piece)
            yield [decode(data, Answer) for data in piece]

    async def follow(self, start: Position) -> AsyncIterator[Sequence[Answer]]:
        place = start[0]
        while True:
            await self._client.pass_by(self._number, "follow")
            piece = self._partition.answers[place : place + PIECE]
            place += len(piece)
            if piece:
                yield [decode(data, Answer) for data in piece]
            else:
                await asyncio.sleep(LOOK_SECONDS)

    def describe(self) -> str:
        return f"{self._log}/{self._number}"

    def locate(self, sequence: int) -> str:
        return f"{self.describe()}#{sequence}"

    async def close(self) -> None:
        self._transaction.pending = {"answers": [], "dead_letters": []}


class MemoryStore:
    """Snapshots; whoever reads needs no lock."""

    def __init__(self, client: Client, seat: Seat) -> None:
        self._client = client
        self._seat = seat

    @property
    def _kept(self) -> dict[int, bytes]:
        self._client.check()
        return self._client.cluster.partitions[self._seat.number].snapshots

    def open(self, *, fresh: bool) -> None:
        assert not fresh

    def load_commit(self) -> Commit | None:
        raise AssertionError("the output is the truth")

    def save_commit(self, commit: Commit) -> None:
        raise AssertionError("the output is the truth")

    def snapshots(self) -> list[int]:
        with self._client.cluster.lock:
            return sorted(self._kept)

    def load_snapshot(self, sequence: int) -> bytes:
        with self._client.cluster.lock:
            if sequence not in self._kept:
                raise StateDamagedError(f"snapshot {sequence} is gone")
            return self._kept[sequence]

    def save_snapshot(self, sequence: int, data: bytes) -> None:
        with self._client.cluster.lock:
            self._kept[sequence] = data

    def remove_snapshot(self, sequence: int) -> None:
        with self._client.cluster.lock:
            self._kept.pop(sequence, None)

    def describe(self) -> str:
        return f"state/{self._seat.number}"

    def close(self) -> None:
        """There is nothing to unlock."""


class MemoryShare:
    """The share of one member; the test says what it is."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.joined = self.left = False
        self.ready: frozenset[int] = frozenset()
        self.rejoined = 0
        self.share: frozenset[int] | None = None
        self._news: asyncio.Queue[frozenset[int] | Exception] = asyncio.Queue()

    def give(self, share: frozenset[int] | Exception) -> None:
        """Tell the member its share, or what makes it impossible to go on."""
        if not isinstance(share, Exception):
            self.share = share
        self._news.put_nowait(share)

    async def join(self) -> int:
        self.client.check()
        self.joined = True
        self.client.cluster.members.append(self)
        return len(self.client.cluster.partitions)

    async def changed(self) -> frozenset[int]:
        news = await self._news.get()
        if isinstance(news, Exception):
            raise news
        return news

    def keep_ready(self, numbers: frozenset[int]) -> None:
        self.ready = numbers

    async def rejoin(self) -> None:
        self.rejoined += 1
        if self.share is not None:
            self.give(self.share)

    async def leave(self) -> None:
        self.joined, self.left = False, True


class Nothing(Strict, frozen=True):
    """Options of plugins that have none."""


def resolved_on(client: Client, folder: Path, **changes: dict[str, Any]) -> Resolved:
    """A configuration whose inputs, outputs and state are the service's; what `changes` names is merged as ever."""
    resolution = resolve(parse(make_tree(folder, **changes)), installed())
    makers = {
        "source": lambda _, seat: MemorySource(client, seat),
        "sink": lambda _, seat: MemorySink(client, seat, "answers"),
        "dead_letters": lambda _, seat: MemorySink(client, seat, "dead_letters"),
        "store": lambda _, seat: MemoryStore(client, seat),
    }
    for name, create_at in makers.items():
        if name in resolution.sections:
            provider = Provider(options=Nothing, create=lambda _: None, create_at=create_at)
            chosen = resolution.sections[name]
            resolution.sections[name] = Chosen(chosen.stage, "memory", "1", provider, Nothing())
    return resolution


def headless(resolution: Resolved) -> Resolved:
    """The same without a head and its state."""
    gone = dict.fromkeys(("support", "density", "policy", "dead_letters", "store"))
    kept = {name: chosen for name, chosen in resolution.sections.items() if name not in gone}
    return replace(resolution, config=msgspec.structs.replace(resolution.config, **gone), sections=kept)


class Process:
    """A worker that can be killed: what it does afterwards has no effect."""

    def __init__(
        self, cluster: Cluster, folder: Path, *, without_head: bool = False, **changes: dict[str, Any]
    ) -> None:
        self.client = Client(cluster)
        resolution = resolved_on(self.client, folder, **changes)
        self.household = Household(headless(resolution) if without_head else resolution, installed())
        self.share = MemoryShare(self.client)
        self.worker = Worker(self.household, self.share)
        self.running = asyncio.create_task(self.worker.run())

    async def kill(self) -> None:
        """As by a power cut: nothing is committed, told or left."""
        self.client.dead = True
        self.share.joined = False
        self.running.cancel()
        await asyncio.gather(self.running, return_exceptions=True)

    async def stop(self) -> None:
        self.worker.stop()
        async with asyncio.timeout(20):
            await self.running


async def until(condition: Callable[[], bool], *processes: Process) -> None:
    """Wait for what the processes bring about; one that ends with an error meanwhile is the test's."""
    async with asyncio.timeout(20):
        while not condition():
            for process in processes:
                if process.running.done():
                    process.running.result()
            await asyncio.sleep(LOOK_SECONDS)


async def check_exactly_once(cluster: Cluster, folder: Path, **changes: dict[str, Any]) -> None:
    """Every input is answered once, as by a task that was never disturbed and had them in the order of the answers."""
    home = Household(resolved_on(Client(cluster), folder, **changes), installed())
    for number, partition in enumerate(cluster.partitions):
        answers = cluster.answers(number)
        assert [answer.sequence for answer in answers] == list(range(partition.inputs))
        places = dict.fromkeys(LOGS, 0)
        records = []
        for answer in answers:
            log = answer.origin.partition("/")[0]
            assert answer.origin == f"{log}/{number}@{places[log]}"
            places[log] += 1
            numbered = {"sequence": answer.sequence, "position": tuple(places.values())}
            records.append(make_record(partition, number, log, places[log] - 1, **numbered))
        task = await home.new_task(lambda sequence, number=number: f"dead_letters/{number}#{sequence}")
        outcomes = task.fold(records)
        assert partition.answers == [encode(outcome.answer) for outcome in outcomes]
        letters = [outcome.dead_letter for outcome in outcomes if outcome.dead_letter is not None]
        assert partition.dead_letters == [encode(letter) for letter in letters]
        if partition.snapshots:
            newest = max(partition.snapshots)
            assert newest <= partition.inputs
            if newest == partition.inputs:
                snapshot = parse_snapshot(partition.snapshots[newest])
                assert encode(snapshot.state) == encode(task.state())
                assert snapshot.commit.tally == task.tally
