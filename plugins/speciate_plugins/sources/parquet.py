"""Source `parquet`: Apache Parquet files, a row an event."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np
import numpy.typing as npt

from speciate.errors import DecodeError, EventError, SourceError
from speciate.hooks import Provider, hookimpl
from speciate.stages import Source
from speciate_plugins.sources.files import Paths, text_of
from speciate_plugins.sources.names import check_names
from speciate_plugins.sources.rows import Row, Rows, RowSource
from speciate_schemas import Array, FeatureEvent, Strict, encode

BATCH_ROWS = 1024
BUFFER_BYTES = 1 << 20
"""Read ahead in each column, instead of a whole row group."""


class ParquetOptions(Strict, frozen=True):
    """Options of the source `parquet`."""

    paths: Paths
    features: Annotated[
        str, msgspec.Meta(description="Column of the features: lists of numbers, or binary little-endian float32.")
    ] = "features"
    ids: Annotated[str, msgspec.Meta(description="Column of the ids; without it file name and row.")] = "id"
    labels: Annotated[str, msgspec.Meta(description="Column of the true classes, if there.")] = "label"
    times: Annotated[
        str, msgspec.Meta(description="Column of the times, if there: timestamps, or seconds since the epoch.")
    ] = "time"
    streams: Annotated[str, msgspec.Meta(description="Column of the streams, if there.")] = "stream"
    stream: Annotated[
        str | None,
        msgspec.Meta(description="Stream of events without one; without it the file's name without its ending."),
    ] = None


class ParquetSource(RowSource):
    """Reads Parquet files batch by batch; resuming skips the row groups before the place."""

    def __init__(self, options: ParquetOptions) -> None:
        super().__init__(options.paths)
        self._options = options

    def load(self, path: Path, start: int) -> Rows:
        """See `RowSource`."""
        import pyarrow as pa  # noqa: PLC0415 - heavy, and an extra
        import pyarrow.parquet as pq  # noqa: PLC0415

        try:
            file = pq.ParquetFile(path, buffer_size=BUFFER_BYTES)
        except pa.ArrowException as error:
            raise SourceError(f"{text_of(path)} is not a whole Parquet file: {error}") from error
        columns = self._columns(path, file.schema_arrow)
        rows = file.metadata.num_rows
        return Rows(rows, max(rows - start, 0), self._rows_from(path, file, columns, start))

    def _columns(self, path: Path, schema: Any) -> dict[str, str]:
        """Which of the option's columns are there, after checking that those which must be are."""
        defaults = ParquetOptions(paths=["."])
        columns = {}
        for field in ("features", "ids", "labels", "times", "streams"):
            name = getattr(self._options, field)
            if name in schema.names:
                columns[field] = name
            elif field == "features" or name != getattr(defaults, field):
                there = ", ".join(schema.names) or "none"
                raise SourceError(f"{text_of(path)} has no column {name!r} ({field}); there are {there}")
        _check_features(text_of(path), schema.field(columns["features"]))
        return columns

    def _rows_from(self, path: Path, file: Any, columns: dict[str, str], start: int) -> Iterator[Row]:
        import pyarrow as pa  # noqa: PLC0415

        groups, number = _groups_from(file.metadata, start)
        batches = file.iter_batches(BATCH_ROWS, groups, columns=list(columns.values()), use_threads=False)
        try:
            for batch in batches:
                cells = {field: _prepared(field, batch.column(name)) for field, name in columns.items()}
                skip = min(max(start - number, 0), len(batch))
                for place in range(skip, len(batch)):
                    yield self._row(path, number + place, {field: cell[place] for field, cell in cells.items()})
                number += len(batch)
        except (pa.ArrowException, OSError) as error:
            raise SourceError(f"{text_of(path)} cannot be read behind row {number}: {error}") from error

    def _stream(self, path: Path) -> str:
        return text_of(path.stem) if self._options.stream is None else self._options.stream

    def _row(self, path: Path, number: int, cells: dict[str, Any]) -> Row:
        original = _bytes_of(cells["features"])
        try:
            values = {field: cell.as_py() for field, cell in cells.items() if field != "features"}
            names = check_names(
                id=_text(values["ids"]) if "ids" in values else f"{text_of(path.name)}:{number}",
                stream=_text(values.get("streams")) or self._stream(path),
                time=_seconds(values.get("times")),
                label=_text(values.get("labels")),
            )
            features = Array.of(_vector(cells["features"]))
        except EventError as error:
            return Row(number, error, original or _as_json(cells))
        except ValueError as error:
            return Row(number, DecodeError(str(error)), original or _as_json(cells))
        event = FeatureEvent(id=names.id, features=features, stream=names.stream, time=names.time, label=names.label)
        return Row(number, event, original)


