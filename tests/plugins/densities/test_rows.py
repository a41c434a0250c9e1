"""Rows of all categories in one matrix: the same as a list of rows for each."""

from itertools import chain
from typing import Any

import array_api_strict
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from speciate_plugins.densities.rows import HELD, ROOM, RowStore, product

DIMENSION = 3
namespaces = pytest.mark.parametrize("namespace", [np, array_api_strict], ids=["numpy", "strict"])
dtypes = pytest.mark.parametrize("dtype", ["float32", "float64"])

numbers = st.integers(-9, 9).map(lambda number: number / 4.0)
rows = st.lists(st.lists(numbers, min_size=DIMENSION, max_size=DIMENSION), max_size=ROOM + 2).map(
    lambda drawn: np.array(drawn, dtype=np.float64).reshape(-1, DIMENSION)
)
"""Of numbers whose sums of products are exact in single precision: whatever the order, the same."""
kinds = st.sampled_from(["add", "extend", "extend", "rewrite", "replace", "replace", "remove", "of", "of"])
scripts = st.lists(st.tuples(kinds, st.integers(0, 99), rows), max_size=25)


def test_flags_of_a_product_are_no_news() -> None:
    """The flag that stray numbers raise can be raised for certain by one that is asked for."""
    signalling = np.array([[0x7F800001] * 5], dtype=np.uint32).view(np.float32)
    ones = np.ones((5, 2), dtype=np.float32)
    with pytest.warns(RuntimeWarning, match="invalid value encountered in matmul"):
        signalling @ ones
    assert np.isnan(product(signalling, ones)).all()
    assert product(ones.T, ones).tolist() == [[5.0, 5.0], [5.0, 5.0]]


class Lists:
    """The same, with nothing to go wrong."""

    def __init__(self) -> None:
        self.rows: list[list[list[float]]] = []
        self.offsets: list[list[float]] = []
        self.rewrites: list[int] = []

    def play(self, store: RowStore, kind: str, place: int, given_rows: np.ndarray) -> None:
        """One step, here and there."""
        if kind == "add" or not self.rows:
            store.add(given_rows)
            self.rows.append(given_rows.tolist())
            self.rewrites.append(0)
            self.offsets.append([])
            self.settle(store, len(self.rows) - 1)
            return
        category = place % len(self.rows)
        if kind == "extend":
            store.extend(category, given_rows)
            self.rows[category] += given_rows.tolist()
        elif kind in ("rewrite", "replace"):
            if kind == "replace":
                given_rows = store.of(category) + np.arange(1.0, store.count(category) + 1.0)[:, np.newaxis]
            store.rewrite(category, given_rows)
            self.rows[category] = given_rows.tolist()
            self.rewrites[category] += 1
        elif kind == "remove":
            store.remove(category)
            del self.rows[category], self.offsets[category], self.rewrites[category]
            return
        elif kind == "of":
            assert store.of(category).tolist() == self.rows[category]
        self.settle(store, category, place)

    def settle(self, store: RowStore, category: int, place: int = 0) -> None:
        """Offsets of a category are set whenever it changes."""
        offsets = [(place + number) / 4.0 for number in range(len(self.rows[category]))]
        store.set_offsets(category, np.array(offsets))
        self.offsets[category] = offsets

    def compare(self, store: RowStore, points: np.ndarray) -> None:
        everybody = range(len(self.rows))
        assert len(store) == sum(map(len, self.rows))
        assert [store.count(category) for category in everybody] == [len(own) for own in self.rows]
        assert [store.rewrites(category) for category in everybody] == self.rewrites == store.all_rewrites()
        assert [store.offsets(category).tolist() for category in everybody] == self.offsets
        assert store.all_offsets().tolist() == list(chain.from_iterable(self.offsets))
        matrices = [np.reshape(own, (-1, DIMENSION)) for own in self.rows]
        for point in points:
            along = [own @ point - offsets for own, offsets in zip(matrices, self.offsets, strict=True)]
            np.testing.assert_allclose(store.energies(point), [one @ one for one in along], rtol=1e-5)
        products, bounds = store.products(points)
        assert bounds.tolist() == np.cumsum([0, *map(len, self.rows)]).tolist()
        assert products.dtype == store.dtype
        assert products.tolist() == (np.concatenate([np.empty((0, DIMENSION)), *matrices]) @ points.T).tolist()


@namespaces
@dtypes
@settings(deadline=None, max_examples=60)
@given(script=scripts, points=rows)
def test_it_is_a_list_of_rows_for_each_category(namespace: Any, dtype: str, script: list, points: np.ndarray) -> None:
    store, lists = RowStore(DIMENSION, dtype, namespace), Lists()
    for kind, place, given_rows in script:
        lists.play(store, kind, place, given_rows)
        lists.compare(store, points)
    for category, own in enumerate(lists.rows):
        assert store.of(category).tolist() == own


@namespaces
@dtypes
def test_rows_taken_stay_as_they_are_while_their_category_learns(namespace: Any, dtype: str) -> None:
    store = RowStore(2, dtype, namespace)
    store.add(np.ones((2, 2)))
    store.add(np.full((1, 2), 5.0))
    taken = store.of(0)
    for number in range(2 * ROOM):
        store.extend(0, np.full((1, 2), float(number)))
    store.rewrite(0, np.zeros((2, 2)))
    store.remove(1)
    assert taken.tolist() == [[1.0, 1.0], [1.0, 1.0]]


@namespaces
def test_rows_are_given_back_as_they_are_kept_rounded_however_lately_they_came(namespace: Any) -> None:
    """A gathered category and one gathered anew are the same, or a saved head would not go on as the one that saved."""
    store, exact = RowStore(2, "float32", namespace), np.array([[0.1, 1.0 / 3.0]])
    store.add(exact)
    assert store.of(0).dtype == np.float64
    store.extend(0, exact)
    held = store.of(0).copy()
    for _ in range(HELD):
        store.add(exact)
        store.of(len(store.all_rewrites()) - 1)
    assert store.of(0).tolist() == held.tolist() == exact.astype(np.float32).tolist() * 2


@namespaces
@dtypes
def test_without_a_row_there_is_no_energy(namespace: Any, dtype: str) -> None:
    store = RowStore(2, dtype, namespace)
    assert store.energies(np.ones(2)).tolist() == []
    store.add(np.empty((0, 2)))
    products, bounds = store.products(np.ones((4, 2)))
    assert (products.shape, bounds.tolist()) == ((0, 4), [0, 0])
    assert store.energies(np.ones(2)).tolist() == [0.0]
    assert store.of(0).shape == (0, 2)


@namespaces
@dtypes
def test_its_memory_is_counted(namespace: Any, dtype: str) -> None:
    store = RowStore(4, dtype, namespace)
    assert store.nbytes == 0
    sizes = []
    for _ in range(40):
        store.add(np.ones((3, 4)))
        sizes.append(store.nbytes)
    assert sizes == sorted(sizes)
    row = 4 * np.dtype(dtype).itemsize
    assert sizes[-1] >= 120 * (row + 8 + np.dtype(dtype).itemsize + 8)
    store.of(0)
    assert store.nbytes == sizes[-1] + (3 + ROOM) * 4 * 8
