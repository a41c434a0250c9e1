"""Event logs and JSON Lines: everything they have in common."""

import asyncio
import itertools
import os
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from speciate.conformance import check_source
from speciate.errors import DecodeError, SourceError
from speciate.stages import Source
from speciate_plugins.sources import streams
from speciate_plugins.sources.eventlog import EventLogSource
from speciate_plugins.sources.jsonl import JsonLinesSource
from speciate_plugins.sources.streams import StreamOptions, StreamSource
from speciate_schemas import Array, Event, FeatureEvent, encode
from speciate_schemas.framing import pack

KINDS = {"eventlog": EventLogSource, "jsonl": JsonLinesSource}


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> type[StreamSource]:
    return KINDS[request.param]


def written(kind: type[StreamSource], events: list[Event]) -> list[bytes]:
    if kind is EventLogSource:
        return [pack(encode(event)) for event in events]
    return [encode(event, "json") + b"\n" for event in events]


def source(kind: type[StreamSource], *paths: Path | str, follow: bool = False) -> Source:
    return kind(StreamOptions(paths=[str(path) for path in paths], follow=follow))


async def test_it_keeps_the_laws(kind, tmp_path, events, monkeypatch) -> None:
    parts = written(kind, events)
    (tmp_path / "a.log").write_bytes(b"".join(parts[:9]))
    (tmp_path / "b.log").write_bytes(b"")
    (tmp_path / "c.log").write_bytes(b"noise\n" + b"".join(parts[9:]) + parts[0][:-3])
    for size in (1 << 20, 50, 3):
        monkeypatch.setattr(streams, "CHUNK_BYTES", size)
        await check_source(lambda: source(kind, tmp_path / "*.log"))


async def test_events_come_back_across_files(kind, tmp_path, events, read_all) -> None:
    parts = written(kind, events)
    (tmp_path / "b.log").write_bytes(b"".join(parts[:9]))
    (tmp_path / "a.log").write_bytes(b"".join(parts[9:]))
    records = await read_all(source(kind, tmp_path / "b.log", tmp_path / "a.log"))
    assert [encode(record.event) for record in records] == [encode(event) for event in events]
    assert [record.sequence for record in records] == list(range(len(events)))
    assert records[0].origin == "b.log@0"
    assert records[1].origin == f"b.log@{len(parts[0])}"
    assert records[9].origin == "a.log@0"
    newline = kind is JsonLinesSource
    assert records[8].position == (0, str(tmp_path / "b.log"), len(b"".join(parts[:9])) - newline)


async def test_a_bad_record_keeps_its_bytes_and_the_others_come(kind, tmp_path, events, read_all) -> None:
    good = written(kind, events[:2])
    bad = pack(b"\xc1") if kind is EventLogSource else b'{"type": "feature.v1"}\n'
    (tmp_path / "x.log").write_bytes(good[0] + bad + good[1])
    records = await read_all(source(kind, tmp_path / "x.log"))
    assert [record.error is None for record in records] == [True, False, True]
    assert isinstance(records[1].error, DecodeError)
    assert bytes(records[1].original) == (b"\xc1" if kind is EventLogSource else bad[:-1])
    assert records[1].event is None


async def test_no_file_is_an_error_that_names_the_pattern(kind, tmp_path) -> None:
    for pattern in ("missing.log", "*.log", "folder"):
        (tmp_path / "folder").mkdir(exist_ok=True)
        with pytest.raises(SourceError, match=rf"no file matches '.*{pattern.replace('*', '.')}'"):
            await source(kind, tmp_path / pattern).open(None, 0)


async def test_a_file_named_like_a_glob_is_found(kind, tmp_path, events, read_all) -> None:
    path = tmp_path / "a[1].log"
    path.write_bytes(b"".join(written(kind, events)))
    assert len(await read_all(source(kind, path))) == len(events)


async def test_resume_says_what_changed(kind, tmp_path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).write_bytes(b"12345")
    one = source(kind, tmp_path / "?")
    with pytest.raises(SourceError, match="has 5 bytes but was read up to 6 before"):
        await one.open((1, str(tmp_path / "b"), 6), 9)
    with pytest.raises(SourceError, match=r"file number 1 was 'c' and is now '.*b'"):
        await one.open((1, "c", 0), 9)
    with pytest.raises(SourceError, match="file number 2 was 'c' and is now 'none'"):
        await one.open((2, "c", 0), 9)
    with pytest.raises(SourceError, match="was not made by this source"):
        await one.open((7,), 9)
    await one.close()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
