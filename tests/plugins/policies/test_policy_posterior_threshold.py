"""The posterior threshold: the laws of policies, the rule written out, and how it is tuned."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import logsumexp

from speciate import Head
from speciate.config import choose
from speciate.conformance import check_policy
from speciate.errors import ConfigError
from speciate.hooks import Evidence, Held
from speciate.plugins import installed
from speciate.stages import BIRTH
from speciate_plugins.policies.thresholds import KNOWN_QUANTILE, NEVER

logs = st.floats(-1e6, 1e3)
cases = st.lists(st.tuples(logs, st.integers(1, 10**12)), max_size=6)


def chosen(threshold="auto"):
    return choose(installed(), "policy", {"plugin": "posterior-threshold", "threshold": threshold}, "policy")


def decide(threshold, case, birth=0.0):
    policy = chosen(threshold).create()
    log_density = np.array([density for density, _ in case], dtype=np.float64)
    return policy.choose(*policy.weigh(log_density, np.array([count for _, count in case], dtype=np.int64), birth))


@pytest.mark.parametrize("threshold", [-1e300, -1e4, -3.5, 0.0, 1e4, "auto"])
def test_it_keeps_the_laws(threshold):
    check_policy(chosen(threshold).create)


@settings(deadline=None)
@given(cases, logs, logs)
def test_it_is_the_rule_written_out(case, threshold, birth):
    choice = decide(threshold, case, birth)
    total = sum(count for _, count in case)
    evidence = [math.log(count) - math.log(total) + density for density, count in case]
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


def test_who_reaches_the_threshold_is_assigned():
    assert decide(-3.0, [(-3.0, 7)])[:3] == (0, -3.0, 0.0)
    assert decide(math.nextafter(-3.0, 0.0), [(-3.0, 7)]).category == BIRTH


def test_what_is_impossible_is_not_born():
    assert decide(5.0, [(-1e3, 1)], birth=-math.inf).category == 0
    assert decide(-5.0, [(-math.inf, 1)], birth=-math.inf).log_evidence == -math.inf


@pytest.mark.parametrize("threshold", [math.nan, math.inf, -math.inf, "low", None])
def test_a_threshold_that_is_none_is_refused(threshold):
    with pytest.raises(ConfigError, match="threshold"):
        chosen(threshold)


def evidence(density):
    return Evidence(np.array([density, density - 50.0]), np.array([1, 1]), -10.0)


def test_candidates_lie_between_the_novel_and_the_known():
    held = Held([evidence(d) for d in np.linspace(-5, 0, 30)], [evidence(d) for d in np.linspace(-30, -20, 30)])
    tried = [options.threshold for options in chosen().provider.tune(chosen().options, held)]
    assert tried == sorted(set(tried))
    assert 5 < len(tried) <= 15
    assert tried[0] == pytest.approx(-30 - math.log(2))
    assert tried[-1] <= -2.5 - math.log(2) + 1e-9
    assert not chosen(-3.0).provider.tune(chosen(-3.0).options, held)


def test_without_anything_novel_it_falls_back_on_a_quantile_of_the_known():
    tune, options = chosen().provider.tune, chosen().options
    (one,) = tune(options, Held([evidence(d) for d in range(101)]))
    assert one.threshold == pytest.approx(100 * KNOWN_QUANTILE - math.log(2))
    (none,) = tune(options, Held())
    assert none.threshold == NEVER
    (far,) = tune(options, Held([evidence(-math.inf)], [evidence(-math.inf)]))
    assert far.threshold == NEVER


def test_tuned_it_tells_known_from_novel():
    rng = np.random.default_rng(0)
    centres = rng.normal(scale=12.0, size=(8, 4))
    labels = np.repeat(np.arange(6), 20)
    head = Head.fit(
        centres[labels] + rng.normal(size=(120, 4)), labels, density="nearest-mean", policy="posterior-threshold"
    )
    assert isinstance(head.state().policy_options["threshold"], float)
    decisions = head.process(centres[[0, 3, 6, 7, 6, 7, 5]] + rng.normal(size=(7, 4)))
    assert [decision.category for decision in decisions] == [0, 3, 6, 7, 6, 7, 5]
