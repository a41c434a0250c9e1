"""Series over seeds."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from made import a_run, a_timing, with_metrics

from speciate.reporting import curves
from speciate_schemas.replay import Growth, Timing


def growing(categories: list[int], classes: list[int]):
    growth = Growth(events=list(range(1, len(categories) + 1)), categories=categories, classes=classes)
    return with_metrics(a_run(), growth=growth)


def test_growth_is_the_mean_between_least_and_most_and_begins_and_ends_with_the_runs():
    found = curves.growth([growing([1, 2, 3], [1, 1, 2]), growing([3, 4, 9], [1, 3, 4])])
    assert (found.mean[0], found.mean[-1], found.truth[-1]) == (2, 6, 3)
    assert (found.least[-1], found.most[-1]) == (3, 9)
    assert (found.events[0], found.events[-1]) == (1, 3)


def test_growth_of_nothing_is_nothing():
    assert not len(curves.growth([growing([], [])]).events)


def test_bins_are_averaged_where_there_is_something():
    runs = [a_run(false_births=0.1), a_run(false_births=0.2)]
    assert curves.over_bins(runs, lambda one: one.false_birth_rate)[0] == pytest.approx(0.24)
    margins = curves.over_bins(runs, lambda one: one.mean_margin)
    assert margins[3] == pytest.approx(9.0 - 3 * (2.4 - 1.2))
    nothing = curves.over_bins(runs, lambda _: None)
    assert np.isnan(nothing).all()
    assert len(nothing) == 5


def test_normalised_bins_begin_with_one_and_runs_without_a_first_do_not_count():
    drift = curves.over_bins([a_run()], lambda one: one.mean_drift, normalised=True)
    assert drift[0] == 1
    assert drift[-1] == pytest.approx(0.5)
    assert not len(curves.over_bins([a_run()], lambda _: 0.0, normalised=True))


@given(st.lists(st.lists(st.integers(0, 50), min_size=1, max_size=6).filter(any), min_size=1, max_size=4))
def test_histograms_of_several_runs_add_up_to_one(counts):
    timings = [
        Timing(
            **{
                name: 1.0
                for name in Timing.__struct_fields__
                if name not in ("batch", "histogram_ms", "histogram_counts")
            },
            batch=1,
            histogram_ms=[float(2**place) for place in range(len(one) + 1)],
            histogram_counts=one,
        )
        for one in counts
    ]
    found = curves.histogram(timings)
    assert found.shares.sum() == pytest.approx(1)
    assert (found.shares >= -1e-12).all()


def test_equal_edges_keep_the_shares():
    timing = a_timing(1.0)
    found = curves.histogram([timing, timing])
    assert found.edges.tolist() == pytest.approx(timing.histogram_ms)
    assert found.shares * 2000 == pytest.approx(np.array(timing.histogram_counts))
