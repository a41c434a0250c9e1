"""Commits: what becomes visible, in which order, and what a snapshot under way means."""

import asyncio
import gc
import threading

import pytest
from worlds import Fuse, Fused, PowerError, make_head, record

from speciate import commit
from speciate.commit import CommitPoint, Committer, sealer
from speciate.outcomes import Outcome
from speciate.plugins import installed
from speciate.snapshot import parse
from speciate.task import Task
from speciate.universe import Universe
from speciate_schemas import Rejection, Tally


def make(stage, name, path):
    provider = installed().provider(stage, name)
    return provider.create(provider.options(path=str(path)))


class World:
    """Real sinks and a real store in a folder, and a committer over them."""

    def __init__(self, folder, *, snapshot_first=False, fuse=None):
        self.fuse = fuse or Fuse()
        self.answers = make("sink", "jsonl", folder / "answers.jsonl")
        self.dead = make("sink", "jsonl", folder / "dead.jsonl")
        self.store = make("store", "directory", folder / "state")
        self.task = Task(Universe(make_head()), duplicate_window=9, locate=self.dead.locate)
        self.committer = Committer(
            answers=Fused(self.answers, self.fuse, "flush"),
            dead_letters=Fused(self.dead, self.fuse, "flush"),
            store=Fused(self.store, self.fuse, "save_commit", "save_snapshot"),
            seal=sealer({"policy": {"plugin": "dp"}}, {"policy.dp": "1.0"}),
            snapshots_kept=2,
            snapshot_first=snapshot_first,
        )

    async def __aenter__(self):
        self.store.open(fresh=False)
        await self.answers.open(None)
        await self.dead.open(None)
        return self

    async def __aexit__(self, *_):
        await self.committer.close()
        await self.answers.close()
        await self.dead.close()
        self.store.close()

    def point(self, *, snapshot: bool) -> CommitPoint:
        state = self.task.state() if snapshot else None
        return CommitPoint(self.task.sequence, (self.task.sequence,), self.task.tally, state)

    async def write(self, count: int) -> list[Outcome]:
        start = self.task.sequence
        outcomes = self.task.fold([record(n) for n in range(start, start + count)])
        await self.committer.write(outcomes)
        return outcomes


async def read(sink, start, end):
    return [answer async for piece in sink.read_back(start, end) for answer in piece]


async def test_a_commit_says_where_everything_ends(tmp_path):
    async with World(tmp_path) as world:
        await world.committer.begin(world.point(snapshot=True))
        first = world.store.load_commit()
        assert (first.sequence, first.answers, first.dead_letters) == (0, (0,), (0,))
        outcomes = await world.write(3)
        assert world.store.load_commit() == first, "what is written counts once it is committed"
        await world.committer.commit(world.point(snapshot=False))
        second = world.store.load_commit()
        assert (second.sequence, second.source, second.tally) == (3, (3,), Tally(assigned=3, births=0))
        assert await read(world.answers, first.answers, second.answers) == [outcome.answer for outcome in outcomes]
        assert world.store.snapshots() == [0]


async def test_rejections_reach_both_sinks_and_others_only_one(tmp_path):
    async with World(tmp_path) as world:
        outcomes = world.task.fold([record(0), record(1), record(2, record(0).event)])
        assert isinstance(outcomes[2].answer, Rejection)
        await world.committer.write(outcomes)
        await world.committer.begin(world.point(snapshot=True))
        commit = world.store.load_commit()
        assert len(await read(world.answers, (0,), commit.answers)) == 3
        (line,) = (tmp_path / "dead.jsonl").read_bytes().splitlines()
        assert commit.dead_letters == (len(line) + 1,)


FLUSHES = ["JsonLinesSink.flush", "JsonLinesSink.flush"]
SAVES = ["DirectoryStore.save_snapshot", "DirectoryStore.save_commit"]


@pytest.mark.parametrize("snapshot_first", [False, True])
async def test_outputs_survive_before_they_count_and_the_snapshot_knows_its_place(tmp_path, snapshot_first):
    """The very first snapshot goes before its commit; later ones where the input cannot be read again."""
    async with World(tmp_path, snapshot_first=snapshot_first) as world:
        await world.committer.begin(world.point(snapshot=True))
        assert world.fuse.calls == [*FLUSHES, *SAVES]
        world.fuse.calls.clear()
        await world.write(2)
        await world.committer.commit(world.point(snapshot=True))
        await world.committer.settle()
        assert world.fuse.calls == [*FLUSHES, *(SAVES if snapshot_first else SAVES[::-1])]
        snapshot = parse(world.store.load_snapshot(2))
        assert snapshot.commit == world.store.load_commit()
        assert snapshot.state == world.task.state()
        assert snapshot.manifest.config == {"policy": {"plugin": "dp"}}
        assert snapshot.manifest.plugins == {"policy.dp": "1.0"}


async def test_only_the_newest_snapshots_are_kept(tmp_path):
    async with World(tmp_path) as world:
        await world.committer.begin(world.point(snapshot=True))
        for _ in range(4):
            await world.write(5)
            await world.committer.commit(world.point(snapshot=True))
        await world.committer.settle()
        assert world.store.snapshots() == [15, 20]


