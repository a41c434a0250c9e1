"""`speciate refold` on a real broker: the state is that of an independent fold, and the workers go on exactly once."""

import asyncio
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, RecordsToDelete
from aiokafka.partitioner import murmur2
from aiokafka.structs import TopicPartition
from broker import Broker, _blocking, started
from pipelines import (
    HEAD,
    KEEPING,
    PATIENCE,
    SINK,
    SOURCE,
    SPECIATE,
    Bench,
    environment,
    events,
    speciate,
    write_support,
)

from speciate.config import load, resolve
from speciate.errors import FencedError, StateDamagedError
from speciate.household import Household
from speciate.plugins import installed
from speciate.snapshot import parse
from speciate.stages import Record, Seat
from speciate.task import Task
from speciate_plugins.kafka.records import make_record
from speciate_plugins.kafka.refolding import Refold
from speciate_plugins.kafka.relearning import Relearner
from speciate_schemas import Answer, Assignment, ControlApplied, Refolded, Rejection, RenameCategory, decode, encode

STREAMS = 7
CONTROLLED = SOURCE + 'control = "{topic}-control"\n'
NEW = (SINK + HEAD + KEEPING).replace('-answers"', '-answers{new}"').replace('-dead"', '-dead{new}"')
NEW = NEW.replace('-state"', '-state{new}"')
FILES = 'plugin = "directory"\npath = "{folder}/state"'
Said = Answer | Refolded
Deal = Callable[[Any], int]


def by_key(message: Any, count: int) -> int:
    """The partition that Kafka's own producers choose."""
    return (murmur2(message if isinstance(message, bytes) else message.key) & 0x7FFFFFFF) % count


def own(message: Any) -> int:
    return int(message.partition)


class World:
    """A pipeline whose workers run to the end of what is there, and an independent fold to hold it against."""

    def __init__(self, bench: Bench, text: str, partitions: int, **more: Any) -> None:
        write_support(bench.folder)
        self.bench = bench
        self.config = bench.make(text, partitions, **more)
        self.partitions = partitions
        self.fed = 0

    def feed(self, count: int = 60) -> None:
        """Events of several streams, whose names are their keys, a damaged one and a duplicate."""
        found = events(1, count, streams=STREAMS, first=self.fed)
        self.fed += count
        values = [(one.stream.encode(), encode(one)) for one in found]
        values += [(values[0][0], b"damaged"), values[1]]
        self.bench.feed([(by_key(key, self.partitions), key, value, ()) for key, value in values])

    def rename(self, partition: int, category: int, stream: str = "") -> None:
        control = RenameCategory(id=f"c{partition}-{category}", category=category, label="named", stream=stream)
        self.bench.feed([(partition, None, encode(control), ())], "control")

    def run(self, *overrides: str, code: int = 0) -> str:
        """A worker that ends where the input does; what it says."""
        settings = [part for one in ("source.follow=false", *overrides) for part in ("-s", one)]
        return speciate("run", self.config, *settings, code=code).stderr

    def refold(self, *args: str, code: int = 0) -> str:
        done = speciate("refold", self.config, "--yes", "--json", *args, code=code)
        return done.stdout if code == 0 else done.stderr

    def enlarge(self, partitions: int) -> None:
        _blocking(_enlarge(self.bench, partitions))
        self.partitions = partitions

    def said(self, topic: str = "answers") -> dict[int, list[Said]]:
        """What is in the partitions of a topic of answers; numbered without a gap, whatever it is."""
        found = self.bench.broker.read_all(f"{self.bench.topic}-{topic}")
        said = {
            number: [decode(one.value, Answer | Refolded, "json") for one in records]
            for number, records in found.items()
        }
        for number, items in said.items():
            assert [one.sequence for one in items] == list(range(len(items))), f"partition {number}"
        return said

    def inputs(self) -> list[Any]:
        """Every message of the input, in the order of a refold."""
        topics = [f"{self.bench.topic}-in"]
        if "control" in self.config.read_text():
            topics.append(f"{self.bench.topic}-control")
        found = [one for topic in topics for records in self.bench.broker.read_all(topic).values() for one in records]
        return sorted(found, key=lambda one: (one.timestamp, one.topic, one.partition, one.offset))

    def check_once(self, *topics: str) -> None:
        """Every input is answered exactly once, in whichever of the topics."""
        answered = [
            one.origin
            for topic in topics or ("answers",)
            for items in self.said(topic).values()
            for one in items
            if not isinstance(one, Refolded)
        ]
        assert sorted(answered) == sorted(origin(one) for one in self.inputs())

    def check(self, *overrides: str, deal: Deal, topic: str = "answers", tasks: int, state: bool = True) -> list[Task]:
        """Hold the last refold, and the answers since, against a fold of its own."""
        return asyncio.run(self._check(overrides, deal, topic, tasks, state=state))

    async def _check(self, overrides: Sequence[str], deal: Deal, topic: str, tasks: int, *, state: bool) -> list[Task]:
        resolved = resolve(load(self.config, overrides), installed())
        home, said = Household(resolved, installed()), self.said(topic)
        since = {number: behind_refold(items, tasks) for number, items in said.items()}
        assert len(since) == tasks
        later = {one.origin for _, answers in since.values() for one in answers}
        inputs = {origin(one): one for one in self.inputs()}
        folded = []
        for number in range(tasks):
            task = await home.new_task(lambda sequence, number=number: f"{self.bench.topic}-dead/{number}#{sequence}")
            for name, message in inputs.items():
                if name not in later and (tasks == 1 or deal(message) == number):
                    task.fold([self._record(message, task.sequence)])
            notice, answers = since[number]
            if state:
                self._check_state(resolved, Seat(number, tasks), notice, task)
            task.sequence = notice.sequence + 1
            for answer in answers:
                outcome = task.fold([self._record(inputs[answer.origin], task.sequence)])[0]
                assert comparable(outcome.answer) == comparable(answer)
            folded.append(task)
        return folded

    def _record(self, message: Any, sequence: int) -> Record:
        only_control = message.topic.endswith("-control")
        return make_record(message, "event", sequence=sequence, position=(), only_control=only_control)

    def _check_state(self, resolved: Any, seat: Seat, notice: Refolded, task: Task) -> None:
        store = resolved["store"].create(seat)
        try:
            saved = parse(store.load_snapshot(notice.sequence + 1))
        finally:
            store.close()
        assert saved.state.sequence == notice.sequence + 1
        assert saved.state.chronicles == {}, "what there is to see begins anew"
        assert encode(msgspec.structs.replace(saved.state, sequence=0)) == encode(
            msgspec.structs.replace(task.state(), sequence=0, chronicles={})
        )
        assert notice.categories == task.universe.size
        assert notice.universe == resolved.config.run.universe


