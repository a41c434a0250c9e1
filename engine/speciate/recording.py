"""Recording: any source, as it comes, into an event log that can be replayed."""

import asyncio
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from speciate.errors import ConfigError, OutputError
from speciate.files import fsync_directory
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
        file = await asyncio.to_thread(_create, path)
        with file:
            while records := await source.read(READ_EVENTS):
                await asyncio.to_thread(_append, file, records, done)
                watch(done)
            await asyncio.to_thread(os.fsync, file.fileno())
    except FileExistsError as error:
        raise ConfigError(f"{path} exists already: choose another name or remove it") from error
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error.strerror}; what was recorded until then is in it") from error
    finally:
        await source.close()
    return done


def _append(file: BinaryIO, records: Sequence[Record], done: Recorded) -> None:
    frames = [pack(_payload(record)) for record in records]
    file.write(b"".join(frames))
    # To the system at once: a follower sees it, and a killed recorder loses nothing it has read.
    file.flush()
    done.events += len(records)
    done.damaged += sum(record.error is not None for record in records)
    done.bytes += sum(map(len, frames))


def _create(path: Path) -> BinaryIO:
    file = path.open("xb")
    fsync_directory(path.parent)
    return file


def _payload(record: Record) -> bytes | memoryview:
    if record.event is not None:
        return encode(record.event)
    return record.original if record.original is not None else b""