async def test_a_file_without_rights_is_an_error(kind, tmp_path) -> None:
    (tmp_path / "x").touch(mode=0)
    with pytest.raises(SourceError, match="Permission denied"):
        await source(kind, tmp_path / "x").open(None, 0)


async def test_following_waits_for_growth(kind, tmp_path, events) -> None:
    first, second = written(kind, events[:2])
    path = tmp_path / "x.log"
    path.write_bytes(first + second[:-1])
    one = source(kind, path, follow=True)
    await one.open(None, 0)
    assert len(await one.read(10)) == 1
    done, total, unit = one.progress()
    assert (done, total, unit) == (len(first), len(first + second) - 1, "bytes"), (
        "what is behind is known while it grows"
    )
    waiting = asyncio.create_task(one.read(10))
    await asyncio.sleep(0.1)
    assert not waiting.done()
    with path.open("ab") as file:
        file.write(second[-1:])
    (record,) = await asyncio.wait_for(waiting, 30)
    assert encode(record.event) == encode(events[1])
    waiting = asyncio.create_task(one.read(10))
    await asyncio.sleep(0.01)
    one.stop()
    assert not await asyncio.wait_for(waiting, 30)
    await one.close()


async def test_only_the_last_file_is_followed(kind, tmp_path, events) -> None:
    parts = written(kind, events[:2])
    (tmp_path / "a").write_bytes(parts[0][:-1])
    (tmp_path / "b").write_bytes(parts[1])
    one = source(kind, tmp_path / "a", tmp_path / "b", follow=True)
    await one.open(None, 0)
    assert [record.sequence for record in await one.read(1)] == [0]
    while record := (await one.read(1))[0]:
        if record.position[0] == 1:
            break
    assert encode(record.event) == encode(events[1])
    await one.close()


async def test_a_followed_file_must_not_shrink(kind, tmp_path, events) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"".join(written(kind, events)))
    one = source(kind, path, follow=True)
    await one.open(None, 0)
    assert len(await one.read(100)) == len(events)
    os.truncate(path, 3)
    with pytest.raises(SourceError, match="has 3 bytes but was read up to"):
        await one.read(1)
    await one.close()


async def test_a_followed_file_must_not_be_replaced(kind, tmp_path, events) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"".join(written(kind, events)))
    one = source(kind, path, follow=True)
    await one.open(None, 0)
    await one.read(100)
    (tmp_path / "y").write_bytes(path.read_bytes())
    (tmp_path / "y").replace(path)
    with pytest.raises(SourceError, match="was replaced by another file"):
        await one.read(1)
    path.unlink()
    with pytest.raises(SourceError, match="No such file"):
        await one.read(1)
    await one.close()


async def test_progress_counts_bytes_over_all_files(kind, tmp_path, events) -> None:
    parts = written(kind, events)
    (tmp_path / "a").write_bytes(b"".join(parts))
    (tmp_path / "b").write_bytes(parts[0])
    one = source(kind, tmp_path / "a", tmp_path / "b")
    assert one.progress() == (0, 0, "bytes")
    total = len(b"".join(parts)) + len(parts[0])
    await one.open(None, 0)
    await one.read(1)
    assert one.progress() == (len(parts[0]), total, "bytes")
    while await one.read(100):
        pass
    assert one.progress() == (total, total, "bytes")
    await one.close()


async def test_the_last_line_needs_no_newline(tmp_path, read_all) -> None:
    (tmp_path / "x").write_bytes(b'{"type":"feature.v1","id":"a","features":[1,2]}\r\n\n{"type":"feature.v1"')
    first, empty, last = await read_all(source(JsonLinesSource, tmp_path / "x"))
    assert isinstance(first.event, FeatureEvent)
    assert str(empty.error) == "empty line"
    assert bytes(last.original) == b'{"type":"feature.v1"'


async def test_text_that_is_no_utf8_is_rejected(tmp_path, read_all) -> None:
    (tmp_path / "x").write_bytes(b'{"type":"feature.v1","id":"\xff","features":[1]}\n' + b"[" * 100_000 + b"\n\x00\n")
    records = await read_all(source(JsonLinesSource, tmp_path / "x"))
    assert [type(record.error) for record in records] == [DecodeError] * 3


