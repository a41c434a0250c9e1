"""Sink `parquet`: a folder of Parquet files, one a commit, none of them ever changed."""

import re
from collections.abc import Iterator, Sequence
from io import BytesIO
from pathlib import Path
from typing import Annotated, Any

import msgspec

from speciate.blocking import BlockingSink
from speciate.errors import ConfigError, StateMismatchError
from speciate.files import TEMPORARY, fsync_directory, make_directory, write_atomically, writing
from speciate.hooks import Provider, hookimpl
from speciate.stages import Output, Sink
from speciate_plugins.sinks.positions import number_in, too_short, unexpected
from speciate_schemas import (
    Answer,
    Assignment,
    ControlApplied,
    DeadLetter,
    Position,
    Rejection,
    Relabel,
    Strict,
    decode,
    encode,
)
from speciate_schemas.events import Control, Event, Refolded, tag_of

PART = re.compile(r"part-(\d{8})\.parquet")
BATCH_ROWS = 1024

FIELDS = {tag_of(kind): kind.__struct_fields__ for kind in (Assignment, Rejection, ControlApplied, DeadLetter)}

COLUMNS = {
    "type": "string",
    "id": "string",
    "stream": "string",
    "sequence": "int64",
    "category": "int64",
    "label": "string",
    "birth": "bool",
    "log_evidence": "double",
    "margin": "double",
    "probability": "double",
    "drift": "double",
    "head_version": "int64",
    "control": "string",
    "relabels": "string",
    "stage": "string",
    "error": "string",
    "message": "string",
    "dead_letter": "string",
    "origin": "string",
    "original": "binary",
}
"""One a field of any answer or dead letter, null where the type has none such. `control` and `relabels` are JSON."""


class ParquetOptions(Strict, frozen=True):
    """Options of the sink `parquet`."""

    path: Annotated[str, msgspec.Meta(min_length=1, description="The folder to put the files in.")]


class ParquetSink(BlockingSink):
    """Writes a part file at each flush that has rows. Its position is the number of parts."""

    def __init__(self, options: ParquetOptions) -> None:
        self._path = Path(options.path)
        self._parts = 0
        self._rows: list[dict[str, Any]] = []

    def open_now(self, position: Position | None, *, fresh: bool) -> None:
        """See `BlockingSink`."""
        wanted = number_in(position, str(self._path))
        parts = self._numbers()
        # Parts are committed in order, so a gap among the committed ones is a loss.
        whole = next((place for place, number in enumerate(parts) if place != number), len(parts))
        if whole < wanted:
            raise too_short(str(self._path), whole, wanted, "parts")
        if position is None and parts and not fresh:
            raise unexpected(str(self._path))
        make_directory(self._path)
        self._remove([self._part(number) for number in reversed(parts) if number >= wanted])
        self._remove(list(self._path.glob(f"part-*{TEMPORARY}")))
        self._parts = wanted
        self._rows.clear()

    def write_now(self, items: Sequence[Output]) -> None:
        """See `BlockingSink`."""
        self._rows.extend(_row(item) for item in items)

    def flush_now(self) -> Position:
        """See `BlockingSink`."""
        if self._rows:
            path = self._part(self._parts)
            with writing(path):
                write_atomically(path, _file(self._rows))
            self._rows.clear()
            self._parts += 1
        return (self._parts,)

    def read_back_now(self, start: Position, end: Position) -> Iterator[Sequence[Answer]]:
        """See `BlockingSink`."""
        import pyarrow as pa  # noqa: PLC0415 - heavy, and an extra
        import pyarrow.parquet as pq  # noqa: PLC0415

        for number in range(number_in(start, str(self._path)), number_in(end, str(self._path))):
            path = self._part(number)
            try:
                for batch in pq.ParquetFile(path).iter_batches(BATCH_ROWS, use_threads=False):
                    yield [_answer(row) for row in batch.to_pylist()]
            except (pa.ArrowException, OSError, KeyError, msgspec.DecodeError) as error:
                raise StateMismatchError(
                    f"{path} does not hold answers any more ({error}); restore it or start over with --fresh"
                ) from error

    def describe(self) -> str:
        """See `BlockingSink`."""
        return str(self._path)

    def _part(self, number: int) -> Path:
        return self._path / f"part-{number:08d}.parquet"

    def _numbers(self) -> list[int]:
        """The numbers of the parts that are there, in order."""
        if not self._path.exists():
            return []
        return sorted(int(found[1]) for path in self._path.iterdir() if (found := PART.fullmatch(path.name)))

    def _remove(self, paths: Sequence[Path]) -> None:
        for path in paths:
            path.unlink()
        if paths:
            fsync_directory(self._path)


def _row(item: Output) -> dict[str, Any]:
    if isinstance(item, Event | Refolded):
        raise ConfigError("sink 'parquet' holds answers, not events: a pipeline without [density] needs another [sink]")
    row = {"type": tag_of(type(item)), **msgspec.structs.asdict(item)}
    if isinstance(item, ControlApplied):
        row["control"] = encode(item.control, "json").decode()
        row["relabels"] = encode(item.relabels, "json").decode()
    if isinstance(item, DeadLetter):
        row["original"] = bytes(item.original)
    return row


def _answer(row: dict[str, Any]) -> Answer:
    fields = {name: row[name] for name in ("type", *FIELDS[row["type"]])}
    if "control" in fields:
        fields["control"] = decode(fields["control"].encode(), Control, "json")
        fields["relabels"] = decode(fields["relabels"].encode(), list[Relabel], "json")
    answer: Answer = msgspec.convert(fields, Answer)
    return answer


def _file(rows: Sequence[dict[str, Any]]) -> bytes:
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.parquet as pq  # noqa: PLC0415

    schema = pa.schema([(name, pa.type_for_alias(kind)) for name, kind in COLUMNS.items()])
    buffer = BytesIO()
    pq.write_table(pa.Table.from_pylist(list(rows), schema=schema), buffer)
    return buffer.getvalue()


@hookimpl
def speciate_sink() -> Provider[Sink]:
    """Provide the sink."""
    return Provider(options=ParquetOptions, create=ParquetSink, requires=("pyarrow",), install="speciate[parquet]")
