"""Workers of a group: killed, fenced, rebalanced and cut off in any order, they answer every input exactly once."""

import asyncio
import contextlib
import random
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from logs_in_memory import Cluster, Process, check_exactly_once, until
from worlds import make_pipeline, make_tree, stream, with_trouble

from speciate import commit, endurance, takeover, worker
from speciate.errors import ConfigError, FencedError, StateLockedError, StateMismatchError
from speciate.plugins import installed
from speciate.report import Report, Status
from speciate_schemas import (
    DeadLetter,
    ForgetCategory,
    MergeCategories,
    RenameCategory,
    encode,
)

COUNT = 90
OFTEN = {"commit": {"events": 5, "interval_ms": 5.0, "snapshot_events": 15}}
CONTROLS = [
    [RenameCategory(id="r", category=0, label="zero"), ForgetCategory(id="gone", category=99)],
    [MergeCategories(id="m", keep=0, absorb=1), RenameCategory(id="s", category=0, label="x", stream="cam")],
]
LETTER = DeadLetter(
    id="i", stream="", sequence=3, stage="encoder", error="EncodeError", message="no", origin="x@3", original=b"bytes"
)


def events_of(number):
    """A stream with every kind of trouble, differing from partition to partition; every tenth event comes twice."""
    events = with_trouble(COUNT, seed=number)
    events[7] = LETTER
    for place in range(19, COUNT, 10):
        events[place] = events[place - 15]
    return events


def make_cluster(partitions=2, seed=0):
    return Cluster(*[events_of(number) for number in range(partitions)], controls=CONTROLS, seed=seed)


@pytest.fixture(autouse=True)
def _hurried(monkeypatch):
    """Pauses as ever, only shorter."""
    monkeypatch.setattr(endurance, "FIRST_PAUSE", 0.002)
    monkeypatch.setattr(endurance, "LONGEST_PAUSE", 0.01)
    monkeypatch.setattr(takeover, "LOOK_SECONDS", 0.01)
    monkeypatch.setattr(worker, "GRACE_SECONDS", 5.0)


async def joined(*processes):
    await until(lambda: all(process.share.joined for process in processes), *processes)


class Trouble:
    """Faults by chance, so many and no more."""

    def __init__(self, seed, count, rate=0.05):
        self._chance = random.Random(seed)
        self._left = count
        self._rate = rate

    def __call__(self, number, operation):
        if self._left and self._chance.random() < self._rate:
            self._left -= 1
            return self._chance.choice(["away", "behind", "fence", "slow"])
        return None


seeds = st.integers(0, 2**16)
steps = st.tuples(
    st.integers(0, 40),
    st.sampled_from(
        [
            *("rebalance", "rebalance", "rebalance", "kill", "kill", "stop", "start", "start"),
            *("trouble", "fence", "lose snapshots", "damage snapshot"),
        ]
    ),
    seeds,
)
"""So many operations of the workers later, what happens, and the chance it happens with."""
schedules = st.lists(steps, min_size=1, max_size=12)
settings_of_tasks = st.fixed_dictionaries(
    {
        "universe": st.sampled_from(["partition", "stream"]),
        "standby": st.integers(0, 2),
        "batch_events": st.sampled_from([1, 7, 50]),
        "linger_ms": st.just(0.0),
    }
)


class Story:
    """A group and what happens to it."""

    def __init__(self, folder, cluster, changes):
        self.folder, self.cluster, self.changes = folder, cluster, changes
        self.processes = []

    def start(self):
        self.processes.append(Process(self.cluster, self.folder, **self.changes))

    async def wait(self, operations):
        """Until the workers have done so much more, or seem to have nothing left to do."""
        soon = len(self.cluster.operations) + operations
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0.03):
                await until(lambda: len(self.cluster.operations) >= soon, *self.processes)

    async def happen(self, step, value):
        cluster, living = self.cluster, self.processes
        chance = random.Random(value)
        partition = cluster.partitions[value % len(cluster.partitions)]
        if step in {"kill", "stop"} and living:
            process = living.pop(value % len(living))
            await (process.kill() if step == "kill" else process.stop())
        elif step == "start" and len(living) < 3:
            self.start()
            await joined(self.processes[-1])
        elif step == "rebalance":
            cluster.rebalance(value)
        elif step == "trouble":
            cluster.fault = Trouble(value, 4)
        elif step == "fence":
            partition.epoch += 1
        elif step == "lose snapshots":
            with cluster.lock:
                for sequence in sorted(partition.snapshots)[chance.randint(0, 2) :]:
                    del partition.snapshots[sequence]
        elif step == "damage snapshot" and partition.snapshots:
            with cluster.lock:
                sequence = chance.choice(sorted(partition.snapshots))
                partition.snapshots[sequence] = partition.snapshots[sequence][:-1]

    async def end(self):
        """Let the group come to the end of its input in peace, and leave in order."""
        self.cluster.fault = lambda number, operation: None
        if not self.processes:
            self.start()
        await joined(*self.processes)
        self.cluster.rebalance()
        await until(lambda: self.cluster.done, *self.processes)
        # Whoever answers these has caught up, and will leave the state of all inputs behind.
        for partition in self.cluster.partitions:
            partition.events += [encode(event) for event in stream(3, start=900)]
        await until(lambda: self.cluster.done, *self.processes)
        for process in self.processes:
            await process.stop()


