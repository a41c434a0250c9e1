"""NumPy archives: every key, every way they can be wrong."""

import struct
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from speciate.conformance import check_source
from speciate.errors import DecodeError, SourceError
from speciate_plugins.sources.npz import NpzOptions, NpzSource

X = np.arange(30, dtype=np.float32).reshape(10, 3)


def save(path: Path, **arrays: Any) -> Path:
    np.savez(path, **arrays)
    return path


def source(path: Path | str, **options: Any) -> NpzSource:
    return NpzSource(NpzOptions(paths=[str(path)], **options))


async def test_it_keeps_the_laws(tmp_path) -> None:
    split = np.array(["train", "test"] * 5)
    save(tmp_path / "a.npz", features=X, labels=np.arange(10), class_names=np.array(["x", "y", "z"]), split=split)
    save(tmp_path / "b.npz", features=X[:0], split=split[:0])
    save(tmp_path / "c.npz", features=X.astype(">f8").T.copy().T, split=split)
    await check_source(lambda: source(tmp_path / "*.npz"))
    (tmp_path / "b.npz").unlink()
    await check_source(lambda: source(tmp_path / "*.npz", split="test"))


async def test_every_key_is_used(tmp_path, read_all) -> None:
    path = save(
        tmp_path / "data.npz",
        features=X,
        labels=np.array([0, 1] * 5),
        class_names=np.array(["cat", b"dog".decode()]),
        names=np.array([f"n{n}" for n in range(10)]),
        times=np.arange(10) + 0.5,
        split=np.array([b"train", b"test"] * 5),
    )
    records = await read_all(source(path, split="test"))
    assert [record.event.id for record in records] == ["n1", "n3", "n5", "n7", "n9"]
    event = records[0].event
    assert (event.stream, event.time, event.label) == ("data", 1.5, "dog")
    np.testing.assert_array_equal(event.features.numpy(), X[1])
    assert [record.sequence for record in records] == [0, 1, 2, 3, 4]
    assert records[1].position == (0, str(path), 4)
    assert records[1].origin == "data.npz#3"
    assert records[1].original is None
    assert records[1].nbytes == 12


async def test_only_features_must_be_there(tmp_path, read_all) -> None:
    records = await read_all(source(save(tmp_path / "d.npz", features=X), stream="s"))
    event = records[3].event
    assert (event.id, event.stream, event.time, event.label) == ("d.npz:3", "s", None, None)


@pytest.mark.parametrize("labels", [np.array([3, 4]), np.array(["3", "4"]), np.array([b"3", b"4"])])
async def test_labels_are_text(tmp_path, read_all, labels) -> None:
    records = await read_all(source(save(tmp_path / "d.npz", features=X[:2], labels=labels)))
    assert [record.event.label for record in records] == ["3", "4"]


async def test_rows_that_cannot_be_named_are_rejected(tmp_path, read_all) -> None:
    path = save(
        tmp_path / "d.npz",
        features=X[:5],
        labels=np.array([-1, 2, 0, 0, 0]),
        class_names=np.array(["a", "b"]),
        names=np.array(["a", "b", "", "x" * 513, "good"]),
    )
    records = await read_all(source(path))
    assert [type(record.error) for record in records] == [DecodeError] * 4 + [type(None)]
    assert "label -1 is no index into the 2 names of 'class_names'" in str(records[0].error)
    assert bytes(records[0].original) == X[0].tobytes()


