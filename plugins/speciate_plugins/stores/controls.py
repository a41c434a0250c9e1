"""The control events of the store `directory`: an event log that any process may append to."""

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from speciate.errors import OutputError, StateDamagedError
from speciate.files import fsync_directory
from speciate_schemas.framing import Frame, next_frame, pack

LOCK_SECONDS = 5.0
LOCK_PAUSE = 0.01


class ControlLog:
    """Appends under a lock of its own, and reads without one: only sound frames count."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._count = 0
        self._offset = 0

    def send(self, data: bytes, taken: Callable[[], int]) -> int:
        """Append an event; its number. `taken` tells how many were taken in, which must be there."""
        with self._locked(os.O_CREAT) as descriptor:
            payloads, end = _payloads(_read(descriptor, 0))
            # Asked under the lock: whoever empties the log has emptied the places before.
            if len(payloads) < (count := taken()):
                raise StateDamagedError(
                    f"{self._path} holds {len(payloads)} control events, but {count} were taken in: restore it from "
                    "a backup, or start over with --fresh"
                )
            # Nobody else writes now, so what is not sound by now never will be: its sender was killed.
            os.ftruncate(descriptor, end)
            _write(descriptor, pack(data))
            os.fsync(descriptor)
            # Each time: whoever created the file may have been killed before it could.
            fsync_directory(self._path.parent)
        return len(payloads)

    def sent(self, start: int) -> list[bytes]:
        """The events from number `start` on; where nothing is new, no more than a look at the file's size."""
        if start < self._count:
            self._count = self._offset = 0
        try:
            if self._path.stat().st_size <= self._offset:
                return []
            descriptor = os.open(self._path, os.O_RDONLY)
        except FileNotFoundError:
            return []
        try:
            payloads, length = _payloads(_read(descriptor, self._offset))
            if payloads:
                # Its sender may not have come to it yet, and a place must never outlive its event.
                os.fsync(descriptor)
        finally:
            os.close(descriptor)
        skipped = max(0, start - self._count)
        self._count += len(payloads)
        self._offset += length
        return payloads[skipped:]

    def clear(self) -> None:
        """Discard everything. The file stays: a sender who waits for it must not write to one that is gone."""
        with suppress(FileNotFoundError), self._locked() as descriptor:
            os.ftruncate(descriptor, 0)
            os.fsync(descriptor)
        self._count = self._offset = 0

    @contextmanager
    def _locked(self, flags: int = 0) -> Iterator[int]:
        descriptor = os.open(self._path, os.O_RDWR | os.O_APPEND | flags, 0o666)
        try:
            self._lock(descriptor)
            yield descriptor
        finally:
            os.close(descriptor)

    def _lock(self, descriptor: int) -> None:
        """Wait for others, who need a moment only: whoever has been stopped while he holds it must not stop us.

        A log that grows is not stuck: somebody who sends a lot takes the lock again before we look.
        """
        size, deadline = os.fstat(descriptor).st_size, time.monotonic() + LOCK_SECONDS
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if (now := os.fstat(descriptor).st_size) != size:
                    size, deadline = now, time.monotonic() + LOCK_SECONDS
                if time.monotonic() > deadline:
                    raise OutputError(
                        f"cannot write {self._path}: another process has held its lock for {LOCK_SECONDS:g} s; find "
                        "and end it, then send again"
                    ) from None
                time.sleep(LOCK_PAUSE)
            else:
                return


def _payloads(data: bytes) -> tuple[list[bytes], int]:
    """The whole events, and where they end. Damage between sound frames counts as one: those behind keep their number.

    What follows the last sound frame is not there yet, or never will be.
    """
    payloads, end = [], 0
    while isinstance(frame := next_frame(data, end, final=False), Frame):
        payloads.append(bytes(frame.payload))
        end = frame.end
    return payloads, end


def _read(descriptor: int, offset: int) -> bytes:
    os.lseek(descriptor, offset, os.SEEK_SET)
    with os.fdopen(os.dup(descriptor), "rb") as file:
        return file.read()


def _write(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]