async def tell(folder, schedule, run, seed):
    cluster = make_cluster(seed=seed)
    changes = {**OFTEN, "run": run}
    story = Story(folder, cluster, changes)
    story.start()
    story.start()
    await joined(*story.processes)
    cluster.rebalance()
    for operations, step, value in schedule:
        await story.wait(operations)
        await story.happen(step, value)
    await story.end()
    await check_exactly_once(cluster, folder, **changes)
    for partition in cluster.partitions:
        assert max(partition.snapshots) == partition.inputs, "who leaves in order leaves a state behind"


@settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(schedules, settings_of_tasks, seeds)
def test_whatever_happens_to_a_group_every_input_is_answered_once(schedule, run, seed):
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(tell(Path(folder), schedule, run, seed))


@pytest.mark.parametrize("fault", ["away", "behind", "fence"])
async def test_whichever_operation_fails_the_outputs_are_those_of_an_undisturbed_run(tmp_path, fault):
    """One fault at each operation in turn, of a task that begins, goes on and ends."""
    cluster = make_cluster(1)
    process = Process(cluster, tmp_path, **OFTEN)
    await joined(process)
    cluster.rebalance()
    await until(lambda: cluster.done, process)
    await process.stop()
    operations = len(cluster.operations)
    for at in range(0, operations, 1 if fault != "fence" else 3):
        cluster = make_cluster(1, seed=at)
        cluster.fault = lambda number, operation, cluster=cluster, at=at: (
            fault if len(cluster.operations) == at + 1 else None
        )
        process = Process(cluster, tmp_path, **OFTEN)
        await joined(process)
        cluster.rebalance()
        await until(lambda cluster=cluster: cluster.done, process)
        await process.stop()
        await check_exactly_once(cluster, tmp_path, **OFTEN)


async def test_each_attempt_has_stages_of_its_own_and_the_outputs_stay_exactly_once(tmp_path):
    """The in-memory source refuses to be opened twice."""
    cluster = make_cluster(1)
    failures = []

    def fault(number, operation):
        if len(failures) < 6 and operation in {"recover", "open", "commit"} and cluster.chance.random() < 0.5:
            failures.append(operation)
            return "away"
        return None

    cluster.fault = fault
    process = Process(cluster, tmp_path, **OFTEN)
    await joined(process)
    cluster.rebalance()
    await until(lambda: cluster.done, process)
    await process.stop()
    assert len(failures) == 6
    await check_exactly_once(cluster, tmp_path, **OFTEN)


async def test_a_task_that_moves_is_gone_on_with_by_its_new_owner(tmp_path):
    cluster = make_cluster()
    one, other = Process(cluster, tmp_path, **OFTEN), Process(cluster, tmp_path, **OFTEN)
    await joined(one, other)
    one.share.give(frozenset({0, 1}))
    other.share.give(frozenset())
    await until(lambda: cluster.partitions[0].mark is not None, one, other)
    one.share.give(frozenset({1}))
    other.share.give(frozenset({0}))
    await until(lambda: cluster.done, one, other)
    for partition in cluster.partitions:
        partition.events += [encode(event) for event in stream(20, start=900)]
    await until(lambda: cluster.done, one, other)
    await one.stop()
    await other.stop()
    assert {run.seat.number for run in other.worker.runs} == {0}
    assert one.share.left
    assert other.share.left
    await check_exactly_once(cluster, tmp_path, **OFTEN)


