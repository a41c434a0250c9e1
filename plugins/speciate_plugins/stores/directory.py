"""Store `directory`: commits, snapshots and control events as files of one folder.

lock                        held by the process that uses the folder; its number is in it
partition-<number>/         the same again, where a task is one of several
commit.json                 a SHA-256 of the rest in the first line, the commit as JSON in the second
snapshots/<sequence>.snapshot
controls.log                control events sent from outside, as an event log; locked by whoever appends
places.json                 the number each of them has among the inputs, in the form of commit.json
"""

import fcntl
import hashlib
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import msgspec

from speciate.errors import StateDamagedError, StateLockedError
from speciate.files import TEMPORARY, fsync_directory, make_directory, write_atomically, writing
from speciate.hooks import Provider, hookimpl
from speciate.stages import Seat, StateStore
from speciate_plugins.stores.controls import ControlLog
from speciate_schemas import Commit, Strict, decode, encode

SNAPSHOT = re.compile(r"(\d{20})\.snapshot")


class DirectoryOptions(Strict, frozen=True):
    """Options of the store `directory`."""

    path: Annotated[str, msgspec.Meta(min_length=1, description="The folder to keep commits and snapshots in.")]


class DirectoryStore:
    """Keeps state in a folder; each file is whole or not there at all."""

    def __init__(self, options: DirectoryOptions, seat: Seat | None = None) -> None:
        self._path = Path(options.path)
        if seat is not None and seat.count > 1:
            self._path /= f"partition-{seat.number}"
        self._commit = self._path / "commit.json"
        self._places = self._path / "places.json"
        self._log = self._path / "controls.log"
        self._controls = ControlLog(self._log)
        self._snapshots = self._path / "snapshots"
        self._lock: int | None = None

    def open(self, *, fresh: bool) -> None:
        """See `StateStore`."""
        with writing(self._path):
            make_directory(self._snapshots)
            self._take_lock()
            _remove(self._path, [one.with_name(one.name + TEMPORARY) for one in (self._commit, self._places)])
            leftovers = self._snapshots.glob(f"*{TEMPORARY}")
            _remove(self._snapshots, [one for one in leftovers if SNAPSHOT.fullmatch(one.stem)])
            if fresh:
                # Newest first, then the commit, then what it rests on: cut off in between, what is left still fits.
                _remove(self._snapshots, [self._snapshot(sequence) for sequence in reversed(self.snapshots())])
                _remove(self._path, [self._commit])
                if self._log.exists() or self._places.exists():
                    self.save_places([])
                self._controls.clear()

    def load_commit(self) -> Commit | None:
        """See `StateStore`."""
        try:
            commit: Commit = _read_checked(self._commit, Commit)
        except (OSError, msgspec.DecodeError):
            return None
        return commit

    def save_commit(self, commit: Commit) -> None:
        """See `StateStore`."""
        _write_checked(self._commit, commit)

    def snapshots(self) -> list[int]:
        """See `StateStore`."""
        names = (path.name for path in self._snapshots.glob("*.snapshot"))
        return sorted(int(found[1]) for name in names if (found := SNAPSHOT.fullmatch(name)))

    def load_snapshot(self, sequence: int) -> bytes:
        """See `StateStore`."""
        path = self._snapshot(sequence)
        try:
            return path.read_bytes()
        except OSError as error:
            raise StateDamagedError(f"cannot read {path}: {error.strerror}") from error

    def save_snapshot(self, sequence: int, data: bytes) -> None:
        """See `StateStore`."""
        path = self._snapshot(sequence)
        with writing(path):
            write_atomically(path, data)

    def remove_snapshot(self, sequence: int) -> None:
        """See `StateStore`."""
        path = self._snapshot(sequence)
        with writing(path):
            _remove(self._snapshots, [path])

    def send(self, data: bytes) -> int:
        """See `Steerable`."""
        with writing(self._log):
            make_directory(self._path)
            return self._controls.send(data, self._count_taken)

    def sent(self, start: int) -> list[bytes]:
        """See `Steerable`."""
        try:
            return self._controls.sent(start)
        except OSError as error:
            raise StateDamagedError(f"cannot read {self._log}: {error.strerror}") from error

    def save_places(self, places: Sequence[int]) -> None:
        """See `Steerable`."""
        _write_checked(self._places, places)

    def load_places(self) -> list[int]:
        """See `Steerable`."""
        try:
            places: list[int] = _read_checked(self._places, list[int])
        except FileNotFoundError:
            if self._controls.sent(0):
                # Written before the first of them was: without it all would be taken in again.
                raise StateDamagedError(
                    f"{self._places} is missing, and {self._log} holds control events: restore it from a backup, or "
                    "start over with --fresh"
                ) from None
            return []
        except (OSError, msgspec.DecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is damaged"
            raise StateDamagedError(
                f"cannot read {self._places}: {reason}; restore it from a backup, or start over with --fresh"
            ) from error
        return places

    def _count_taken(self) -> int:
        """How many control events have a place; before the first is there, it is noted that none has."""
        places = self.load_places()
        if not places and not self._places.exists():
            self.save_places([])
        return len(places)

    def describe(self) -> str:
        """See `StateStore`."""
        return str(self._path)

    def close(self) -> None:
        """See `StateStore`. The lock file stays: removing it would let two processes lock two files of its name."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _snapshot(self, sequence: int) -> Path:
        return self._snapshots / f"{sequence:020d}.snapshot"

    def _take_lock(self) -> None:
        descriptor = os.open(self._path / "lock", os.O_RDWR | os.O_CREAT, 0o666)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.ftruncate(descriptor, 0)
            os.write(descriptor, f"{os.getpid()}\n".encode())
        except BlockingIOError:
            owner = os.read(descriptor, 32).decode(errors="replace").strip() or "unknown"
            os.close(descriptor)
            raise StateLockedError(
                f"state {self._path} is in use by process {owner}; wait for it to end, or choose another path"
            ) from None
        except OSError:
            os.close(descriptor)
            raise
        self._lock = descriptor


def _write_checked(path: Path, value: Any) -> None:
    body = encode(value, "json") + b"\n"
    with writing(path):
        write_atomically(path, hashlib.sha256(body).hexdigest().encode() + b"\n" + body)


def _read_checked(path: Path, kind: Any) -> Any:
    """What was written; `msgspec.DecodeError` if it is not that any more."""
    checksum, _, body = path.read_bytes().partition(b"\n")
    if hashlib.sha256(body).hexdigest().encode() != checksum:
        raise msgspec.DecodeError("the checksum does not match")
    return decode(body, kind, "json")


def _remove(folder: Path, paths: list[Path]) -> None:
    for path in paths:
        path.unlink(missing_ok=True)
    if paths:
        fsync_directory(folder)


@hookimpl
def speciate_store() -> Provider[StateStore]:
    """Provide the store."""
    return Provider(options=DirectoryOptions, create=DirectoryStore, create_at=DirectoryStore, suffixes=("/",))
