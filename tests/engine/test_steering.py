"""Control events from outside: ordered, exactly once, and replayed with the input."""

import asyncio
import itertools
import os
import random
import re
import shutil
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from worlds import Fuse, Fused, PowerError, json_lines, make_pipeline, make_tree, outputs, record, stream

from speciate import steering
from speciate.config import parse, resolve
from speciate.conformance import check_source
from speciate.errors import ConfigError, DecodeError, OutputError, SourceError, StateDamagedError, StateMismatchError
from speciate.plugins import installed
from speciate.restore import latest
from speciate.stages import Progress
from speciate.steering import Steered, send_control, uncontrollable
from speciate_plugins.sources.jsonl import JsonLinesSource
from speciate_plugins.sources.streams import StreamOptions
from speciate_plugins.stores.directory import DirectoryOptions, DirectoryStore
from speciate_schemas import (
    Assignment,
    ControlApplied,
    DeadLetter,
    ForgetCategory,
    MergeCategories,
    Rejection,
    RenameCategory,
    UndoLast,
    decode,
    encode,
)
from speciate_schemas.events import Answer
from speciate_schemas.framing import pack

COUNT = 130
CONTROLS = [
    RenameCategory(id="r", category=1, label="bee"),
    MergeCategories(id="m", keep=0, absorb=2),
    UndoLast(id="u"),
    ForgetCategory(id="f", category=99),
    ForgetCategory(id="g", category=1),
    RenameCategory(id="r", category=0, label="again"),
]
"""Some of them mean nothing, and one has the id of another."""


class Kept:
    """A store in memory, with nothing but control events."""

    def __init__(self, events=(), places=()):
        self.events, self.places, self.saves = list(events), list(places), 0

    def sent(self, start):
        return self.events[start:]

    def load_places(self):
        return list(self.places)

    def save_places(self, places):
        self.places, self.saves = list(places), self.saves + 1

    def describe(self):
        return "memory"


class Listed:
    """A source of so many records, a few at a time; it may be a pipe, or wait at the end until it is told to end."""

    def __init__(self, count, *, replayable=True, follow=False):
        self.count, self.replayable, self.follow = count, replayable, follow
        self.waited, self.expected, self.asked = 0.0, [], 0
        self.stopping, self.more = False, asyncio.Event()

    async def open(self, position, sequence):
        self.sequence = sequence
        self.first = sequence if position is None else position[0]
        return position

    def expect(self, origins):
        self.expected += origins

    async def read(self, max_events):
        self.asked += 1
        while self.follow and self.first >= self.count and not self.stopping:
            self.more.clear()
            await self.more.wait()
            self.waited += 1.0
        end = self.first if self.stopping else min(self.first + max_events, self.count)
        records = [record(self.sequence + n, nbytes=1) for n in range(end - self.first)]
        for one, place in zip(records, range(self.first, end), strict=True):
            one.position, one.origin = (place + 1,), f"test@{place}"
        self.first, self.sequence = end, self.sequence + len(records)
        return records

    def stop(self):
        self.stopping = True
        self.more.set()

    def progress(self):
        return Progress(self.first, self.count, "records")

    async def close(self):
        pass


def seen(records):
    return [(one.sequence, one.origin, one.position) for one in records]


async def rest(steered, size=7):
    found = []
    while records := await steered.read(size):
        assert len(records) <= size
        found += records
    await steered.close()
    return found


async def opened(store, source, position=None, sequence=0):
    steered = Steered(source, store)
    await steered.open(position, sequence)
    return steered


@settings(deadline=None, max_examples=50)
@given(st.integers(0, 12), st.lists(st.tuples(st.integers(0, 14), st.integers(1, 3)), max_size=5), st.data())
def test_read_again_from_anywhere_it_gives_the_same_records(count, sends, data):
    """Control events are sent after some reads of any size; then it is opened behind every record there was."""

    async def main():
        store, found, turn = Kept(), [], itertools.count()
        steered = await opened(store, Listed(count))
        while True:
            now = next(turn)
            for _ in range(sum(many for when, many in sends if when == now)):
                store.events.append(encode(RenameCategory(id=str(len(store.events)), category=0, label="x")))
            records = await steered.read(data.draw(st.integers(1, 5)))
            if not records:
                break
            found += records
        whole = seen(found)
        assert [number for number, _, _ in whole] == list(range(len(whole))), "no gaps"
        origins = [origin for _, origin, _ in whole]
        assert [one for one in origins if one[0] == "t"] == [f"test@{n}" for n in range(count)]
        assert [one for one in origins if one[0] == "c"] == [f"controls@{n}" for n in range(len(store.places))]
        assert len(store.places) == len(store.events) or max(when for when, _ in sends) > now
        store.events = store.events[: len(store.places)]
        for place in range(len(whole) + 1):
            position = whole[place - 1][2] if place else None
            again = await opened(store, Listed(count), position, place)
            assert seen(await rest(again, data.draw(st.integers(1, 5)))) == whole[place:]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(steering, "POLL_SECONDS", 0.0)
        asyncio.run(main())


