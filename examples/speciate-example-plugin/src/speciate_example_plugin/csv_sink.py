"""A sink that writes answers as CSV, for spreadsheets: durable, so a crash neither loses nor repeats a row.

An assignment fills the columns; any other answer, which has no category, is kept whole as JSON in the last one.
"""

import csv
import os
import sys
from collections.abc import Iterator, Sequence
from io import StringIO
from itertools import islice
from pathlib import Path
from typing import Annotated, BinaryIO, cast

import msgspec

from speciate.blocking import BlockingSink
from speciate.errors import ConfigError, OutputError, StateMismatchError
from speciate.files import fsync_directory, make_directory
from speciate.hooks import Provider, hookimpl
from speciate.stages import Output, Sink
from speciate_schemas import Answer, Assignment, Event, Position, Refolded, Strict, decode, encode

FIELDS = Assignment.__struct_fields__
HEADER = [*FIELDS, "other"]
PIECE_ROWS = 1000


class CsvOptions(Strict, frozen=True):
    """Options of the sink: the keys one may write below `plugin = "csv"`."""

    path: Annotated[str, msgspec.Meta(min_length=1, description="The file to write.")]


class CsvSink(BlockingSink):
    """One file, appended to. Its position is the length of the file in bytes.

    The base class runs these plain functions on a thread of their own and turns what the system refuses into
    errors the operator can act on.
    """

    def __init__(self, options: CsvOptions) -> None:
        self._path = Path(options.path)
        self._file: BinaryIO | None = None

    def open_now(self, position: Position | None, *, fresh: bool) -> None:
        """See `BlockingSink`."""
        make_directory(self._path.absolute().parent)
        size = self._path.stat().st_size if self._path.exists() else 0
        keep = _offset(position)
        if position is None and size and not fresh:
            raise StateMismatchError(f"{self._path} is not empty: move it away, or discard it with --fresh")
        if size < keep:
            raise StateMismatchError(f"{self._path} has {size} bytes, {keep} were committed: it was cut or replaced")
        self.close_now()
        self._file = self._path.open("ab")
        # Cutting a file does not move the place in it, which `flush_now` reports and the header depends on.
        self._file.seek(self._file.truncate(keep))
        os.fsync(self._file.fileno())
        # The name of a new file has to survive a crash as well as its content.
        fsync_directory(self._path.absolute().parent)

    def write_now(self, items: Sequence[Output]) -> None:
        """See `BlockingSink`."""
        file = self._opened()
        text = StringIO()
        # \r\n is what the standard asks for; it also makes the writer quote a field that holds either of them.
        rows = csv.writer(text, lineterminator="\r\n")
        if items and not file.tell():
            rows.writerow(HEADER)
        rows.writerows(map(_row, items))
        file.write(text.getvalue().encode())

    def flush_now(self) -> Position:
        """See `BlockingSink`."""
        file = self._opened()
        file.flush()
        os.fsync(file.fileno())
        return (file.tell(),)

    def read_back_now(self, start: Position, end: Position) -> Iterator[Sequence[Answer]]:
        """See `BlockingSink`."""
        # The module's limit is for files of strangers; these rows are our own and as long as an answer may be.
        csv.field_size_limit(sys.maxsize)
        with self._path.open("rb") as file:
            file.seek(_offset(start))
            rows = (row for row in csv.reader(_lines(file, _offset(end))) if row != HEADER)
            while piece := list(islice(rows, PIECE_ROWS)):
                yield [_answer(row) for row in piece]

    def describe(self) -> str:
        """See `BlockingSink`."""
        return str(self._path)

    def close_now(self) -> None:
        """See `BlockingSink`."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _opened(self) -> BinaryIO:
        if self._file is None:
            raise OutputError(f"{self._path} is not open")
        return self._file


def _offset(position: Position | None) -> int:
    match position:
        case None:
            return 0
        case (int(offset),):
            return offset
        case _:
            raise StateMismatchError(f"{position!r} is no place in a CSV file: the state belongs to another sink")


def _lines(file: BinaryIO, end: int) -> Iterator[str]:
    while file.tell() < end:
        yield file.readline().decode()


def _row(item: Output) -> list[str]:
    if isinstance(item, Event | Refolded):
        raise ConfigError("sink 'csv' holds answers, not events: a pipeline without [density] needs another [sink]")
    if isinstance(item, Assignment):
        return [*(_cell(getattr(item, field)) for field in FIELDS), ""]
    return [
        item.id or "",
        item.stream or "",
        str(item.sequence),
        *[""] * (len(FIELDS) - 3),
        encode(item, "json").decode(),
    ]


def _cell(value: object) -> str:
    """Empty for nothing; `str` of a float has all its digits, so that reading gives the same number."""
    return "" if value is None else str(value)


def _answer(row: Sequence[str]) -> Answer:
    *cells, other = row
    if other:
        return cast(Answer, decode(other.encode(), Answer, "json"))
    cell = dict(zip(FIELDS, cells, strict=True))
    return Assignment(
        id=cell["id"],
        stream=cell["stream"],
        sequence=int(cell["sequence"]),
        category=int(cell["category"]),
        label=cell["label"] or None,
        birth=cell["birth"] == "True",
        log_evidence=float(cell["log_evidence"]),
        margin=float(cell["margin"]) if cell["margin"] else None,
        probability=float(cell["probability"]),
        drift=float(cell["drift"]) if cell["drift"] else None,
        head_version=int(cell["head_version"]),
    )


@hookimpl
def speciate_sink() -> Provider[Sink]:
    """Provide the sink; the entry point `sink.csv` names this module."""
    return Provider(options=CsvOptions, create=CsvSink)
