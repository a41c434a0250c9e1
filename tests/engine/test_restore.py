"""Resuming: wherever a run was cut off and whatever was damaged, it ends as if nothing had happened or says why."""

import itertools
import json
import os
import random
import re
from pathlib import Path

import msgspec
import pytest
from worlds import (
    Fuse,
    Fused,
    PowerError,
    event_log,
    fused_pipeline,
    json_lines,
    make_pipeline,
    make_tree,
    outputs,
    stream,
    with_trouble,
)

from speciate.config import Resolved
from speciate.errors import SourceError, StateDamagedError, StateLockedError, StateMismatchError
from speciate.plugins import installed
from speciate.restore import latest
from speciate_schemas import DeadLetter, Event, Tally, decode

COUNT = 130
EVENTS = with_trouble(COUNT)
CALLS = 50
"""At least so many things become visible in a run; the tests below cut it off at each of them."""


async def crash(tree, at, *, behind=False) -> bool:
    """Run until the fuse blows; False if the run came to its end before."""
    try:
        await fused_pipeline(tree, Fuse(at, behind=behind)).run()
    except PowerError:
        return True
    return False


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Relative paths, so that two runs in two folders can be compared byte for byte."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def tree(folder):
    return make_tree(Path(), EVENTS)


@pytest.fixture
async def expected(tmp_path_factory, monkeypatch):
    other = tmp_path_factory.mktemp("undisturbed")
    with monkeypatch.context() as patch:
        patch.chdir(other)
        await make_pipeline(make_tree(Path(), EVENTS)).run()
    return outputs(other)


@pytest.mark.parametrize("behind", [False, True], ids=["before", "behind"])
async def test_cut_off_at_any_point_it_ends_as_if_nothing_had_happened(folder, tree, expected, behind):
    for at in itertools.count():
        if not await crash(tree, at, behind=behind):
            break
        report = await make_pipeline(tree).run()
        assert report.status.sequence == COUNT
        assert outputs(folder) == expected, f"cut off at {at}"
        for path in sorted((folder / "out").rglob("*"), reverse=True):
            path.unlink() if path.is_file() else path.rmdir()
    assert at >= CALLS


@pytest.mark.parametrize("seed", range(4))
async def test_cut_off_again_and_again_it_ends_as_if_nothing_had_happened(folder, tree, expected, seed):
    chance = random.Random(seed)
    crashes = 0
    while await crash(tree, chance.randrange(5, 40), behind=chance.random() < 0.5):
        crashes += 1
        assert crashes < 200
    assert outputs(folder) == expected
    assert crashes > 0


async def commit_ahead(tree) -> None:
    """Leave a commit of 42 records, the snapshot of none, and some more lines that do not count."""
    fuse = Fuse()
    pipeline = fused_pipeline(tree, fuse)
    parts = pipeline.stages
    saved = []
    real = parts.store.save_commit

    class Ending(Fused):
        def save_commit(self, commit):
            saved.append(commit.sequence)
            if len(saved) > 3:
                raise PowerError
            real(commit)

    parts.store = Ending(parts.store, fuse)
    with pytest.raises(PowerError):
        await pipeline.run()
    assert saved[:3] == [0, 21, 42]


def snapshots(folder):
    return sorted((folder / "out" / "state" / "snapshots").iterdir())


def flip(path, chance):
    data = bytearray(path.read_bytes())
    data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    path.write_bytes(bytes(data))


def cut(path, chance):
    data = path.read_bytes()
    path.write_bytes(data[: chance.randrange(len(data))])


