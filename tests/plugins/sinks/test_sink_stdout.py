"""Standard output: lines for whoever reads them."""

import os

import pytest

from speciate.conformance import check_sink
from speciate.errors import OutputError
from speciate_plugins.sinks.stdout import StdoutOptions, StdoutSink
from speciate_schemas import Answer, decode


async def test_it_writes_a_line_an_answer(answers, capfd) -> None:
    await check_sink(lambda: StdoutSink(StdoutOptions()), answers)
    lines = capfd.readouterr().out.splitlines()
    assert [decode(line.encode(), Answer, "json") for line in lines] == answers
    assert StdoutSink(StdoutOptions()).locate(3) == "stdout#3"


async def test_a_reader_that_left_is_told(answers, capfd, monkeypatch) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    monkeypatch.setattr("speciate_plugins.sinks.stdout.STDOUT", writing)
    sink = StdoutSink(StdoutOptions())
    await sink.open(None)
    with pytest.raises(OutputError, match="standard output was closed by the program that was reading it"):
        await sink.write(answers)
    await sink.close()
    os.close(writing)


async def test_it_cannot_be_read_back() -> None:
    sink = StdoutSink(StdoutOptions())
    assert not sink.durable
    with pytest.raises(OutputError, match="cannot be read back"):
        [piece async for piece in sink.read_back((), ())]