def origin(message: Any) -> str:
    return f"{message.topic}/{message.partition}@{message.offset}"


def learnt(task: Task) -> int:
    """How many records a task was given."""
    return task.tally.assigned + task.tally.rejected + task.tally.controls


def comparable(answer: Any) -> Any:
    return msgspec.structs.replace(answer, dead_letter="") if isinstance(answer, Rejection) else answer


def behind_refold(items: Sequence[Said], tasks: int) -> tuple[Refolded, list[Answer]]:
    """The last notice that the categories are there, and the answers behind it; one that they end stands before it."""
    place = max(number for number, one in enumerate(items) if isinstance(one, Refolded))
    notice, before = items[place], items[place - 1]
    assert isinstance(notice, Refolded)
    assert isinstance(before, Refolded)
    assert (before.done, notice.done, notice.tasks) == (False, True, tasks)
    return notice, [one for one in items[place + 1 :] if not isinstance(one, Refolded)]


async def _enlarge(bench: Bench, partitions: int) -> None:
    async with started(AIOKafkaAdminClient(bootstrap_servers=bench.broker.servers)) as admin:
        names = [topic["topic"] for topic in await admin.describe_topics() if topic["topic"].startswith(bench.topic)]
        await admin.create_partitions({name: NewPartitions(total_count=partitions) for name in names})
        while {len(one["partitions"]) for one in await admin.describe_topics(names)} != {partitions}:  # noqa: ASYNC110
            await asyncio.sleep(0.05)


@pytest.fixture
def bench(broker: Broker, tmp_path: Path, topic: str) -> Iterator[Bench]:
    with Bench(broker, tmp_path, topic) as one:
        yield one


