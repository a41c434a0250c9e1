"""Quantiles of counted values are those of values that lie evenly within their buckets."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from speciate.buckets import quantile

EDGES = (0.0, 1.0, 2.0, 4.0, 8.0)
counted = st.lists(st.integers(0, 40), min_size=4, max_size=5).filter(any).map(np.array)
fractions = st.floats(0.0, 1.0)


@given(counted, fractions, fractions)
def test_they_rise_and_stay_within_the_edges(counts, one, other):
    low, high = (quantile(counts, EDGES, fraction) for fraction in sorted([one, other]))
    assert EDGES[0] <= low <= high <= EDGES[-1]


@given(counted, fractions)
def test_as_many_lie_below_one_as_the_fraction_says(counts, fraction):
    """The counts up to the quantile, with a part of its own bucket, against the rank."""
    found = quantile(counts, EDGES, fraction)
    behind = np.cumsum(counts[:4])
    below = np.interp(found, EDGES, [0, *behind])
    assert below == pytest.approx(min(fraction * counts.sum(), behind[-1]), abs=1e-9 * counts.sum())


@pytest.mark.parametrize(
    ("counts", "fraction", "expected"),
    [
        ([10, 0, 0, 0], 0.5, 0.5),
        ([0, 0, 10, 0], 0.5, 3.0),
        ([0, 0, 10, 0], 1.0, 4.0),
        ([0, 0, 10, 0], 0.0, 0.0),
        ([5, 0, 0, 5], 0.5, 1.0),
        ([1, 0, 0, 0, 3], 0.9, 8.0),
    ],
)
def test_some_of_them(counts, fraction, expected):
    assert quantile(np.array(counts), EDGES, fraction) == pytest.approx(expected)


@pytest.mark.parametrize("fraction", [0.0, 0.5, 1.0])
def test_of_nothing_there_are_none(fraction):
    assert quantile(np.zeros(4, np.int64), EDGES, fraction) is None
