"""The timeline is that of the whole stream, whatever its length and however it came."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from worlds import bits

from speciate.timeline import BIRTHS, BUCKETS, EVENTS, MARGINS, PARTS, SIZE, Timeline, quantiles

nothing = st.just(math.nan)
notes = st.lists(
    st.tuples(
        st.integers(1, 60),
        st.integers(0, 1),
        st.integers(0, 50),
        nothing | st.floats(0, 1e6),
        nothing | st.floats(0, 1e9),
    ),
    max_size=60,
)


def columns(rows):
    """Steps between records become record numbers."""
    steps, births, sizes, margins, times = zip(*rows, strict=True) if rows else ((), (), (), (), ())
    sequences = np.cumsum(np.array(steps, dtype=np.int64)) - 1
    return sequences, np.array(births, np.int64), np.array(sizes, np.int64), np.array(margins), np.array(times)


def noted(rows, piece):
    timeline = Timeline()
    whole = columns(rows)
    for start in range(0, len(rows), piece):
        part = [column[start : start + piece] for column in whole]
        while not timeline.reaches(int(part[0][-1])):
            timeline.widen()
        timeline.note(*part)
    return timeline


@settings(deadline=None, max_examples=50)
@given(notes, st.integers(1, 60))
def test_any_batching_gives_the_same(rows, piece):
    assert bits(noted(rows, piece).state()) == bits(noted(rows, 1).state())


@settings(deadline=None, max_examples=50)
@given(notes.filter(bool))
def test_it_is_what_counting_in_the_end_gives(rows):
    timeline = noted(rows, 7)
    sequences, births, sizes, margins, times = columns(rows)
    state = timeline.state()
    width = state.width
    counts = dict(zip(state.parts.numpy().tolist(), state.counts.numpy(), strict=True))
    known_times = dict(zip(state.parts.numpy().tolist(), state.times.numpy().tolist(), strict=True))
    assert sorted(counts) == sorted(set((sequences // width).tolist())), "only where something came"
    assert width == 1 or sequences[-1] >= PARTS * width // 2, "no wider than needed"
    for part, row in counts.items():
        here = sequences // width == part
        assert row[EVENTS] == here.sum()
        assert row[BIRTHS] == births[here].sum()
        assert row[SIZE] == sizes[here][-1]
        assert row[MARGINS:].sum() == (~np.isnan(margins[here])).sum()
        told = times[here][~np.isnan(times[here])]
        np.testing.assert_equal(known_times[part], told[-1] if len(told) else math.nan)


def test_it_goes_on_from_its_state():
    timeline = noted([(1, 1, n, float(n), float(n)) for n in range(200)], 16)
    again = Timeline(timeline.state())
    more = [np.array([255]), np.array([0]), np.array([9]), np.array([1.0]), np.array([2.0])]
    before = bits(timeline.state())
    again.note(*more)
    assert bits(timeline.state()) == before, "what was loaded is its own"
    timeline.note(*more)
    assert bits(again.state()) == bits(timeline.state())


@settings(deadline=None, max_examples=50)
@given(st.lists(st.floats(2**-9, 2**20), min_size=1, max_size=50), st.sampled_from([0.1, 0.5, 0.9]))
def test_quantiles_are_right_within_their_bucket(margins, probability):
    timeline = noted([(1, 0, 1, margin, math.nan) for margin in margins], 50)
    while timeline.width < 64:
        timeline.widen()
    row = timeline.state().counts.numpy()[0, MARGINS:]
    [found] = quantiles(row, [probability])
    exact = np.quantile(margins, probability, method="inverted_cdf")
    assert exact / 2 <= found <= exact * 2
    assert row.shape == (BUCKETS,)


@pytest.mark.parametrize("margin", [0.0, 1e-300, 1e300])
def test_margins_beyond_the_buckets_are_in_the_outermost(margin):
    state = noted([(1, 0, 1, margin, math.nan)], 1).state()
    assert state.counts.numpy()[0, MARGINS:].argmax() == (0 if margin < 1 else BUCKETS - 1)


def test_nothing_has_no_quantile():
    assert quantiles(np.zeros(BUCKETS, np.int64), [0.1, 0.9]) == [None, None]


def test_a_stream_that_comes_seldom_takes_little():
    rows = [(40_000, 0, 1, 1.0, math.nan)] * 3
    assert len(bits(noted(rows, 1).state())) < 2_000


def test_how_many_there_are_can_change_between_events():
    timeline = noted([(1, 1, 5, 1.0, math.nan)] * 3, 3)
    timeline.resize(2, 4)
    timeline.resize(7, 3)
    state = timeline.state()
    assert state.parts.numpy().tolist() == [0, 1, 2, 7]
    assert state.counts.numpy()[:, SIZE].tolist() == [5, 5, 4, 3]
    timeline.widen()
    assert timeline.state().counts.numpy()[:, SIZE].tolist() == [5, 4, 3]
