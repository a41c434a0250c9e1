"""The folder of state: laws, damage, locks, full disks."""

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from speciate.conformance import check_store
from speciate.errors import OutputError, StateDamagedError, StateLockedError
from speciate_plugins.stores.directory import DirectoryOptions, DirectoryStore
from speciate_schemas import Commit, Tally

COMMIT = Commit(sequence=5, source=(0, "ü.log", 9), answers=(10,), dead_letters=(), tally=Tally(assigned=5))


@pytest.fixture
def path(tmp_path) -> Path:
    return tmp_path / "some" / "state"


@pytest.fixture
def store(path):
    one = DirectoryStore(DirectoryOptions(path=str(path)))
    one.open(fresh=False)
    yield one
    one.close()


def test_it_keeps_the_laws(path) -> None:
    check_store(lambda: DirectoryStore(DirectoryOptions(path=str(path))))


def test_a_commit_with_any_bit_changed_is_no_commit(store, path) -> None:
    store.save_commit(COMMIT)
    whole = (path / "commit.json").read_bytes()
    for place in range(len(whole)):
        damaged = bytearray(whole)
        damaged[place] ^= 1
        (path / "commit.json").write_bytes(damaged)
        assert store.load_commit() is None
    for length in range(len(whole)):
        (path / "commit.json").write_bytes(whole[:length])
        assert store.load_commit() is None
    (path / "commit.json").write_bytes(whole)
    assert store.load_commit() == COMMIT


def test_the_lock_names_its_owner(store, path) -> None:
    with pytest.raises(StateLockedError, match=f"state {path} is in use by process {os.getpid()}"):
        DirectoryStore(DirectoryOptions(path=str(path))).open(fresh=True)
    program = (
        "from speciate_plugins.stores.directory import *\n"
        f"DirectoryStore(DirectoryOptions(path={str(path)!r})).open(fresh=False)"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert "StateLockedError" in result.stderr


def test_the_lock_of_a_killed_process_is_free(path) -> None:
    program = (
        "import os, signal\n"
        "from speciate_plugins.stores.directory import *\n"
        f"store = DirectoryStore(DirectoryOptions(path={str(path)!r}))\n"
        "store.open(fresh=False)\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == -9
    store = DirectoryStore(DirectoryOptions(path=str(path)))
    store.open(fresh=False)
    store.close()


def test_leftovers_are_removed_and_strangers_kept(store, path) -> None:
    store.close()
    (path / "commit.json.tmp").write_bytes(b"half")
    (path / "snapshots" / f"{3:020d}.snapshot.tmp").write_bytes(b"half")
    strangers = ["snapshots/notes.txt", "thesis.tmp", "snapshots/thesis.tmp", "snapshots/my.snapshot.tmp"]
    for name in strangers:
        (path / name).write_text("mine")
    store.open(fresh=True)
    left = sorted(str(one.relative_to(path)) for one in path.rglob("*") if one.is_file())
    assert left == sorted(["lock", *strangers])
    assert store.snapshots() == []


def test_snapshots_are_named_by_their_number(store, path) -> None:
    store.save_snapshot(12, b"data")
    assert (path / "snapshots" / "00000000000000000012.snapshot").read_bytes() == b"data"
    assert store.describe() == str(path)
    with pytest.raises(StateDamagedError, match=r"cannot read .*13.snapshot: No such file"):
        store.load_snapshot(13)


def test_a_full_disk_keeps_what_was_there(store, path, monkeypatch) -> None:
    store.save_commit(COMMIT)
    store.save_snapshot(5, b"five")

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(OutputError, match=r"cannot write .*commit.json: No space left on device; mend that"):
            store.save_commit(Commit(sequence=6, source=None, answers=(), dead_letters=(), tally=Tally()))
        with pytest.raises(OutputError, match="No space left on device"):
            store.save_snapshot(6, b"six")
    assert store.load_commit() == COMMIT
    assert store.snapshots() == [5]
    assert not list(path.rglob("*.tmp"))


def test_a_path_that_cannot_be_a_folder_is_told(tmp_path) -> None:
    (tmp_path / "file").touch()
    for name in ("file", "file/below"):
        with pytest.raises(OutputError, match=f"cannot write {tmp_path / name}: (Not a directory|File exists)"):
            DirectoryStore(DirectoryOptions(path=str(tmp_path / name))).open(fresh=False)


def test_a_lock_that_cannot_be_written_is_told(path, monkeypatch) -> None:
    def full(descriptor: int, length: int) -> None:
        raise OSError(errno.EDQUOT, "Disk quota exceeded")

    monkeypatch.setattr(os, "ftruncate", full)
    store = DirectoryStore(DirectoryOptions(path=str(path)))
    with pytest.raises(OutputError, match="Disk quota exceeded"):
        store.open(fresh=False)
    monkeypatch.undo()
    store.open(fresh=False)
    store.close()
