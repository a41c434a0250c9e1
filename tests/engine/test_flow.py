"""The flow: backpressure, failing stages, stopping, several encoders, drops, and where the time goes."""

import asyncio
import gc
import os
import random
import threading
import time
from functools import partial
from pathlib import Path

import pytest
from worlds import (
    Fuse,
    Fused,
    PowerError,
    fused_pipeline,
    json_lines,
    make_pipeline,
    make_tree,
    outputs,
    stream,
    with_trouble,
    write_images,
)

from speciate import exemplars, flow
from speciate.errors import DeviceError, EncodeError, OutputError, PluginError, SourceError, StateMismatchError
from speciate.logs import Lines
from speciate.notices import Notices
from speciate.plugins import installed
from speciate.restore import latest
from speciate_schemas import Assignment, Rejection, decode
from speciate_schemas.events import Answer

COUNT = 130


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Relative paths, so that runs in two folders can be compared byte for byte."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
async def expected(tmp_path_factory, monkeypatch):
    """What a run over the stream with trouble leaves behind if nothing happens to it."""
    other = tmp_path_factory.mktemp("undisturbed")
    with monkeypatch.context() as patch:
        patch.chdir(other)
        await make_pipeline(make_tree(Path(), with_trouble(COUNT))).run()
    return outputs(other)


def answers_in(path: Path) -> list:
    return [decode(line, Answer, "json") for line in path.read_bytes().splitlines()]


async def until(condition) -> None:
    """Wait for what other tasks and threads bring about."""
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110 - a file or a thread sets no event
            await asyncio.sleep(0.005)


class Slow(Fused):
    """A part that takes its time over some calls."""

    def __init__(self, part, name, seconds):
        super().__init__(part, Fuse())
        self._slow, self._seconds = name, seconds

    def __getattr__(self, name):
        real = super().__getattr__(name)
        if name != self._slow:
            return real

        async def waiting(*args, **kwargs):
            await asyncio.sleep(self._seconds)
            return await real(*args, **kwargs)

        return waiting


class HeldBack(Fused):
    """A sink that writes nothing until something has come about."""

    def __init__(self, part, condition):
        super().__init__(part, Fuse())
        self._condition = condition

    async def write(self, items):
        await until(self._condition)
        await self._part.write(items)


class Counting(Fused):
    """A source that knows how far it is ahead of what was written."""

    def __init__(self, part):
        super().__init__(part, Fuse())
        self.read_so_far = self.ahead = 0
        self.written = lambda: 0

    async def read(self, max_events):
        records = await self._part.read(max_events)
        self.read_so_far += len(records)
        self.ahead = max(self.ahead, self.read_so_far - self.written())
        return records


@pytest.mark.parametrize("bound", ["events", "bytes"])
async def test_a_slow_sink_makes_the_source_wait(folder, bound):
    batch, queue = 5, 20
    events = stream(400)
    size = max(len(line) for line in json_lines(events).splitlines())
    limit = {"queue_events": queue} if bound == "events" else {"queue_bytes": queue * size}
    pipeline = make_pipeline(make_tree(Path(), events, run={"batch_events": batch, "linger_ms": 0.0, **limit}))
    parts = pipeline.stages
    parts.answers = Slow(parts.answers, "write", 0.002)
    parts.source = source = Counting(parts.source)
    source.written = lambda: pipeline.status().answered if pipeline.status() else 0
    report = await pipeline.run()
    assert report.status.answered == len(events)
    # Read and not yet put, queued, being folded, folded and waiting, being written; lines differ a little in length.
    slack = 1 if bound == "events" else 1.3
    assert queue <= source.ahead <= (queue + batch * 6) * slack
    assert report.status.stages["source"].backpressured > 0.1
    assert report.status.stages["head"].backpressured > 0.1
    assert report.status.stages["sink"].busy > 0.1


def break_source(parts):
    parts.source = Fused(parts.source, Fuse(9), "read")


def break_sink(parts):
    parts.answers = Fused(parts.answers, Fuse(8), "write")