async def test_it_is_a_source_like_any_other(tmp_path):
    (tmp_path / "in").write_bytes(json_lines(stream(20)))
    store = Kept([encode(one) for one in CONTROLS] + [b"\xc1"], [0, 1, 7, 12, 13, 25, 26])
    await check_source(lambda: Steered(JsonLinesSource(StreamOptions(paths=[str(tmp_path / "in")])), store))
    assert store.saves == 0
    await check_source(lambda: Steered(JsonLinesSource(StreamOptions(paths=[str(tmp_path / "in")])), Kept()))


async def test_without_control_events_every_record_is_the_source_s_own():
    plain, store = Listed(9), Kept()
    await plain.open(None, 0)
    expected = await plain.read(99)
    steered = await opened(store, Listed(9))
    assert seen(await rest(steered)) == seen(expected)
    assert steered.progress() == plain.progress()
    assert store.saves == 0


async def test_a_place_is_noted_before_the_event_is_handed_on():
    store = Kept([encode(CONTROLS[0])])

    def full(places):
        raise OutputError("full")

    store.save_places = full
    steered = await opened(store, Listed(3))
    with pytest.raises(OutputError):
        await steered.read(7)
    assert seen(await rest(await opened(Kept(store.events), Listed(3))))[0] == (0, "controls@0", ())


async def test_a_closing_source_waits_for_places_under_way():
    """Else they would replace those of the process that has the store next."""
    store, begun, going_on = Kept([encode(CONTROLS[0])]), threading.Event(), threading.Event()
    real = store.save_places

    def slow(places):
        begun.set()
        assert going_on.wait(20)
        real(places)

    store.save_places = slow
    steered = await opened(store, Listed(3))
    reading = asyncio.create_task(steered.read(7))
    await asyncio.to_thread(begun.wait, 20)
    reading.cancel()
    await asyncio.wait({reading})
    closing = asyncio.create_task(steered.close())
    await asyncio.sleep(0.01)
    assert (closing.done(), store.places) == (False, [])
    going_on.set()
    await closing
    assert store.places == [0]


async def test_a_control_event_is_noticed_while_the_source_waits_and_its_read_goes_on():
    store, source = Kept(), Listed(2, follow=True)
    steered = await opened(store, source)
    first = await steered.read(7)
    waiting = asyncio.create_task(steered.read(7))
    async with asyncio.timeout(20):
        while source.asked < 2:  # noqa: ASYNC110 - a source tells nobody that it is asked
            await asyncio.sleep(0.001)
    store.events.append(encode(CONTROLS[0]))
    async with asyncio.timeout(20):
        control = await waiting
    source.count = 4
    source.more.set()
    more = [*await steered.read(1), *await steered.read(7)]
    steered.stop()
    found = seen([*first, *control, *more, *await rest(steered)])
    places = [("test@0", (1,)), ("test@1", (2,)), ("controls@0", (2,)), ("test@2", (3,)), ("test@3", (4,))]
    assert found == [(n, *place) for n, place in enumerate(places)]
    assert source.asked == 2, "the read that was waiting brought the records behind the event"
    assert steered.waited == 1.0


async def test_control_events_without_a_place_come_behind_what_was_answered():
    store = Kept([encode(one) for one in CONTROLS[:3]], [2])
    steered = await opened(store, Listed(9), (1,), 1)
    steered.free_from(6)
    assert [one.origin for one in await rest(steered, 1)] == [
        *("test@1", "controls@0", "test@2", "test@3", "test@4"),
        *("controls@1", "controls@2", "test@5", "test@6", "test@7", "test@8"),
    ]
    assert store.places == [2, 6, 7]


