"""Parquet files: the types of columns, nulls, resuming between row groups."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from speciate.conformance import check_source
from speciate.errors import DecodeError, SourceError
from speciate_plugins.sources import parquet
from speciate_plugins.sources.parquet import ParquetOptions, ParquetSource

X = np.arange(60, dtype=np.float32).reshape(20, 3)
FIXED = pa.FixedSizeListArray.from_arrays(pa.array(X.ravel()), 3)


def save(path: Path, rows_a_group: int = 7, **columns: Any) -> Path:
    pq.write_table(pa.table(columns), path, row_group_size=rows_a_group)
    return path


def source(path: Path | str, **options: Any) -> ParquetSource:
    return ParquetSource(ParquetOptions(paths=[str(path)], **options))


async def test_it_keeps_the_laws(tmp_path, monkeypatch) -> None:
    save(tmp_path / "a.parquet", features=FIXED, id=[f"a{n}" for n in range(20)])
    save(tmp_path / "b.parquet", features=pa.array([None if n % 4 else list(row) for n, row in enumerate(X)]))
    save(tmp_path / "c.parquet", features=pa.array([], pa.list_(pa.float32())))
    for size in (1024, 3):
        monkeypatch.setattr(parquet, "BATCH_ROWS", size)
        await check_source(lambda: source(tmp_path / "*.parquet"))


@pytest.mark.parametrize(
    "features",
    [
        FIXED,
        pa.array(X.tolist(), pa.list_(pa.float32())),
        pa.array(X.tolist(), pa.large_list(pa.float64())),
        pa.array(X.astype(int).tolist(), pa.list_(pa.int16())),
        pa.array(list(X.astype(np.float16)), pa.list_(pa.float16())),
        pa.array([row.astype("<f4").tobytes() for row in X], pa.binary()),
        pa.array([row.astype("<f4").tobytes() for row in X], pa.large_binary()),
        pa.array([row.astype("<f4").tobytes() for row in X], pa.binary(12)),
    ],
    ids=lambda column: str(column.type),
)
async def test_features_of_many_types(tmp_path, read_all, features) -> None:
    records = await read_all(source(save(tmp_path / "d.parquet", features=features)))
    np.testing.assert_array_equal(np.stack([record.event.features.numpy() for record in records]), X)


async def test_every_column_is_used(tmp_path, read_all) -> None:
    path = save(
        tmp_path / "d.parquet",
        features=FIXED[:2],
        id=pa.array([7, 8]),
        label=pa.array(["cat", None]),
        stream=pa.array(["cam", None]),
        time=pa.array([datetime(2024, 1, 1, tzinfo=UTC), None], pa.timestamp("ns", "UTC")),
    )
    first, second = await read_all(source(path, stream="rest"))
    assert (first.event.id, first.event.stream, first.event.label) == ("7", "cam", "cat")
    assert first.event.time == datetime(2024, 1, 1, tzinfo=UTC).timestamp()
    assert (second.event.id, second.event.stream, second.event.label, second.event.time) == ("8", "rest", None, None)
    assert second.origin == "d.parquet#1"
    assert second.position == (0, str(path), 2)


async def test_other_names_and_plain_times(tmp_path, read_all) -> None:
    path = save(
        tmp_path / "d.parquet",
        x=FIXED[:1],
        key=["k"],
        y=pa.array([3]),
        at=[1.5],
        naive=[datetime(1970, 1, 2)],  # noqa: DTZ001
    )
    (record,) = await read_all(source(path, features="x", ids="key", labels="y", times="at"))
    assert (record.event.id, record.event.label, record.event.time, record.event.stream) == ("k", "3", 1.5, "d")
    (record,) = await read_all(source(path, features="x", times="naive"))
    assert (record.event.id, record.event.time) == ("d.parquet:0", 86400.0)


async def test_bad_cells_are_rejected_and_the_others_come(tmp_path, read_all) -> None:
    good = X[0].astype("<f4").tobytes()
    text = pa.array([b"a", b"b", b"\xff", None, b"e"], pa.binary()).view(pa.string())
    path = save(tmp_path / "d.parquet", features=pa.array([None, b"12345", good, good, good], pa.binary()), id=text)
    records = await read_all(source(path))
    assert [type(record.error) for record in records] == [DecodeError] * 4 + [type(None)]
    assert "features are null" in str(records[0].error)
    assert "no little-endian float32" in str(records[1].error)
    assert bytes(records[1].original) == b"12345"
    assert bytes(records[4].original) == good


async def test_a_null_in_a_vector_is_not_a_number(tmp_path, read_all) -> None:
    features = pa.array([[1.0, None]], pa.list_(pa.float32()))
    (record,) = await read_all(source(save(tmp_path / "d.parquet", features=features)))
    assert np.isnan(record.event.features.numpy()[1])


@pytest.mark.parametrize(
    ("columns", "options", "message"),
    [
        ({"x": FIXED}, {}, r"no column 'features' \(features\); there are x"),
        ({"features": FIXED}, {"labels": "y"}, r"no column 'y' \(labels\); there are features"),
        ({"features": ["text"]}, {}, "column 'features' is of type string; it must hold lists of numbers"),
        ({"features": [["text"]]}, {}, "column 'features' is of type list"),
    ],
)
async def test_what_does_not_fit_is_told(tmp_path, columns, options, message) -> None:
    with pytest.raises(SourceError, match=message):
        await source(save(tmp_path / "d.parquet", **columns), **options).open(None, 0)


async def test_damaged_files_are_told(tmp_path, read_all) -> None:
    whole = save(tmp_path / "d.parquet", features=FIXED).read_bytes()
    for damaged in (b"", b"PAR1", whole[:-9], whole[: len(whole) // 2]):
        (tmp_path / "bad.parquet").write_bytes(damaged)
        with pytest.raises(SourceError, match=r"bad.parquet is not a whole Parquet file"):
            await source(tmp_path / "bad.parquet").open(None, 0)
    middle = bytearray(whole)
    middle[4:80] = b"\xff" * 76
    (tmp_path / "bad.parquet").write_bytes(middle)
    with pytest.raises(SourceError, match=r"bad.parquet cannot be read behind row 0"):
        await read_all(source(tmp_path / "bad.parquet"))


async def test_resuming_reads_no_earlier_row_group(tmp_path) -> None:
    path = save(tmp_path / "d.parquet", rows_a_group=5, features=FIXED)
    begin = pq.ParquetFile(path).metadata.row_group(0).column(0)
    damaged = bytearray(path.read_bytes())
    first = begin.dictionary_page_offset or begin.data_page_offset
    damaged[first : first + begin.total_compressed_size] = b"\xff" * begin.total_compressed_size
    path.write_bytes(damaged)
    one = source(path)
    await one.open((0, str(path), 7), 7)
    assert one.progress() == (7, 20, "rows")
    assert [record.sequence for record in await one.read(100)] == list(range(7, 20))
    await one.close()
    with pytest.raises(SourceError, match="has 20 rows but was read up to 21"):
        await source(path).open((0, str(path), 21), 21)


async def test_a_rejected_row_without_bytes_of_its_own_is_kept_as_json(tmp_path, read_all) -> None:
    names = pa.array([b"a", b"", b"\xff\xfe", None], pa.binary()).view(pa.string())
    features = pa.array([None, [1.5, 2.5], [3.0, 4.0], [5.0]], pa.list_(pa.float32()))
    times = pa.array([datetime(2024, 1, 1, tzinfo=UTC)] * 4, pa.timestamp("ns", "UTC"))
    records = await read_all(source(save(tmp_path / "d.parquet", features=features, id=names, time=times)))
    assert [type(record.error) for record in records] == [DecodeError] * 4
    rows = [json.loads(bytes(record.original)) for record in records]
    assert [row["features"] for row in rows] == [None, [1.5, 2.5], [3.0, 4.0], [5.0]]
    # What is no text is kept as its bytes, in base64.
    assert [row["ids"] for row in rows] == ["a", "", "//4=", None]
    assert {row["times"] for row in rows} == {"2024-01-01T00:00:00Z"}


@pytest.mark.parametrize(("option", "stream"), [({}, "d"), ({"stream": ""}, ""), ({"stream": "cam"}, "cam")])
async def test_the_stream_of_all_events_may_be_the_empty_one(tmp_path, read_all, option, stream) -> None:
    path = save(tmp_path / "d.parquet", features=FIXED[:2])
    assert {record.event.stream for record in await read_all(source(path, **option))} == {stream}
