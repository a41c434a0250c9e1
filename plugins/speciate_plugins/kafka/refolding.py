"""Makes the state anew from the input that is kept, for a changed universe or another number of partitions.

All workers are stopped. What is answered stays answered: the input is read again up to there, every record is learnt
by the task whose it is now, and the workers go on behind it. The steps, and what a crash after each of them leaves:

1. Every seat is seized, in the old topic of answers, too, if that is another one. Whoever still writes is shut out.
2. The input is learnt, in memory. Until here nothing was written: the workers could go on with the old configuration.
3. Every seat is closed: its own writer, which fails if somebody has taken the seat since, adds a notice whose mark
   says that the state is given up. The mark repeats what was answered, so that another refold finds it. A worker,
   whatever its configuration, reads the last mark before all else and refuses to start at a closed seat. At a seat
   without any mark it looks at the others' marks, and refuses as well. What is not closed yet is as it was before:
   refused to the new configuration, for its number of tasks or for its snapshots, and right for the old one.
4. The new snapshots are saved. They are of a record that is not answered, and the seats are closed: nobody looks at
   them. A second refold closes the seats again, numbers its own behind them, and removes what is numbered higher.
5. Every seat is opened, all in one transaction: a second notice in each, with a mark that names the place in the input
   and the number of tasks. So there is no instant at which some tasks could start and others could not. The writer is
   that of seat 0: another refold that has begun meanwhile has seized it first of all, and ours fails. It is waited for
   until readers see it: who starts the workers next must find the seats open.

A snapshot remembers the place between the two notices of its seat. Whoever folds answers from a place before that, as
there is no better snapshot left, comes upon the first notice and stops; the second is passed over. The notices take
two numbers among the answers, which stay dense. With `delivery = "at-least-once"` nobody is shut out, and the seats
are opened one by one: by then all snapshots are in place, so each is whole when it opens.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from speciate import snapshot
from speciate.commit import sealer
from speciate.config import Resolved
from speciate.errors import ConfigError, SpeciateError, StateMismatchError
from speciate.household import Household
from speciate.logs import get_logger
from speciate.parts import Parts
from speciate.plugins import Plugins
from speciate.snapshot import newest_whole
from speciate.stages import Seat, StateStore, Watch
from speciate.task import Task
from speciate.threads import in_thread
from speciate_plugins.kafka.answered import Survey, survey, tell_gaps
from speciate_plugins.kafka.backlog import count_tasks
from speciate_plugins.kafka.dealing import Dealer
from speciate_plugins.kafka.deciding import DECIDED_SECONDS, wait_until_decided
from speciate_plugins.kafka.inspection import inspect_topics
from speciate_plugins.kafka.marks import Mark
from speciate_plugins.kafka.options import KafkaSourceOptions
from speciate_plugins.kafka.positions import Log
from speciate_plugins.kafka.provisioning import check_unused
from speciate_plugins.kafka.relearning import Relearner
from speciate_plugins.sinks.kafka import KafkaSink, KafkaSinkOptions
from speciate_schemas import Commit, Position, Refolded

log = get_logger(__name__)


class Plan(NamedTuple):
    """What a refold is going to do."""

    tasks: int
    universe: str
    records: int
    """About how many will be learnt again."""


class Result(NamedTuple):
    """What became of one task."""

    task: int
    records: int
    known: int
    born: int
    rejected: int
    controls: int
    sequence: int
    """Number of the next answer."""


@dataclass
class _Seat:
    """The place of one task, and what is found there."""

    parts: Parts
    sink: KafkaSink
    mark: Mark | None = None

    @property
    def store(self) -> StateStore:
        return self.parts.needed_store

    @property
    def sequence(self) -> int:
        """Number of the next answer."""
        return 0 if self.mark is None else self.mark.sequence


class Refold:
    """Makes the state of one pipeline anew; `answers` is the topic they were in, if that is another one than now."""

    def __init__(self, resolved: Resolved, plugins: Plugins, answers: str | None = None) -> None:
        source, sink = resolved["source"].options, resolved["sink"].options
        if not (isinstance(source, KafkaSourceOptions) and isinstance(sink, KafkaSinkOptions)):
            raise ConfigError(
                f"[source] is {resolved['source'].name!r} and [sink] {resolved['sink'].name!r}: only what reads from "
                "and writes to 'kafka' can be refolded; others start over with `speciate run --fresh`"
            )
        if not resolved.decides:
            raise ConfigError("the configuration has no [density]: what does not decide has no state to make anew")
        self._resolved = resolved
        self._plugins = plugins
        self._source, self._sink = source, sink
        elsewhere = answers is not None and answers != sink.topic
        self._old = msgspec.structs.replace(sink, topic=answers) if elsewhere else None
        self._universe = resolved.config.run.universe

    async def plan(self) -> Plan:
        """Look what there is to do; changes nothing."""
        count = await self._tasks()
        async with AsyncExitStack() as stack:
            seats = [self._seat(number, count) for number in range(count)]
            for seat in seats:
                stack.callback(seat.store.close)
                seat.mark = await seat.sink.last_mark()
            found = await self._survey(seats, [await sink.last_mark() for sink in await self._olds()])
        tell_gaps(found, self._source)
        return Plan(count, self._universe, found.records)

    async def run(self, show: Watch) -> list[Result]:
        """Do it. May be repeated, whatever ended it before."""
        count = await self._tasks()
        async with self._seized(count) as (seats, old_marks):
            found = await self._survey(seats, old_marks)
            home = Household(self._resolved, self._plugins)
            try:
                tasks = [await home.new_task(seat.parts.locate) for seat in seats]
                dealer = Dealer(count, control=self._source.control, moved=found.history.moved)
                await Relearner(home, self._source, tasks, dealer).learn(found, show)
            finally:
                await in_thread(None, home.close)
            await self._check_stopped()
            await self._replace(seats, tasks, found)
            await self._wait_until_seen(count)
            return [_result(number, seat, task) for number, (seat, task) in enumerate(zip(seats, tasks, strict=True))]

    async def _tasks(self) -> int:
        await self._check_stopped()
        count = await count_tasks(self._source, self._universe == "shared")
        await self._check_partitions(count)
        return count

    async def _check_stopped(self) -> None:
        if self._source.group is not None:
            await check_unused(self._source, self._source.group)

    async def _check_partitions(self, count: int) -> None:
        sink = self._sink
        found = (await inspect_topics(sink, [sink.topic])).get(sink.topic)
        if found is not None and found.partitions != count:
            remedy = (
                f"give it {count}"
                if found.partitions < count
                else f"name a new topic with {count}, and the old one with --answers {sink.topic}; [dead_letters] and "
                "[store] need new topics, too"
            )
            raise ConfigError(
                f"[sink] topic {sink.topic!r} has {found.partitions} partitions, but there are {count} tasks now, one "
                f"for each partition: {remedy}"
            )

    def _seat(self, number: int, count: int) -> _Seat:
        parts = Parts.of(self._resolved, Seat(number, count))
        assert isinstance(parts.answers, KafkaSink)  # noqa: S101  # its options are
        return _Seat(parts, parts.answers)

    async def _olds(self) -> list[KafkaSink]:
        """The sinks of the old topic of answers, one for each partition."""
        if self._old is None:
            return []
        found = (await inspect_topics(self._old, [self._old.topic])).get(self._old.topic)
        if found is None:
            raise ConfigError(f"--answers {self._old.topic}: there is no such topic, or we may not see it")
        return [KafkaSink(self._old, Seat(number, found.partitions)) for number in range(found.partitions)]

    @asynccontextmanager
    async def _seized(self, count: int) -> AsyncIterator[tuple[list[_Seat], list[Mark | None]]]:
        """Every seat, ours alone, and the last marks in the old topic."""
        async with AsyncExitStack() as stack:
            seats = [self._seat(number, count) for number in range(count)]
            for seat in seats:
                # First of all: one that can be locked tells whether somebody is at it, and disturbs nobody.
                stack.callback(seat.store.close)
                await in_thread(None, seat.store.open, fresh=False)
                await seat.parts.needed_dead_letters.open(None)
            for seat in seats:
                stack.push_async_callback(seat.sink.close)
                seat.mark = await seat.sink.seize()
            old_marks = []
            for sink in await self._olds():
                stack.push_async_callback(sink.close)
                old_marks.append(await sink.seize())
            yield seats, old_marks

    async def _survey(self, seats: Sequence[_Seat], old_marks: Sequence[Mark | None]) -> Survey:
        marks = [mark for mark in (*(seat.mark for seat in seats), *old_marks) if mark is not None]
        begun = await in_thread(None, _begun, seats)
        if not marks and not begun:
            raise StateMismatchError(
                f"nothing is answered in {seats[0].sink.describe()} and no state is saved, so there is nothing to make "
                "anew: start the workers; if the answers were in another topic, name it with --answers"
            )
        return await survey(self._source, len(seats), marks, begun)

    async def _replace(self, seats: Sequence[_Seat], tasks: Sequence[Task], found: Survey) -> None:
        """Steps 3 to 5."""
        try:
            await self._replace_all(seats, tasks, found)
        except BaseException:
            log.warning("the old state is given up and the new one is not in place: run `speciate refold` again")
            raise

    async def _wait_until_seen(self, count: int) -> None:
        """It is done; but who starts the workers next must not be quicker than the news that the seats are open."""
        logs = [Log(self._sink.topic, number) for number in range(count)]
        try:
            hidden = ", ".join(map(str, await wait_until_decided(self._sink, logs, DECIDED_SECONDS)))
            reason = f"a transaction is still open in {hidden}" if hidden else ""
        except SpeciateError as error:
            reason = str(error)
        if reason:
            log.warning("the new state is in place, but workers may not see it yet", reason=reason)

    async def _replace_all(self, seats: Sequence[_Seat], tasks: Sequence[Task], found: Survey) -> None:
        closed: list[Position] = []
        for number, (seat, task) in enumerate(zip(seats, tasks, strict=True)):
            before = seat.mark or Mark(0, None, len(seats))
            notice = self._notice(seat, task, len(seats), done=False)
            seat.mark = msgspec.structs.replace(before, sequence=before.sequence + 1, refolding=True)
            closed.append(await seat.sink.announce({number: (notice, seat.mark)}))
        notices = {}
        for number, (seat, task) in enumerate(zip(seats, tasks, strict=True)):
            notice = self._notice(seat, task, len(seats), done=True)
            seat.mark = Mark(seat.sequence + 1, found.position(number), len(seats), found.moved(number))
            notices[number] = (notice, seat.mark)
            await in_thread(None, self._save, seat, task, closed[number])
        await seats[0].sink.announce(notices)

    def _notice(self, seat: _Seat, task: Task, count: int, *, done: bool) -> Refolded:
        return Refolded(
            sequence=seat.sequence,
            universe=self._universe,
            tasks=count,
            categories=task.universe.size,
            done=done,
        )

    def _save(self, seat: _Seat, task: Task, answers: Position) -> None:
        """Save the new state as of the mark that will open the seat."""
        assert seat.mark is not None  # noqa: S101  # just made
        sequence, store = seat.mark.sequence, seat.store
        commit = Commit(sequence=sequence, source=seat.mark.source, answers=answers, dead_letters=(), tally=task.tally)
        # What there is to see begins anew: its records are numbered by what was learnt, not by what is answered.
        state = msgspec.structs.replace(task.state(), sequence=sequence, chronicles={})
        store.save_snapshot(sequence, sealer(self._resolved.fold, self._resolved.versions)(commit, state))
        # Of another topic of answers, whose numbers have nothing to do with ours.
        for other in store.snapshots():
            if other > sequence:
                store.remove_snapshot(other)
        snapshot.prune(store, self._resolved.config.commit.snapshots_kept)


def _begun(seats: Sequence[_Seat]) -> list[Position]:
    """Where tasks began that have not answered anything: only their first snapshots know."""
    newest = [newest_whole(seat.store) for seat in seats if seat.mark is None]
    # One of a later record belongs to answers that are not in this topic.
    commits = [one.commit for one in newest if one is not None and not one.commit.sequence]
    return [commit.source for commit in commits if commit.source is not None]


def _result(number: int, seat: _Seat, task: Task) -> Result:
    heads, tally = [head.state() for head in task.universe.heads], task.tally
    known = sum(one.known for head in heads for one in head.categories)
    return Result(
        task=number,
        records=task.sequence,
        known=known,
        born=task.universe.size - known,
        rejected=tally.rejected,
        controls=tally.controls,
        sequence=seat.sequence,
    )
