"""Standing by: a task that was followed is the task itself, or of no use, and never something in between."""

import asyncio
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from logs_in_memory import Client, Cluster, Process, check_exactly_once, resolved_on, until
from worlds import bits, stream, with_trouble

from speciate import endurance, standby
from speciate.household import Household
from speciate.parts import Parts
from speciate.plugins import installed
from speciate.snapshot import parse
from speciate.stages import Seat
from speciate.standby import Follower
from speciate_schemas import RenameCategory, encode

COUNT = 60
OFTEN = {"commit": {"events": 5, "interval_ms": 5.0, "snapshot_events": 15}}
CONTROLS = [[RenameCategory(id="r", category=0, label="zero"), RenameCategory(id="n", category=77, label="none")]]


@pytest.fixture(autouse=True)
def _hurried(monkeypatch):
    monkeypatch.setattr(endurance, "FIRST_PAUSE", 0.002)
    monkeypatch.setattr(endurance, "LONGEST_PAUSE", 0.01)


def make_cluster(seed=0):
    return Cluster(with_trouble(COUNT), controls=CONTROLS, seed=seed)


async def begun(cluster, folder, **changes):
    process = Process(cluster, folder, **{**OFTEN, **changes})
    await until(lambda: process.share.joined, process)
    cluster.rebalance()
    return process


def follower_of(cluster, folder, **changes):
    client = Client(cluster)
    resolved = resolved_on(client, folder, **{**OFTEN, **changes})
    home = Household(resolved, installed())
    return Follower(lambda: Parts.of(resolved, Seat(0, 1), home.encoder), home, 0), client


def newest(cluster):
    partition = cluster.partitions[0]
    return parse(partition.snapshots[max(partition.snapshots)])


async def test_a_followed_task_is_the_task_itself(tmp_path):
    """Bit for bit what its owner saved at that place, and told with the same figures."""
    cluster = make_cluster()
    owner = await begun(cluster, tmp_path)
    follower, _ = follower_of(cluster, tmp_path)
    follower.start()
    await until(lambda: cluster.done, owner)
    cluster.partitions[0].events += [encode(event) for event in stream(20, start=900)]
    await until(lambda: cluster.done, owner)
    await owner.stop()
    # Whoever has not begun to follow is not waited for.
    await until(lambda: follower._task is not None)
    task = await follower.catch_up(cluster.partitions[0].inputs)
    assert task is not None
    saved = newest(cluster)
    assert saved.commit.sequence == task.sequence == cluster.partitions[0].inputs
    assert bits(task.state()) == bits(saved.state)
    assert task.tally == saved.commit.tally


async def promoted(folder, seed, wait, universe):
    cluster = make_cluster(seed)
    run = {"run": {"universe": universe}}
    owner = await begun(cluster, folder, **run)
    heir = Process(cluster, folder, **OFTEN, run={"universe": universe, "standby": 1})
    await until(lambda: heir.share.joined, heir)
    heir.share.give(frozenset())
    soon = len(cluster.operations) + wait
    await until(lambda: cluster.done or len(cluster.operations) > soon, owner, heir)
    await owner.kill()
    heir.share.give(frozenset({0}))
    await until(lambda: cluster.done, heir)
    cluster.partitions[0].events += [encode(event) for event in stream(3, start=900)]
    await until(lambda: cluster.done, heir)
    await heir.stop()
    await check_exactly_once(cluster, folder, **OFTEN, **run)
    assert newest(cluster).commit.sequence == cluster.partitions[0].inputs


@settings(deadline=None, max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 2**16), st.integers(0, 200), st.sampled_from(["partition", "stream"]))
def test_whoever_followed_goes_on_as_whoever_restored(seed, wait, universe):
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(promoted(Path(folder), seed, wait, universe))


async def test_a_follower_that_has_caught_up_makes_the_takeover_a_matter_of_opening(tmp_path):
    cluster = make_cluster()
    owner = await begun(cluster, tmp_path)
    heir = Process(cluster, tmp_path, **OFTEN, run={"standby": 1})
    await until(lambda: heir.share.joined, heir)
    heir.share.give(frozenset())
    await until(lambda: cluster.done, owner, heir)
    follower = heir.worker._followers[0]
    await until(lambda: follower._task is not None and follower._task.sequence == cluster.partitions[0].inputs, heir)
    await owner.kill()
    before = len(cluster.operations)
    heir.share.give(frozenset({0}))
    cluster.partitions[0].events += [encode(event) for event in stream(20, start=900)]
    await until(lambda: cluster.done, heir)
    (run,) = heir.worker.runs
    assert run.flow.start.followed
    assert "read back" not in [operation for _, operation in cluster.operations[before:]]
    await heir.stop()
    await check_exactly_once(cluster, tmp_path, **OFTEN)


async def test_it_follows_as_soon_as_something_is_saved(tmp_path):
    cluster = make_cluster()
    follower, _ = follower_of(cluster, tmp_path)
    follower.start()
    await asyncio.sleep(0.02)
    assert follower._task is None
    owner = await begun(cluster, tmp_path)
    await until(lambda: cluster.done, owner)
    await until(lambda: follower._task is not None and follower._task.sequence == COUNT + 2, owner)
    await owner.stop()
    assert await follower.catch_up(COUNT + 2) is not None


async def test_one_that_never_began_is_of_no_use(tmp_path):
    follower, _ = follower_of(make_cluster(), tmp_path)
    assert await follower.catch_up(5) is None
    follower.start()
    assert await follower.catch_up(5) is None
    await follower.let_go()