@pytest.mark.parametrize("damage", [flip, cut])
@pytest.mark.parametrize("hit", ["commit", "newest snapshot", "commit and newest snapshot"])
@pytest.mark.parametrize("seed", range(3))
async def test_damage_costs_time_and_nothing_else(*, folder, tree, expected, damage, hit, seed, caplog):
    chance = random.Random(f"{damage.__name__} {hit} {seed}")
    assert await crash(tree, CALLS - 3, behind=True)
    commit = folder / "out" / "state" / "commit.json"
    if "commit" in hit:
        damage(commit, chance)
    if "snapshot" in hit:
        assert len(snapshots(folder)) >= 2
        damage(snapshots(folder)[-1], chance)
    await make_pipeline(tree).run()
    assert outputs(folder) == expected
    assert ("snapshot is damaged" in caplog.text) == ("snapshot" in hit)
    assert ("going back to the snapshot's" in caplog.text) == ("commit" in hit)


@pytest.mark.parametrize("with_commit", [True, False])
async def test_no_whole_snapshot_is_an_error_that_touches_nothing(folder, tree, with_commit):
    assert await crash(tree, CALLS - 3, behind=True)
    for path in snapshots(folder):
        path.write_bytes(path.read_bytes()[:-1])
    if not with_commit:
        (folder / "out" / "state" / "commit.json").unlink()
    before = outputs(folder)
    with pytest.raises(StateDamagedError, match=r"out/state holds no whole snapshot.*--fresh"):
        await make_pipeline(tree).run()
    assert outputs(folder) == before


async def test_outputs_of_an_unknown_run_are_not_touched(folder, tree):
    (folder / "out").mkdir()
    (folder / "out" / "answers.jsonl").write_text("somebody's\n")
    with pytest.raises(StateMismatchError, match=r"answers\.jsonl is not empty"):
        await make_pipeline(tree).run()
    assert (folder / "out" / "answers.jsonl").read_text() == "somebody's\n"


async def test_fresh_discards_everything_and_begins_anew(folder, tree, expected):
    assert await crash(tree, CALLS - 3)
    for path in snapshots(folder):
        path.write_bytes(b"")
    report = await make_pipeline(tree, fresh=True).run()
    assert report.resumed_at == 0
    assert outputs(folder) == expected


@pytest.mark.parametrize(
    ("section", "change", "told_key", "values"),
    [
        ("policy", {"alpha": 0.5}, "policy.alpha", ["0.01", "0.5"]),
        ("run", {"duplicate_window": 5}, "run.duplicate_window", ["65536", "5"]),
        ("support", {"labels": "names"}, "support.labels", ["'labels'", "'names'"]),
        ("encoder", {"plugin": "thumbnail"}, "encoder.max_pixels", ["None", "50000000"]),
    ],
)
async def test_another_configuration_is_refused_naming_the_key_and_both_values(
    *, folder, tree, section, change, told_key, values
):
    await crash(tree, 30)
    before = outputs(folder)
    changed = {**tree, section: {**tree.get(section, {}), **change}}
    with pytest.raises(StateMismatchError) as caught:
        await make_pipeline(changed).run()
    message = str(caught.value)
    assert f"{told_key} = {values[0]}, the configuration says {values[1]}" in message
    assert outputs(folder) == before


async def test_what_does_not_shape_the_state_may_change(folder, tree, expected):
    assert await crash(tree, 30)
    changed = {**tree, "run": {"batch_events": 3, "queue_events": 5}, "commit": {"events": 11, "interval_ms": 1e6}}
    await make_pipeline(changed).run()
    assert outputs(folder) == expected


async def test_another_version_of_a_plugin_is_told_and_gone_on_with(folder, tree, expected, caplog, monkeypatch):
    assert await crash(tree, 30)
    real = Resolved.versions
    with monkeypatch.context() as patch:
        patch.setattr(Resolved, "versions", property(lambda self: {**real.fget(self), "policy.dp": "99"}))
        await make_pipeline(tree).run()
    assert [told.plugin for told in caplog.records if "another version" in told.message] == ["policy.dp"]
    answers = "answers.jsonl"
    assert outputs(folder)[answers] == expected[answers]


