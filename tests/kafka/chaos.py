"""Workers on a real Kafka that are killed, frozen and left without a broker; then every single answer is checked.

    python tests/kafka/chaos.py --events 100000 --partitions 4 --workers 3 --kills 30 --stops 10 --broker-kills 3

Workers are processes of `speciate run`. A kill is -9, and a new process comes some time later. A stop freezes a worker
for longer than its session lasts: others take over, and then it wakes up and believes that nothing happened. The broker
is killed with -9, too, and comes back. Exits with 0 if every input was answered exactly once, in order, and answers and
state are byte for byte those of a fold that nothing disturbed.
"""

import argparse
import asyncio
import bisect
import logging
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaError
from broker import Broker, started
from chaos_check import Found, check_everything
from chaos_stream import ANSWERS, CONTROL, EVENTS, GROUP, TOPICS, Feeder, messages, write_pipeline

STALL_SECONDS = 90.0
"""How long a partition with inputs that are not answered may stand still."""
EXIT_SECONDS = 60.0
LOOK_SECONDS = 2.0
TICK_SECONDS = 0.1
SOON, LATER = (0.05, 1.5), (1.5, 7.0)
"""Seconds between two acts: most have time to be got over, the others fall into what the one before has set off."""
SOON_SHARE = 0.35
REPLACED = (0.0, 4.0)
"""Seconds until a killed worker has a successor."""
FROZEN = (1.2, 2.5)
"""How long a worker is frozen, in sessions."""
BROKER_AWAY = (0.0, 4.0)
BROKER_BREATH = 5.0
"""Seconds the broker has before it is killed again: without them it would never be there on a slow machine."""
LAST_SHARE = 0.1
"""Of the events, those that come only when the schedule is over: the stream outlives it."""
LAST_SECONDS = 5.0
WARM_UP_SECONDS = 5.0
TAIL_LINES = 25

# The parent of a worker's process, as that of the broker: its input ends when this program does, however that dies.
KEEPER = """\
import subprocess, sys, threading
child = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
print(child.pid, flush=True)
threading.Thread(target=lambda: (sys.stdin.read(), child.kill()), daemon=True).start()
code = child.wait()
sys.exit(code if code >= 0 else 128 - code)
"""
WORKER = "from speciate.cli import main; main()"

Kind = Literal["kill", "stop", "broker"]
T = TypeVar("T")


class MisbehaviourError(AssertionError):
    """The workers did something they must not."""


@dataclass(frozen=True)
class Options:
    """What to do, and with how much."""

    events: int = 100_000
    partitions: int = 4
    workers: int = 3
    kills: int = 30
    stops: int = 10
    broker_kills: int = 3
    seed: int = 1
    standby: int = 0
    session_ms: int = 2500
    snapshot_events: int = 400


class Act(NamedTuple):
    """One act of violence."""

    kind: Kind
    wait: float
    """Seconds after the one before."""
    whom: float
    """Which of those that can be hit, as a fraction."""
    away: float
    """Seconds until the victim is replaced, wakes up or is started again."""


class Span(NamedTuple):
    """From when to when, in seconds since the epoch."""

    start: float
    end: float

    @property
    def seconds(self) -> float:
        """How long it was."""
        return self.end - self.start

    def meets(self, other: "Span") -> bool:
        """Whether the two have a moment in common."""
        return self.start < other.end and other.start < self.end


@dataclass
class Toll:
    """What a schedule did, and how it ended."""

    done: dict[Kind, int] = field(default_factory=lambda: {"kill": 0, "stop": 0, "broker": 0})
    moments: list[tuple[Kind, float]] = field(default_factory=list)
    """When each act was done, in seconds since the epoch."""
    outages: list[Span] = field(default_factory=list)
    """When there was no broker."""
    inputs: int = 0
    rebalances: int = 0
    restores: int = 0
    seconds: float = 0.0
    pauses: dict[str, list[float]] = field(default_factory=dict)
    found: dict[int, Found] = field(default_factory=dict)