def break_dead_letters(parts):
    parts.dead_letters = Fused(parts.dead_letters, Fuse(2), "write")


def break_commit(parts):
    parts.store = Fused(parts.store, Fuse(3), "save_commit")


def break_snapshot(parts):
    parts.store = Fused(parts.store, Fuse(1), "save_snapshot")


@pytest.mark.parametrize("breaking", [break_source, break_sink, break_dead_letters, break_commit, break_snapshot])
async def test_a_stage_that_fails_ends_the_run_with_its_error_and_what_is_committed_stays(folder, expected, breaking):
    tree = make_tree(Path(), with_trouble(COUNT))
    pipeline = make_pipeline(tree)
    breaking(pipeline.stages)
    with pytest.raises(PowerError):
        await pipeline.run()
    provider = installed().provider("store", "directory")
    _, commit = latest(provider.create(provider.options(path="out/state")))
    assert commit.answers[0] <= (folder / "out" / "answers.jsonl").stat().st_size
    report = await make_pipeline(tree).run()
    assert report.resumed_at == commit.sequence
    assert outputs(folder) == expected


def spoken_of(lines) -> int:
    """How many inputs log lines stand for."""
    return sum(hasattr(one, "id") + getattr(one, "others", 0) for one in lines)


async def test_a_run_that_fails_tells_how_many_rejections_went_before_it(folder, caplog, monkeypatch):
    caplog.set_level("INFO", "speciate")
    monkeypatch.setattr(flow, "Notices", lambda: Notices(lambda: 7.0))
    pipeline = make_pipeline(make_tree(Path(), [b"no event"] * 40))
    # Batches of seven: the third is not written.
    pipeline.stages.answers = Fused(pipeline.stages.answers, Fuse(2), "write")
    with pytest.raises(PowerError):
        await pipeline.run()
    told = [one for one in caplog.records if one.message == "an input was rejected"]
    assert spoken_of(told) == 14
    assert not hasattr(told[-1], "id")


async def test_a_density_that_fails_ends_the_run_too(folder, expected, monkeypatch):
    tree = make_tree(Path(), with_trouble(COUNT))
    provider = installed().provider("density", "nearest-mean")
    with monkeypatch.context() as patch:
        left = [50]
        real = provider.create.absorb

        def absorb(self, category, event):
            left[0] -= 1
            return real(self, category, event) if left[0] else 1 // left[0]

        patch.setattr(provider.create, "absorb", absorb)
        with pytest.raises(ZeroDivisionError):
            await make_pipeline(tree).run()
    await make_pipeline(tree).run()
    assert outputs(folder) == expected


@pytest.mark.parametrize("error", [SourceError("gone"), OutputError("full")])
async def test_of_several_errors_ours_is_shown(folder, error):
    pipeline = make_pipeline(make_tree(Path(), stream(50)))

    async def fail(*_):
        raise error

    pipeline.stages.answers.write = fail
    with pytest.raises(type(error), match=str(error)):
        await pipeline.run()


@pytest.mark.parametrize("after", [0, 1, 5, 12])
async def test_stopping_drains_what_was_read_and_the_rest_is_done_later(folder, expected, after):
    tree = make_tree(Path(), with_trouble(COUNT))
    pipeline = make_pipeline(tree)
    parts = pipeline.stages
    writes = []

    class Stopping(Fused):
        async def write(self, items):
            writes.append(len(items))
            if len(writes) == after:
                pipeline.stop()
            await self._part.write(items)

    parts.answers = Stopping(parts.answers, Fuse())
    if not after:
        pipeline.stop()
    report = await pipeline.run()
    assert report.stopped
    assert report.status.answered == sum(writes) == report.status.sequence
    assert len(answers_in(folder / "out" / "answers.jsonl")) == report.status.sequence
    provider = installed().provider("store", "directory")
    snapshot, commit = latest(provider.create(provider.options(path="out/state")))
    assert snapshot.commit == commit
    assert commit.sequence == report.status.sequence
    again = await make_pipeline(tree).run()
    assert again.resumed_at == report.status.sequence
    assert outputs(folder) == expected


