"""Files that are whole or not there."""

import errno
import os
from io import BytesIO
from pathlib import Path

import pytest

from speciate.errors import ConfigError, OutputError
from speciate.files import fsync_directory, make_directory, sync_file, write_atomically, writing


@pytest.fixture
def synced(monkeypatch) -> list[str]:
    """What has been synced, by name."""
    seen: list[str] = []
    real = os.fsync

    def record(descriptor: int) -> None:
        seen.append(Path(f"/proc/self/fd/{descriptor}").readlink().name)
        real(descriptor)

    monkeypatch.setattr(os, "fsync", record)
    return seen


def test_a_file_is_created_and_replaced(tmp_path, synced) -> None:
    for data in (b"one", b"two"):
        write_atomically(tmp_path / "x", data)
        assert (tmp_path / "x").read_bytes() == data
    assert synced == ["x.tmp", tmp_path.name] * 2
    assert [path.name for path in tmp_path.iterdir()] == ["x"]


def test_the_old_file_stays_when_the_disk_is_full(tmp_path, monkeypatch) -> None:
    write_atomically(tmp_path / "x", b"old")

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_atomically(tmp_path / "x", b"new")
    assert (tmp_path / "x").read_bytes() == b"old"
    assert [path.name for path in tmp_path.iterdir()] == ["x"]


def test_folders_are_made_so_that_they_last(tmp_path, synced) -> None:
    make_directory(tmp_path / "a" / "b")
    make_directory(tmp_path / "a" / "b")
    assert (tmp_path / "a" / "b").is_dir()
    assert synced == [tmp_path.name, "a"]


def test_a_folder_that_is_not_there_is_told(tmp_path) -> None:
    with pytest.raises(FileNotFoundError):
        fsync_directory(tmp_path / "missing")
    with pytest.raises(FileNotFoundError):
        write_atomically(tmp_path / "missing" / "x", b"")


def test_a_file_that_is_none_cannot_be_synced() -> None:
    with pytest.raises(OSError, match="fileno"):
        sync_file(BytesIO())


@pytest.mark.parametrize(
    ("error", "words"), [(OSError(28, os.strerror(28)), "No space left on device"), (OSError("odd"), "odd")]
)
def test_errors_name_path_and_reason(error, words) -> None:
    with (
        pytest.raises(OutputError, match=f"cannot write x: {words}; mend that and run again") as caught,
        writing(Path("x")),
    ):
        raise error
    assert caught.value.__cause__ is error


def test_what_is_no_refusal_of_the_system_is_raised_as_it_is() -> None:
    with pytest.raises(ConfigError, match="ours"), writing(Path("x")):
        raise ConfigError("ours")