def plan(options: Options) -> list[Act]:
    """The acts, from the seed: in random order, at random distances."""
    chance = random.Random(options.seed)
    kinds: list[Kind] = [*["kill"] * options.kills, *["stop"] * options.stops, *["broker"] * options.broker_kills]
    chance.shuffle(kinds)
    session = options.session_ms / 1000
    away = {"kill": REPLACED, "stop": (FROZEN[0] * session, FROZEN[1] * session), "broker": BROKER_AWAY}
    return [
        Act(
            kind,
            chance.uniform(*(SOON if chance.random() < SOON_SHARE else LATER)),
            chance.random(),
            chance.uniform(*away[kind]),
        )
        for kind in kinds
    ]


def longest_pause(times: Sequence[float], moment: float, reach: float) -> Span:
    """The longest time without an answer that a moment fell into, or that began within `reach` after it."""
    first = max(1, bisect.bisect_right(times, moment))
    last = max(first, bisect.bisect_right(times, moment + reach))
    gaps = [Span(times[place - 1], times[place]) for place in range(first, min(last, len(times) - 1) + 1)]
    return max(gaps, key=lambda gap: gap.seconds, default=Span(moment, moment))


def first_after(times: Sequence[float], moment: float) -> Span:
    """From a moment to the first answer behind it."""
    place = bisect.bisect_right(times, moment)
    return Span(moment, times[place] if place < len(times) else moment)