async def test_stopping_a_followed_file_ends_the_wait_for_more(folder):
    tree = make_tree(Path(), stream(30), source={"follow": True})
    pipeline = make_pipeline(tree)
    running = asyncio.create_task(pipeline.run())
    await until(lambda: pipeline.status() and pipeline.status().answered == 30)
    with (folder / "in.jsonl").open("ab") as file:
        file.write(json_lines(stream(5, start=30)))
    await until(lambda: pipeline.status().answered == 35)
    pipeline.stop()
    report = await asyncio.wait_for(running, 10)
    assert report.status.sequence == 35
    assert report.stopped


async def test_what_was_decided_is_committed_in_time_though_nothing_follows(folder):
    tree = make_tree(Path(), stream(3), source={"follow": True}, commit={"interval_ms": 50.0, "events": 1000})
    pipeline = make_pipeline(tree)
    running = asyncio.create_task(pipeline.run())
    provider = installed().provider("store", "directory")
    store = provider.create(provider.options(path="out/state"))
    await until(lambda: (commit := store.load_commit()) is not None and commit.sequence == 3)
    commit = store.load_commit()
    pipeline.stop()
    await running
    assert commit.tally.assigned == 3


def image_tree(folder: Path, **run) -> dict:
    write_images(folder / "known", 8)
    write_images(folder / "images", 60)
    return make_tree(
        folder,
        source={"plugin": "images", "paths": [str(folder / "images")]},
        support={"plugin": "images", "paths": [str(folder / "known")]},
        encoder={"plugin": "thumbnail", "size": 3},
        run={"batch_events": 4, "encode_events": 4, "linger_ms": 0.0, **run},
    )


class Whimsical(Fused):
    """An encoder that takes its time differently each time, and stumbles over one image as a whole."""

    def __init__(self, part, bad=()):
        super().__init__(part, Fuse())
        self._chance = random.Random(0)
        self._bad = bad
        self.threads = set()

    def prepare(self, image):
        self.threads.add(threading.get_ident())
        time.sleep(self._chance.random() * 0.004)
        if image.id in self._bad:
            raise ZeroDivisionError("nobody thought of this image")
        return self._part.prepare(image)

    def encode(self, prepared):
        time.sleep(self._chance.random() * 0.004)
        return self._part.encode(prepared)


async def test_several_decoders_keep_the_order_and_give_the_same_answers(tmp_path):
    results = {}
    for workers in (1, 4):
        folder = tmp_path / str(workers)
        folder.mkdir()
        tree = image_tree(folder, decode_workers=workers)
        pipeline = make_pipeline(tree)
        pipeline.stages.encoder = encoder = Whimsical(pipeline.stages.encoder)
        report = await pipeline.run()
        # Where the images are differs, and nothing else may.
        answers = (folder / "out" / "answers.jsonl").read_bytes()
        results[workers] = answers.replace(str(folder).encode(), b"")
        # Some more: the support set is decoded on threads of its own.
        assert workers <= len(encoder.threads) <= workers + os.cpu_count()
        assert report.status.stages["encoder"].busy > 0
        assert report.status.stages["decoder"].busy > 0
    assert results[1] == results[4]
    answers = [decode(line, Answer, "json") for line in results[4].splitlines()]
    assert [answer.sequence for answer in answers] == list(range(60))
    assert all(answer.label == answer.id.partition("/")[0] for answer in answers)


