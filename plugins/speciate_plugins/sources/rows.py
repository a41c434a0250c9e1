"""Files of rows, one event a row: the base of NPZ and Parquet."""

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from speciate.blocking import BlockingSource
from speciate.errors import EventError
from speciate.stages import Progress, Record
from speciate_plugins.sources.files import cut_since, find_files, resume_at, text_of
from speciate_schemas import Array, FeatureEvent, Position


class Row(NamedTuple):
    """One row: its number in the file, and the event or why there is none."""

    number: int
    outcome: FeatureEvent | EventError
    original: bytes | None = None


class Rows(NamedTuple):
    """The rows of a file from some row on."""

    total: int
    """Rows of the file, all of them."""
    left: int
    """Rows that `rows` will give."""
    rows: Iterator[Row]


class RowSource(BlockingSource):
    """Reads files of rows one after another. Its position is the file's index and path and the next row's number."""

    def __init__(self, paths: Sequence[str]) -> None:
        self._patterns = paths
        self._files: list[Path] = []
        self._index = 0
        self._sequence = 0
        self._end: int | None = None
        self._rows: Iterator[Row] = iter(())

    @abstractmethod
    def load(self, path: Path, start: int) -> Rows:
        """The rows of a file from number `start` on."""

    def open_now(self, position: Position | None, sequence: int) -> None:
        """See `BlockingSource`."""
        self._files = find_files(self._patterns)
        self._index, row = resume_at(position, [text_of(path) for path in self._files])
        self._sequence = sequence
        self._enter(row)

    def read_now(self, max_events: int) -> Sequence[Record] | None:
        """See `BlockingSource`."""
        records: list[Record] = []
        while len(records) < max_events:
            row = next(self._rows, None)
            if row is not None:
                records.append(self._record(row))
            elif self._index + 1 < len(self._files):
                self._index += 1
                self._enter(0)
            else:
                break
        return records or None

    def progress(self) -> Progress:
        """See `BlockingSource`. The total is known once the last file is open."""
        return Progress(self._sequence, self._end, "rows")

    def close_now(self) -> None:
        """See `BlockingSource`."""
        self._files = []
        self._rows = iter(())

    def _enter(self, start: int) -> None:
        path = self._files[self._index]
        count, left, self._rows = self.load(path, start)
        if start > count:
            raise cut_since(text_of(path), count, start, "rows")
        self._end = self._sequence + left if self._index == len(self._files) - 1 else None

    def _record(self, row: Row) -> Record:
        path = self._files[self._index]
        event, error = (None, row.outcome) if isinstance(row.outcome, EventError) else (row.outcome, None)
        record = Record(
            sequence=self._sequence,
            position=(self._index, text_of(path), row.number + 1),
            origin=f"{text_of(path.name)}#{row.number}",
            nbytes=_size(event, row.original),
            event=event,
            original=row.original,
            error=error,
        )
        self._sequence += 1
        return record


def _size(event: FeatureEvent | None, original: bytes | None) -> int:
    features = event.features if event is not None else None
    return (features.data.nbytes if isinstance(features, Array) else 0) + len(original or b"")