async def test_an_input_that_ends_before_what_was_answered_takes_nothing_new():
    store = Kept([encode(one) for one in CONTROLS[:2]], [8])
    steered = await opened(store, Listed(5))
    steered.free_from(9)
    assert len(await rest(steered)) == 5
    assert store.places == [8]


async def test_places_that_the_input_no_longer_reaches_are_given_up():
    store = Kept([encode(one) for one in CONTROLS[:2]], [2, 30])
    assert [one.origin for one in await rest(await opened(store, Listed(4)))][-3:] == ["test@2", "test@3", "controls@1"]
    assert store.places == [2, 5]


async def test_after_a_stop_what_has_no_place_is_for_the_next_run():
    store = Kept([encode(CONTROLS[0])], [1])
    steered = await opened(store, Listed(9))
    first = await steered.read(4)
    steered.stop()
    store.events.append(encode(CONTROLS[1]))
    assert [one.origin for one in [*first, *await rest(steered)]] == ["test@0"]
    assert store.places == [1]


async def test_what_a_pipe_has_given_is_not_lost_by_a_stop():
    """Records behind a control event, which were read and not asked for yet."""
    store = Kept([encode(CONTROLS[0])], [2])
    steered = await opened(store, Listed(6, replayable=False))
    steered._places = [2]
    assert len(await steered.read(6)) == 2
    steered.stop()
    assert [one.origin for one in await rest(steered)] == ["controls@0", "test@2", "test@3", "test@4", "test@5"]


async def test_of_a_pipe_nobody_knows_when_a_place_would_come():
    store = Kept([encode(CONTROLS[0])], [40])
    steered = await opened(store, Listed(99, replayable=False), (7,), 7)
    assert seen(await steered.read(7)) == [(7, "controls@0", (7,))]
    await steered.close()
    assert not steered.replayable
    assert store.places == [7]


@pytest.mark.parametrize("data", [b"", b"\xc1", encode(stream(1)[0]), b'{"type": "undo.v1", "id": "x"}', pack(b"x")])
async def test_what_is_no_control_event_is_a_record_with_an_error(data):
    bad, good = await (await opened(Kept([data, encode(CONTROLS[0])]), Listed(3))).read(7)
    assert (bad.original, bad.event, type(bad.error)) == (data, None, DecodeError)
    assert (good.original, good.event, good.error) == (encode(CONTROLS[0]), CONTROLS[0], None)


async def test_only_the_source_s_own_origins_are_announced_to_it():
    steered = await opened(Kept(), source := Listed(3))
    steered.expect(["a@0", "controls@0", "b@7"])
    assert source.expected == ["a@0", "b@7"]


@pytest.mark.parametrize("sequence", [0, 5])
async def test_control_events_that_are_gone_are_told(sequence):
    with pytest.raises(StateDamagedError, match=r"memory holds 1 control events, but 2 were taken in: .* --fresh"):
        await opened(Kept([b"x"], [1, 3]), Listed(9), (sequence,), sequence)


async def test_what_the_source_raises_is_raised():
    source = Listed(3)

    async def fail(max_events):
        raise SourceError("gone")

    source.read = fail
    steered = await opened(Kept(), source)
    with pytest.raises(SourceError, match="gone"):
        await steered.read(7)
    await steered.close()


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Relative paths, so that runs in two folders can be compared byte for byte; nearly every read looks for events."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(steering, "POLL_SECONDS", 0.001)
    return tmp_path


def the_store():
    return DirectoryStore(DirectoryOptions(path="out/state"))


class Meddling(Fuse):
    """Somebody sends control events at some of the calls."""

    def __init__(self, at, sends, *, behind=False):
        super().__init__(at, behind=behind)
        self._sends = sends
        self._turn = threading.Lock()

    def before(self, name):
        with self._turn:  # a snapshot is saved beside the stream
            for at in [at for at in self._sends if at <= len(self.calls)]:
                for control in self._sends.pop(at):
                    the_store().send(control)
        return super().before(name)


def meddled(tree, fuse):
    """A pipeline that loses its power where the fuse says; also when places become visible."""
    pipeline = make_pipeline(tree)
    parts = pipeline.stages
    parts.source = Fused(parts.source, fuse, "read")
    parts.answers = Fused(parts.answers, fuse, "write", "flush")
    parts.store = Fused(parts.store, fuse, "save_commit", "save_snapshot", "remove_snapshot", "save_places")
    return pipeline