async def test_what_was_answered_is_folded_and_not_decided_again(folder, tree, expected, monkeypatch):
    """Answers that no head would give are kept as they are committed, and learnt from."""
    await commit_ahead(tree)
    path = folder / "out" / "answers.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    place = next(n for n, line in enumerate(lines) if json.loads(line).get("category") in {0, 1})
    category = json.loads(lines[place])["category"]
    lines[place] = lines[place].replace(b'"category":%d' % category, b'"category":%d' % (1 - category))
    path.write_bytes(b"".join(lines))
    await make_pipeline(tree).run()
    again = path.read_bytes().splitlines(keepends=True)
    assert again[:42] == lines[:42]
    newest = f"state/snapshots/{snapshots(folder)[-1].name}"
    assert outputs(folder)[newest] != expected[newest], "what was learnt from it is in the state"


def swap_id(folder):
    path = folder / "in.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"e9"', b'"x9"'))


def replace_rejected(folder):
    """Record 5 is no JSON and was rejected; now a good one stands there."""
    path = folder / "in.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    lines[5] = lines[4].replace(b'"e4"', b'"x5"')
    path.write_bytes(b"".join(lines))


def rename_rejected(folder):
    path = folder / "in.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"short"', b'"shart"'))


def move_the_end(folder):
    """Record 41 is the last one committed; it has its name still, but is longer."""
    path = folder / "in.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    lines[41] = lines[41].replace(b"{", b"{ ", 1)
    path.write_bytes(b"".join(lines))


def shorten_input(folder):
    path = folder / "in.jsonl"
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:30]))


def shorten(name):
    def change(folder):
        path = folder / "out" / name
        os.truncate(path, path.stat().st_size // 4)

    return change


def garble(folder):
    path = folder / "out" / "answers.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    lines[10] = b"?" * (len(lines[10]) - 1) + b"\n"
    path.write_bytes(b"".join(lines))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (swap_id, r"record 9 \(in\.jsonl@\d+\) is not the input that was answered as 'e9'"),
        (replace_rejected, r"record 5 \(in\.jsonl@\d+\) is not the input that was answered as None"),
        (rename_rejected, r"record 11 \(in\.jsonl@\d+\) is not the input that was answered as 'short'"),
        (move_the_end, r"record 41 \(in\.jsonl@\d+\) ends at .* but when it was answered it ended at"),
        (shorten_input, "the input ends at record 30, but 42 are answered already"),
        (shorten("answers.jsonl"), r"answers\.jsonl has \d+ bytes but \d+ were committed"),
        (shorten("dead.log"), r"dead\.log has \d+ bytes but \d+ were committed"),
        (garble, r"answers\.jsonl@\d+ is not an answer any more"),
    ],
    ids=[
        "input id",
        "rejected input",
        "rejected id",
        "end",
        "input cut",
        "answers cut",
        "dead letters cut",
        "answers garbled",
    ],
)
async def test_what_was_changed_since_is_noticed_and_mending_it_is_enough(folder, tree, expected, change, message):
    await commit_ahead(tree)
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    change(folder)
    with pytest.raises(StateMismatchError, match=message):
        await make_pipeline(tree).run()
    for path, data in before.items():
        path.write_bytes(data)
    await make_pipeline(tree).run()
    assert outputs(folder) == expected


def forget_all_but_the_first(folder):
    """What a power cut between a commit and its snapshot leaves."""
    for path in snapshots(folder)[1:]:
        path.unlink()


@pytest.mark.parametrize("end", [b'{"type":"feat', b"no JSON at all", b'{"type":"feature.v1","id":"t"}'])
async def test_a_torn_last_line_that_was_completed_since_is_noticed(folder, end):
    tree = make_tree(Path(), stream(9))
    whole = (folder / "in.jsonl").read_bytes()
    (folder / "in.jsonl").write_bytes(whole + end)
    await make_pipeline(tree).run()
    before = outputs(folder)
    forget_all_but_the_first(folder)
    (folder / "in.jsonl").write_bytes(whole + end + b" and more\n" + json_lines(stream(3, start=9)))
    answers = (folder / "out" / "answers.jsonl").read_bytes()
    with pytest.raises(StateMismatchError, match=r"record 9 .* the input was changed since"):
        await make_pipeline(tree).run()
    assert (folder / "out" / "answers.jsonl").read_bytes() == answers
    (folder / "in.jsonl").write_bytes(whole + end)
    await make_pipeline(tree).run()
    assert outputs(folder) == before