def test_from_partitions_to_streams_and_back(bench: Bench):
    world = World(bench, CONTROLLED + SINK + HEAD + KEEPING, 2)
    world.feed()
    world.run()
    for partition in (0, 1):
        world.rename(partition, 0, "camera-0")
        world.rename(partition, 99)
    world.run()
    streams = "run.universe=stream"
    assert "run `speciate refold CONFIG`" in world.run(streams, code=3)
    results = msgspec.json.decode(world.refold("-s", streams))
    assert [one["task"] for one in results] == [0, 1]
    assert sum(one["records"] for one in results) == len(world.inputs())
    assert sum(one["rejected"] for one in results) >= 4
    tasks = world.check(streams, deal=own, tasks=2)
    assert sum(len(task.state().streams) for task in tasks) >= STREAMS
    world.feed()
    world.run(streams)
    world.check(streams, deal=own, tasks=2, state=False)
    # Nothing new has come, and nobody is bothered by a worker that starts again.
    world.run(streams)
    assert "run `speciate refold CONFIG`" in world.run(code=3)
    world.refold()
    world.check(deal=own, tasks=2)
    world.feed()
    world.run()
    world.check(deal=own, tasks=2, state=False)
    world.check_once()
    assert any(isinstance(one, ControlApplied) for items in world.said().values() for one in items)


def test_keys_that_move_to_new_partitions_are_learnt_where_they_go(bench: Bench):
    world = World(bench, SOURCE + SINK + HEAD + KEEPING, 2)
    world.feed(120)
    world.run()
    before = len(world.inputs())
    world.enlarge(4)
    assert "run `speciate refold CONFIG`" in world.run(code=3)
    world.refold()

    def moved(message: Any) -> int:
        return by_key(message, 4)

    tasks = world.check(deal=moved, tasks=4)
    assert sum(learnt(task) > 0 for task in tasks) > 2, "no key has moved"
    assert sum(own(one) != moved(one) for one in world.inputs()) > 0
    world.feed(120)
    world.run()
    world.check(deal=moved, tasks=4, state=False)
    world.check_once()
    # What was written for two partitions is still known to have been, and a message without its own key is believed.
    stray = encode(events(2, 1)[0])
    bench.feed([(3, b"camera-0", stray, ())])
    assert by_key(b"camera-0", 4) != 3
    world.run()
    first = {origin(one) for one in world.inputs()[:before]}
    world.refold("-s", "run.universe=stream")
    world.check("run.universe=stream", deal=lambda one: moved(one) if origin(one) in first else own(one), tasks=4)
    world.feed()
    world.run("run.universe=stream")
    world.check_once()


def test_one_universe_for_all_and_back(bench: Bench):
    world = World(bench, SOURCE + NEW, 2, new="")
    world.feed()
    world.run()
    shared = '\n[run]\nuniverse = "shared"\n'
    world.config = bench.write(SOURCE + NEW + shared, new="")
    assert "--answers" in world.refold(code=2)
    world.config = bench.make(SOURCE + NEW + shared, 2, new="-one")
    old = f"{bench.topic}-answers"
    assert "name it with --answers" in world.refold(code=3)
    world.refold("--answers", old)
    (task,) = world.check(deal=own, tasks=1, topic="answers-one")
    assert learnt(task) == len(world.inputs())
    world.feed()
    world.run()
    world.check(deal=own, tasks=1, topic="answers-one", state=False)
    world.check_once("answers", "answers-one")
    world.config = bench.make(SOURCE + NEW, 2, new="-two")
    world.refold("--answers", f"{old}-one")
    world.check(deal=own, tasks=2, topic="answers-two")
    world.feed()
    world.run()
    world.check(deal=own, tasks=2, topic="answers-two", state=False)
    world.check_once("answers", "answers-one", "answers-two")


CRASH = """
import os, signal, sys
from aiokafka import AIOKafkaProducer
from speciate.cli import main
commit, left, after = AIOKafkaProducer.commit_transaction, int(sys.argv[1]), sys.argv[2] == "after"
async def commit_or_die(self):
    global left
    left -= 1
    if after:
        await commit(self)
    if not left:
        os.kill(os.getpid(), signal.SIGKILL)
    if not after:
        await commit(self)
AIOKafkaProducer.commit_transaction = commit_or_die
del sys.argv[1:3]
main()
"""


def crash(world: World, commits: int, when: str, *args: str) -> bool:
    """Kill a refold before or after a commit; False if it came to its end without so many."""
    command = [sys.executable, "-c", CRASH, str(commits), when, "refold", str(world.config), "--yes", *args]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment())
    assert done.returncode in {0, -9}, done.stderr
    return done.returncode != 0