async def test_file_names_that_are_no_utf8_can_be_stored(kind, tmp_path, events, read_all) -> None:
    path = tmp_path / os.fsdecode(b"\xff.log")
    path.write_bytes(b"".join(written(kind, events)))
    records = await read_all(source(kind, path))
    assert encode((records[0].position, records[0].origin), "json")


async def test_once_the_end_was_met_what_grows_is_left_to_the_next_run(kind, tmp_path, events) -> None:
    """A file that grows between two reads: the end that was told stays the end."""
    parts = written(kind, events[:12])
    path = tmp_path / "x.log"
    torn = b"".join(parts[:9]) + parts[9][:-7]
    path.write_bytes(torn)
    one = source(kind, path)
    await one.open(None, 0)
    records = []
    while not records or records[-1].error is None:
        records += await one.read(4)
    with path.open("ab") as file:
        file.write(parts[9][-7:] + b"".join(parts[10:]))
    assert not await one.read(100)
    assert one.progress().done == len(torn)
    await one.close()
    assert [record.error is None for record in records] == [True] * 9 + [False]
    again = source(kind, path)
    await again.open(records[-1].position, 10)
    rest = await again.read(100)
    await again.close()
    assert [record.sequence for record in rest] == [10, 11, 12]
    assert [encode(record.event) for record in rest[1:]] == [encode(event) for event in events[10:12]]
    assert bytes(rest[0].original) == (parts[9][-7:] if kind is EventLogSource else parts[9][-7:-1])


lines = st.sampled_from([b"", b"x", b"yy\r", b'{"type":"forget.v1","id":"f","category":1}'])


def grown(path: Path, data: bytes) -> Source:
    path.write_bytes(data)
    return source(JsonLinesSource, path)


async def read_with_stops(path: Path, stops: list[int], whole: bytes) -> list[tuple]:
    """Read a file that has so many bytes in each run, each run going on behind the last record of the one before."""
    records: list = []
    for stop in stops:
        one = grown(path, whole[:stop])
        await one.open(records[-1].position if records else None, len(records))
        while got := await one.read(2):
            records += got
        await one.close()
    return [(record.sequence, record.position, bytes(record.original), str(record.error)) for record in records]


@settings(deadline=None, max_examples=60)
@given(st.lists(lines, min_size=1, max_size=6), st.sets(st.integers(0, 6)), st.booleans())
def test_runs_that_meet_lines_without_their_newline_read_as_one_run_over_the_whole(drawn, stops, ended) -> None:
    """Each run ends behind a line whose newline is not there yet; the newline that comes later is no empty line."""
    whole = b"\n".join(drawn) + b"\n" * ended
    ends = list(itertools.accumulate(len(line) + 1 for line in drawn))
    # Behind nothing but a newline there is no line yet: where an empty line begins, nobody can tell.
    cuts = [ends[n] - 1 for n in sorted(stops) if n < len(drawn) - 1 and drawn[n]]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.jsonl"
        at_once = asyncio.run(read_with_stops(path, [len(whole)], whole))
        assert asyncio.run(read_with_stops(path, [*cuts, len(whole)], whole)) == at_once


@pytest.mark.parametrize("count", [100, 10_000])
async def test_a_list_of_numbers_counts_as_what_it_takes(tmp_path, read_all, count) -> None:
    """In text a number may have two bytes, in memory it has thirty-two."""
    text = b'{"type":"feature.v1","id":"a","features":[' + b",".join([b"7"] * count) + b"]}"
    (tmp_path / "x").write_bytes(text)
    (record,) = await read_all(source(JsonLinesSource, tmp_path / "x"))
    features = record.event.features
    taken = sys.getsizeof(features) - sys.getsizeof([]) + count * sys.getsizeof(7.0)
    assert len(text) + 0.85 * taken <= record.nbytes <= len(text) + 1.15 * taken
    packed = FeatureEvent(id="a", features=Array.of(np.ones(count)))
    (tmp_path / "y").write_bytes(pack(encode(packed)))
    (record,) = await read_all(source(EventLogSource, tmp_path / "y"))
    assert record.nbytes == len(encode(packed))