@pytest.mark.parametrize("lost", [True, False], ids=["snapshot lost", "clean"])
@pytest.mark.parametrize("count", [1, 9, 42])
async def test_a_last_line_whose_newline_came_later_is_as_if_it_had_always_been_there(folder, lost, count):
    events = stream(50)
    tree = make_tree(Path(), events)
    await make_pipeline(tree).run()
    expected = outputs(folder)
    (folder / "in.jsonl").write_bytes(json_lines(events[:count])[:-1])
    await make_pipeline(tree, fresh=True).run()
    if lost:
        forget_all_but_the_first(folder)
    (folder / "in.jsonl").write_bytes(json_lines(events))
    report = await make_pipeline(tree).run()
    assert (report.resumed_at, report.status.tally.rejected) == (count, 0)
    assert outputs(folder) == expected


async def test_an_answer_that_quotes_a_hostile_input_can_be_read_back(folder):
    """A name as large as an event may be, of characters that are six times as large in JSON."""
    hostile = msgspec.msgpack.encode({"type": "feature.v1", "id": "x", "features": [1.0], "\x01" * (12 << 20): 1})
    events = [*stream(9), hostile, *stream(9, start=9)]
    (folder / "in.log").write_bytes(event_log(events))
    tree = make_tree(Path(), source={"plugin": "eventlog", "paths": ["in.log"]})
    await make_pipeline(tree).run()
    answers = (folder / "out" / "answers.jsonl").read_bytes()
    before = outputs(folder)
    assert max(map(len, answers.splitlines())) < 10_000
    assert hostile in (folder / "out" / "dead.log").read_bytes()
    forget_all_but_the_first(folder)
    report = await make_pipeline(tree).run()
    assert (report.resumed_at, report.status.answered) == (19, 0)
    assert outputs(folder) == before


async def test_stopped_while_it_catches_up_nothing_is_lost(folder, tree, expected):
    await commit_ahead(tree)
    pipeline = make_pipeline(tree)
    pipeline.stop()
    report = await pipeline.run()
    assert report.stopped
    assert report.status.sequence < 42
    await make_pipeline(tree).run()
    assert outputs(folder) == expected


async def test_another_list_of_files_is_refused(folder, tree):
    # To its end, where a snapshot names the file for certain: whether a crash leaves one is up to the threads.
    await make_pipeline(tree).run()
    (folder / "other.jsonl").write_bytes(json_lines(EVENTS))
    changed = {**tree, "source": {"plugin": "jsonl", "paths": ["other.jsonl"]}}
    with pytest.raises(SourceError, match=r"was 'in\.jsonl' and is now 'other\.jsonl'"):
        await make_pipeline(changed).run()


async def test_a_second_process_is_refused_and_the_first_is_not_disturbed(folder, tree, expected):
    provider = installed().provider("store", "directory")
    first = provider.create(provider.options(path="out/state"))
    first.open(fresh=False)
    with pytest.raises(StateLockedError, match=f"in use by process {os.getpid()}"):
        await make_pipeline(tree, fresh=True).run()
    first.close()
    await make_pipeline(tree).run()
    assert outputs(folder) == expected


async def test_a_sink_that_cannot_be_cut_back_goes_on_from_the_snapshot(folder, tree, capfd):
    tree = {**tree, "sink": {"plugin": "stdout"}}
    await make_pipeline(tree).run()
    whole = capfd.readouterr().out.splitlines()
    assert len(whole) == COUNT
    again = {
        "store": {"plugin": "directory", "path": "out/other"},
        "dead_letters": {"plugin": "jsonl", "path": "out/d"},
    }
    # Late, and behind the call: without a snapshot of something answered it would go on from the beginning.
    assert await crash({**tree, **again}, 46, behind=True)
    first = capfd.readouterr().out.splitlines()
    report = await make_pipeline({**tree, **again}).run()
    second = capfd.readouterr().out.splitlines()
    # Where the dead letters are is all that differs.
    whole, first, second = ([line.partition('"dead_letter"')[0] for line in lines] for lines in (whole, first, second))
    assert first == whole[: len(first)]
    assert second == whole[report.resumed_at :]
    assert 0 < report.resumed_at <= len(first), "what was printed behind the snapshot comes again, nothing is left out"


