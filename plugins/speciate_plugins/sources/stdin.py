"""Source `stdin`: events from standard input, as JSON Lines or as an event log."""

import os
import select
import time
from collections.abc import Sequence
from typing import Annotated, Literal

import msgspec

from speciate.blocking import BlockingSource
from speciate.hooks import Provider, hookimpl
from speciate.stages import Progress, Record, Source
from speciate_plugins.sources.reading import CHUNK_BYTES, RecordReader
from speciate_schemas import Position, Strict
from speciate_schemas.codec import Format

STDIN = 0
WAIT_SECONDS = 0.05
"""Longest a read waits, so that the wish to stop is noticed soon."""

FORMS: dict[str, Format] = {"jsonl": "json", "eventlog": "msgpack"}


class StdinOptions(Strict, frozen=True):
    """Options of the source `stdin`."""

    format: Annotated[
        Literal["jsonl", "eventlog"],
        msgspec.Meta(description="One JSON event a line, or the frames of an event log."),
    ] = "jsonl"


class StdinSource(BlockingSource):
    """Reads a pipe, which cannot be read again: a position given to `open` only says how to go on numbering."""

    replayable = False

    def __init__(self, options: StdinOptions) -> None:
        self._form = FORMS[options.format]
        self._ended = False
        self._reader: RecordReader | None = None

    def open_now(self, position: Position | None, sequence: int) -> None:  # noqa: ARG002 - a pipe has no places
        """See `BlockingSource`."""
        self._reader = RecordReader(self._form, name="stdin", index=0, path="stdin", offset=0, sequence=sequence)

    def read_now(self, max_events: int) -> Sequence[Record] | None:
        """See `BlockingSource`. Reads on while more comes, so that no piece of a large event waits for a call."""
        if self._reader is None:
            return None
        while not (records := self._reader.take(max_events)):
            if self._ended:
                return None
            if self._stopping or not self._readable():
                return ()
            self._feed(self._reader, os.read(STDIN, CHUNK_BYTES))
        return records

    def rest_now(self, max_events: int) -> Sequence[Record]:
        """See `BlockingSource`. A last line that was cut by the stop is handed over too, and will be rejected."""
        if self._reader is None:
            return ()
        if not self._ended:
            self._feed(self._reader, b"")
        return self._reader.take(max_events)

    def _readable(self) -> bool:
        start = time.perf_counter()
        ready = select.select([STDIN], [], [], WAIT_SECONDS)[0]
        self.waited += time.perf_counter() - start
        return bool(ready)

    def _feed(self, reader: RecordReader, chunk: bytes) -> None:
        if chunk:
            reader.feed(chunk)
        else:
            self._ended = True
            reader.finish()

    def progress(self) -> Progress:
        """See `BlockingSource`."""
        reader = self._reader
        return Progress(reader.offset if reader else 0, None, "bytes")

    def close_now(self) -> None:
        """See `BlockingSource`."""
        self._reader = None


@hookimpl
def speciate_source() -> Provider[Source]:
    """Provide the source."""
    return Provider(options=StdinOptions, create=StdinSource)