async def test_a_rebalance_does_not_disturb_tasks_that_stay(tmp_path):
    cluster = make_cluster()
    process = Process(cluster, tmp_path, **OFTEN)
    await joined(process)
    for _ in range(5):
        cluster.rebalance()
        await asyncio.sleep(0.005)
    await until(lambda: cluster.done, process)
    await process.stop()
    assert [number for number, operation in cluster.operations if operation == "recover"] in ([0, 1], [1, 0])


async def test_who_is_fenced_lets_go_and_asks_who_is_right(tmp_path, caplog):
    """It was believed dead and is not: the other one goes on, and nothing is written twice."""
    cluster = make_cluster(1)
    frozen, other = Process(cluster, tmp_path, **OFTEN), Process(cluster, tmp_path, **OFTEN)
    await joined(frozen, other)
    frozen.share.give(frozenset({0}))
    await until(lambda: cluster.partitions[0].mark is not None, frozen)
    # Nobody has told the first one.
    frozen.share.share = frozenset()
    other.share.give(frozenset({0}))
    await until(lambda: cluster.done, frozen, other)
    cluster.partitions[0].events += [encode(event) for event in stream(20, start=900)]
    await until(lambda: cluster.done, frozen, other)
    # Before it is stopped: whoever stops asks nobody any more.
    await until(lambda: frozen.share.rejoined == ("another worker has taken over" in caplog.text), frozen, other)
    await frozen.stop()
    await other.stop()
    await check_exactly_once(cluster, tmp_path, **OFTEN)


async def test_an_error_that_trying_again_does_not_mend_stops_the_worker_and_is_raised(tmp_path):
    cluster = make_cluster(3)
    process = Process(cluster, tmp_path, **OFTEN)
    await joined(process)
    cluster.rebalance()
    await until(lambda: cluster.done, process)
    await process.stop()
    before = [len(partition.answers) for partition in cluster.partitions]
    for partition in cluster.partitions:
        partition.events += [encode(event) for event in stream(200, start=900)]
    # The outputs of one task were emptied behind our back.
    spoilt = cluster.partitions[1]
    spoilt.answers, spoilt.mark = [], None
    process = Process(cluster, tmp_path, **OFTEN)
    await joined(process)
    cluster.rebalance()
    with pytest.raises(StateMismatchError, match=r"state/1 is of record .* but the output answers only 0"):
        await asyncio.wait_for(process.running, 20)
    assert process.share.left
    assert len(cluster.partitions[0].answers) >= before[0]
    spoilt.events, spoilt.controls, spoilt.snapshots = [], [], {}
    process = Process(cluster, tmp_path, **OFTEN)
    await joined(process)
    cluster.rebalance()
    await until(lambda: cluster.done, process)
    await process.stop()
    spoilt.dead_letters = []
    await check_exactly_once(cluster, tmp_path, **OFTEN)


async def test_of_several_errors_the_first_is_raised(tmp_path):
    cluster = make_cluster(2)
    process = Process(cluster, tmp_path, **OFTEN)
    await joined(process)

    def fault(number, operation):
        if operation == "commit" and number == 0:
            raise ConfigError("the first")
        if operation == "commit" and ("leaving",) in seen:
            raise ConfigError("the second")

    seen = []
    cluster.fault = fault
    stop = process.worker._let_go

    async def leaving(grace):
        seen.append(("leaving",))
        return await stop(grace)

    process.worker._let_go = leaving
    cluster.partitions[1].events = cluster.partitions[1].events[:3]
    cluster.rebalance()
    with pytest.raises(ConfigError, match="the first"):
        await asyncio.wait_for(process.running, 20)


async def test_what_the_group_cannot_go_on_with_is_raised(tmp_path):
    cluster = make_cluster()
    process = Process(cluster, tmp_path, **OFTEN)
    await joined(process)
    cluster.rebalance()
    process.share.give(StateMismatchError("the number of partitions was changed"))
    with pytest.raises(StateMismatchError, match="number of partitions"):
        await asyncio.wait_for(process.running, 20)
    assert process.share.left


@pytest.mark.parametrize("operation", ["recover", "open", "read", "commit", "write answers"])
async def test_a_stop_while_everything_is_away_ends_without_an_error(tmp_path, operation):
    cluster = make_cluster(1)
    cluster.fault = lambda number, name: "away" if name == operation else None
    process = Process(cluster, tmp_path, **OFTEN)
    await joined(process)
    cluster.rebalance()
    await until(lambda: [name for _, name in cluster.operations].count(operation) >= 3, process)
    await process.stop()
    assert process.share.left
    cluster.fault = lambda number, name: None
    again = Process(cluster, tmp_path, **OFTEN)
    await joined(again)
    cluster.rebalance()
    await until(lambda: cluster.done, again)
    await again.stop()
    await check_exactly_once(cluster, tmp_path, **OFTEN)


