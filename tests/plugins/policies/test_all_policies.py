"""What holds for every policy; and for both that compare the best category with a threshold, which differ in one thing.

By distance the evidence of a category is its log density, by posterior that and the log of its share of all events.
"""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import logsumexp

from builtin import POLICIES, policies
from speciate import Head
from speciate.config import Chosen, choose
from speciate.conformance import check_policy
from speciate.errors import ConfigError
from speciate.hooks import Evidence, Held
from speciate.plugins import installed
from speciate.stages import BIRTH, Choice
from speciate_plugins.policies.thresholds import KNOWN_QUANTILE, NEVER

logs = st.floats(-1e6, 1e3)
cases = st.lists(st.tuples(logs, st.integers(1, 10**12)), max_size=6)
OPTION = {"dp": "alpha", "posterior-threshold": "threshold", "distance-threshold": "threshold"}
VALUES = {"alpha": [1e-300, 1e-9, 1.0, 1e9, "auto"], "threshold": [-1e300, -1e4, -3.5, 0.0, 1e4, "auto"]}
thresholded = pytest.mark.parametrize("policy", [name for name in POLICIES if OPTION[name] == "threshold"])
SHARE = {"posterior-threshold": math.log(2), "distance-threshold": 0.0}
"""What one of two categories of the same size loses by it."""


def chosen(policy: str, value: Any = "auto") -> Chosen:
    return choose(installed(), "policy", {"plugin": policy, OPTION[policy]: value}, "policy")


def decide(policy: str, value: Any, case: list[tuple[float, int]], birth: float = 0.0) -> Choice:
    created = chosen(policy, value).create()
    log_density = np.array([density for density, _ in case], dtype=np.float64)
    counts = np.array([count for _, count in case], dtype=np.int64)
    return created.choose(*created.weigh(log_density, counts, birth))


def evidence_of(policy: str, case: list[tuple[float, int]]) -> list[float]:
    if policy == "distance-threshold":
        return [density for density, _ in case]
    total = sum(count for _, count in case)
    return [math.log(count) - math.log(total) + density for density, count in case]


@pytest.mark.parametrize(("policy", "value"), [(name, value) for name in POLICIES for value in VALUES[OPTION[name]]])
def test_it_keeps_the_laws(policy: str, value: Any) -> None:
    check_policy(chosen(policy, value).create)


@policies
@settings(deadline=None)
@given(density=st.floats(-1e3, 1e3), count=st.integers(1, 1000), equals=st.integers(2, 6), worse=st.integers(0, 3))
def test_the_first_of_equal_categories_wins(policy: str, density: float, count: int, equals: int, worse: int) -> None:
    case = [(density - 50.0, count)] * worse + [(density, count)] * equals
    value = 1.0 if policy == "dp" else -1e4
    choice = decide(policy, value, case, density - 50.0)
    assert (choice.category, choice.margin) == (worse, 0.0)


@policies
def test_an_event_that_is_impossible_everywhere_says_so(policy: str) -> None:
    choice = decide(policy, 1.0, [(-math.inf, 5), (-math.inf, 1)], -math.inf)
    assert (choice.log_evidence, choice.probability) == (-math.inf, 0.0)
    assert decide(policy, 1.0, [], -math.inf).log_evidence == -math.inf


@pytest.mark.parametrize(
    ("policy", "value"),
    [("dp", value) for value in (0.0, -1.0, math.nan, "much")]
    + [(name, value) for name in SHARE for value in (math.nan, math.inf, -math.inf, "low", None)],
)
def test_a_value_that_is_none_is_refused(policy: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=OPTION[policy]):
        chosen(policy, value)


@thresholded
@settings(deadline=None)
@given(case=cases, threshold=logs, birth=logs)
def test_it_is_the_rule_written_out(policy: str, case: list, threshold: float, birth: float) -> None:
    choice = decide(policy, threshold, case, birth)
    evidence = evidence_of(policy, case)
    if not evidence:
        assert choice == (BIRTH, threshold, None, 1.0)
        return
    best = max(evidence)
    if abs(best - threshold) > 1e-6:
        assert (choice.category == BIRTH) == (best < threshold)
    assert choice.log_evidence == pytest.approx(max(best, threshold), rel=1e-12, abs=1e-9)
    everything = sorted([*evidence, threshold])
    assert choice.margin == pytest.approx(everything[-1] - everything[-2], rel=1e-9, abs=1e-8)
    assert choice.probability == pytest.approx(math.exp(everything[-1] - logsumexp(everything)), abs=1e-9)


@thresholded
def test_who_reaches_the_threshold_is_assigned(policy: str) -> None:
    assert decide(policy, -3.0, [(-3.0, 7)])[:3] == (0, -3.0, 0.0)
    assert decide(policy, math.nextafter(-3.0, 0.0), [(-3.0, 7)]).category == BIRTH


@thresholded
def test_what_is_impossible_is_not_born(policy: str) -> None:
    assert decide(policy, 5.0, [(-1e3, 1)], birth=-math.inf).category == 0
    assert decide(policy, -5.0, [(-math.inf, 1)], birth=-math.inf).log_evidence == -math.inf


def held(density: float) -> Evidence:
    return Evidence(np.array([density, density - 50.0]), np.array([1, 1]), -10.0)


@thresholded
def test_candidates_lie_between_the_novel_and_the_known(policy: str) -> None:
    out = Held([held(d) for d in np.linspace(-5, 0, 30)], [held(d) for d in np.linspace(-30, -20, 30)])
    tune = chosen(policy).provider.tune
    tried = [options.threshold for options in tune(chosen(policy).options, out)]
    assert tried == sorted(set(tried))
    assert 5 < len(tried) <= 15
    assert tried[0] == pytest.approx(-30 - SHARE[policy])
    assert tried[-1] <= -2.5 - SHARE[policy] + 1e-9
    assert not tune(chosen(policy, -3.0).options, out)


@thresholded
def test_without_anything_novel_it_falls_back_on_a_quantile_of_the_known(policy: str) -> None:
    tune, options = chosen(policy).provider.tune, chosen(policy).options
    (one,) = tune(options, Held([held(d) for d in range(101)]))
    assert one.threshold == pytest.approx(100 * KNOWN_QUANTILE - SHARE[policy])
    (none,) = tune(options, Held())
    assert none.threshold == NEVER
    (far,) = tune(options, Held([held(-math.inf)], [held(-math.inf)]))
    assert far.threshold == NEVER


@policies
def test_tuned_it_tells_known_from_novel(policy: str) -> None:
    rng = np.random.default_rng(0)
    centres = rng.normal(scale=12.0, size=(8, 4))
    labels = np.repeat(np.arange(6), 20)
    support = centres[labels] + rng.normal(size=(120, 4))
    head = Head.fit(support, labels, density="nearest-mean", policy=policy, **{OPTION[policy]: "auto"})
    assert isinstance(head.state().policy_options[OPTION[policy]], float)
    decisions = head.process(centres[[0, 3, 6, 7, 6, 7, 5]] + rng.normal(size=(7, 4)))
    assert [decision.category for decision in decisions] == [0, 3, 6, 7, 6, 7, 5]