async def test_being_away_costs_a_follower_time_and_nothing_else(tmp_path):
    cluster = make_cluster()
    owner = await begun(cluster, tmp_path)
    await until(lambda: cluster.done, owner)
    await owner.stop()
    with cluster.lock:
        partition = cluster.partitions[0]
        for sequence in sorted(partition.snapshots)[1:]:
            del partition.snapshots[sequence]
    left = [6]

    def fault(number, operation):
        if left[0] and operation in {"follow", "open", "read"} and cluster.chance.random() < 0.4:
            left[0] -= 1
            return "away"
        return None

    cluster.fault = fault
    follower, _ = follower_of(cluster, tmp_path)
    follower.start()
    await until(lambda: not left[0] and follower._task is not None)
    task = await follower.catch_up(COUNT + 2)
    assert task is not None
    home = Household(resolved_on(Client(cluster), tmp_path, **OFTEN), installed())
    again = await home.new_task(lambda sequence: f"dead_letters/0#{sequence}")
    assert task.sequence == COUNT + 2 > again.sequence


async def test_one_that_is_too_slow_is_not_waited_for(tmp_path, monkeypatch):
    monkeypatch.setattr(standby, "CATCH_UP_SECONDS", 0.05)
    cluster = make_cluster()
    owner = await begun(cluster, tmp_path)
    await until(lambda: cluster.done, owner)
    follower, client = follower_of(cluster, tmp_path)
    real = client.pass_by

    async def pass_by(number, operation):
        if operation == "follow":
            await asyncio.sleep(1000)
        return await real(number, operation)

    client.pass_by = pass_by
    follower.start()
    await until(lambda: follower._task is not None, owner)
    with cluster.lock:
        cluster.partitions[0].events += [encode(event) for event in stream(20, start=900)]
    await until(lambda: cluster.done, owner)
    assert await asyncio.wait_for(follower.catch_up(COUNT + 22), 5) is None
    await owner.stop()


async def test_one_that_is_ahead_of_what_is_asked_for_is_of_no_use(tmp_path):
    cluster = make_cluster()
    owner = await begun(cluster, tmp_path)
    await until(lambda: cluster.done, owner)
    await owner.stop()
    follower, _ = follower_of(cluster, tmp_path)
    follower.start()
    await until(lambda: follower._task is not None and follower._task.sequence == COUNT + 2)
    assert await follower.catch_up(COUNT) is None


async def test_a_task_is_handed_over_once(tmp_path):
    """Whoever has it changes it."""
    cluster = make_cluster()
    owner = await begun(cluster, tmp_path)
    await until(lambda: cluster.done, owner)
    await owner.stop()
    follower, _ = follower_of(cluster, tmp_path)
    follower.start()
    await until(lambda: follower._task is not None)
    assert await follower.catch_up(COUNT + 2) is not None
    assert await follower.catch_up(COUNT + 2) is None


async def test_a_failure_is_told_and_whoever_relied_on_it_restores(tmp_path, caplog):
    cluster = make_cluster()
    owner = await begun(cluster, tmp_path)
    heir = Process(cluster, tmp_path, **OFTEN, run={"standby": 1})
    await until(lambda: heir.share.joined, heir)
    heir.share.give(frozenset())
    await until(lambda: cluster.partitions[0].mark is not None, owner, heir)

    def fault(number, operation):
        if operation == "follow":
            raise ZeroDivisionError("a bug")

    cluster.fault = fault
    await until(lambda: "following another worker's task ended" in caplog.text, owner, heir)
    cluster.fault = lambda number, operation: None
    await owner.kill()
    heir.share.give(frozenset({0}))
    await until(lambda: cluster.done, heir)
    await heir.stop()
    await check_exactly_once(cluster, tmp_path, **OFTEN)


async def test_a_state_of_another_configuration_is_not_followed(tmp_path, caplog):
    cluster = make_cluster()
    owner = await begun(cluster, tmp_path)
    await until(lambda: cluster.done, owner)
    await owner.stop()
    follower, _ = follower_of(cluster, tmp_path, policy={"alpha": 0.5})
    follower.start()
    await until(lambda: "following another worker's task ended" in caplog.text)
    (told,) = [one for one in caplog.records if "following another" in one.message]
    assert "policy.alpha" in told.reason
    assert await follower.catch_up(COUNT + 2) is None


@settings(deadline=None, max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 120))
def test_let_go_at_any_moment_what_is_left_is_whole(wait):
    """Never in the middle of a fold: the state is that of some number of answers, all of them."""

    async def main(folder):
        cluster = make_cluster()
        owner = await begun(cluster, folder)
        await until(lambda: cluster.done, owner)
        await owner.stop()
        with cluster.lock:
            snapshots = cluster.partitions[0].snapshots
            for sequence in sorted(snapshots)[1:]:
                del snapshots[sequence]
        follower, _ = follower_of(cluster, folder)
        begin = len(cluster.operations)
        follower.start()
        await until(lambda: len(cluster.operations) >= begin + min(wait, 12))
        await follower.let_go()
        task = follower._task
        if task is not None:
            home = Household(resolved_on(Client(cluster), folder, **OFTEN), installed())
            saved = parse(next(iter(snapshots.values())))
            again = await home.restored_task(saved.state, saved.commit.tally, lambda sequence: "")
            parts = Parts.of(home.resolved, Seat(0, 1))
            await parts.source.open(saved.commit.source, saved.commit.sequence)
            answers = cluster.answers(0)[saved.commit.sequence : task.sequence]
            parts.source.expect([answer.origin for answer in answers])
            records = []
            while len(records) < len(answers):
                records += await parts.source.read(len(answers) - len(records))
            again.refold(records, answers)
            assert bits(task.state()) == bits(again.state())

    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(main(Path(folder)))