def schedule(chance):
    """All control events, each at some call of the run."""
    sends = {}
    for control in CONTROLS:
        sends.setdefault(chance.randrange(1, 60), []).append(encode(control))
    return sends


async def undisturbed(folder, monkeypatch, tree):
    """What a run over the same input with the same control events at the same places leaves, if nothing happens."""
    other = folder / "undisturbed"
    (other / "out" / "state").mkdir(parents=True)
    for name in ("in.jsonl", "support.npz"):
        shutil.copy(folder / name, other)
    for name in ("controls.log", "places.json"):
        shutil.copy(folder / "out" / "state" / name, other / "out" / "state")
    with monkeypatch.context() as patch:
        patch.chdir(other)
        await make_pipeline(tree).run()
    return outputs(other)


def answers_in(folder):
    return [decode(line, Answer, "json") for line in (folder / "out" / "answers.jsonl").read_bytes().splitlines()]


@pytest.mark.parametrize("seed", range(6))
async def test_sent_and_cut_off_at_any_moment_it_ends_as_if_nothing_had_happened(folder, monkeypatch, seed):
    chance, tree = random.Random(seed), make_tree(Path(), stream(COUNT))
    crashes, sends = 0, schedule(chance)
    while True:
        fuse = Meddling(chance.randrange(5, 60), sends, behind=chance.random() < 0.5)
        try:
            await meddled(tree, fuse).run()
            break
        except PowerError:
            # What was to be sent later is sent later in the next run.
            crashes, sends = crashes + 1, {at - len(fuse.calls): due for at, due in sends.items()}
    for control in itertools.chain(*sends.values()):
        the_store().send(control)
    # Also for those that were sent when the input had ended already.
    await make_pipeline(tree).run()
    assert crashes > 0
    found = answers_in(folder)
    assert [one.sequence for one in found] == list(range(COUNT + len(CONTROLS)))
    controls = [one for one in found if one.origin.startswith("controls@")]
    assert [one.origin for one in controls] == [f"controls@{n}" for n in range(len(CONTROLS))]
    assert {type(one) for one in controls} == {ControlApplied, Rejection}
    assert outputs(folder) == await undisturbed(folder, monkeypatch, tree)


async def test_cut_off_at_each_point_around_a_place(folder, monkeypatch):
    """Before one call, behind the next; with one control event before the run and two in the middle of it."""
    tree = make_tree(Path(), stream(25), commit={"events": 10, "interval_ms": 1e6, "snapshot_events": 20})
    expected = {}
    for at in itertools.count():
        the_store().send(encode(CONTROLS[0]))
        fuse = Meddling(at, {6: [encode(CONTROLS[1]), encode(CONTROLS[2])]}, behind=at % 2 > 0)
        try:
            await meddled(tree, fuse).run()
            break
        except PowerError:
            await make_pipeline(tree).run()
        found = outputs(folder)
        order = found["state/controls.log"], found.get("state/places.json")
        if order not in expected:
            expected[order] = await undisturbed(folder, monkeypatch, tree)
            shutil.rmtree("undisturbed")
        assert found == expected[order], at
        shutil.rmtree("out")
    assert at > 15


async def test_decisions_are_those_of_the_same_events_in_the_input(folder, monkeypatch, tmp_path_factory):
    tree = make_tree(Path(), stream(COUNT))
    sends = {10: [encode(CONTROLS[0]), encode(CONTROLS[1])], 20: [encode(CONTROLS[2])]}
    await meddled(tree, Meddling(None, sends)).run()
    # For one that was sent when the input had ended already.
    await make_pipeline(tree).run()
    events = list(stream(COUNT))
    for place, control in zip(the_store().load_places(), CONTROLS, strict=False):
        events.insert(place, control)
    monkeypatch.chdir(other := tmp_path_factory.mktemp("merged"))
    await make_pipeline(make_tree(Path(), events)).run()
    ours, theirs = (
        re.sub(rb'"origin":".*?"', b"", (one / "out/answers.jsonl").read_bytes()) for one in (folder, other)
    )
    assert ours == theirs
    assert ours.count(b'"control.v1"') == 3


async def until(condition):
    """Wait for what other tasks and threads bring about."""
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110 - a thread sets no event
            await asyncio.sleep(0.005)


