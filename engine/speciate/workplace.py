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

from speciate.errors import ConfigError, StateLockedError
from speciate.files import fsync_directory, make_directory, sync_file, write_atomically, writing
from speciate.logs import get_logger

log = get_logger(__name__)

RECIPE = "recipe.json"


class Workplace:
    """A folder that is this process's own while the block runs; it outlives the block unless it is removed."""

    def __init__(self, folder: Path, recipe: dict[str, Any]) -> None:
        self._folder = folder
        self._recipe = msgspec.json.format(msgspec.json.encode(recipe, order="deterministic"), indent=1)
        self._lock: int | None = None

    def __enter__(self) -> Self:
        try:
            with writing(self._folder):
                make_directory(self._folder)
                self._take_lock()
                if self._found_recipe() != self._recipe:
                    self.clear()
        except BaseException:
            self.__exit__()
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
        with writing(self._folder):
            if self._found_recipe() is not None:
                log.info("starting over: what was kept is of other data or options", folder=str(self._folder))
                # First away and last back: cut off in between, it is done again.
                self._recipe_file.unlink()
                fsync_directory(self._folder)
            if self.trainer.exists():
                shutil.rmtree(self.trainer)
            self._seen.unlink(missing_ok=True)
            make_directory(self.trainer)
            write_atomically(self._recipe_file, self._recipe)

    def seen(self, most: int) -> list[str]:
        """The digests of the first images taken in; those behind them are forgotten."""
        with writing(self._folder):
            try:
                lines = self._seen.read_text("ascii", "replace").splitlines()[:most]
            except FileNotFoundError:
                lines = []
            write_atomically(self._seen, "".join(f"{line}\n" for line in lines).encode())
        return lines

    def note(self, digests: Sequence[str]) -> None:
        """Remember images that are about to be taken in."""
        with writing(self._folder), self._seen.open("ab") as file:
            file.write("".join(f"{one}\n" for one in digests).encode())
            sync_file(file)

    @property
    def _seen(self) -> Path:
        return self._folder / "seen"

    @property
    def _recipe_file(self) -> Path:
        return self._folder / RECIPE

    @property
    def _lock_file(self) -> Path:
        return self._folder / "lock"

    def _found_recipe(self) -> bytes | None:
        try:
            return self._recipe_file.read_bytes()
        except FileNotFoundError:
            return None

    def _take_lock(self) -> None:
        if any(self._folder.iterdir()) and not self._lock_file.exists():
            raise ConfigError(f"{self._folder} is in the way, and none of ours: move it, or choose another output")
        self._lock = os.open(self._lock_file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise StateLockedError(
                f"{self._folder} is in use by another process: wait for it, or choose another output"
            ) from None


def remove_work(folder: Path) -> None:
    """The work is done: nothing of it is needed any more. What is none of ours stays."""
    if (folder / RECIPE).is_file():
        shutil.rmtree(folder, ignore_errors=True)
