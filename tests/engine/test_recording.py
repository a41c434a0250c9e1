"""Recording: any source becomes a log that replays as the same events, damaged inputs with their bytes."""

import asyncio
import re
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from worlds import event_log, json_lines, make_pipeline, make_tree, stream, with_trouble

from speciate.errors import ConfigError, OutputError, SourceError
from speciate.plugins import installed
from speciate.recording import Recorded, record
from speciate_schemas import Event, encode
from strategies import STRATEGIES

events = st.one_of([STRATEGIES[kind] for kind in Event.__args__])


def source(name, *paths):
    provider = installed().provider("source", name)
    return provider.create(provider.options(paths=[str(path) for path in paths]))


async def read(reading):
    await reading.open(None, 0)
    records = []
    while batch := await reading.read(100):
        records.extend(batch)
    await reading.close()
    return records


def told(records):
    return [encode(one.event) if one.event is not None else bytes(one.original) for one in records]


@settings(deadline=None, max_examples=50)
@given(st.lists(events | st.binary(min_size=1, max_size=20).filter(lambda data: b"\n" not in data), max_size=12))
def test_a_recording_replays_as_what_was_recorded(drawn):
    async def main(folder: Path):
        (folder / "in.jsonl").write_bytes(json_lines(drawn))
        done = await record(source("jsonl", folder / "in.jsonl"), folder / "out.log")
        original, replayed = (
            await read(source("jsonl", folder / "in.jsonl")),
            await read(source("eventlog", folder / "out.log")),
        )
        assert told(replayed) == told(original)
        assert [one.error is None for one in replayed] == [one.error is None for one in original]
        damaged = sum(one.error is not None for one in original)
        assert done == Recorded(len(original), damaged, (folder / "out.log").stat().st_size)
        again = await record(source("eventlog", folder / "out.log"), folder / "again.log")
        assert again == done
        assert (folder / "again.log").read_bytes() == (folder / "out.log").read_bytes()

    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(main(Path(folder)))


async def test_a_recording_is_decided_as_the_source_itself(tmp_path):
    tree = make_tree(tmp_path, with_trouble(100))
    await make_pipeline(tree).run()
    direct = (tmp_path / "out" / "answers.jsonl").read_bytes()
    await record(source("jsonl", tmp_path / "in.jsonl"), tmp_path / "in.log")
    tree["source"] = {"plugin": "eventlog", "paths": [str(tmp_path / "in.log")]}
    await make_pipeline(tree, fresh=True).run()
    replayed = (tmp_path / "out" / "answers.jsonl").read_bytes()
    # Where it was read differs, of course; what is said of bytes that are no event depends on the format they came in.
    ours, theirs = (
        [re.sub(rb',"origin":".*"', b"", line) for line in lines.splitlines()] for lines in (replayed, direct)
    )
    differing = [n for n, (one, other) in enumerate(zip(ours, theirs, strict=True)) if one != other]
    assert differing == [5]
    assert b'"error":"DecodeError"' in ours[5]


async def test_damage_to_a_log_is_kept_in_its_recording(tmp_path):
    damaged = bytearray(event_log(stream(9)))
    damaged[len(damaged) // 2] ^= 1
    (tmp_path / "in.log").write_bytes(bytes(damaged))
    done = await record(source("eventlog", tmp_path / "in.log"), tmp_path / "out.log")
    assert (done.events, done.damaged) == (9, 1)
    original, replayed = (
        await read(source("eventlog", tmp_path / "in.log")),
        await read(source("eventlog", tmp_path / "out.log")),
    )
    assert told(replayed) == told(original)


async def test_whoever_watches_sees_it_grow(tmp_path):
    (tmp_path / "in.jsonl").write_bytes(json_lines(stream(600)))
    seen = []
    done = await record(
        source("jsonl", tmp_path / "in.jsonl"), tmp_path / "out.log", watch=lambda now: seen.append(now.events)
    )
    assert seen == sorted(seen)
    assert seen[-1] == done.events == 600
    assert len(seen) > 1


async def test_what_is_there_is_not_overwritten_and_errors_name_the_path(tmp_path):
    (tmp_path / "in.jsonl").write_bytes(json_lines(stream(3)))
    (tmp_path / "out.log").write_bytes(b"precious")
    with pytest.raises(ConfigError, match=r"out\.log exists already"):
        await record(source("jsonl", tmp_path / "in.jsonl"), tmp_path / "out.log")
    assert (tmp_path / "out.log").read_bytes() == b"precious"
    with pytest.raises(OutputError, match=r"cannot write .*nowhere/out\.log: No such file"):
        await record(source("jsonl", tmp_path / "in.jsonl"), tmp_path / "nowhere" / "out.log")
    with pytest.raises(SourceError, match="no file matches"):
        await record(source("jsonl", tmp_path / "nothing"), tmp_path / "other.log")
    assert not (tmp_path / "other.log").exists()


@pytest.mark.parametrize("count", [1, 3, 600])
async def test_every_input_is_in_the_file_as_soon_as_it_is_told(tmp_path, count):
    """Whoever follows the recording sees it, and a kill takes nothing away."""
    (tmp_path / "in.jsonl").write_bytes(json_lines(stream(count)))
    log, differing = tmp_path / "out.log", []

    def watch(now):
        if log.stat().st_size != now.bytes:
            differing.append(now)

    done = await record(source("jsonl", tmp_path / "in.jsonl"), log, watch=watch)
    assert (done.events, differing) == (count, [])