async def test_a_running_pipeline_that_waits_takes_it_in(folder, monkeypatch):
    monkeypatch.undo()
    monkeypatch.chdir(folder)
    tree = make_tree(Path(), stream(9), source={"follow": True}, commit={"events": 1, "interval_ms": 20.0})
    pipeline = make_pipeline(tree)
    running = asyncio.create_task(pipeline.run())
    await until(lambda: pipeline.status() and pipeline.status().sequence == 9)
    place = await send_control(resolve(parse(tree), installed()), 0, CONTROLS[0])
    await until(lambda: pipeline.status().tally.controls == 1)
    with (folder / "in.jsonl").open("ab") as file:
        file.write(json_lines(stream(9, start=9)))
    await until(lambda: pipeline.status().sequence == 19)
    pipeline.stop()
    await running
    assert place == "out/state as controls@0"
    found = answers_in(folder)
    assert (found[9].control, found[9].origin, found[9].sequence) == (CONTROLS[0], "controls@0", 9)
    assert all(one.label == "bee" for one in found[10:] if isinstance(one, Assignment) and one.category == 1)


async def test_a_stopped_pipeline_takes_it_in_when_it_runs_again_and_only_once(folder):
    tree = make_tree(Path(), stream(20))
    await send_control(resolve(parse(tree), installed()), 0, CONTROLS[0])
    assert (await make_pipeline(tree).run()).status.tally.controls == 1
    await send_control(resolve(parse(tree), installed()), 0, CONTROLS[1])
    report = await make_pipeline(tree).run()
    assert (report.resumed_at, report.status.answered, report.status.tally.controls) == (21, 1, 2)
    before = outputs(folder)
    assert (await make_pipeline(tree).run()).status.answered == 0
    assert outputs(folder) == before
    assert [one.origin for one in answers_in(folder)][::21] == ["controls@0", "controls@1"]


async def test_fresh_discards_them(folder):
    tree = make_tree(Path(), stream(20))
    await make_pipeline(tree).run()
    expected = outputs(folder)
    the_store().send(encode(CONTROLS[0]))
    await make_pipeline(tree).run()
    the_store().send(encode(CONTROLS[1]))
    await make_pipeline(tree, fresh=True).run()
    found = outputs(folder)
    assert found.pop("state/controls.log") == b""
    assert found.pop("state/places.json").endswith(b"\n[]\n")
    assert found == expected


async def test_what_cannot_be_used_becomes_a_dead_letter(folder):
    tree = make_tree(Path(), stream(20))
    the_store().send(b"\xc1 no event")
    the_store().send(encode(CONTROLS[0]))
    report = await make_pipeline(tree).run()
    assert (report.status.tally.rejected, report.status.tally.controls) == (1, 1)
    dead = (folder / "out" / "dead.log").read_bytes()
    letter = decode(dead[16:], DeadLetter)
    assert (bytes(letter.original), letter.origin, letter.stage) == (b"\xc1 no event", "controls@0", "source")


async def test_control_events_that_are_lost_are_noticed_and_restoring_them_is_enough(folder, monkeypatch):
    tree = make_tree(Path(), stream(20))
    the_store().send(encode(CONTROLS[0]))
    await make_pipeline(tree).run()
    before, log = outputs(folder), folder / "out" / "state" / "controls.log"
    whole = log.read_bytes()
    log.write_bytes(whole[:-1])
    with pytest.raises(StateDamagedError, match="out/state holds 0 control events, but 1 were taken in"):
        await make_pipeline(tree).run()
    log.write_bytes(whole)
    await make_pipeline(tree).run()
    assert outputs(folder) == before


async def test_a_control_event_that_was_changed_since_is_noticed(folder):
    tree = make_tree(Path(), stream(20))
    the_store().send(encode(CONTROLS[0]))
    await make_pipeline(tree).run()
    for path in sorted((folder / "out" / "state" / "snapshots").iterdir())[1:]:
        path.unlink()
    (folder / "out" / "state" / "controls.log").write_bytes(pack(encode(CONTROLS[2])))
    with pytest.raises(StateMismatchError, match=r"record 0 \(controls@0\) is not the input that was answered as 'r'"):
        await make_pipeline(tree).run()