def test_whatever_a_crash_leaves_no_worker_starts_and_another_refold_mends_it(bench: Bench):
    # All snapshots are kept, so that removing some takes no commits of its own.
    world = World(bench, SOURCE + SINK + HEAD + KEEPING + "snapshots_kept = 99\n", 2)
    world.feed()
    world.run()
    streams = "run.universe=stream"
    commits, refusals = 0, Counter[str]()
    while True:
        commits += 1
        if not crash(world, commits, "before", "-s", streams):
            break
        told = world.run(streams, code=3)
        refusals["begun" if "was not finished" in told else "old"] += 1
        if commits == 1:
            world.feed()  # nothing was written yet: the old configuration goes on
            world.run()
        if not crash(world, commits, "after", "-s", streams):
            raise AssertionError("the same refold has another number of commits")
        ended = all(isinstance(items[-1], Refolded) and items[-1].done for items in world.said().values())
        if ended:
            world.run(streams)
        else:
            assert "was not finished" in world.run(streams, code=3)
            if commits == 2:
                assert "was not finished" in world.run(code=3)
    assert commits == 2 + 2 + 1 + 1, "a commit to close each seat, to save each state, and to open both at once"
    assert refusals["old"] >= 1
    world.check(streams, deal=own, tasks=2)
    world.feed()
    world.run(streams)
    world.check(streams, deal=own, tasks=2, state=False)
    world.check_once()


def test_a_crash_on_the_way_to_other_topics_lets_nobody_begin_from_nothing(bench: Bench):
    world = World(bench, SOURCE + NEW, 2, new="")
    world.feed()
    world.run()
    world.config = bench.make(SOURCE + NEW, 2, new="-two")
    old = ("--answers", f"{bench.topic}-answers")
    assert crash(world, 1, "after", *old)
    assert [len(items) for items in world.said("answers-two").values()] == [1, 0]
    assert "was not finished" in world.run(code=3)
    world.refold(*old)
    world.check(deal=own, tasks=2, topic="answers-two")
    world.feed()
    world.run()
    world.check_once("answers", "answers-two")


def test_running_workers_are_not_disturbed(bench: Bench):
    world = World(bench, SOURCE + SINK + HEAD + KEEPING, 2)
    world.feed()
    worker = bench.start(world.config)
    bench.until_answered(1, 1)
    refusal = world.refold(code=2)
    assert f"group {bench.topic!r} has workers that are running (1)" in refusal
    bench.check_alive()
    assert worker.stop() == 0


def test_a_worker_that_was_believed_dead_is_shut_out(bench: Bench):
    world = World(bench, SOURCE + SINK + HEAD + KEEPING, 2)
    world.feed()
    zombie = bench.start(world.config)
    bench.until_answered(1, 1)
    bench.until(lambda: sum(map(len, world.said().values())) == world.fed + 2, "all is answered")
    zombie.send(signal.SIGSTOP)
    world.feed()
    streams = "run.universe=stream"
    deadline = time.monotonic() + PATIENCE
    while "workers that are running" in refolded(world, streams) and time.monotonic() < deadline:
        time.sleep(1.0)  # until the brokers miss it
    world.feed()
    zombie.send(signal.SIGCONT)
    assert zombie.wait() == 3, zombie.tail()
    assert "run `speciate refold CONFIG`" in zombie.tail()
    world.run(streams)
    world.check(streams, deal=own, tasks=2, state=False)
    world.check_once()


def refolded(world: World, *overrides: str) -> str:
    """What a refold says that may be refused."""
    settings = [part for one in overrides for part in ("-s", one)]
    command = [*SPECIATE, "refold", str(world.config), "--yes", *settings]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment()).stderr


def test_who_takes_a_seat_meanwhile_keeps_it(bench: Bench, monkeypatch: pytest.MonkeyPatch):
    world = World(bench, SOURCE + SINK + HEAD + KEEPING, 2)
    world.feed()
    world.run()
    resolved = resolve(load(world.config), installed())
    sink = resolved["sink"].create(Seat(1, 2))
    learn = Relearner.learn

    async def learn_and_lose(*args: Any) -> None:
        await learn(*args)
        await sink.recover()

    async def refold() -> None:
        monkeypatch.setattr(Relearner, "learn", learn_and_lose)
        try:
            with pytest.raises(FencedError):
                await Refold(resolved, installed()).run(lambda *_: None)
        finally:
            await sink.close()

    asyncio.run(refold())
    assert [isinstance(items[-1], Refolded) for items in world.said().values()] == [True, False]
    assert "was not finished" in world.run(code=3)
    world.refold()
    world.feed()
    world.run()
    world.check(deal=own, tasks=2, state=False)
    world.check_once()