class Piped:
    """Standard input for the parts of a test."""

    def __init__(self, folder):
        self._path = folder / "stdin"

    def __call__(self, events):
        self._path.write_bytes(json_lines(events))
        descriptor = os.open(self._path, os.O_RDONLY)
        os.dup2(descriptor, 0)
        os.close(descriptor)


@pytest.fixture
def piped(tmp_path):
    saved = os.dup(0)
    yield Piped(tmp_path)
    os.dup2(saved, 0)
    os.close(saved)


@pytest.mark.parametrize("behind", [False, True], ids=["before", "behind"])
async def test_where_the_input_cannot_be_read_again_snapshot_and_commit_go_together(
    folder, tree, expected, piped, behind
):
    """The sender begins again behind what was committed, as it would with an acknowledged queue."""
    tree = {**tree, "source": {"plugin": "stdin"}}
    store = installed().provider("store", "directory")
    for at in range(2, 50, 3):
        piped(EVENTS)
        assert await crash(tree, at, behind=behind)
        found = latest(store.create(store.options(path="out/state")))
        if found is not None:
            assert found[0].commit == found[1], "a snapshot must never lag behind its commit"
        done = found[1].sequence if found else 0
        piped(EVENTS[done:])
        report = await make_pipeline(tree).run()
        assert report.resumed_at == done
        # Each pipe counts its bytes from its own beginning.
        ours, theirs = (
            re.sub(rb',"origin":".*?"', b"", found["answers.jsonl"]) for found in (outputs(folder), expected)
        )
        assert ours == theirs
        for path in sorted((folder / "out").rglob("*"), reverse=True):
            path.unlink() if path.is_file() else path.rmdir()


@pytest.mark.parametrize("with_commit", [True, False])
async def test_a_lost_snapshot_of_an_input_that_cannot_be_read_again_is_told(folder, tree, piped, with_commit):
    tree = {**tree, "source": {"plugin": "stdin"}}
    piped(EVENTS)
    await make_pipeline(tree).run()
    newest = snapshots(folder)[-1]
    newest.write_bytes(newest.read_bytes()[:-1])
    if not with_commit:
        (folder / "out" / "state" / "commit.json").unlink()
    before = everything(folder)
    piped(stream(3, start=900))
    for _ in range(2):
        with pytest.raises(StateDamagedError, match=r"cannot be read again.*--fresh"):
            await make_pipeline(tree).run()
        assert everything(folder) == before, "a backup or a repair may still save it"


def everything(folder):
    found = (path for path in (folder / "out").rglob("*") if path.is_file() and path.name != "lock")
    return {path: path.read_bytes() for path in found}


def other_policy(tree):
    return {**tree, "policy": {**tree["policy"], "alpha": 0.5}}


def no_source(tree):
    return {**tree, "source": {**tree["source"], "paths": ["gone.jsonl"]}}


def empty_answers(tree):
    Path("out/answers.jsonl").write_bytes(b"")
    return tree


@pytest.mark.parametrize(
    ("change", "error"),
    [(other_policy, StateMismatchError), (no_source, SourceError), (empty_answers, StateMismatchError)],
)
async def test_a_damaged_snapshot_stays_until_it_is_sure_that_the_run_goes_on(*, folder, tree, expected, change, error):
    assert await crash(tree, CALLS - 3, behind=True)
    newest = snapshots(folder)[-1]
    newest.write_bytes(newest.read_bytes()[:-1])
    answers = (folder / "out" / "answers.jsonl").read_bytes()
    damaged = newest.read_bytes()
    changed = change(tree)
    with pytest.raises(error):
        await make_pipeline(changed).run()
    assert newest.read_bytes() == damaged
    (folder / "out" / "answers.jsonl").write_bytes(answers)
    await make_pipeline(tree).run()
    assert outputs(folder) == expected