async def test_a_commit_that_never_ends_does_not_hold_up_the_stop_for_ever(tmp_path, monkeypatch):
    monkeypatch.setattr(worker, "GRACE_SECONDS", 0.05)
    monkeypatch.setattr(commit, "CLOSING_SECONDS", 0.05)
    cluster = make_cluster(1)
    hanging = asyncio.Event()
    process = Process(cluster, tmp_path, **OFTEN)
    real = process.client.pass_by

    async def pass_by(number, operation):
        if operation == "commit" and cluster.partitions[0].mark is not None:
            hanging.set()
            await asyncio.sleep(1000)
        return await real(number, operation)

    process.client.pass_by = pass_by
    await joined(process)
    cluster.rebalance()
    await asyncio.wait_for(hanging.wait(), 20)
    await process.stop()
    again = Process(cluster, tmp_path, **OFTEN)
    await joined(again)
    cluster.rebalance()
    await until(lambda: cluster.done, again)
    await again.stop()
    await check_exactly_once(cluster, tmp_path, **OFTEN)


async def test_sources_that_end_end_the_worker(tmp_path):
    cluster = make_cluster()
    cluster.follow = False
    process = Process(cluster, tmp_path, **OFTEN)
    await joined(process)
    cluster.rebalance()
    await asyncio.wait_for(process.running, 20)
    assert cluster.done
    assert process.share.left
    await check_exactly_once(cluster, tmp_path, **OFTEN)


async def test_a_share_that_is_told_again_just_as_the_last_task_ends_keeps_nobody_waiting(tmp_path):
    cluster = make_cluster(1)
    cluster.follow = False
    process = Process(cluster, tmp_path, **OFTEN)
    await joined(process)
    real = process.worker._notice_ends

    async def noticing():
        await real()
        if process.worker._ended:
            process.share.give(frozenset({0}))
            await asyncio.sleep(0.01)

    process.worker._notice_ends = noticing
    cluster.rebalance()
    await asyncio.wait_for(process.running, 10)
    assert cluster.done


async def test_a_worker_that_never_has_a_task_waits_and_leaves(tmp_path):
    cluster = make_cluster(1)
    process = Process(cluster, tmp_path, **OFTEN)
    await joined(process)
    process.share.give(frozenset())
    await asyncio.sleep(0.02)
    assert not process.running.done()
    await process.stop()
    assert process.worker.runs == []
    assert process.share.left


async def test_who_is_stopped_before_the_group_lets_it_in_leaves_at_once(tmp_path):
    cluster = make_cluster(1)
    process = Process(cluster, tmp_path, **OFTEN)

    async def join():
        await asyncio.sleep(1000)

    process.share.join = join
    await asyncio.sleep(0.01)
    await process.stop()
    assert process.worker.runs == []
    assert cluster.operations == []


async def test_a_cancelled_worker_ends_at_once_and_nothing_is_lost(tmp_path):
    cluster = make_cluster(1)
    process = Process(cluster, tmp_path, **OFTEN)
    await joined(process)
    cluster.rebalance()
    await until(lambda: cluster.partitions[0].mark is not None, process)
    process.running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(process.running, 5)
    assert process.share.left
    again = Process(cluster, tmp_path, **OFTEN)
    await joined(again)
    cluster.rebalance()
    await until(lambda: cluster.done, again)
    await again.stop()
    await check_exactly_once(cluster, tmp_path, **OFTEN)


async def test_tasks_of_others_are_followed_as_many_as_wished_and_never_our_own(tmp_path):
    cluster = make_cluster(4)
    changes = {**OFTEN, "run": {"standby": 2}}
    one, other = Process(cluster, tmp_path, **changes), Process(cluster, tmp_path, **OFTEN)
    await joined(one, other)
    one.share.give(frozenset({1}))
    other.share.give(frozenset({0, 2, 3}))
    await until(lambda: one.share.ready == {1, 2, 3}, one, other)
    assert sorted(one.worker._followers) == [2, 3], "those behind our own, so that workers differ"
    one.share.give(frozenset({1, 2}))
    other.share.give(frozenset({0, 3}))
    await until(lambda: one.share.ready == {0, 1, 2, 3}, one, other)
    assert sorted(one.worker._followers) == [0, 3]
    await until(lambda: other.share.ready == {0, 3}, one, other)
    await until(lambda: cluster.done, one, other)
    await one.stop()
    await other.stop()
    await check_exactly_once(cluster, tmp_path, **OFTEN)