async def test_an_image_the_encoder_stumbles_over_is_rejected_alone(tmp_path, caplog):
    caplog.set_level("INFO", "speciate")
    bad = {"dark/046.png", "light/033.png"}
    pipeline = make_pipeline(image_tree(tmp_path, decode_workers=2))
    pipeline.stages.encoder = Whimsical(pipeline.stages.encoder, bad)
    report = await pipeline.run()
    answers = answers_in(tmp_path / "out" / "answers.jsonl")
    rejected = [answer for answer in answers if isinstance(answer, Rejection)]
    assert {(one.id, one.stage, one.error) for one in rejected} == {(name, "encoder", "EncodeError") for name in bad}
    assert all("ZeroDivisionError: nobody thought of this image" in one.message for one in rejected)
    assert report.status.tally.assigned == 58
    told = [one for one in caplog.records if getattr(one, "id", None) in bad]
    assert [(one.id, one.stream, one.sequence, one.origin, one.reason) for one in told] == [
        (one.id, "images", one.sequence, str(tmp_path / "images" / one.id), one.message) for one in rejected
    ]


async def test_images_without_a_picture_are_told_to_the_last(tmp_path, caplog, monkeypatch):
    class Blind(Fused):
        asked = 0

        def picture(self, image, pixels):
            self.asked += 1
            raise ZeroDivisionError("nothing to be seen")

    caplog.set_level("INFO", "speciate")
    monkeypatch.setattr(exemplars, "Lines", partial(Lines, clock=lambda: 7.0))
    pipeline = make_pipeline(image_tree(tmp_path))
    pipeline.stages.encoder = blind = Blind(pipeline.stages.encoder, Fuse())
    report = await pipeline.run()
    assert report.status.tally.assigned == 60
    told = [one for one in caplog.records if one.message == "an image has no picture"]
    assert len(told) < blind.asked == spoken_of(told)
    assert told[0].reason == "ZeroDivisionError: nothing to be seen"


async def test_memory_that_runs_out_over_a_picture_ends_the_run(tmp_path):
    class Swollen(Fused):
        def picture(self, image, pixels):
            raise MemoryError

    pipeline = make_pipeline(image_tree(tmp_path))
    pipeline.stages.encoder = Swollen(pipeline.stages.encoder, Fuse())
    with pytest.raises(MemoryError):
        await pipeline.run()


async def test_a_damaged_image_is_rejected_with_its_bytes(tmp_path):
    tree = image_tree(tmp_path)
    (tmp_path / "images" / "dark" / "000.png").write_bytes(b"no image")
    await make_pipeline(tree).run()
    first = answers_in(tmp_path / "out" / "answers.jsonl")[0]
    assert (first.id, first.stage, first.error) == ("dark/000.png", "encoder", "EncodeError")
    assert b"no image" in (tmp_path / "out" / "dead.log").read_bytes()


async def test_an_input_larger_than_allowed_is_rejected_where_it_was_read(folder):
    large = b'{"type":"forget.v1","id":"f","category":0' + b" " * 500 + b"}"
    events = [*stream(3), large, *stream(3, start=3)]
    await make_pipeline(make_tree(Path(), events, run={"max_event_bytes": 400})).run()
    answers = answers_in(folder / "out" / "answers.jsonl")
    assert [type(answer) for answer in answers] == [Assignment] * 3 + [Rejection] + [Assignment] * 3
    assert (answers[3].id, answers[3].stage, answers[3].error) == ("f", "source", "TooLargeError")
    assert "run.max_event_bytes = 400" in answers[3].message


@pytest.mark.parametrize("overflow", ["drop-oldest", "drop-newest"])
async def test_what_is_dropped_is_counted_and_the_gaps_survive_a_resume(folder, overflow):
    """Cut off behind a commit that no snapshot has caught up with: the answered part comes again, gaps and all."""
    events = stream(600)
    limits = {"batch_events": 8, "queue_events": 16, "overflow": overflow}
    tree = make_tree(Path(), events, run=limits, commit={"events": 10, "snapshot_events": 100_000})
    fuse = Fuse(at=24, behind=True)
    pipeline = fused_pipeline(tree, fuse)
    pipeline.stages.answers = Slow(pipeline.stages.answers, "write", 0.003)
    with pytest.raises(PowerError):
        await pipeline.run()
    provider = installed().provider("store", "directory")
    snapshot, commit = latest(provider.create(provider.options(path="out/state")))
    assert snapshot.commit.sequence == 0 < commit.sequence
    tally = commit.tally
    assert tally.assigned + tally.dropped == commit.sequence
    pipeline = make_pipeline(tree)
    pipeline.stages.answers = Slow(pipeline.stages.answers, "write", 0.001)
    report = await pipeline.run()
    assert report.resumed_at == commit.sequence
    numbers = [answer.sequence for answer in answers_in(folder / "out" / "answers.jsonl")]
    assert numbers == sorted(set(numbers))
    assert sum(number < commit.sequence for number in numbers) == tally.assigned, "no gap may be filled later"
    after = report.status.tally
    assert after.assigned == len(numbers)
    assert after.assigned + after.dropped == len(events)
    assert after.dropped > 0


