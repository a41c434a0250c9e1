"""The folder a fit works in: what takes long is kept there until the bundle is written, so that it need not be redone.

lock          held by the process that uses the folder
recipe.json   what the work is for; work for something else is thrown away
seen          the digest of every image taken in, one a line
trainer/      whatever the encoder's trainer keeps
"""

import fcntl
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import msgspec

from speciate.errors import StateLockedError
from speciate.files import make_directory, output_error, sync_file, write_atomically
from speciate.logs import get_logger

log = get_logger(__name__)


class Workplace:
    """A folder that is this process's own while the block runs; it outlives the block unless it is removed."""

    def __init__(self, folder: Path, recipe: dict[str, Any]) -> None:
        self._folder = folder
        self._recipe = msgspec.json.format(msgspec.json.encode(recipe, order="deterministic"), indent=1)
        self._lock: int | None = None

    def __enter__(self) -> Self:
        try:
            make_directory(self._folder)
            self._take_lock()
            if self._found_recipe() != self._recipe:
                self.clear()
        except BaseException as error:
            self.__exit__()
            if isinstance(error, OSError):
                raise output_error(self._folder, error) from error
            raise
        return self

    def __exit__(self, *_: object) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    @property
    def trainer(self) -> Path:
        """The folder of the encoder's trainer."""
        return self._folder / "trainer"

    def clear(self) -> None:
        """Throw away all work: what comes is for something else."""
        if self._found_recipe() is not None:
            log.info("starting over: what was kept is of other data or options", folder=str(self._folder))
        shutil.rmtree(self.trainer, ignore_errors=True)
        self._seen.unlink(missing_ok=True)
        make_directory(self.trainer)
        write_atomically(self._folder / "recipe.json", self._recipe)

    def seen(self, most: int) -> list[str]:
        """The digests of the first images taken in; those behind them are forgotten."""
        try:
            lines = self._seen.read_text("ascii", "replace").splitlines()[:most]
        except FileNotFoundError:
            lines = []
        write_atomically(self._seen, "".join(f"{line}\n" for line in lines).encode())
        return lines

    def note(self, digests: Sequence[str]) -> None:
        """Remember images that are about to be taken in."""
        with self._seen.open("ab") as file:
            file.write("".join(f"{one}\n" for one in digests).encode())
            sync_file(file)

    def remove(self) -> None:
        """The work is done: nothing of it is needed any more."""
        shutil.rmtree(self._folder, ignore_errors=True)

    @property
    def _seen(self) -> Path:
        return self._folder / "seen"

    def _found_recipe(self) -> bytes | None:
        try:
            return (self._folder / "recipe.json").read_bytes()
        except FileNotFoundError:
            return None

    def _take_lock(self) -> None:
        self._lock = os.open(self._folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise StateLockedError(
                f"{self._folder} is in use by another process: wait for it, or choose another output"
            ) from None
