"""What a density keeps of its categories: arrays with one entry a category that grow, and lose entries, in place."""

from typing import Any

import numpy as np
import numpy.typing as npt

LEAST_ROOM = 8
GROWTH = 16
"""One part in so many is added when an array is full: little memory lies idle, and few entries are moved."""


class Column:
    """One entry a category: a number, or a vector of `width` numbers."""

    def __init__(self, dtype: npt.DTypeLike, width: int | None = None) -> None:
        self._held: npt.NDArray[Any] = np.zeros((0,) if width is None else (0, width), dtype=dtype)
        self.entries = self._held
        """The part in use, to read and to write; another array after `append` and `remove`."""

    @property
    def nbytes(self) -> int:
        """Memory held, room for growth included."""
        return self._held.nbytes

    def append(self, entry: npt.ArrayLike) -> None:
        """Add an entry at the end."""
        size = len(self.entries)
        if size == len(self._held):
            held = np.zeros((grown(size), *self._held.shape[1:]), dtype=self._held.dtype)
            held[:size] = self.entries
            self._held = held
        self._held[size] = entry
        self.entries = self._held[: size + 1]

    def remove(self, place: int) -> None:
        """Remove an entry; those behind it move up."""
        self.entries[place:-1] = self.entries[place + 1 :]
        self.entries = self._held[: len(self.entries) - 1]


def grown(size: int) -> int:
    """How many entries to make room for when so many are all used."""
    return size + max(LEAST_ROOM, size // GROWTH)
