"""Times of events, against every event's time written out."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from speciate.evaluate.timing import timing

batches = st.lists(st.tuples(st.floats(1e-7, 100), st.integers(1, 30)), min_size=1, max_size=50)


def written_out(drawn):
    """The milliseconds of every event, ascending."""
    return sorted(seconds / size * 1e3 for seconds, size in drawn for _ in range(size))


def timed(drawn):
    seconds, sizes = zip(*drawn, strict=True)
    return timing(np.array(seconds), np.array(sizes), fit_seconds=1.5, batch=30)


@given(batches)
def test_quantiles_are_over_events(drawn):
    told, each = timed(drawn), written_out(drawn)
    # The smallest time that half of the events, or 99 in 100, did not exceed.
    assert told.p50_ms == pytest.approx(each[math.ceil(len(each) / 2) - 1], rel=1e-12)
    assert told.p99_ms == pytest.approx(each[-(-99 * len(each) // 100) - 1], rel=1e-12)
    assert told.max_ms == pytest.approx(each[-1])
    assert told.mean_ms == pytest.approx(math.fsum(each) / len(each))
    assert told.events_per_second == pytest.approx(1e3 / told.mean_ms)
    assert (told.batch, told.fit_seconds) == (30, 1.5)


@given(batches)
def test_the_histogram_counts_every_event_between_its_edges(drawn):
    told, each = timed(drawn), written_out(drawn)
    edges = np.array(told.histogram_ms)
    assert sum(told.histogram_counts) == len(each)
    assert len(edges) == len(told.histogram_counts) + 1
    assert edges[1:] / edges[:-1] == pytest.approx(10**0.1)
    assert told.histogram_counts[0] > 0
    assert told.histogram_counts[-1] > 0
    up_to = np.cumsum([0, *told.histogram_counts])
    for edge, count in zip(edges, up_to, strict=True):
        # An edge is as good as a time that differs from it by a rounding.
        below, above = (np.searchsorted(each, edge * (1 + slack)) for slack in (-1e-12, 1e-12))
        assert below <= count <= above


@given(batches, st.randoms(use_true_random=False))
def test_the_order_of_batches_does_not_matter_nor_do_empty_ones(drawn, chance):
    told = timed(drawn)
    chance.shuffle(drawn)
    again = timed([*drawn, (0.0, 0)])
    assert (again.p50_ms, again.p99_ms, again.max_ms) == (told.p50_ms, told.p99_ms, told.max_ms)
    assert again.histogram_counts == told.histogram_counts
    assert again.mean_ms == pytest.approx(told.mean_ms)


def test_edges_are_the_same_for_all_runs():
    one, other = timed([(0.002, 1), (0.5, 1)]), timed([(0.011, 1), (3.0, 1)])
    shared = [edge for edge in one.histogram_ms if other.histogram_ms[0] <= edge <= one.histogram_ms[-1]]
    assert len(shared) > 10
    assert set(shared) <= set(other.histogram_ms)


def test_a_case_computed_by_hand():
    """90 events of 1 ms, 9 of 20 ms, one of 500 ms: 770 ms in all."""
    told = timed([(0.09, 90), (0.18, 9), (0.5, 1)])
    assert told.p50_ms == pytest.approx(1)
    assert told.p99_ms == pytest.approx(20)
    assert told.max_ms == pytest.approx(500)
    assert told.mean_ms == pytest.approx(7.7)
    assert told.events_per_second == pytest.approx(100 / 0.77)
    assert [count for count in told.histogram_counts if count] == [90, 9, 1]


def test_a_clock_that_did_not_move_is_told_as_no_time():
    told = timed([(0.0, 4), (0.0, 2)])
    assert (told.mean_ms, told.p50_ms, told.max_ms, told.events_per_second) == (0, 0, 0, 0)
    assert told.histogram_counts == [6]
