"""The Dirichlet-process rule: the laws of policies, and exactness against the formula written out."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import logsumexp

from speciate.config import choose
from speciate.plugins import installed
from speciate.stages import BIRTH, Choice, Policy

logs = st.floats(-1e6, 1e3)
cases = st.lists(st.tuples(logs, st.integers(1, 10**12)), max_size=6)
alphas = st.floats(1e-300, 1e300)


def make(alpha: float = 1.0) -> Policy:
    return choose(installed(), "policy", {"plugin": "dp", "alpha": alpha}, "policy").create()


def decide(policy: Policy, case: list[tuple[float, int]], birth: float) -> Choice:
    log_density = np.array([density for density, _ in case], dtype=np.float64)
    counts = np.array([count for _, count in case], dtype=np.int64)
    return policy.choose(*policy.weigh(log_density, counts, birth))


@settings(deadline=None)
@given(cases, logs, alphas)
def test_it_is_the_rule_written_out(case: list[tuple[float, int]], birth: float, alpha: float) -> None:
    choice = decide(make(alpha), case, birth)
    total = math.log(float(sum(count for _, count in case) + Fraction(alpha)))
    evidence = [math.log(count) + density - total for density, count in case]
    everything = [*evidence, math.log(alpha) + birth - total]
    chosen = everything[choice.category]
    assert chosen == pytest.approx(max(everything), rel=1e-12, abs=1e-9)
    assert choice.log_evidence == pytest.approx(chosen, rel=1e-12, abs=1e-9)
    assert choice.probability == pytest.approx(math.exp(chosen - logsumexp(everything)), abs=1e-9)
    if case:
        runner_up = sorted(everything)[-2]
        assert choice.margin == pytest.approx(max(everything) - runner_up, rel=1e-9, abs=1e-8)
    else:
        assert choice == (BIRTH, choice.log_evidence, None, 1.0)


@settings(deadline=None)
@given(st.floats(-1e3, 1e3))
def test_a_birth_must_be_strictly_ahead(density: float) -> None:
    """A category of one event, alpha one: both have the same factor, so equal densities are an exact tie."""
    tie = decide(make(1.0), [(density, 1)], density)
    assert (tie.category, tie.margin, tie.probability) == (0, 0.0, 0.5)
    assert decide(make(1.0), [(density, 1)], float(np.nextafter(density, np.inf)) + 1e-9).category == BIRTH


@pytest.mark.parametrize(
    ("case", "birth", "category", "margin"),
    [
        ([(-math.inf, 5), (-3.0, 1)], -math.inf, 1, math.inf),
        ([(-math.inf, 5)], -3.0, BIRTH, math.inf),
        ([(-1e308, 5), (-1e290, 1)], -1e305, 1, 1e305),
    ],
)
def test_evidence_at_the_end_of_the_numbers(case: list, birth: float, category: int, margin: float) -> None:
    choice = decide(make(), case, birth)
    assert choice.category == category
    assert choice.margin == pytest.approx(margin)
    assert choice.probability == 1.0
