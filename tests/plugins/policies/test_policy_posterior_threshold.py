"""The posterior threshold: shares count, sizes do not. What it shares with others is in `test_all_policies.py`."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from speciate.config import choose
from speciate.plugins import installed
from speciate.stages import Choice

logs = st.floats(-1e6, 1e3)
cases = st.lists(st.tuples(logs, st.integers(1, 1000)), min_size=1, max_size=6)


def decide(threshold: float, case: list[tuple[float, int]]) -> Choice:
    section = {"plugin": "posterior-threshold", "threshold": threshold}
    policy = choose(installed(), "policy", section, "policy").create()
    densities, counts = (list(column) for column in zip(*case, strict=True))
    return policy.choose(*policy.weigh(np.array(densities), np.array(counts, dtype=np.int64), 0.0))


@settings(deadline=None)
@given(cases, logs, st.sampled_from([2, 1024, 2**30]))
def test_all_sizes_times_one_factor_change_nothing(case: list, threshold: float, factor: int) -> None:
    choice, grown = decide(threshold, case), decide(threshold, [(density, count * factor) for density, count in case])
    if choice.margin > 1e-6:
        assert choice.category == grown.category
    assert choice.log_evidence == pytest.approx(grown.log_evidence, rel=1e-12, abs=1e-9)


def test_of_two_that_are_as_near_the_larger_is_chosen_by_the_log_of_its_lead() -> None:
    choice = decide(-1e4, [(-3.0, 10), (-3.0, 30)])
    assert choice.category == 1
    assert choice.margin == pytest.approx(math.log(3))
    assert choice.log_evidence == pytest.approx(-3.0 + math.log(0.75))