@pytest.mark.parametrize("overflow", ["drop-oldest", "drop-newest"])
async def test_where_inputs_are_dropped_numbers_still_add_up(folder, monkeypatch, overflow):
    run = {"overflow": overflow, "queue_events": 5, "batch_events": 3, "linger_ms": 0.0}
    tree = make_tree(Path(), stream(200), run=run, commit={"events": 5, "interval_ms": 1e6})
    sends = {at: [encode(RenameCategory(id=str(at), category=0, label=str(at)))] for at in range(2, 60, 6)}
    with pytest.raises(PowerError):
        await meddled(tree, Meddling(70, dict(sends))).run()
    await make_pipeline(tree).run()
    report, found = await make_pipeline(tree).run(), answers_in(folder)
    tally = report.status.tally
    assert report.status.sequence == 200 + len(sends) == len(found) + tally.dropped
    assert sorted({one.sequence for one in found}) == [one.sequence for one in found]
    places = the_store().load_places()
    assert all(one.sequence == places[int(one.origin[9:])] for one in found if one.origin.startswith("controls@"))


async def test_a_pipe_can_be_steered(folder):
    saved = os.dup(0)
    tree, events = make_tree(Path(), stream(COUNT), source={"plugin": "stdin"}), stream(COUNT)
    try:
        for at in (12, 25, 40):
            piped(folder, events)
            sends = {n: [encode(one)] for n, one in zip((4, 9, 22, 23, 30, 35), CONTROLS, strict=True)}
            fuse = Meddling(at, sends)
            with pytest.raises(PowerError):
                await meddled(tree, fuse).run()
            done = latest(the_store())[1].sequence
            places = [place for place in the_store().load_places() if place < done]
            piped(folder, events[done - len(places) :])
            for control in itertools.chain(*sends.values()):
                the_store().send(control)
            report = await make_pipeline(tree).run()
            assert report.resumed_at == done
            assert [one.sequence for one in answers_in(folder)] == list(range(COUNT + len(CONTROLS)))
            assert the_store().load_places()[: len(places)] == places
            assert report.status.tally.controls + report.status.tally.rejected == len(CONTROLS)
            shutil.rmtree("out")
    finally:
        os.dup2(saved, 0)
        os.close(saved)


def piped(folder, events):
    (folder / "stdin").write_bytes(json_lines(events))
    descriptor = os.open(folder / "stdin", os.O_RDONLY)
    os.dup2(descriptor, 0)
    os.close(descriptor)


async def test_what_cannot_be_changed_is_told(folder, monkeypatch):
    tree = make_tree(Path(), stream(3))
    resolved = resolve(parse(tree), installed())
    assert uncontrollable(resolved) == ""
    with pytest.raises(ConfigError, match="there is no task 1: the tasks are numbered from 0 to 0"):
        await send_control(resolved, 1, CONTROLS[0])
    headless = {name: tree[name] for name in ("source", "sink", "store")}
    no_head = resolve(parse(headless), installed())
    assert uncontrollable(no_head).startswith("the pipeline has no [density]")
    with pytest.raises(ConfigError, match=r"the pipeline has no \[density\]"):
        await send_control(no_head, 0, CONTROLS[0])
    monkeypatch.setattr(steering, "is_steerable", lambda store: False)
    assert "source 'jsonl' takes no control events from outside, and [store] 'directory'" in uncontrollable(resolved)
    with pytest.raises(ConfigError, match="put them into the input itself"):
        await send_control(resolved, 0, CONTROLS[0])
    assert not (folder / "out").exists()
    assert (await make_pipeline(tree).run()).status.tally.assigned == 3


async def test_why_a_source_takes_none_is_its_own_business(folder):
    resolved = resolve(parse(make_tree(Path(), stream(3))), installed())
    chosen = resolved["source"]

    async def send(options, number, control):
        raise NotImplementedError

    for why in ("", "no topic"):
        provider = replace(chosen.provider, send=send, unsendable=lambda options, why=why: why)
        resolved.sections["source"] = replace(chosen, provider=provider)
        assert uncontrollable(resolved) == why


async def test_a_control_event_does_not_wait_until_the_next_record_is_due(folder):
    tree = make_tree(Path(), stream(9), run={"pace": 0.001}, commit={"events": 1})
    pipeline = make_pipeline(tree)
    running = asyncio.create_task(pipeline.run())
    await until(lambda: pipeline.status() and pipeline.status().sequence == 1)
    the_store().send(encode(CONTROLS[0]))
    await until(lambda: pipeline.status().tally.controls == 1)
    pipeline.stop()
    await running
    assert [one.origin for one in answers_in(folder)][1] == "controls@0"
