"""Standard input: the same parsing, but it can be read only once."""

import asyncio
import os
from collections.abc import Iterator

import pytest

from speciate.conformance import check_source
from speciate.errors import DecodeError
from speciate_plugins.sources.stdin import StdinOptions, StdinSource
from speciate_schemas import encode
from speciate_schemas.framing import pack


@pytest.fixture
def pipe() -> Iterator[int]:
    """Make standard input a pipe; gives the end to write to."""
    saved = os.dup(0)
    reading, writing = os.pipe()
    os.dup2(reading, 0)
    os.close(reading)
    # The test closes it to end the input; another descriptor may have its number by then.
    yield writing
    os.dup2(saved, 0)
    os.close(saved)


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
    (record,) = await asyncio.wait_for(waiting, 5)
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
    assert not await asyncio.wait_for(waiting, 2)
    await source.close()
    os.close(pipe)