async def test_without_a_policy_to_drop_nothing_is_dropped(folder):
    tree = make_tree(Path(), stream(200), run={"batch_events": 8, "queue_events": 8})
    pipeline = make_pipeline(tree)
    pipeline.stages.answers = Slow(pipeline.stages.answers, "write", 0.001)
    report = await pipeline.run()
    assert (report.status.tally.assigned, report.status.tally.dropped) == (200, 0)


async def test_latency_is_from_reading_to_writing(folder):
    pipeline = make_pipeline(make_tree(Path(), stream(20)))
    pipeline.stages.answers = Slow(pipeline.stages.answers, "write", 0.03)
    report = await pipeline.run()
    assert 0.03 <= report.latency_p50 <= report.latency_p99 < 10


async def test_every_stage_has_its_times(folder):
    report = await make_pipeline(make_tree(Path(), stream(300))).run()
    stages = report.status.stages
    assert set(stages) == {"source", "decoder", "encoder", "head", "sink"}
    for name in ("source", "head", "sink"):
        assert 0 < stages[name].busy <= report.status.seconds
    assert stages["encoder"].busy == 0
    for times in stages.values():
        assert times.busy + times.idle + times.backpressured <= report.status.seconds * 1.01


class Drowsy(Fused):
    """An encoder that sleeps over every batch, and answers the last so many batches wrongly."""

    def __init__(self, part, seconds, *, wrong=False):
        super().__init__(part, Fuse())
        self._seconds, self._wrong = seconds, wrong

    def encode(self, prepared):
        time.sleep(self._seconds)
        results = self._part.encode(prepared)
        return results[:-1] if self._wrong else results


class Heard(Fused):
    """An encoder that holds every batch, then asks the event loop for a turn, and notes whether it got one."""

    def __init__(self, part, holds):
        super().__init__(part, Fuse())
        self._loop, self._holds = asyncio.get_running_loop(), holds
        self.begun, self.heard = 0, []

    def encode(self, prepared):
        self.begun += 1
        deadline = time.monotonic() + 20
        while self._holds() and time.monotonic() < deadline:
            time.sleep(0.005)
        # So that whoever fails meanwhile has begun to end.
        time.sleep(0.05)
        turned = threading.Event()
        self._loop.call_soon_threadsafe(turned.set)
        self.heard.append(turned.wait(20))
        return self._part.encode(prepared)


class Gone(Fused):
    """A source that is gone after some reads, but not before something else has come about."""

    def __init__(self, part, reads, first):
        super().__init__(part, Fuse())
        self._left, self._first = reads, first
        self.gone = threading.Event()

    async def read(self, max_events):
        if self._left:
            self._left -= 1
            return await self._part.read(max_events)
        await until(self._first)
        self.gone.set()
        raise SourceError("gone")


