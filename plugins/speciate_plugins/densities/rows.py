"""The rows of all categories in one matrix: what one product scores against everybody.

Rows are kept in the order they came, each with its owner; a category's own are gathered when it alone is meant. The
matrix lives where the array namespace puts it; points go there and products come back, and only functions of the array
API standard are used on it, so that NumPy, CuPy and others run the same lines. What concerns one category alone is done
in double precision by NumPy, on any device.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from speciate.stages import Matrix
from speciate_plugins.densities.columns import grown

HELD = 3
"""Categories whose gathered rows are kept at hand: an event scores its best two or so, and one of them learns it."""
ROOM = 4
"""Rows a gathered category may get before it is gathered again."""


def product(left: Any, right: Any) -> Any:
    """A matrix product in whatever precision rows have.

    In single precision and of five columns, OpenBLAS for AVX-512 computes also with what an earlier function happened
    to leave behind, and throws it away. The product is right, but the processor's flags are not: if that was no
    number, NumPy would warn of one.
    """
    with np.errstate(invalid="ignore"):
        return left @ right


class RowStore:
    """Rows of one length, owned by categories numbered 0 … K-1."""

    def __init__(self, dimension: int, dtype: str, namespace: Any = np) -> None:
        self.dtype = np.dtype(dtype)
        self.epsilon = float(np.finfo(self.dtype).eps)
        self._xp = namespace
        self._kind = getattr(namespace, dtype)
        self._dimension = dimension
        self._rows = namespace.zeros((0, dimension), dtype=self._kind)
        self._owner = np.zeros(0, dtype=np.int64)
        self._offsets = np.zeros(0, dtype=self.dtype)
        self._size = 0
        self._places: list[npt.NDArray[np.int64]] = []
        self._rewrites: list[int] = []
        self._held: dict[int, Any] = {}

    def __len__(self) -> int:
        return self._size

    @property
    def nbytes(self) -> int:
        """Memory held, room for growth included."""
        arrays: list[npt.NDArray[Any]] = [self._owner, self._offsets, *self._places, *self._held.values()]
        return int(self._rows.shape[0]) * self._dimension * self.dtype.itemsize + sum(one.nbytes for one in arrays)

    def add(self, rows: npt.NDArray[Any]) -> None:
        """Append a category with these rows."""
        self._places.append(np.empty(0, dtype=np.int64))
        self._rewrites.append(0)
        self.extend(len(self._places) - 1, rows)

    def extend(self, category: int, rows: npt.NDArray[Any]) -> None:
        """Give a category more rows."""
        end = self._size + len(rows)
        if end > len(self._owner):
            self._grow(end)
        rounded = rows.astype(self.dtype, copy=False)
        self._rows[self._size : end, :] = self._there(rounded)
        self._owner[self._size : end] = category
        count = self.count(category)
        held = self._held.get(category)
        if held is not None and count + len(rows) <= len(held):
            held[count : count + len(rows)] = rounded
        else:
            self._held.pop(category, None)
        self._places[category] = np.concatenate((self._places[category], np.arange(self._size, end)))
        self._size = end

    def of(self, category: int) -> Matrix:
        """The rows of one category in double precision, to read only: they stay as they are while it learns."""
        return self._gather(category)[: self.count(category)]

    def count(self, category: int) -> int:
        """How many rows a category has."""
        return len(self._places[category])

    def rewrites(self, category: int) -> int:
        """How often a category's rows were replaced, rather than joined by others."""
        return self._rewrites[category]

    def all_rewrites(self) -> list[int]:
        """The same of every category, as they are now."""
        return self._rewrites.copy()

    def rewrite(self, category: int, rows: npt.NDArray[Any]) -> None:
        """Give a category other rows, however many."""
        self._held.pop(category, None)
        self._rewrites[category] += 1
        places = self._places[category]
        if len(rows) != len(places) or (len(rows) and places[-1] - places[0] >= len(rows)):
            # Moved to the end, where they lie one behind another and are written at once the next time.
            self._keep(np.flatnonzero(self._owner[: self._size] != category))
            self.extend(category, rows)
        elif len(rows):
            self._rows[int(places[0]) : int(places[-1]) + 1, :] = self._there(rows)

    def remove(self, category: int) -> None:
        """Remove a category and its rows; those behind it move up."""
        self._keep(np.flatnonzero(self._owner[: self._size] != category))
        self._owner[: self._size] -= self._owner[: self._size] > category
        del self._places[category], self._rewrites[category]
        self._held.clear()

    def offsets(self, category: int) -> npt.NDArray[Any]:
        """What is to be subtracted from the products with a category's rows: those of its mean."""
        return self._offsets[self._places[category]]

    def set_offsets(self, category: int, offsets: npt.NDArray[Any]) -> None:
        """See `offsets`."""
        self._offsets[self._places[category]] = offsets

    def energies(self, point: npt.NDArray[Any]) -> Matrix:
        """For each category: the sum over its rows of (row · point - offset) squared. At the speed of memory."""
        if not self._size:
            return np.zeros(len(self._places))
        products = self._here(product(self._rows[: self._size, :], self._there(point)))
        products -= self._offsets[: self._size]
        owners = self._owner[: self._size]
        energies: Any = np.bincount(owners, weights=products * products, minlength=len(self._places))
        return np.asarray(energies, dtype=np.float64)

    def products(self, points: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], npt.NDArray[np.int64]]:
        """The products of all rows with each of several points: a row of them for each row, category after category.

        Beside them, where each category's begin, and the end.
        """
        bounds = np.cumsum([0, *(len(places) for places in self._places)])
        if not self._size:
            return np.empty((0, len(points)), dtype=self.dtype), bounds
        products = self._here(product(self._rows[: self._size, :], self._there(points).T))
        return products.take(np.concatenate(self._places), axis=0), bounds

    def all_offsets(self) -> npt.NDArray[Any]:
        """The offsets of all rows, category after category."""
        grouped = np.concatenate([np.empty(0, dtype=np.int64), *self._places])
        return self._offsets.take(grouped)

    def _gather(self, category: int) -> Matrix:
        """The rows of a category, and room for more."""
        held = self._held.get(category)
        if held is None:
            if len(self._held) >= HELD:
                self._held.clear()
            places = self._places[category]
            held = np.empty((len(places) + ROOM, self._dimension))
            held[: len(places)] = self._here(self._take(places))
            self._held[category] = held
        return held

    def _take(self, places: npt.NDArray[np.int64]) -> Any:
        return self._xp.take(self._rows, places if self._xp is np else self._xp.asarray(places), axis=0)

    def _keep(self, places: npt.NDArray[np.int64]) -> None:
        """Keep only some rows, in their order."""
        size = len(places)
        self._rows[:size, :] = self._take(places)
        self._owner[:size], self._offsets[:size] = self._owner[places], self._offsets[places]
        self._size = size
        ends = np.cumsum(np.bincount(self._owner[:size], minlength=len(self._places)))
        self._places = np.split(np.argsort(self._owner[:size], kind="stable"), ends[:-1])

    def _grow(self, needed: int) -> None:
        size = max(needed, grown(len(self._owner)))
        if self._xp is np:
            # Most often without moving anything: large memory is mapped further, not copied.
            self._rows.resize((size, self._dimension), refcheck=False)
        else:
            rows = self._xp.zeros((size, self._dimension), dtype=self._kind)
            rows[: self._size, :] = self._rows[: self._size, :]
            self._rows = rows
        self._owner.resize(size, refcheck=False)
        self._offsets.resize(size, refcheck=False)

    def _there(self, values: npt.NDArray[Any]) -> Any:
        rounded = values.astype(self.dtype, copy=False)
        return rounded if self._xp is np else self._xp.asarray(rounded)

    def _here(self, values: Any) -> npt.NDArray[Any]:
        # CuPy copies to the host only when told to.
        return np.asarray(values.get() if hasattr(values, "get") else values)