@pytest.mark.parametrize(
    ("arrays", "options", "message"),
    [
        ({"x": X}, {}, r"no array 'features' \(features\); there are x"),
        ({"features": X}, {"labels": "classes"}, r"no array 'classes' \(labels\); there are features"),
        ({"features": X}, {"split": "test"}, r"no array 'split'"),
        ({"features": X, "split": np.array(["a"] * 10)}, {"split": "b"}, "no row has split 'b'; there are a"),
        ({"features": X[0]}, {}, r"'features' has shape \[3\]; it must have a row an event"),
        ({"features": X.astype(complex)}, {}, "'features': dtype complex128 cannot travel"),
        ({"features": X, "labels": np.arange(9)}, {}, r"'labels' has shape \[9\] but 'features' has 10 rows"),
        ({"features": X, "names": np.zeros((10, 2))}, {}, r"'names' has shape \[10, 2\]"),
        ({"features": X, "times": np.array(0.5)}, {}, r"'times' has shape \[\]"),
    ],
)
async def test_what_does_not_fit_is_told(tmp_path, arrays, options, message) -> None:
    with pytest.raises(SourceError, match=message):
        await source(save(tmp_path / "d.npz", **arrays), **options).open(None, 0)


async def test_objects_are_refused(tmp_path) -> None:
    path = tmp_path / "d.npz"
    np.savez(path, features=X, labels=np.array([{}] * 10, dtype=object))
    with pytest.raises(SourceError, match=r"array 'labels' cannot be read: Object arrays .* array.astype\(str\)"):
        await source(path).open(None, 0)


async def test_files_that_are_no_archives_are_told(tmp_path) -> None:
    np.save(tmp_path / "bare.npy", X)
    (tmp_path / "bare.npy").rename(tmp_path / "bare.npz")
    with pytest.raises(SourceError, match="holds one bare array"):
        await source(tmp_path / "bare.npz").open(None, 0)
    whole = save(tmp_path / "whole.npz", features=X).read_bytes()
    for damaged in (b"", b"hello", whole[:100], whole.replace(X.tobytes(), b"\x01" * X.nbytes)):
        (tmp_path / "bad.npz").write_bytes(damaged)
        with pytest.raises(SourceError, match=r"bad.npz"):
            await source(tmp_path / "bad.npz").open(None, 0)


async def test_a_shorter_file_cannot_be_gone_on_with(tmp_path) -> None:
    path = save(tmp_path / "d.npz", features=X)
    with pytest.raises(SourceError, match="has 10 rows but was read up to 11 before"):
        await source(path).open((0, str(path), 11), 11)


async def test_progress_is_known_for_the_last_file(tmp_path) -> None:
    save(tmp_path / "a.npz", features=X)
    save(tmp_path / "b.npz", features=X[:4])
    one = source(tmp_path / "*.npz")
    await one.open(None, 0)
    assert one.progress() == (0, None, "rows")
    await one.read(11)
    assert one.progress() == (11, 14, "rows")
    await one.close()


async def test_a_time_that_is_no_number_is_rejected(tmp_path, read_all) -> None:
    path = save(tmp_path / "d.npz", features=X[:1], times=np.array(["today"]))
    (record,) = await read_all(source(path))
    assert "time" in str(record.error)


def claiming(path: Path, shape: tuple[int, ...]) -> Path:
    """An archive whose array says it is that large, and holds nothing."""
    text = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("features.npy", b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode())
    return path


@pytest.mark.parametrize("shape", [(10**9, 10**4), (10**12, 10**12), (10**30, 2)], ids=["80 TB", "overflow", "bignum"])
async def test_an_array_that_lies_about_its_size_is_told(tmp_path, shape) -> None:
    with pytest.raises(SourceError, match=r"d\.npz"):
        await source(claiming(tmp_path / "d.npz", shape)).open(None, 0)


@pytest.mark.parametrize(("place", "change"), [(6, 1), (8, 97)], ids=["encrypted", "unknown compression"])
async def test_an_archive_that_cannot_be_opened_is_told(tmp_path, place, change) -> None:
    whole = bytearray(save(tmp_path / "d.npz", features=X).read_bytes())
    # The local header has the field two bytes earlier than the central one.
    for magic, further in ((b"PK\x03\x04", 0), (b"PK\x01\x02", 2)):
        whole[whole.find(magic) + place + further] |= change
    (tmp_path / "d.npz").write_bytes(whole)
    with pytest.raises(SourceError, match=r"d\.npz"):
        await source(tmp_path / "d.npz").open(None, 0)
