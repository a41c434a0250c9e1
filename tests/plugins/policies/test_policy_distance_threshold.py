"""The distance threshold: sizes play no part. What it shares with other policies is in `test_all_policies.py`."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from speciate.config import choose
from speciate.plugins import installed
from speciate.stages import Choice

logs = st.floats(-1e6, 1e3)
cases = st.lists(st.tuples(logs, st.integers(1, 1000), st.integers(1, 1000)), max_size=6)


def decide(threshold: float, densities: list[float], counts: list[int]) -> Choice:
    section = {"plugin": "distance-threshold", "threshold": threshold}
    policy = choose(installed(), "policy", section, "policy").create()
    return policy.choose(*policy.weigh(np.array(densities), np.array(counts, dtype=np.int64), 0.0))


@settings(deadline=None)
@given(cases, logs)
def test_sizes_play_no_part(case: list[tuple[float, int, int]], threshold: float) -> None:
    densities, counts, others = ([one[place] for one in case] for place in range(3))
    assert decide(threshold, densities, counts) == decide(threshold, densities, others)