@pytest.mark.parametrize("failing", [False, True], ids=["ending", "failing"])
async def test_the_event_loop_is_never_kept_waiting(tmp_path, failing):
    """Not while the support set is encoded, nor while a batch under way holds up the end: signals are heard."""
    pipeline = make_pipeline(image_tree(tmp_path, decode_workers=2, encode_events=30))
    parts = pipeline.stages
    # The support set comes first; the source is read only then.
    encoder = parts.encoder = Heard(
        parts.encoder, lambda: failing and encoder.begun > 1 and not parts.source.gone.is_set()
    )
    if failing:
        parts.source = Gone(parts.source, 2, lambda: encoder.begun > 1)
    await asyncio.gather(pipeline.run(), return_exceptions=True)
    assert len(encoder.heard) > 1
    assert all(encoder.heard)


async def test_encoders_that_fail_all_at_once_are_told_once(tmp_path):
    told = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context))
    pipeline = make_pipeline(image_tree(tmp_path, decode_workers=4))
    parts, real = pipeline.stages, pipeline.stages.encoder.encode
    wrong = Drowsy(parts.encoder, 0.05, wrong=True)
    # The support set, eight images at once, is not at fault.
    parts.encoder.encode = lambda prepared: real(prepared) if len(prepared) == 8 else wrong.encode(prepared)
    wrong._part = Drowsy(parts.encoder, 0)
    wrong._part.encode = real
    with pytest.raises(PluginError, match=r"answered \d images with features of shape"):
        await pipeline.run()
    gc.collect()
    assert told == []


async def test_a_commit_under_way_when_a_stage_fails_is_finished_before_the_store_is_unlocked(folder, expected):
    tree = make_tree(Path(), with_trouble(COUNT))
    pipeline = make_pipeline(tree)
    parts, order = pipeline.stages, []
    save, close = parts.store.save_commit, parts.store.close
    begun = threading.Event()
    # More than a commit's worth, all of it read before.
    parts.source = Gone(parts.source, 6, begun.is_set)

    def slow_commit(commit):
        if commit.sequence:
            begun.set()
            parts.source.gone.wait(20)
            time.sleep(0.3)
        save(commit)
        order.append(commit.sequence)

    parts.store.save_commit = slow_commit
    parts.store.close = lambda: (order.append("unlocked"), close())
    with pytest.raises(SourceError, match="gone"):
        await pipeline.run()
    assert order[0] == 0
    assert order[-1] == "unlocked"
    assert len(order) == 3, "the commit that was under way"
    await asyncio.sleep(0.05)
    report = await make_pipeline(tree).run()
    assert report.resumed_at == order[1]
    assert outputs(folder) == expected


@pytest.mark.parametrize("lost", [False, True], ids=["clean", "snapshot lost"])
async def test_a_tail_that_was_dropped_is_counted_once(folder, lost):
    """Nothing follows it that would tell of the gap; the next run must neither read nor count it again."""
    limits = {"batch_events": 8, "queue_events": 16, "overflow": "drop-newest"}
    tree = make_tree(Path(), stream(600), run=limits)
    pipeline = make_pipeline(tree)
    pipeline.stages.answers = HeldBack(pipeline.stages.answers, lambda: pipeline.flow._last_read[0] == 600)
    first = await pipeline.run()
    numbers = [answer.sequence for answer in answers_in(folder / "out" / "answers.jsonl")]
    assert numbers[-1] < 599, "the point of the test: the tail was dropped"
    tally = first.status.tally
    assert tally.assigned == len(numbers)
    assert tally.assigned + tally.dropped == first.status.sequence == 600
    before = outputs(folder)
    for _ in range(2):
        if lost:
            max((folder / "out" / "state" / "snapshots").iterdir()).unlink()
        again = await make_pipeline(tree).run()
        assert (again.resumed_at, again.status.answered, again.status.tally) == (600, 0, tally)
        assert outputs(folder) == before


@pytest.mark.parametrize("probability", [-0.1, 1.1, float("nan"), float("inf")])
async def test_a_policy_that_gives_no_probability_ends_the_run(folder, expected, monkeypatch, probability):
    """An answer with it could not be read back."""
    tree = make_tree(Path(), with_trouble(COUNT))
    policy = installed().provider("policy", "dp").create
    with monkeypatch.context() as patch:
        real = policy.choose
        patch.setattr(policy, "choose", lambda self, *args: real(self, *args)._replace(probability=probability))
        with pytest.raises(PluginError, match=rf"policy 'dp' gave probability {probability}: not in 0 … 1"):
            await make_pipeline(tree).run()
    await make_pipeline(tree).run()
    assert outputs(folder) == expected


