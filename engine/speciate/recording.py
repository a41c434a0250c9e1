"""Recording: any source, as it comes, into an event log that can be replayed."""

import asyncio
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from speciate.errors import OutputError
from speciate.files import fsync_directory, output_error
from speciate.stages import Record, Source
from speciate_schemas import encode
from speciate_schemas.framing import pack

READ_EVENTS = 256


@dataclass
class Recorded:
    """What a recording holds so far."""

    events: int = 0
    damaged: int = 0
    """Inputs that are no events; they are recorded all the same, and rejected on replay."""
    bytes: int = 0


async def record(source: Source, path: Path, *, watch: Callable[[Recorded], None] = lambda _: None) -> Recorded:
    """Write every input of the source to the log: events as MessagePack, damaged inputs byte for byte."""
    done = Recorded()
    await source.open(None, 0)
    try:
        file = await asyncio.to_thread(path.open, "xb")
        with file:
            while records := await source.read(READ_EVENTS):
                await asyncio.to_thread(_append, file, records, done)
                watch(done)
            await asyncio.to_thread(_finish, file, path)
    except FileExistsError as error:
        raise OutputError(f"{path} exists already: choose another name or remove it") from error
    except OSError as error:
        raise output_error(path, error) from error
    finally:
        await source.close()
    return done


def _append(file: BinaryIO, records: Sequence[Record], done: Recorded) -> None:
    frames = [pack(_payload(record)) for record in records]
    file.write(b"".join(frames))
    done.events += len(records)
    done.damaged += sum(record.error is not None for record in records)
    done.bytes += sum(map(len, frames))


def _finish(file: BinaryIO, path: Path) -> None:
    file.flush()
    os.fsync(file.fileno())
    fsync_directory(path.parent)


def _payload(record: Record) -> bytes | memoryview:
    if record.event is not None:
        return encode(record.event)
    return record.original if record.original is not None else b""