def test_the_stream_of_these_tests_shows_everything():
    assert len(stream(COUNT)) == len(EVENTS)
    assert len({type(event) for event in EVENTS}) >= 4


HEADLESS = ("support", "density", "policy", "dead_letters")


def without_head(tree):
    return {name: section for name, section in tree.items() if name not in HEADLESS}


@pytest.fixture
async def handed_on(tmp_path_factory, monkeypatch):
    other = tmp_path_factory.mktemp("undisturbed")
    with monkeypatch.context() as patch:
        patch.chdir(other)
        await make_pipeline(without_head(make_tree(Path(), EVENTS))).run()
    return outputs(other)


@pytest.mark.parametrize("behind", [False, True], ids=["before", "behind"])
async def test_without_a_head_events_are_handed_on_exactly_once_wherever_it_is_cut_off(folder, tree, handed_on, behind):
    tree = without_head(tree)
    for at in itertools.count():
        if not await crash(tree, at, behind=behind):
            break
        report = await make_pipeline(tree).run()
        assert report.status.tally == Tally(forwarded=COUNT - 1, rejected=1)
        assert outputs(folder) == handed_on, f"cut off at {at}"
        for path in sorted((folder / "out").rglob("*"), reverse=True):
            path.unlink() if path.is_file() else path.rmdir()
    assert at >= 25
    lines = handed_on["answers.jsonl"].splitlines()
    for event, line in zip(EVENTS, lines, strict=True):
        if isinstance(event, bytes):
            assert bytes(decode(line, DeadLetter, "json").original) == event
        else:
            assert decode(line, Event, "json") == event


async def test_what_was_handed_on_is_decided_as_the_input_itself(folder, tree, expected):
    """Two pipelines, one behind the other, and one that does it all."""
    first = {**without_head(tree), "sink": {"plugin": "jsonl", "path": "between.jsonl"}}
    first["store"] = {"plugin": "directory", "path": "between"}
    await make_pipeline(first).run()
    lines = [line for line in (folder / "between.jsonl").read_bytes().splitlines() if b'"dead-letter.v1"' not in line]
    assert len(lines) == COUNT - 1
    (folder / "in.jsonl").write_bytes(b"\n".join(lines) + b"\n")
    report = await make_pipeline(tree).run()
    theirs = [line for line in expected["answers.jsonl"].splitlines() if b'"DecodeError"' not in line]
    figures = re.compile(rb'"category":\d+|"log_evidence":[^,]+|"head_version":\d+|"error":"[^"]+"')
    ours = outputs(folder)["answers.jsonl"].splitlines()
    assert [figures.findall(line) for line in ours] == [figures.findall(line) for line in theirs]
    assert report.status.tally.rejected == 4


async def test_a_state_that_decides_is_not_gone_on_with_by_a_pipeline_that_does_not(folder, tree):
    """It would write events behind the answers."""
    await make_pipeline(tree).run()
    before = outputs(folder)
    with pytest.raises(StateMismatchError, match=r"out/state is of a pipeline that decides.*--fresh"):
        await make_pipeline(without_head(tree)).run()
    assert outputs(folder) == before


async def test_a_state_of_another_universe_is_not_gone_on_with(folder, tree, expected):
    assert await crash(tree, CALLS - 3, behind=True)
    for universe in ("stream", "shared"):
        changed = {**tree, "run": {**tree["run"], "universe": universe}}
        with pytest.raises(StateMismatchError, match=rf"run\.universe = 'partition', .* says '{universe}'"):
            await make_pipeline(changed).run()
    await make_pipeline(tree).run()
    assert outputs(folder) == expected