def leak(*_):
    return next(iter(()))


@pytest.mark.parametrize(
    "stage", [("density", "nearest-mean", "score"), ("policy", "dp", "choose"), ("source", "jsonl", "read_now")]
)
async def test_a_plugin_that_leaks_stop_iteration_ends_the_run(folder, monkeypatch, stage):
    kind, name, method = stage
    monkeypatch.setattr(installed().provider(kind, name).create, method, leak)
    with pytest.raises(RuntimeError, match="StopIteration"):
        await asyncio.wait_for(make_pipeline(make_tree(Path(), stream(30))).run(), 20)


async def test_an_encoder_that_leaks_stop_iteration_ends_the_run(tmp_path):
    pipeline = make_pipeline(image_tree(tmp_path))
    parts, real = pipeline.stages, pipeline.stages.encoder.encode
    parts.encoder.encode = lambda images: real(images) if len(images) == 8 else leak()
    with pytest.raises(DeviceError, match="StopIteration"):
        await asyncio.wait_for(pipeline.run(), 20)


async def test_a_device_that_is_gone_ends_the_run_and_nothing_is_lost(tmp_path):
    """What was answered stays, what was not is answered by the next run, and no image is blamed."""
    tree = image_tree(tmp_path)
    pipeline = make_pipeline(tree)
    parts, real, calls = pipeline.stages, pipeline.stages.encoder.encode, []

    def fall_off(prepared):
        calls.append(len(prepared))
        if sum(calls) > 30:
            raise RuntimeError("device lost")
        return real(prepared)

    parts.encoder.encode = fall_off
    with pytest.raises(DeviceError, match="device lost"):
        await pipeline.run()
    report = await make_pipeline(tree).run()
    answers = answers_in(tmp_path / "out" / "answers.jsonl")
    assert [answer.sequence for answer in answers] == list(range(60))
    assert report.status.tally.rejected == 0


async def test_what_was_answered_and_cannot_be_encoded_any_more_is_told_so(tmp_path):
    tree = image_tree(tmp_path, batch_events=4) | {"commit": {"events": 4, "snapshot_events": 1000}}
    pipeline = fused_pipeline(tree, Fuse(20))
    with pytest.raises(PowerError):
        await pipeline.run()
    pipeline = make_pipeline(tree)
    pipeline.stages.encoder.prepare = lambda _: leak_error()
    with pytest.raises(StateMismatchError, match="cannot be encoded any more: no eyes; mend the encoder"):
        await pipeline.run()


def leak_error():
    raise EncodeError("no eyes")


@pytest.mark.parametrize("name", ["answers.jsonl", "dead.log"])
async def test_an_output_somebody_else_writes_to_ends_the_run_at_the_next_commit(folder, name):
    tree = make_tree(Path(), with_trouble(COUNT), source={"follow": True}, commit={"events": 1, "interval_ms": 10.0})
    pipeline = make_pipeline(tree)
    running = asyncio.create_task(pipeline.run())
    await until(lambda: pipeline.status() and pipeline.status().answered == COUNT)
    await asyncio.sleep(0.05)
    provider = installed().provider("store", "directory")
    store = provider.create(provider.options(path="out/state"))
    await until(lambda: store.load_commit().sequence == COUNT)
    with (folder / "out" / name).open("ab") as file:
        file.write(b"somebody else's\n")
    with (folder / "in.jsonl").open("ab") as file:
        file.write(json_lines(stream(5, start=900)))
    with pytest.raises(StateMismatchError, match=f"{name} was written to, cut or replaced by someone else"):
        await asyncio.wait_for(running, 20)
    assert store.load_commit().sequence == COUNT, "what does not fit together is not committed"
