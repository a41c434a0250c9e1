"""Bytes to records: what files of lines, event logs and pipes have in common."""

import msgspec

from speciate.errors import DecodeError, EventError
from speciate.stages import Record
from speciate_plugins.splitting import FrameSplitter, LineSplitter, Splitter
from speciate_schemas import Event, FeatureEvent
from speciate_schemas.codec import Format, decoder

SPLITTERS: dict[Format, type[Splitter]] = {"json": LineSplitter, "msgpack": FrameSplitter}
"""JSON comes in lines, MessagePack in the frames of an event log."""

NUMBER_BYTES = 32
"""A Python float and its place in a list."""

CHUNK_BYTES = 1 << 20
"""Read at once."""


class RecordReader:
    """Turns the bytes of one file or pipe into numbered records."""

    def __init__(self, form: Format, *, name: str, index: int, path: str, offset: int, sequence: int) -> None:
        self._form = form
        self._decoder = decoder(Event, form)
        self._splitter = SPLITTERS[form](offset)
        self._name = name
        self._index = index
        self._path = path
        self.offset = offset
        """Where the last record taken ends."""
        self.sequence = sequence
        """Number of the next record."""

    def feed(self, chunk: bytes) -> None:
        """Add the bytes that follow."""
        self._splitter.feed(chunk)

    def finish(self) -> None:
        """Nothing follows."""
        self._splitter.finish()

    def take(self, max_events: int) -> list[Record]:
        """At most so many of the records that are whole by now."""
        records = []
        for payload, start, end, problem in self._splitter.take(max_events):
            event, error = (None, problem) if problem else self._decode(payload)
            record = Record(
                sequence=self.sequence,
                position=(self._index, self._path, self._place(payload, start, end)),
                origin=f"{self._name}@{start}",
                nbytes=_size(event, payload),
                event=event,
                original=payload,
                error=error,
            )
            records.append(record)
            self.sequence += 1
            self.offset = end
        return records

    def _place(self, payload: memoryview, start: int, end: int) -> int:
        """Where reading goes on: for a line before its newline, which may come later and changes nothing."""
        return start + len(payload) if self._form == "json" else end

    def _decode(self, payload: memoryview) -> tuple[Event | None, EventError | None]:
        try:
            return self._decoder(payload), None
        except msgspec.DecodeError as error:
            return None, DecodeError(str(error))


def _size(event: Event | None, payload: memoryview) -> int:
    """What the record takes in memory: a list of numbers is many times larger than the text it came in."""
    if isinstance(event, FeatureEvent) and isinstance(event.features, list):
        return len(payload) + NUMBER_BYTES * len(event.features)
    return len(payload)
