"""Standard input: the same parsing, but it can be read only once."""

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from speciate.conformance import check_source
from speciate.errors import DecodeError
from speciate_plugins.sources.stdin import StdinOptions, StdinSource
from speciate_schemas import ForgetCategory, encode
from speciate_schemas.framing import pack


@contextmanager
def piped() -> Iterator[int]:
    """Make standard input a pipe; gives the end to write to."""
    saved = os.dup(0)
    reading, writing = os.pipe()
    os.dup2(reading, 0)
    os.close(reading)
    # The test closes it to end the input; another descriptor may have its number by then.
    yield writing
    os.dup2(saved, 0)
    os.close(saved)


@pytest.fixture
def pipe() -> Iterator[int]:
    with piped() as writing:
        yield writing


@pytest.mark.parametrize("form", ["jsonl", "eventlog"])
async def test_it_reads_what_comes(pipe, events, form) -> None:
    source = StdinSource(StdinOptions(format=form))
    await source.open((0, "stdin", 99), 40)
    waiting = asyncio.create_task(source.read(10))
    await asyncio.sleep(0.12)
    assert not waiting.done()
    data = encode(events[0], "json") + b"\n" if form == "jsonl" else pack(encode(events[0]))
    os.write(pipe, data[:5])
    await asyncio.sleep(0.06)
    os.write(pipe, data[5:] + b"tail")
    (record,) = await asyncio.wait_for(waiting, 30)
    assert record.sequence == 40
    assert record.origin == "stdin@0"
    assert encode(record.event) == encode(events[0])
    os.close(pipe)
    (tail,) = await source.read(10)
    assert isinstance(tail.error, DecodeError)
    assert bytes(tail.original) == b"tail"
    assert not await source.read(10)
    assert source.progress() == (len(data) + 4, None, "bytes")
    await source.close()


async def test_it_keeps_the_laws_of_a_pipe(pipe, events) -> None:
    os.write(pipe, b"".join(encode(event, "json") + b"\n" for event in events))
    os.close(pipe)
    await check_source(lambda: StdinSource(StdinOptions()))


async def test_stop_ends_the_wait(pipe) -> None:
    source = StdinSource(StdinOptions())
    await source.open(None, 0)
    waiting = asyncio.create_task(source.read(1))
    await asyncio.sleep(0.01)
    source.stop()
    assert not await asyncio.wait_for(waiting, 30)
    await source.close()
    os.close(pipe)


def as_bytes(form: str, record) -> bytes:
    """A record as it stood in the pipe; a line that was cut has no newline."""
    payload = bytes(record.original)
    if form == "jsonl":
        return payload + (b"\n" if record.error is None else b"")
    return pack(payload) if record.error is None else payload


async def read_and_stop(form: str, reads: int, limit: int) -> list:
    source = StdinSource(StdinOptions(format=form))
    await source.open(None, 0)
    records = []
    for _ in range(reads):
        records += await asyncio.wait_for(source.read(limit), 30)
    source.stop()
    while got := await source.read(limit):
        records += got
    await source.close()
    return records


@settings(deadline=None, max_examples=60)
@given(
    st.sampled_from(["jsonl", "eventlog"]),
    st.integers(1, 12),
    st.integers(0, 40),
    st.integers(0, 3),
    st.integers(1, 5),
)
def test_a_stop_loses_nothing_that_was_taken_from_the_pipe(form, count, cut, reads, limit) -> None:
    """What came out and what is still in the pipe is what was written, byte for byte."""
    events = [ForgetCategory(id=f"f{n}", category=n) for n in range(count + 1)]
    parts = [encode(event, "json") + b"\n" if form == "jsonl" else pack(encode(event)) for event in events]
    data = b"".join(parts[:-1]) + parts[-1][:cut]
    with piped() as writing:
        os.write(writing, data)
        records = asyncio.run(read_and_stop(form, min(reads, -(-count // limit)), limit))
        os.close(writing)
        left = os.read(0, 1 << 20)
    assert b"".join(as_bytes(form, record) for record in records) + left == data
    assert [record.sequence for record in records] == list(range(len(records)))
    if reads:
        assert left == b"", "one read takes all that is there"
        assert all(record.error is None for record in records[:count])
        assert all(isinstance(record.error, DecodeError) for record in records[count:])


TRICKLE = """
import os, sys
size, piece = int(sys.argv[1]), int(sys.argv[2])
data = b'{"type":"image.v1","id":"large","media_type":"' + b" " * size + b'","image":""}\\n'
for place in range(0, len(data), piece):
    os.write(1, data[place : place + piece])
"""


def program(text: str, *args: int, writing_to: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", text, *map(str, args)], stdout=writing_to)


@pytest.mark.parametrize("piece", [4096, 65536])
async def test_a_large_event_in_small_writes_is_not_waited_for_piece_by_piece(pipe, piece) -> None:
    """At a poll interval a pipeful it would take half a minute."""
    size = 32 << 20
    source = StdinSource(StdinOptions())
    await source.open(None, 0)
    with program(TRICKLE, size, piece, writing_to=pipe) as writer:
        os.close(pipe)
        began = time.monotonic()
        (record,) = await source.read(1)
        seconds = time.monotonic() - began
        assert writer.wait(10) == 0
    await source.close()
    assert record.nbytes > size
    assert seconds < 15


async def test_a_stop_is_heard_while_an_event_comes_in_without_end(pipe) -> None:
    source = StdinSource(StdinOptions())
    await source.open(None, 0)
    os.write(pipe, b"endless")
    endless = "import os\nwhile True: os.write(1, b'less' * 9)"
    with program(endless, writing_to=pipe) as writer:
        waiting = asyncio.create_task(source.read(1))
        await asyncio.sleep(0.3)
        source.stop()
        done, _ = await asyncio.wait({waiting}, timeout=30)
        writer.kill()
    os.close(pipe)
    assert done, "the stop was not heard"
    (record,) = await waiting
    assert isinstance(record.error, DecodeError)
    assert bytes(record.original).startswith(b"endless")
    assert not await source.read(1)
    await source.close()