class Slow(Fused):
    """A store whose disk takes its time over snapshots, and over commits if it is told to."""

    def __init__(self, part, *, commits=False):
        super().__init__(part, Fuse())
        self.gate = threading.Event()
        self.commits = commits

    def save_commit(self, commit):
        assert not self.commits or self.gate.wait(10)
        self._part.save_commit(commit)

    def save_snapshot(self, sequence, data):
        assert self.gate.wait(10)
        self._part.save_snapshot(sequence, data)


async def test_commits_go_on_while_a_snapshot_is_written_and_the_next_one_waits_its_turn(tmp_path):
    async with World(tmp_path) as world:
        await world.committer.begin(world.point(snapshot=True))
        world.committer._store = slow = Slow(world.store)
        await world.write(1)
        await world.committer.commit(world.point(snapshot=True))
        assert world.committer.saving
        await world.write(1)
        await world.committer.commit(world.point(snapshot=False))
        assert world.store.load_commit().sequence == 2
        assert world.store.snapshots() == [0]
        await world.write(1)
        third = asyncio.create_task(world.committer.commit(world.point(snapshot=True)))
        await asyncio.sleep(0.02)
        assert not third.done()
        slow.gate.set()
        await third
        await world.committer.settle()
        assert not world.committer.saving
        assert world.store.snapshots() == [1, 3]


async def test_a_snapshot_that_failed_is_told_at_the_next_chance(tmp_path):
    # Calls: two flushes and two saves to begin, then two flushes, the commit, and the snapshot that fails.
    async with World(tmp_path, fuse=Fuse(at=7)) as world:
        await world.committer.begin(world.point(snapshot=True))
        await world.write(1)
        await world.committer.commit(world.point(snapshot=True))
        with pytest.raises(PowerError, match="save_snapshot"):
            await world.committer.settle()
        assert world.store.load_commit().sequence == 1, "the commit itself was made"


async def test_closing_waits_for_a_snapshot_and_keeps_quiet_about_it(tmp_path):
    async with World(tmp_path, fuse=Fuse(at=7)) as world:
        await world.committer.begin(world.point(snapshot=True))
        await world.write(1)
        await world.committer.commit(world.point(snapshot=True))
        await world.committer.close()
        assert not world.committer.saving
        await world.committer.close()


async def test_who_is_cancelled_while_waiting_does_not_take_the_snapshot_along(tmp_path):
    async with World(tmp_path) as world:
        await world.committer.begin(world.point(snapshot=True))
        world.committer._store = slow = Slow(world.store)
        await world.write(1)
        await world.committer.commit(world.point(snapshot=True))
        waiting = asyncio.create_task(world.committer.settle())
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        slow.gate.set()
        await world.committer.close()
        assert world.store.snapshots() == [0, 1]


@pytest.mark.parametrize("snapshot_first", [False, True])
@pytest.mark.parametrize("snapshot", [False, True])
async def test_a_commit_once_begun_is_finished_before_closing_returns(tmp_path, snapshot, snapshot_first):
    """With the snapshot that belongs to it: the store is unlocked next, and another process may take it."""
    async with World(tmp_path, snapshot_first=snapshot_first) as world:
        await world.committer.begin(world.point(snapshot=True))
        world.committer._store = slow = Slow(world.store, commits=True)
        await world.write(3)
        committing = asyncio.create_task(world.committer.commit(world.point(snapshot=snapshot)))
        await asyncio.sleep(0.05)
        committing.cancel()
        await asyncio.gather(committing, return_exceptions=True)
        closing = asyncio.create_task(world.committer.close())
        await asyncio.sleep(0.05)
        assert not closing.done()
        slow.gate.set()
        await closing
        assert world.store.load_commit().sequence == 3
        assert world.store.snapshots() == ([0, 3] if snapshot else [0])


async def test_a_commit_that_fails_behind_the_back_of_a_cancelled_run_is_not_shouted_about(tmp_path):
    told = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context))
    async with World(tmp_path, fuse=Fuse(at=6)) as world:
        await world.committer.begin(world.point(snapshot=True))
        await world.write(1)
        committing = asyncio.create_task(world.committer.commit(world.point(snapshot=False)))
        await asyncio.sleep(0)
        committing.cancel()
        await asyncio.gather(committing, return_exceptions=True)
        await world.committer.close()
        assert world.store.load_commit().sequence == 0
    gc.collect()
    assert told == []


class AwaySink:
    """A log whose broker does not answer."""

    transactional = True

    def __init__(self):
        self.asked, self.given_up = asyncio.Event(), False

    async def commit(self, sequence, source):
        self.asked.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.given_up = True


async def test_a_transaction_that_is_away_is_not_waited_for_when_closing(monkeypatch):
    monkeypatch.setattr(commit, "CLOSING_SECONDS", 0.05)
    sink = AwaySink()
    committer = Committer(
        answers=sink, dead_letters=None, store=None, seal=None, snapshots_kept=2, snapshot_first=False
    )
    committing = asyncio.create_task(committer.commit(CommitPoint(1, None, Tally(), None)))
    await sink.asked.wait()
    committing.cancel()
    await asyncio.gather(committing, return_exceptions=True)
    assert not sink.given_up
    async with asyncio.timeout(30):
        await committer.close()
    assert sink.given_up
