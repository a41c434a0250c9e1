"""Taking over on a log, and joining those who do: what a process that was frozen, or came too early, makes of it."""

import asyncio
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from logs_in_memory import Cluster, Process, check_exactly_once, until
from worlds import leaping, make_tree, stream, with_trouble

from speciate import endurance, takeover, worker
from speciate.config import parse, resolve
from speciate.errors import AwayError, FencedError, StateDamagedError, StateMismatchError
from speciate.household import Household
from speciate.parts import Parts
from speciate.pipeline import run
from speciate.plugins import installed
from speciate.stages import Ending
from speciate.takeover import take_over
from speciate.worker import Worker
from speciate_schemas import Control, DeadLetter, ForgetCategory, Message, RenameCategory, decode, encode

SAVED = 60


@pytest.fixture
def _hurried(monkeypatch):
    monkeypatch.setattr(endurance, "FIRST_PAUSE", 0.002)
    monkeypatch.setattr(endurance, "LONGEST_PAUSE", 0.01)
    monkeypatch.setattr(takeover, "LOOK_SECONDS", 0.01)


class Answers:
    """Stands in for a transactional sink: all it tells is how many inputs are answered, each time it is asked."""

    durable = transactional = True

    def __init__(self, *answered: int) -> None:
        self.left = list(answered)

    async def open(self, position, *, fresh: bool = False) -> None:
        """As the dead letters are."""

    async def recover(self) -> Ending:
        return Ending(self.left.pop(0), None, (0,), (0,))

    async def peek(self) -> Ending:
        return Ending(self.left.pop(0), None, (0,), (0,))

    def ended_at(self, position) -> bool:
        return False

    def describe(self) -> str:
        return "the answers"


async def take_over_with(resolved, answers: Answers) -> None:
    parts = Parts.of(resolved)
    parts.answers = parts.dead_letters = answers
    try:
        await take_over(parts, answers, Household(resolved, installed()))
    finally:
        await parts.source.close()
        parts.needed_store.close()


@pytest.fixture
def saved(tmp_path: Path):
    """A configuration whose state is that of all its events."""
    tree = make_tree(tmp_path, stream(SAVED))
    run(tree)
    return resolve(parse(tree), installed())


async def test_who_was_frozen_while_taking_over_lets_go_of_a_task_that_others_went_on_with(saved):
    answers = Answers(SAVED - 20, SAVED + 20)
    with pytest.raises(FencedError, match="others have gone on behind record 40 of the answers"):
        await take_over_with(saved, answers)
    assert not answers.left, "only looking again tells"


@pytest.mark.usefixtures("_hurried")
async def test_what_others_answered_may_be_seen_later_than_the_state_behind_it(saved):
    answers = Answers(*[SAVED - 20] * takeover.LOOKS, SAVED + 20)
    with pytest.raises(FencedError, match="others have gone on behind record 40 of the answers"):
        await take_over_with(saved, answers)
    assert not answers.left


@pytest.mark.usefixtures("_hurried")
async def test_outputs_that_were_emptied_are_told_from_those_that_others_went_on_with(saved):
    answers = Answers(SAVED - 20, *[SAVED - 20] * takeover.LOOKS)
    with pytest.raises(StateMismatchError, match="is of record 60, but the output answers only 40"):
        await take_over_with(saved, answers)
    assert not answers.left, "nobody can tell it at once"


async def test_a_state_of_another_configuration_is_not_waited_for(saved):
    answers = Answers(SAVED, SAVED)
    changed = msgspec.structs.replace(saved.config.run, duplicate_window=7)
    other = replace(saved, config=msgspec.structs.replace(saved.config, run=changed))
    with pytest.raises(StateMismatchError, match="the configuration says 7"):
        await take_over_with(other, answers)
    assert not answers.left


class Group:
    """Stands in for the workers' group, which nobody can join at first."""

    def __init__(self, refusals: int) -> None:
        self.refusals = refusals
        self.worker: Worker | None = None
        self.joined = self.left = False

    async def join(self) -> int:
        if self.refusals:
            self.refusals -= 1
            raise AwayError("no broker is there")
        self.joined = True
        return 1

    async def changed(self) -> frozenset[int]:
        assert self.worker is not None
        self.worker.stop()
        return frozenset()

    def keep_ready(self, numbers: frozenset[int]) -> None:
        """Nobody asks."""

    async def leave(self) -> None:
        self.left = True