def _as_json(cells: dict[str, Any]) -> bytes:
    """What a dead letter keeps of a row that has no bytes of its own."""
    return encode({field: _plain(cell) for field, cell in cells.items()}, "json")


def _plain(cell: Any) -> Any:
    """The cell as Python has it; text that is none as its bytes."""
    try:
        return cell.as_py()
    except ValueError:
        return cell.as_buffer().to_pybytes() if hasattr(cell, "as_buffer") else None


def _check_features(path: str, field: Any) -> None:
    import pyarrow.types as kinds  # noqa: PLC0415

    kind = field.type
    listed = kinds.is_list(kind) or kinds.is_large_list(kind) or kinds.is_fixed_size_list(kind)
    numbers = listed and (kinds.is_floating(kind.value_type) or kinds.is_integer(kind.value_type))
    if not numbers and not _is_binary(kind):
        raise SourceError(
            f"{path}: column {field.name!r} is of type {kind}; it must hold lists of numbers or binary float32"
        )


def _groups_from(metadata: Any, start: int) -> tuple[list[int], int]:
    """The row groups from the one that holds row `start` on, and the number of their first row."""
    first = 0
    for group in range(metadata.num_row_groups):
        rows = metadata.row_group(group).num_rows
        if start < first + rows:
            return list(range(group, metadata.num_row_groups)), first
        first += rows
    return [], first


def _prepared(field: str, column: Any) -> Any:
    import pyarrow as pa  # noqa: PLC0415

    if field == "times" and pa.types.is_timestamp(column.type):
        # Python's datetime has no nanoseconds; half a microsecond is none of our business.
        return column.cast(pa.timestamp("us", column.type.tz), safe=False)
    return column


def _is_binary(kind: Any) -> bool:
    import pyarrow.types as kinds  # noqa: PLC0415

    return bool(kinds.is_binary(kind) or kinds.is_large_binary(kind) or kinds.is_fixed_size_binary(kind))


def _bytes_of(cell: Any) -> bytes | None:
    """The cell's own bytes, if it is binary."""
    return cell.as_py() if _is_binary(cell.type) else None


def _vector(cell: Any) -> npt.NDArray[Any]:
    if not cell.is_valid:
        raise DecodeError("features are null")
    if not _is_binary(cell.type):
        vector: npt.NDArray[Any] = cell.values.to_numpy(zero_copy_only=False)
        return vector
    try:
        return np.frombuffer(cell.as_py(), dtype="<f4")
    except ValueError as error:
        raise DecodeError(f"features are no little-endian float32: {error}") from None


def _seconds(value: Any) -> Any:
    """Seconds since the epoch; a time without a zone is UTC."""
    from datetime import UTC, datetime  # noqa: PLC0415

    if isinstance(value, datetime):
        return (value if value.tzinfo else value.replace(tzinfo=UTC)).timestamp()
    return value


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


@hookimpl
def speciate_source() -> Provider[Source]:
    """Provide the source."""
    return Provider(
        options=ParquetOptions,
        create=ParquetSource,
        requires=("pyarrow",),
        install="speciate[parquet]",
        suffixes=(".parquet",),
    )
