"""Files that survive a crash: whole or not there at all."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from speciate.errors import OutputError

TEMPORARY = ".tmp"
"""What the name of an unfinished file ends with; one left behind by a crash may be removed."""


def fsync_directory(path: Path) -> None:
    """Make the names in a directory survive a crash: what was created, renamed or removed there."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_file(file: BinaryIO) -> None:
    """Make what was written to an open file survive a crash."""
    file.flush()
    os.fsync(file.fileno())


def make_directory(path: Path) -> None:
    """Create a directory and those above it, each so that it survives a crash."""
    if path.is_dir():
        return
    make_directory(path.parent)
    path.mkdir(exist_ok=True)
    fsync_directory(path.parent)


def write_atomically(path: Path, data: bytes) -> None:
    """Create or replace a file: on return it survives a crash, and at no time is it there in part."""
    temporary = path.with_name(path.name + TEMPORARY)
    try:
        with temporary.open("wb") as file:
            file.write(data)
            sync_file(file)
        temporary.replace(path)
    except BaseException:
        # A full disk is helped by giving back what the failed attempt took.
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
    fsync_directory(path.parent)


@contextlib.contextmanager
def writing(path: Path) -> Iterator[None]:
    """Tell the operator what could not be written, and why, when the system refuses something in the block."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise OutputError(
            f"cannot write {path}: {reason}; mend that and run again, what is committed is safe"
        ) from error
