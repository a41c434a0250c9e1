"""A pipeline from end to end: the same decisions whatever the formats, from a mapping or a file, at any pace."""

import asyncio
import itertools
import os
import time
from dataclasses import replace

import msgspec
import numpy as np
import pytest
from worlds import (
    Fuse,
    Fused,
    event_log,
    json_lines,
    make_head,
    make_pipeline,
    make_tree,
    outputs,
    stream,
    with_trouble,
    write_support,
)

import speciate
from speciate.config import parse, resolve
from speciate.describe import toml_text
from speciate.errors import ConfigError, OutputError, SourceError, SupportError
from speciate.pipeline import Pipeline
from speciate.plugins import installed
from speciate_schemas import Assignment, Tally, decode, encode
from speciate_schemas.events import Answer

COUNT = 80
EVENTS = [msgspec.structs.replace(event, stream="cam") for event in stream(COUNT)]
SOURCES = ("npz", "parquet", "jsonl", "eventlog", "stdin", "stdin eventlog")
SINKS = ("jsonl", "eventlog", "parquet", "stdout")


def matrix():
    return np.array([event.features.numpy() for event in EVENTS])


def source_of(kind: str, folder) -> dict:
    """The same events in each format; stdin is redirected by its fixture."""
    path = folder / f"in.{kind.rsplit(maxsplit=1)[-1]}"
    if kind == "npz":
        columns = {"names": [event.id for event in EVENTS], "times": [event.time for event in EVENTS]}
        np.savez(path, features=matrix(), labels=[event.label for event in EVENTS], **columns)
        return {"plugin": "npz", "paths": [str(path)], "stream": "cam"}
    if kind == "parquet":
        import pyarrow as pa
        import pyarrow.parquet as pq

        names = ("id", "label", "time", "stream")
        columns = {name: [getattr(event, name) for event in EVENTS] for name in names}
        pq.write_table(pa.table({"features": matrix().tolist(), **columns}), path)
        return {"plugin": "parquet", "paths": [str(path)]}
    path.write_bytes(event_log(EVENTS) if kind.endswith("eventlog") else json_lines(EVENTS))
    if kind.startswith("stdin"):
        descriptor = os.open(path, os.O_RDONLY)
        os.dup2(descriptor, 0)
        os.close(descriptor)
        return {"plugin": "stdin", "format": kind.rsplit(maxsplit=1)[-1] if " " in kind else "jsonl"}
    return {"plugin": kind, "paths": [str(path)]}


def sink_of(kind: str, folder) -> dict:
    return {"plugin": kind} if kind == "stdout" else {"plugin": kind, "path": str(folder / "out" / f"answers-{kind}")}


async def read_answers(section: dict, state, capfd) -> list:
    if section["plugin"] == "stdout":
        return [decode(line.encode(), Answer, "json") for line in capfd.readouterr().out.splitlines()]
    store, sink = installed().provider("store", "directory"), installed().provider("sink", section["plugin"])
    end = store.create(store.options(path=str(state))).load_commit().answers
    reading = sink.create(sink.options(path=section["path"]))
    await reading.open(end)
    answers = [answer async for piece in reading.read_back((0,), end) for answer in piece]
    await reading.close()
    return answers


@pytest.fixture
def stdin():
    saved = os.dup(0)
    yield
    os.dup2(saved, 0)
    os.close(saved)


@pytest.fixture(scope="module")
def decided() -> list:
    """What a head says of the events, without any pipeline."""
    decisions = make_head().process(matrix())
    return [
        Assignment(id=event.id, stream="cam", sequence=n, head_version=n, **decision._asdict())
        for n, (event, decision) in enumerate(zip(EVENTS, decisions, strict=True))
    ]


@pytest.mark.parametrize("sink", SINKS)
@pytest.mark.parametrize("source", SOURCES)
async def test_every_source_and_sink_give_the_decisions_of_the_head(*, tmp_path, capfd, stdin, decided, source, sink):
    tree = make_tree(tmp_path, source=source_of(source, tmp_path), sink=sink_of(sink, tmp_path))
    report = await make_pipeline(tree).run()
    answers = await read_answers(tree["sink"], tmp_path / "out" / "state", capfd)
    assert all(answer.origin for answer in answers)
    assert encode([msgspec.structs.replace(answer, origin="") for answer in answers]) == encode(decided)
    assert report.status.tally.assigned == COUNT
    assert report.status.tally.births == sum(answer.birth for answer in decided)
    assert report.status.categories == 2 + report.status.tally.births
    assert not report.stopped


def test_run_takes_a_mapping_overrides_and_fresh(tmp_path):
    tree = make_tree(tmp_path, EVENTS)
    report = speciate.run(tree, overrides=["commit.events=5", "run.batch_events=4"])
    assert isinstance(report, speciate.Report)
    assert (report.resumed_at, report.status.sequence, report.status.answered) == (0, COUNT, COUNT)
    assert report.answers == str(tmp_path / "out" / "answers.jsonl")
    assert report.dead_letters == str(tmp_path / "out" / "dead.log")
    assert report.state == str(tmp_path / "out" / "state")
    before = outputs(tmp_path)
    again = speciate.run(tree)
    assert (again.resumed_at, again.status.answered) == (COUNT, 0)
    assert outputs(tmp_path) == before
    fresh = speciate.run(tree, fresh=True)
    assert (fresh.resumed_at, fresh.status.answered) == (0, COUNT)
    assert outputs(tmp_path) == before