def quantile(values: Sequence[float], share: float) -> float:
    """The value that so many are not above."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0


async def apart(work: Coroutine[Any, Any, T]) -> T:
    """Let something be done in a task of its own.

    When a client of aiokafka stops, it takes a cancellation of ours for that of its own tasks, and we would go on.
    """
    return await asyncio.shield(asyncio.ensure_future(work))


class WorkerProcess:
    """One process of `speciate run`."""

    def __init__(self, number: int, config: Path) -> None:
        self.name = f"worker {number}"
        self.log = config.parent / f"worker-{number}.log"
        self.frozen = False
        self.doomed = False
        """Whether it was told to end."""
        with self.log.open("wb") as log:
            self._keeper = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", KEEPER, sys.executable, "-c", WORKER, "run", str(config)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "SPECIATE_DEBUG": "1"},
                start_new_session=True,  # Ctrl-C is for us
            )
        assert self._keeper.stdout is not None
        self.pid = int(self._keeper.stdout.readline())

    @property
    def alive(self) -> bool:
        """Whether its process exists; a frozen one does."""
        return self._keeper.poll() is None

    @property
    def code(self) -> int | None:
        """What it exited with."""
        return self._keeper.poll()

    def send(self, number: signal.Signals) -> None:
        """Send a signal, unless it is gone."""
        if number in (signal.SIGKILL, signal.SIGTERM):
            self.doomed = True
        if self.alive:
            with suppress(ProcessLookupError):  # it may have ended, and the keeper not yet
                os.kill(self.pid, number)

    def end(self) -> None:
        """Kill it if need be, and let go of everything."""
        self.doomed = True
        assert self._keeper.stdin is not None
        assert self._keeper.stdout is not None
        # The keeper kills its child once its input ends.
        self._keeper.stdin.close()
        self._keeper.wait()
        self._keeper.stdout.close()

    def tail(self) -> str:
        """The end of its log."""
        with self.log.open(errors="replace") as log:
            return f"{self.name} (pid {self.pid}), {self.log}:\n" + "".join(deque(log, TAIL_LINES))


class Progress:
    """How many inputs and committed answers there are; asked by a new consumer each time, which cannot be stuck."""

    def __init__(self, servers: str, partitions: int) -> None:
        self._servers = servers
        self._places = {TopicPartition(ANSWERS, number): 0 for number in range(partitions)}
        self.times: dict[int, list[float]] = {number: [] for number in range(partitions)}
        """When each answer was written, in seconds since the epoch."""
        self.asked = dict.fromkeys(self.times, 0)
        """Inputs of each partition."""

    @property
    def behind(self) -> dict[int, int]:
        """Inputs of each partition that are not answered yet. Answers are counted later, and may be more by then."""
        return {number: max(0, self.asked[number] - count) for number, count in self.counts.items()}

    @property
    def counts(self) -> dict[int, int]:
        """Answers of each partition."""
        return {number: len(times) for number, times in self.times.items()}

    async def look(self) -> None:
        """Read on to the end as it is now; a broker that is away has nothing new."""
        await apart(self._look())

    async def _look(self) -> None:
        options = {"auto_offset_reset": "none", "enable_auto_commit": False, "isolation_level": "read_committed"}
        try:
            async with (
                asyncio.timeout(20.0),
                started(AIOKafkaConsumer(bootstrap_servers=self._servers, **options)) as consumer,
            ):
                await self._read(consumer)
        except (KafkaError, OSError, TimeoutError):
            await asyncio.sleep(LOOK_SECONDS)

    async def _read(self, consumer: AIOKafkaConsumer) -> None:
        asked = [TopicPartition(name, number) for name in (EVENTS, CONTROL) for number in self.asked]
        ends = await consumer.end_offsets([*self._places, *asked])
        self.asked = {number: sum(ends[place] for place in asked if place.partition == number) for number in self.asked}
        consumer.assign([place for place, known in self._places.items() if known < ends[place]])
        for place in consumer.assignment():
            consumer.seek(place, self._places[place])
        while behind := [place for place in consumer.assignment() if self._places[place] < ends[place]]:
            for place, records in (await consumer.getmany(*behind, timeout_ms=200)).items():
                self.times[place.partition] += [record.timestamp / 1000 for record in records]
            for place in behind:
                self._places[place] = await consumer.position(place)


class PlanClock:
    """How far a plan is: goes on while it waits as planned, and stands still while it waits for something else."""

    def __init__(self) -> None:
        self._over = self._wait = self._since = 0.0

    @property
    def seconds(self) -> float:
        """Of the plan, so far."""
        return self._over + min(self._wait, time.monotonic() - self._since)

    def wait(self, seconds: float) -> None:
        """All that was to be waited for before is over, and now so long."""
        self._over += self._wait
        self._wait, self._since = seconds, time.monotonic()


class Chaos:
    """One run of a schedule, from the start of the broker to the end of the workers."""

    def __init__(self, options: Options, directory: Path) -> None:
        self.options = options
        self.toll = Toll()
        self.broker = Broker(directory / "broker")
        self._directory = directory
        self._began = time.monotonic()
        self._started = 0
        self._workers: list[WorkerProcess] = []
        self._quiet = asyncio.Event()
        self._acts = plan(options)
        self._clock = PlanClock()
        self._broker_lock = asyncio.Lock()
        self._starting: asyncio.Future[None] | None = None

    async def run(self) -> Toll:
        """Do it all; raises `MisbehaviourError`, or another AssertionError if an answer is wrong."""
        options = self.options
        async with AsyncExitStack() as stack:
            stack.push_async_callback(self._end_all)
            await self._start_broker()
            for name, settings in TOPICS.items():
                await asyncio.to_thread(self.broker.create_topic, name, options.partitions, settings)
            self._config = write_pipeline(
                self._directory,
                servers=self.broker.servers,
                seed=options.seed,
                session_ms=options.session_ms,
                standby=options.standby,
                snapshot=options.snapshot_events,
            )
            self._progress = Progress(self.broker.servers, options.partitions)
            source = messages(options.seed, options.partitions)
            self._feeder = await stack.enter_async_context(Feeder(self.broker.servers, source))
            self._say(f"seed {options.seed}: broker at {self.broker.servers}, all files in {self._directory}")
            await self._unroll()
            await self._end_workers()
            self._say("all workers ended; checking every answer")
            self.toll.found = await asyncio.to_thread(
                check_everything, self.broker, self._config, self.options.partitions
            )
        self._account()
        return self.toll

    async def _unroll(self) -> None:
        """Feed, hurt and watch at once; the first that fails ends the others."""
        try:
            async with asyncio.TaskGroup() as group:
                watching = [group.create_task(self._watch_answers()), group.create_task(self._watch_workers())]
                feeding = group.create_task(self._feed())
                await self._violate(group)
                await feeding
                await self._until_answered()
                for task in watching:
                    task.cancel()
        except ExceptionGroup as failures:
            raise failures.exceptions[0] from None

    async def _violate(self, group: asyncio.TaskGroup) -> None:
        for _ in range(self.options.workers):
            self._start_worker()
        await self._until_working()
        recoveries: list[asyncio.Task[None]] = []
        for act in self._acts:
            self._clock.wait(act.wait)
            await asyncio.sleep(act.wait)
            recoveries.append(group.create_task(await self._do(act)))
        await asyncio.gather(*recoveries)
        self._say("the schedule is over; waiting until the group has settled")
        await self._until_settled()
        self._quiet.set()

    async def _do(self, act: Act) -> Coroutine[Any, Any, None]:
        """Do it; what is left to do is given back."""
        if act.kind == "broker":
            await self._broker_lock.acquire()
            self._note(act, "the broker")
            await asyncio.to_thread(self.broker.kill)
            return self._restart_broker(act.away)
        victim = await self._victim(act)
        self._note(act, f"{victim.name} (pid {victim.pid})")
        if act.kind == "kill":
            victim.send(signal.SIGKILL)
            return self._replace(act.away)
        victim.frozen = True
        victim.send(signal.SIGSTOP)
        return self._thaw(victim, act.away)

    async def _victim(self, act: Act) -> WorkerProcess:
        """One that can be hit, as soon as there is one: any to be killed; to be frozen, one that leaves another awake.

        If all were frozen nobody would take over, and the one that wakes up would have nobody to be shut out by.
        """
        while True:
            there = [one for one in self._workers if one.alive and not one.doomed]
            awake = [one for one in there if not one.frozen]
            if act.kind == "stop":
                there = awake if len(awake) > 1 else []
            if there:
                return there[int(act.whom * len(there))]
            await asyncio.sleep(TICK_SECONDS)

    async def _replace(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
        self._start_worker()

    async def _thaw(self, victim: WorkerProcess, seconds: float) -> None:
        await asyncio.sleep(seconds)
        victim.frozen = False
        victim.send(signal.SIGCONT)

    async def _start_broker(self) -> None:
        self._starting = asyncio.ensure_future(asyncio.to_thread(self.broker.start))
        await asyncio.shield(self._starting)

    async def _restart_broker(self, seconds: float) -> None:
        began = time.time()
        try:
            await asyncio.sleep(seconds)
            await self._start_broker()
            self.toll.outages.append(Span(began, time.time()))
            self._say("the broker is back")
            await asyncio.sleep(BROKER_BREATH)
        finally:
            self._broker_lock.release()

    def _start_worker(self) -> None:
        self._workers.append(WorkerProcess(self._started, self._config))
        self._started += 1

    async def _feed(self) -> None:
        """All but the last events as the schedule goes on; the last when it is over, so that the stream outlives it."""
        early = round(self.options.events * (1.0 - LAST_SHARE))
        self._clock.wait(WARM_UP_SECONDS)
        total = WARM_UP_SECONDS + sum(act.wait for act in self._acts)
        await self._feed_by(lambda: round(early * self._clock.seconds / total), early)
        await self._quiet.wait()
        last = PlanClock()
        last.wait(LAST_SECONDS)
        rest = self.options.events - early
        await self._feed_by(lambda: round(rest * last.seconds / LAST_SECONDS), rest)

    async def _feed_by(self, due: Callable[[], int], count: int) -> None:
        """Feed so many events, those that are due as soon as they are."""
        fed = 0
        while fed < count:
            now_due = min(due(), count)
            await self._feeder.feed(now_due - fed)
            fed = now_due
            await asyncio.sleep(TICK_SECONDS)

    async def _watch_workers(self) -> None:
        while True:
            for worker in self._workers:
                if worker.code is not None and not worker.doomed:
                    raise MisbehaviourError(f"{worker.name} exited by itself with {worker.code}\n{worker.tail()}")
            await asyncio.sleep(TICK_SECONDS)

    async def _watch_answers(self) -> None:
        """Look how far the answers are, say so, and fail if a partition stands still."""
        moved = dict.fromkeys(self._progress.counts, time.monotonic())
        former = self._progress.counts
        while True:
            await self._progress.look()
            counts, now = self._progress.counts, time.monotonic()
            for number, count in counts.items():
                if count != former[number] or not self._progress.behind[number] or not self.broker.alive:
                    moved[number] = now
                elif now - moved[number] > STALL_SECONDS:
                    raise MisbehaviourError(
                        f"partition {number} stands still since {STALL_SECONDS:g} s\n{self._diagnosis()}"
                    )
            former = counts
            self._say_progress()
            await asyncio.sleep(LOOK_SECONDS)

    async def _until_working(self) -> None:
        """Every partition has an answer: from here on there is something to be hurt."""
        while not all(self._progress.counts.values()):  # noqa: ASYNC110 - others look
            await asyncio.sleep(TICK_SECONDS)

    async def _until_settled(self) -> None:
        """All workers are members and share the work: nobody will take over from anybody any more."""
        deadline = time.monotonic() + STALL_SECONDS
        while (state := await apart(self._group_state())) != ("Stable", self.options.workers):
            if time.monotonic() > deadline:
                raise MisbehaviourError(f"the group does not settle: it is {state}\n{self._diagnosis()}")
            await asyncio.sleep(TICK_SECONDS * 5)
        await asyncio.sleep(self.options.session_ms / 1000)

    async def _group_state(self) -> tuple[str, int] | None:
        try:
            async with started(AIOKafkaAdminClient(bootstrap_servers=self.broker.servers)) as admin:
                (answer,) = await admin.describe_consumer_groups([GROUP])
        except (KafkaError, OSError):
            return None
        (group,) = answer.to_object()["groups"]
        return group["state"], len(group["members"])

    async def _until_answered(self) -> None:
        """All that is in the logs has its answer."""
        ends = [await asyncio.to_thread(self.broker.end_offsets, name) for name in (EVENTS, CONTROL)]
        wanted = {number: sum(end[number] for end in ends) for number in range(self.options.partitions)}
        self.toll.inputs = sum(wanted.values())
        while any(self._progress.counts[number] < count for number, count in wanted.items()):  # noqa: ASYNC110
            await asyncio.sleep(TICK_SECONDS)

    async def _end_workers(self) -> None:
        """SIGTERM, upon which they finish and save what they have."""
        there = [worker for worker in self._workers if not worker.doomed]
        assert len(there) == self.options.workers
        for worker in there:
            worker.send(signal.SIGTERM)
        deadline = time.monotonic() + EXIT_SECONDS
        while any(worker.alive for worker in there) and time.monotonic() < deadline:  # noqa: ASYNC110
            await asyncio.sleep(TICK_SECONDS)
        for worker in there:
            if worker.code != 0:
                how = "does not end" if worker.alive else f"exited with {worker.code}"
                raise MisbehaviourError(f"{worker.name} {how} after SIGTERM\n{worker.tail()}")

    async def _end_all(self) -> None:
        for worker in self._workers:
            worker.end()
        # A thread goes on whatever happens here, and a broker that is just being started would be left behind.
        if self._starting is not None:
            await asyncio.wait([self._starting])
        self.broker.kill()

    def _account(self) -> None:
        toll, times, reach = self.toll, self._progress.times, self.options.session_ms / 1000
        toll.seconds = time.monotonic() - self._began
        log = self.broker.log.read_text(errors="replace")
        toll.rebalances = log.count(f"Stabilized group {GROUP} ")
        toll.restores = log.count(f"Initialized transactionalId speciate-{ANSWERS}-")
        for kind, moment in toll.moments:
            self._account_pause(kind, [longest_pause(sorted(one), moment, reach) for one in times.values()])
        for outage in toll.outages:
            returns = [first_after(sorted(one), outage.end) for one in times.values()]
            alone = [one for one in returns if not any(one.meets(other) for other in toll.outages if other != outage)]
            toll.pauses.setdefault("return of the broker, any partition", []).extend(one.seconds for one in alone)

    def _account_pause(self, kind: Kind, found: Sequence[Span]) -> None:
        """What an act did to every partition. Where there was no broker, a worker's fate is not what it waited for."""
        if kind != "broker":
            found = [pause for pause in found if not any(pause.meets(outage) for outage in self.toll.outages)]
        if found:
            seconds = [pause.seconds for pause in found]
            self.toll.pauses.setdefault(f"{kind}, any partition", []).extend(seconds)
            self.toll.pauses.setdefault(f"{kind}, the partition hit most", []).append(max(seconds))

    def _note(self, act: Act, whom: str) -> None:
        self.toll.done[act.kind] += 1
        self.toll.moments.append((act.kind, time.time()))
        self._say(f"{act.kind} {self.toll.done[act.kind]}: {whom}, for {act.away:.1f} s")

    def _say(self, text: str) -> None:
        print(f"{time.monotonic() - self._began:6.1f} s  {text}", flush=True)  # noqa: T201

    def _say_progress(self) -> None:
        there = [worker for worker in self._workers if worker.alive and not worker.doomed]
        frozen = sum(worker.frozen for worker in there)
        answered, asked = sum(self._progress.counts.values()), sum(self._progress.asked.values())
        self._say(
            f"{answered} of {asked} answered, {len(there)} workers, {frozen} frozen, broker "
            f"{'up' if self.broker.alive else 'down'}; behind: {list(self._progress.behind.values())}"
        )

    def _diagnosis(self) -> str:
        counts, asked = self._progress.counts, self._progress.asked
        lines = [f"partition {number}: {counts[number]} of {asked[number]} answered" for number in counts]
        return "\n".join([*lines, *(worker.tail() for worker in self._workers if worker.alive)])


