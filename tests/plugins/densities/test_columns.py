"""Columns: a list of entries, in one array."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from speciate_plugins.densities.columns import GROWTH, LEAST_ROOM, Column, grown

# A number is appended; a place out of 0 … 1 is removed.
steps = st.lists(
    st.one_of(st.integers(-1000, 1000), st.integers(-1000, 1000), st.floats(0, 1, exclude_max=True)), max_size=120
)


def play(column: Column, script: list, entry: Callable[[int], object]) -> list:
    """The same on a column and on a list; the list."""
    kept: list = []
    for step in script:
        if isinstance(step, int):
            column.append(entry(step))
            kept.append(entry(step))
        elif kept:
            place = int(step * len(kept))
            column.remove(place)
            del kept[place]
        assert column.entries.tolist() == kept
    return kept


@pytest.mark.parametrize("dtype", ["int64", "float32", "float64"])
@settings(deadline=None)
@given(script=steps)
def test_a_column_of_numbers_is_a_list(dtype: str, script: list) -> None:
    column = Column(dtype)
    play(column, script, lambda number: number)
    assert column.entries.dtype == dtype


@settings(deadline=None)
@given(steps, st.integers(0, 4))
def test_a_column_of_vectors_is_a_list_of_them(script: list, width: int) -> None:
    column = Column(np.float64, width)
    kept = play(column, script, lambda number: [float(number + place) for place in range(width)])
    assert column.entries.shape == (len(kept), width)


@settings(deadline=None)
@given(steps, steps)
def test_what_is_written_to_an_entry_stays_through_what_comes(before: list, after: list) -> None:
    column = Column(np.float64)
    column.append(0.0)
    for step in before:
        column.append(float(step))
    column.entries[0] = 7.5
    for step in after:
        column.append(float(step))
        column.remove(len(column.entries) - 1)
    assert column.entries.tolist() == [7.5, *map(float, before)]


@settings(deadline=None)
@given(steps, st.integers(1, 5))
def test_its_memory_is_that_of_most_entries_it_had_and_a_little_room(script: list, width: int) -> None:
    column, most = Column(np.float32, width), 0
    assert column.nbytes == 0
    for step in script:
        if isinstance(step, int):
            column.append(np.full(width, step))
            most = max(most, len(column.entries))
        elif len(column.entries):
            column.remove(0)
        assert most <= column.nbytes // (4 * width) < most + max(LEAST_ROOM, most // GROWTH) + 1


@given(st.integers(0, 10**6))
def test_room_grows_by_a_share(size: int) -> None:
    assert size + LEAST_ROOM <= grown(size) <= size + max(LEAST_ROOM, size // GROWTH)