def test_run_takes_a_file(tmp_path):
    tree = make_tree(tmp_path, EVENTS)
    path = tmp_path / "pipeline.toml"
    sections = ((f"[{name}]", *(f"{key} = {toml_text(value)}" for key, value in tree[name].items())) for name in tree)
    path.write_text("\n".join(itertools.chain.from_iterable(sections)))
    assert speciate.run(path).status.sequence == COUNT
    assert speciate.run(str(path), fresh=True).status.sequence == COUNT


def test_what_grew_since_is_gone_on_with(tmp_path):
    tree = make_tree(tmp_path, EVENTS[:30])
    speciate.run(tree)
    (tmp_path / "in.jsonl").write_bytes(json_lines(EVENTS))
    report = speciate.run(tree)
    assert (report.resumed_at, report.status.sequence, report.status.answered) == (30, COUNT, COUNT - 30)
    grown = outputs(tmp_path)
    speciate.run(tree, fresh=True)
    assert outputs(tmp_path) == grown


@pytest.mark.parametrize("batch", [1, 3, 1000])
def test_batches_and_commits_do_not_show_in_the_outputs(tmp_path, batch):
    tree = make_tree(tmp_path, with_trouble(100))
    speciate.run(tree)
    before = outputs(tmp_path)
    speciate.run(tree, overrides=[f"run.batch_events={batch}", "run.linger_ms=1", "commit.events=17"], fresh=True)
    assert outputs(tmp_path) == before


@pytest.mark.parametrize(("pace", "seconds"), [(200.0, 0.195), (200, 0.195), ("original", 0.2)])
def test_a_pace_is_kept(tmp_path, pace, seconds):
    events = [msgspec.structs.replace(event, time=1e9 + n * 0.2 / 39) for n, event in enumerate(EVENTS[:40])]
    tree = make_tree(tmp_path, events, run={"pace": pace, "batch_events": 7})
    began = time.monotonic()
    report = speciate.run(tree)
    assert seconds <= time.monotonic() - began < seconds + 20
    assert report.status.sequence == 40


async def test_a_status_can_be_asked_for_at_any_time(tmp_path):
    pipeline = make_pipeline(make_tree(tmp_path, EVENTS))
    assert pipeline.status() is None
    await pipeline.run()
    status = pipeline.status()
    assert isinstance(status, speciate.Status)
    assert (status.sequence, status.lag) == (COUNT, 0)


class Patient(Fused):
    """A source that waits for others while it opens, until it is told to stop."""

    def __init__(self, part):
        super().__init__(part, Fuse())
        self.opening, self._told = asyncio.Event(), asyncio.Event()

    async def open(self, position, sequence):
        self.opening.set()
        async with asyncio.timeout(30):
            await self._told.wait()
        return await self._part.open(position, sequence)

    def stop(self):
        self._told.set()
        self._part.stop()


async def test_a_source_that_waits_while_it_opens_hears_the_stop(tmp_path):
    pipeline = make_pipeline(make_tree(tmp_path, EVENTS))
    source = pipeline.stages.source = Patient(pipeline.stages.source)
    running = asyncio.create_task(pipeline.run())
    await source.opening.wait()
    pipeline.stop()
    await running
    assert pipeline.status().sequence == 0
    await make_pipeline(make_tree(tmp_path, EVENTS)).run()
    assert len((tmp_path / "out" / "answers.jsonl").read_bytes().splitlines()) == COUNT


@pytest.mark.parametrize(
    ("section", "change", "error", "message"),
    [
        ("policy", {"alpah": 1}, ConfigError, "alpah"),
        ("source", {"paths": ["nothing.jsonl"]}, SourceError, "nothing.jsonl"),
        ("support", {"paths": ["nothing.npz"]}, SourceError, "nothing.npz"),
        ("support", {"labels": "gone"}, SourceError, "gone"),
    ],
)
def test_a_mistake_of_the_operator_leaves_nothing_behind(*, tmp_path, section, change, error, message):
    tree = make_tree(tmp_path, EVENTS)
    before = tree[section]
    tree[section] = {**before, **change}
    with pytest.raises(error, match=message):
        speciate.run(tree)
    tree[section] = before
    assert speciate.run(tree).status.sequence == COUNT


def test_a_support_set_without_labels_is_told(tmp_path):
    tree = make_tree(tmp_path, EVENTS)
    features = np.load(write_support(tmp_path))["features"]
    np.savez(tmp_path / "support.npz", features=features)
    with pytest.raises(SupportError, match=r"support\.npz#0 of the support set has no label"):
        speciate.run(tree)


def unlabelled(path):
    np.savez(path, features=np.load(path)["features"])