def test_it_is_done_when_everybody_sees_it(bench: Bench):
    """Who starts the workers at once would find closed seats otherwise."""
    world = World(bench, SOURCE + SINK + HEAD + KEEPING, 2)
    world.feed()
    world.run()
    asyncio.run(_refold_behind_a_transaction(world))
    assert [items[-1].done for items in world.said().values()] == [True, True]
    world.run()


async def _refold_behind_a_transaction(world: World) -> None:
    broker, topic = world.bench.broker, f"{world.bench.topic}-answers"
    ends = await asyncio.to_thread(broker.end_offsets, topic)
    stranger = AIOKafkaProducer(bootstrap_servers=broker.servers, transactional_id=f"{topic}-stranger")
    async with started(stranger) as producer:
        await producer.begin_transaction()
        await producer.send_and_wait(topic, b"void", partition=1)
        resolved = resolve(load(world.config), installed())
        refolding = asyncio.create_task(Refold(resolved, installed()).run(lambda *_: None))
        # Two notices, each with its marker.
        written = ends[0] + 4
        while not refolding.done() and (await asyncio.to_thread(broker.end_offsets, topic))[0] < written:  # noqa: ASYNC110
            await asyncio.sleep(0.1)
        await asyncio.sleep(1)
        assert not refolding.done() or await refolding is None
        await producer.abort_transaction()
        await refolding


def test_state_in_files_and_answers_that_may_come_twice(bench: Bench):
    kept = KEEPING.replace('plugin = "kafka"\nservers = ["{servers}"]\ntopic = "{topic}-state"', FILES)
    assert FILES in kept
    world = World(bench, SOURCE + SINK + 'delivery = "at-least-once"\n' + HEAD + kept, 2)
    world.feed()
    world.run()
    world.refold("-s", "run.universe=stream")
    world.check("run.universe=stream", deal=own, tasks=2)
    world.feed()
    world.run("run.universe=stream")
    world.check("run.universe=stream", deal=own, tasks=2, state=False)
    world.check_once()


def test_what_is_gone_is_not_learnt_and_the_operator_is_told(bench: Bench):
    world = World(bench, SOURCE + SINK + HEAD + KEEPING, 1)
    world.feed()
    world.run()

    async def delete() -> None:
        async with started(AIOKafkaAdminClient(bootstrap_servers=bench.broker.servers)) as admin:
            await admin.delete_records({TopicPartition(f"{bench.topic}-in", 0): RecordsToDelete(before_offset=20)})

    _blocking(delete())
    done = speciate("refold", world.config, "--yes", "--json")
    assert "what is gone is not learnt" in done.stderr
    (result,) = msgspec.json.decode(done.stdout)
    assert result["records"] == len(world.inputs()) == 62 - 20
    world.check(deal=own, tasks=1)


def test_a_state_from_before_a_refold_is_not_gone_on_with(bench: Bench):
    world = World(bench, SOURCE + SINK + HEAD + KEEPING, 1)
    world.feed()
    world.run()
    world.refold()
    resolved = resolve(load(world.config), installed())
    store = resolved["store"].create(Seat())
    store.open(fresh=False)
    newest = store.snapshots()[-1]
    store.remove_snapshot(newest)
    store.close()
    assert "no later snapshot is left" in world.run(code=3)
    world.refold()
    world.feed()
    world.run()
    world.check_once()

    async def reading() -> None:
        sink = resolved["sink"].create(Seat())
        records = bench.broker.read_all(f"{bench.topic}-answers")[0]
        notices = [one.offset for one in records if b"refolded" in one.value]
        ending = await sink.peek()
        assert len(notices) == 4
        with pytest.raises(StateDamagedError, match="no later snapshot is left"):
            _ = [piece async for piece in sink.read_back((notices[2],), ending.end)]
        pieces = [piece async for piece in sink.read_back((notices[3],), ending.end)]
        assert all(isinstance(one, Assignment | Rejection) for piece in pieces for one in piece)

    asyncio.run(reading())


def test_there_must_be_something_to_make_anew(bench: Bench):
    world = World(bench, SOURCE + SINK + HEAD + KEEPING, 1)
    assert "nothing is answered" in world.refold(code=3)
    # A worker that has seen nothing has saved a state all the same, and that is of its universe.
    world.run()
    assert "run `speciate refold CONFIG`" in world.run("run.universe=stream", code=3)
    world.refold("-s", "run.universe=stream")
    world.feed()
    world.run("run.universe=stream")
    world.check_once()
    assert "no such topic" in world.refold("--answers", "nowhere", code=2)