async def test_without_a_head_there_is_nothing_to_follow(tmp_path):
    cluster = make_cluster(2)
    changes = {**OFTEN, "run": {"standby": 1}, "without_head": True}
    process = Process(cluster, tmp_path, **changes)
    await joined(process)
    process.share.give(frozenset({0}))
    await until(lambda: cluster.partitions[0].done, process)
    assert process.worker._followers == {}
    assert process.share.ready == {0}
    await process.stop()


async def test_an_error_of_a_file_is_not_waited_for(tmp_path):
    """With a log, who holds the lock is the former owner, which has not noticed yet; with files it is a mistake."""
    tree = make_tree(tmp_path, stream(9))
    provider = installed().provider("store", "directory")
    first = provider.create(provider.options(path=tree["store"]["path"]))
    first.open(fresh=False)
    with pytest.raises(StateLockedError):
        await asyncio.wait_for(make_pipeline(tree).run(), 10)
    first.close()


async def test_a_locked_state_beside_a_log_is_waited_for(tmp_path):
    cluster = make_cluster(1)
    process = Process(cluster, tmp_path, **OFTEN)
    locked = [3]
    store = process.household.resolved.sections["store"].provider
    made = store.create_at

    def create_at(options, seat):
        one = made(options, seat)
        real = one.open

        def open_(*, fresh):
            if locked[0]:
                locked[0] -= 1
                raise StateLockedError("in use by process 7")
            real(fresh=fresh)

        one.open = open_
        return one

    object.__setattr__(store, "create_at", create_at)
    await joined(process)
    cluster.rebalance()
    await until(lambda: cluster.done, process)
    await process.stop()
    assert locked == [0]
    await check_exactly_once(cluster, tmp_path, **OFTEN)


async def test_alone_a_pipeline_that_is_fenced_ends_with_the_error(tmp_path):
    """There is no group that could settle who is right."""
    from speciate.alone import Alone

    cluster = make_cluster(1)
    process = Process(cluster, tmp_path, **OFTEN)
    process.running.cancel()
    await asyncio.gather(process.running, return_exceptions=True)
    alone = worker.Worker(process.household, Alone())
    running = asyncio.create_task(alone.run())
    for number in range(2):
        # Once could be a transaction that we slept through; twice is somebody else.
        await until(lambda: cluster.done)
        cluster.partitions[0].epoch += 1
        cluster.partitions[0].events += [encode(event) for event in stream(20, start=900 + 100 * number)]
    with pytest.raises(FencedError, match="another process writes to the same outputs"):
        await asyncio.wait_for(running, 20)


async def test_the_report_is_on_all_attempts_and_keeps_only_the_last_of_each_task(tmp_path):
    """An attempt that is over leaves its figures, not its head: there may be thousands of them."""
    cluster = make_cluster()

    def fault(number, operation):
        commits = cluster.operations.count((number, "commit"))
        return "behind" if operation == "commit" and commits in {2, 4, 6} else None

    cluster.fault = fault
    process = Process(cluster, tmp_path, **OFTEN)
    await joined(process)
    assert Status.of(process.worker.runs, process.worker.ledger, 1.0) is None
    cluster.rebalance()
    await until(lambda: cluster.done, process)
    await process.stop()
    recoveries = [number for number, operation in cluster.operations if operation == "recover"]
    assert sorted(recoveries) == [0] * 4 + [1] * 4, "three attempts of each task failed"
    assert sorted(run.seat.number for run in process.worker.runs) == [0, 1]
    report = Report.of(process.worker.runs, process.worker.ledger, 1.0, stopped=True)
    inputs = [partition.inputs for partition in cluster.partitions]
    assert report.status.tasks == dict(enumerate(inputs))
    assert report.status.sequence == sum(inputs) <= report.status.answered
    tally = report.status.tally
    assert tally.assigned + tally.rejected + tally.controls == sum(inputs)
    assert report.resumed_at == 0, "of all attempts, the first"
    assert 0 < report.latency_p50 <= report.latency_p99
    assert all(report.status.stages[name].busy > 0 for name in ("source", "head", "sink"))