def test_a_worker_that_starts_while_the_brokers_are_away_joins_when_they_are_back(saved):
    group = Group(refusals=3)

    async def main() -> None:
        group.worker = Worker(Household(saved, installed()), group)
        await group.worker.run()

    leaping(main())
    assert group.joined
    assert group.left
    assert group.refusals == 0


OFTEN = {"commit": {"events": 5, "interval_ms": 5.0, "snapshot_events": 15}}
CONTROLS = [[RenameCategory(id="r", category=0, label="zero"), ForgetCategory(id="gone", category=99)]]


async def ran(cluster, folder, **changes):
    """A process that has answered all there is, and left in order."""
    process = Process(cluster, folder, **{**OFTEN, **changes})
    await until(lambda: process.share.joined, process)
    cluster.rebalance()
    await until(lambda: cluster.done, process)
    await process.stop()
    return process


async def begun(cluster, folder, **changes):
    """A process that takes its task over, and whatever comes of it."""
    process = Process(cluster, folder, **{**OFTEN, **changes})
    await until(lambda: process.share.joined, process)
    cluster.rebalance()
    return process


def one_task(count=SAVED):
    return Cluster(with_trouble(count), controls=CONTROLS)


def append(cluster, count=20):
    cluster.partitions[0].events += [encode(event) for event in stream(count, start=900)]


@pytest.mark.parametrize("kept", [0, 1], ids=["no snapshot", "an older snapshot"])
@pytest.mark.parametrize("universe", ["partition", "stream"])
async def test_whatever_state_is_left_it_goes_on_as_if_nothing_had_happened(tmp_path, caplog, kept, universe):
    cluster = one_task()
    run = {"run": {"universe": universe}}
    await ran(cluster, tmp_path, **run)
    snapshots = cluster.partitions[0].snapshots
    assert len(snapshots) == 2
    for sequence in sorted(snapshots)[kept:]:
        del snapshots[sequence]
    append(cluster)
    await ran(cluster, tmp_path, **run)
    await check_exactly_once(cluster, tmp_path, **OFTEN, **run)
    assert ("learning all over again" in caplog.text) == (not kept)
    assert max(snapshots) == cluster.partitions[0].inputs


@pytest.mark.parametrize("gone", [1, 20, 42])
async def test_without_a_snapshot_and_without_the_first_answers_nothing_can_be_learnt_again(tmp_path, gone):
    cluster = one_task()
    await ran(cluster, tmp_path)
    partition = cluster.partitions[0]
    kept, partition.expired = dict(partition.snapshots), gone
    partition.snapshots.clear()
    before = list(partition.answers)
    process = await begun(cluster, tmp_path)
    with pytest.raises(
        StateDamagedError, match=rf"no whole snapshot is left, .* before record {gone} are gone from answers/0"
    ):
        await asyncio.wait_for(process.running, 20)
    assert partition.answers == before
    assert not partition.snapshots
    partition.snapshots = kept
    append(cluster)
    await ran(cluster, tmp_path)
    partition.expired = 0
    await check_exactly_once(cluster, tmp_path, **OFTEN)


async def test_answers_that_are_gone_behind_the_snapshot_are_told_and_nothing_is_learnt_without_them(tmp_path):
    """Where nothing is ever dropped, an input without its answer is no input that was dropped."""
    cluster = one_task()
    # So seldom that the older snapshot is well before the end.
    await ran(cluster, tmp_path, commit={**OFTEN["commit"], "snapshot_events": 40})
    partition = cluster.partitions[0]
    kept, older = dict(partition.snapshots), min(partition.snapshots)
    del partition.snapshots[max(kept)]
    partition.expired = older + 3
    process = await begun(cluster, tmp_path)
    with pytest.raises(StateDamagedError, match=rf"answers before record {older + 3} are gone from answers/0"):
        await asyncio.wait_for(process.running, 20)
    assert partition.snapshots.keys() == {older}
    partition.expired = 0
    append(cluster)
    await ran(cluster, tmp_path)
    await check_exactly_once(cluster, tmp_path, **OFTEN)