def no_archive(path):
    path.write_bytes(b"no archive")


@pytest.mark.parametrize("spoil", [unlabelled, no_archive, lambda path: path.unlink()], ids=["labels", "bytes", "gone"])
def test_starting_over_without_a_usable_support_set_discards_nothing(tmp_path, spoil):
    tree = make_tree(tmp_path, with_trouble(80))
    speciate.run(tree)
    before = outputs(tmp_path)
    spoil(tmp_path / "support.npz")
    with pytest.raises((SupportError, SourceError)):
        speciate.run(tree, fresh=True)
    assert outputs(tmp_path) == before
    assert speciate.run(tree).status.answered == 0, "and the state is as usable as it was"


def test_an_error_keeps_its_cause(tmp_path, monkeypatch):
    """For whoever looks for it with SPECIATE_DEBUG."""
    tree = make_tree(tmp_path, EVENTS)
    sink = installed().provider("sink", "jsonl").create
    cause = OSError(5, "Input/output error")

    def broken(self, items):
        raise cause

    monkeypatch.setattr(sink, "write_now", broken)
    with pytest.raises(OutputError, match="Input/output error") as caught:
        speciate.run(tree)
    assert caught.value.__cause__ is cause


class Nobody:
    """A share of a group, for those who look at it only."""


def shared(tree, share):
    """The configuration with a source that says how it is shared."""
    resolved = resolve(parse(tree), installed())
    asked = []

    def share_of(options, together):
        asked.append((options, together))
        return share

    source = resolved.sections["source"]
    resolved.sections["source"] = replace(source, provider=replace(source.provider, share=share_of))
    return resolved, asked


@pytest.mark.parametrize(("universe", "together"), [("partition", False), ("stream", False), ("shared", True)])
def test_a_source_that_can_be_shared_is_asked_how(tmp_path, universe, together):
    resolved, asked = shared(make_tree(tmp_path, EVENTS, run={"universe": universe}), Nobody())
    Pipeline(resolved)
    assert asked == [(resolved["source"].options, together)]


@pytest.mark.parametrize("overflow", ["drop-oldest", "drop-newest"])
@pytest.mark.parametrize("share", [None, Nobody()], ids=["alone", "in a group"])
def test_what_is_in_a_log_is_never_dropped(tmp_path, overflow, share):
    resolved, _ = shared(make_tree(tmp_path, EVENTS, run={"overflow": overflow}), share)
    with pytest.raises(ConfigError, match=rf"run\.overflow is '{overflow}'.*leave it at 'block'"):
        Pipeline(resolved)


def test_what_several_workers_share_cannot_be_started_over(tmp_path):
    resolved, _ = shared(make_tree(tmp_path, EVENTS), Nobody())
    with pytest.raises(ConfigError, match="--fresh cannot empty what several workers share"):
        Pipeline(resolved, fresh=True)


async def test_a_source_that_need_not_be_shared_is_read_alone(tmp_path):
    resolved, _ = shared(make_tree(tmp_path, EVENTS), None)
    report = await Pipeline(resolved, fresh=True).run()
    assert (report.status.sequence, report.status.tasks) == (COUNT, {0: COUNT})


def test_without_a_head_a_report_says_what_was_handed_on(tmp_path):
    gone = ("support", "density", "policy", "dead_letters")
    tree = {name: section for name, section in make_tree(tmp_path, EVENTS).items() if name not in gone}
    report = speciate.run(tree)
    assert report.status.tally == Tally(forwarded=COUNT)
    assert (report.status.categories, report.status.head_bytes) == (0, 0)
    assert (report.answers, report.dead_letters) == (str(tmp_path / "out" / "answers.jsonl"), "")
    again = speciate.run(tree)
    assert (again.resumed_at, again.status.answered) == (COUNT, 0)


def test_without_a_head_outputs_on_files_need_a_store_all_the_same(tmp_path):
    gone = ("support", "density", "policy", "dead_letters", "store")
    tree = {name: section for name, section in make_tree(tmp_path, EVENTS).items() if name not in gone}
    with pytest.raises(ConfigError, match=r"no \[store\]: with \[sink\] .*answers\.jsonl it needs one"):
        speciate.run(tree)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("universe", ["partition", "stream", "shared"])
def test_each_stream_has_categories_of_its_own_where_that_is_wished(tmp_path, universe):
    """The same events once more as another stream: born again only where streams do not share categories."""
    twice = [*EVENTS, *(msgspec.structs.replace(event, stream="other") for event in EVENTS)]
    report = speciate.run(make_tree(tmp_path, twice, run={"universe": universe}))
    lines = [decode(line, Answer, "json") for line in (tmp_path / "out" / "answers.jsonl").read_bytes().splitlines()]
    first, second = lines[:COUNT], lines[COUNT:]
    same = [(one.category, one.birth, one.log_evidence) for one in first] == [
        (one.category, one.birth, one.log_evidence) for one in second
    ]
    assert same == (universe == "stream")
    heads = 2 if universe == "stream" else 1
    assert report.status.categories == 2 * heads + report.status.tally.births
