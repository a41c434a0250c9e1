"""Sources and sinks of plain functions, made asynchronous."""

import asyncio
import threading
from collections.abc import Iterator, Sequence

import pytest

from speciate.blocking import BlockingSink, BlockingSource
from speciate.errors import OutputError, SourceError
from speciate.stages import Progress, Record
from speciate_schemas import Answer, Position


class Scripted(BlockingSource):
    """Gives what the script says: records, nothing yet, the end, or an error."""

    def __init__(self, *script: Sequence[Record] | OSError | None) -> None:
        self.script = list(script)
        self.threads: set[str] = set()

    def open_now(self, position: Position | None, sequence: int) -> None:
        if isinstance(self.script[0], OSError):
            raise self.script[0]

    def read_now(self, max_events: int) -> Sequence[Record] | None:
        self.threads.add(threading.current_thread().name)
        step = self.script.pop(0) if self.script else ()
        if isinstance(step, OSError):
            raise step
        return step

    def progress(self) -> Progress:
        return Progress(0, None, "records")


class Broken(BlockingSink):
    """Fails at everything, or has three pieces to read back."""

    def __init__(self, error: OSError | None = None) -> None:
        self.error = error

    def fail(self) -> None:
        if self.error:
            raise self.error

    def open_now(self, position: Position | None, *, fresh: bool) -> None:
        self.fail()

    def write_now(self, items: Sequence[object]) -> None:
        self.fail()

    def flush_now(self) -> Position:
        self.fail()
        return ()

    def read_back_now(self, start: Position, end: Position) -> Iterator[Sequence[Answer]]:
        yield []
        self.fail()
        yield []
        yield []

    def describe(self) -> str:
        return "nowhere"


RECORD = Record(sequence=0, position=(1,), origin="x", nbytes=0)


async def test_reading_waits_for_records_and_ends() -> None:
    source = Scripted([RECORD], (), (), [RECORD, RECORD], None)
    await source.open(None, 0)
    assert [len(await source.read(9)) for _ in range(3)] == [1, 2, 0]
    assert len(source.threads) == 1
    assert threading.current_thread().name not in source.threads
    await source.close()
    await source.close()


async def test_stop_ends_a_read_under_way() -> None:
    source = Scripted(())
    waiting = asyncio.create_task(source.read(1))
    await asyncio.sleep(0.01)
    source.stop()
    assert not await asyncio.wait_for(waiting, 2)
    assert not await source.read(1)
    await source.close()


async def test_what_the_system_refuses_is_the_worlds_fault() -> None:
    source = Scripted(OSError("gone"), OSError("gone"))
    with pytest.raises(SourceError, match="cannot read the input: gone"):
        await source.open(None, 0)
    with pytest.raises(SourceError, match="cannot read the input: gone"):
        await source.read(1)
    await source.close()
    sink = Broken(OSError("full"))
    for call in (sink.open(None), sink.write([]), sink.flush()):
        with pytest.raises(OutputError, match="full"):
            await call
    with pytest.raises(OutputError, match="cannot read the output back: full"):
        [piece async for piece in sink.read_back((), ())]
    await sink.close()


async def test_reading_back_gives_every_piece() -> None:
    sink = Broken()
    await sink.open(None, fresh=True)
    assert [piece async for piece in sink.read_back((), ())] == [[], [], []]
    assert sink.locate(3) == "nowhere#3"
    await sink.close()
    await sink.close()