async def test_answers_that_are_gone_in_the_middle_are_told(tmp_path):
    cluster = one_task()
    await ran(cluster, tmp_path)
    partition = cluster.partitions[0]
    partition.snapshots.clear()
    del partition.answers[30:33]
    process = await begun(cluster, tmp_path)
    with pytest.raises(StateDamagedError, match=r"answers of records 30 to 32 are gone from answers/0"):
        await asyncio.wait_for(process.running, 20)


async def test_a_state_is_gone_on_with_though_all_answers_have_expired_behind_it(tmp_path):
    cluster = one_task()
    await ran(cluster, tmp_path)
    partition = cluster.partitions[0]
    partition.expired = len(partition.answers)
    append(cluster)
    await ran(cluster, tmp_path)
    partition.expired = 0
    await check_exactly_once(cluster, tmp_path, **OFTEN)


@pytest.mark.usefixtures("_hurried")
async def test_a_state_that_the_expired_answers_had_gone_on_from_is_refused(tmp_path):
    cluster = one_task()
    await ran(cluster, tmp_path)
    partition = cluster.partitions[0]
    del partition.snapshots[max(partition.snapshots)]
    partition.expired = len(partition.answers)
    process = await begun(cluster, tmp_path)
    with pytest.raises(
        StateMismatchError, match=f"is of record {max(partition.snapshots)}, but the output answers only 0"
    ):
        await asyncio.wait_for(process.running, 20)


async def test_a_state_of_another_configuration_is_refused(tmp_path):
    cluster = one_task()
    await ran(cluster, tmp_path)
    process = await begun(cluster, tmp_path, run={"universe": "stream"})
    with pytest.raises(StateMismatchError, match=r"run\.universe = 'partition', the configuration says 'stream'"):
        await asyncio.wait_for(process.running, 20)


async def test_whoever_begins_twice_begins_at_the_same_place(tmp_path):
    """Cut off right behind its first snapshot, with nothing answered: where it began is in that."""
    cluster = one_task()
    process = await begun(cluster, tmp_path)
    await until(lambda: bool(cluster.partitions[0].snapshots), process)
    await process.kill()
    assert min(cluster.partitions[0].snapshots) == 0
    await ran(cluster, tmp_path)
    await check_exactly_once(cluster, tmp_path, **OFTEN)


@pytest.mark.usefixtures("_hurried")
@pytest.mark.parametrize("fault", [None, "away", "behind", "fence"])
async def test_without_a_head_events_are_handed_on_exactly_once(tmp_path, fault):
    for at in range(4, 40, 5) if fault else [0]:
        cluster = one_task()
        cluster.fault = lambda number, operation, cluster=cluster, at=at: (
            fault if len(cluster.operations) == at else None
        )
        process = await begun(cluster, tmp_path, without_head=True)
        await until(lambda cluster=cluster: bool(cluster.partitions[0].mark), process)
        await process.kill()
        await ran(cluster, tmp_path, without_head=True)
        partition = cluster.partitions[0]
        events = [decode(data, Message) for data in partition.answers]
        inputs = {"events": list(partition.events), "controls": list(partition.controls)}
        for data, event in zip(partition.answers, events, strict=True):
            if isinstance(event, DeadLetter):
                assert bytes(event.original) == inputs["events"].pop(0)
            else:
                assert data == inputs[
                    "controls" if isinstance(event, Control) and data in inputs["controls"] else "events"
                ].pop(0)
        assert inputs == {"events": [], "controls": []}
        assert partition.dead_letters == []
        assert partition.snapshots == {}


async def test_who_is_fenced_in_task_after_task_takes_one_new_place_in_the_group(tmp_path: Path, monkeypatch):
    async def until_all_ended(*_):
        """However long it takes them: how long the pause is has tests of its own."""
        await until(lambda: all(one.running.done() for one in process.worker.owned.values()))

    monkeypatch.setattr(worker, "pausing", until_all_ended)
    cluster = Cluster(*[stream(20, seed) for seed in range(3)])
    process = Process(cluster, tmp_path, commit={"events": 5, "interval_ms": 5.0})
    await until(lambda: process.share.joined, process)
    cluster.rebalance()
    await until(lambda: cluster.done, process)
    for partition in cluster.partitions:
        partition.epoch += 1
        partition.events += [encode(event) for event in stream(20, start=100)]
    await until(lambda: cluster.done, process)
    await process.stop()
    assert process.share.rejoined == 1, "each time the others would have shared out anew, twice"
