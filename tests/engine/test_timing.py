"""Where the time goes."""

import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from speciate.timing import LatencyHistogram, StageTimes

latencies = st.lists(st.floats(1e-6, 80_000.0), min_size=1, max_size=60)
fractions = st.floats(0.01, 1.0)


@settings(deadline=None)
@given(latencies, fractions)
def test_a_quantile_is_right_to_within_a_bucket(values, fraction):
    histogram = LatencyHistogram()
    histogram.add(np.array(values))
    exact = float(np.quantile(values, fraction, method="inverted_cdf"))
    assert exact * (1 - 1e-9) <= histogram.quantile(fraction) <= exact * 1.0401


@settings(deadline=None)
@given(latencies, latencies, fractions)
def test_counting_in_portions_is_counting_at_once(first, second, fraction):
    portions, whole = LatencyHistogram(), LatencyHistogram()
    portions.add(np.array(first))
    portions.add(np.array(second))
    portions.add(np.array([]))
    whole.add(np.array(first + second))
    assert portions.quantile(fraction) == whole.quantile(fraction)


@settings(deadline=None)
@given(latencies)
def test_quantiles_rise_and_never_exceed_the_longest(values):
    histogram = LatencyHistogram()
    histogram.add(np.array(values))
    quantiles = [histogram.quantile(step / 20) for step in range(21)]
    assert quantiles == sorted(quantiles)
    assert quantiles[-1] == max(values)


def test_what_lies_outside_the_buckets_counts_all_the_same():
    histogram = LatencyHistogram()
    assert histogram.quantile(0.5) == 0.0
    histogram.add(np.array([0.0, 1e-9, 1e9]))
    assert histogram.quantile(0.5) <= 1.04e-6
    assert histogram.quantile(1.0) > 86_400


@pytest.mark.parametrize("kind", ["busy", "idle", "backpressured"])
def test_time_is_added_to_what_it_was_spent_on_even_when_it_fails(kind, monkeypatch):
    now = [100.0]
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])
    times = StageTimes()

    def spend(seconds: float) -> None:
        with times.measure(kind):
            now[0] += seconds
            if seconds > 1.0:
                raise OSError

    spend(0.5)
    with pytest.raises(OSError):  # noqa: PT011 - there is nothing to match
        spend(2.0)
    assert times == StageTimes(**{kind: 2.5})
