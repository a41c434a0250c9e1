"""The rows of all categories in one matrix: what one product scores against everybody.

Rows are kept in the order they came, each with its owner; a category's own are gathered when it alone is meant. The
matrix lives where the array namespace puts it; points go there and products come back. Only functions of the array API
standard are used on it, so that NumPy, CuPy and others run the same lines.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from speciate.stages import Matrix

FIRST_ROWS = 64


class RowStore:
    """Rows of one length, owned by categories numbered 0 … K-1."""

    def __init__(self, dimension: int, dtype: str, namespace: Any = np) -> None:
        self.dtype = np.dtype(dtype)
        self._xp = namespace
        self._kind = getattr(namespace, dtype)
        self._dimension = dimension
        self._rows = namespace.zeros((FIRST_ROWS, dimension), dtype=self._kind)
        self._owner = np.zeros(FIRST_ROWS, dtype=np.int64)
        self._offsets = np.zeros(FIRST_ROWS, dtype=self.dtype)
        self._size = 0
        self._places: list[npt.NDArray[np.int64]] = []

    def __len__(self) -> int:
        return self._size

    @property
    def nbytes(self) -> int:
        """Memory held, room for growth included."""
        matrix = int(self._rows.shape[0]) * self._dimension * self.dtype.itemsize
        return matrix + self._owner.nbytes + self._offsets.nbytes + sum(places.nbytes for places in self._places)

    def add(self, rows: npt.NDArray[Any]) -> None:
        """Append a category with these rows."""
        self._places.append(np.empty(0, dtype=np.int64))
        self.extend(len(self._places) - 1, rows)

    def extend(self, category: int, rows: npt.NDArray[Any]) -> None:
        """Give a category more rows."""
        end = self._size + len(rows)
        if end > len(self._owner):
            self._grow(end)
        self._rows[self._size : end, :] = self._there(rows)
        self._owner[self._size : end] = category
        self._places[category] = np.append(self._places[category], np.arange(self._size, end))
        self._size = end

    def of(self, category: int) -> npt.NDArray[Any]:
        """The rows of one category, as a copy."""
        return self._here(self._gather(category))

    def count(self, category: int) -> int:
        """How many rows a category has."""
        return len(self._places[category])

    def along(self, category: int, points: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """The products of a vector, or of each of several, with the rows of one category."""
        rows = self._gather(category)
        there = self._there(points)
        return self._here(rows @ there if points.ndim == 1 else there @ rows.T)

    def lengths_along(self, categories: Sequence[int], vectors: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
        """For one vector a category: the sum of the squares of its products with the category's rows.

        Each product is a sum of its own and each category's squares are added in their order, so that a category's
        result has the same bits whoever else is asked about.
        """
        places = [self._places[category] for category in categories]
        whose = np.repeat(np.arange(len(places)), [len(own) for own in places])
        rows = self._take(self._rows, np.concatenate([np.empty(0, dtype=np.int64), *places]))
        products = self._here(self._xp.vecdot(rows, self._take(self._there(vectors), whose), axis=-1))
        squares = np.square(products.astype(np.float64, copy=False))
        return np.bincount(whose, weights=squares, minlength=len(places)).astype(np.float64, copy=False)

    def overwrite(self, category: int, rows: npt.NDArray[Any]) -> None:
        """Replace a category's rows by as many others."""
        there = self._there(rows)
        for number, place in enumerate(self._places[category].tolist()):
            self._rows[place, :] = there[number, :]

    def replace(self, category: int, rows: npt.NDArray[Any]) -> None:
        """Give a category other rows, however many."""
        self._keep(np.flatnonzero(self._owner[: self._size] != category))
        self.extend(category, rows)

    def remove(self, category: int) -> None:
        """Remove a category and its rows; those behind it move up."""
        self._keep(np.flatnonzero(self._owner[: self._size] != category))
        self._owner[: self._size] -= self._owner[: self._size] > category
        del self._places[category]

    def offsets(self, category: int) -> npt.NDArray[Any]:
        """What `energies` subtracts for a category's rows."""
        return self._offsets[self._places[category]]

    def set_offsets(self, category: int, offsets: npt.NDArray[Any]) -> None:
        """What `energies` subtracts from the products with a category's rows: those of its mean."""
        self._offsets[self._places[category]] = offsets

    def energies(self, points: npt.NDArray[Any]) -> Matrix:
        """For each point and category: the sum over the category's rows of (row · point - offset) squared."""
        if not self._size:
            return np.zeros((len(points), len(self._places)))
        rows, offsets = self._rows[: self._size, :], self._offsets[: self._size]
        if len(points) == 1:
            # A product with one vector runs at the speed of memory, and its result needs no sorting.
            squares = np.square(self._here(rows @ self._there(points[0])) - offsets)
            sums: Any = np.bincount(self._owner[: self._size], weights=squares, minlength=len(self._places))
            return np.asarray(sums[np.newaxis], dtype=np.float64)
        products = self._here(self._there(points) @ rows.T)
        products -= offsets
        np.square(products, out=products)
        order = np.concatenate(self._places)
        starts = np.cumsum([0, *(len(places) for places in self._places[:-1])])
        energies: Matrix = np.add.reduceat(products[:, order], starts, axis=1)
        return energies

    def _gather(self, category: int) -> Any:
        return self._take(self._rows, self._places[category])

    def _take(self, rows: Any, places: npt.NDArray[np.int64]) -> Any:
        return self._xp.take(rows, places if self._xp is np else self._xp.asarray(places), axis=0)

    def _keep(self, places: npt.NDArray[np.int64]) -> None:
        """Keep only some rows, in their order."""
        size = len(places)
        self._rows[:size, :] = self._take(self._rows, places)
        self._owner[:size], self._offsets[:size] = self._owner[places], self._offsets[places]
        self._size = size
        self._places = [np.flatnonzero(self._owner[:size] == number) for number in range(len(self._places))]

    def _grow(self, needed: int) -> None:
        # By a quarter: the room for growth is a small part of the memory, and moving rows a small part of the time.
        size = max(needed, len(self._owner) + max(FIRST_ROWS, len(self._owner) // 4))
        rows = self._xp.zeros((size, self._dimension), dtype=self._kind)
        rows[: self._size, :] = self._rows[: self._size, :]
        self._rows = rows
        self._owner = np.concatenate((self._owner, np.zeros(size - len(self._owner), dtype=np.int64)))
        self._offsets = np.concatenate((self._offsets, np.zeros(size - len(self._offsets), dtype=self.dtype)))

    def _there(self, values: npt.NDArray[Any]) -> Any:
        rounded = values.astype(self.dtype, copy=False)
        return rounded if self._xp is np else self._xp.asarray(rounded)

    def _here(self, values: Any) -> npt.NDArray[Any]:
        if self._xp is np:
            return values  # type: ignore[no-any-return]
        # CuPy copies to the host only when told to.
        return np.array(values.get() if hasattr(values, "get") else values)