def summary(options: Options, toll: Toll) -> str:
    """What a run was and did, in a few lines."""
    done = toll.done
    tallies = [found.tally for found in toll.found.values()]
    lines = [
        f"pause after a {name}: p50 {quantile(found, 0.5):.2f} s, p99 {quantile(found, 0.99):.2f} s, "
        f"max {max(found):.2f} s, of {len(found)}"
        for name, found in sorted(toll.pauses.items())
        if found
    ]
    rejected, births = sum(tally.rejected for tally in tallies), sum(tally.births for tally in tallies)
    lines.append(
        f"seed {options.seed}: {done['kill']} kills, {done['stop']} stops, {done['broker']} broker kills, "
        f"{toll.rebalances} rebalances, {toll.restores} restores in {toll.seconds:.0f} s: {toll.inputs} inputs "
        f"({rejected} rejected, {births} births) answered exactly once, in order, and the state is that of an "
        "undisturbed fold: PASSED"
    )
    return "\n".join(lines)


async def unleash(options: Options, directory: Path) -> Toll:
    """Run a schedule with all its files in a directory."""
    return await Chaos(options, directory).run()


def main() -> int:
    """Run one schedule from the command line, say what happens, and keep the files if it fails."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, kind in Options.__annotations__.items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=kind, default=getattr(Options, name))
    options = Options(**vars(parser.parse_args()))
    directory = Path(tempfile.mkdtemp(prefix="chaos-"))
    # It says again and again that the broker is away, which we know.
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
    try:
        toll = asyncio.run(unleash(options, directory))
    except AssertionError as failure:
        print(f"{failure}\nseed {options.seed}: FAILED; all files are in {directory}", flush=True)  # noqa: T201
        return 1
    shutil.rmtree(directory)
    print(summary(options, toll))  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(main())
