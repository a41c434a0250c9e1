"""What a merge is worth, against brute force on the events themselves, whatever became of the categories before.

Twice over: by the chain rule, as the sum of the log predictive densities of one event after another, which needs only
the paper's Student t; and by the closed form of the marginal likelihood, with dense matrices.
"""

import math
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import multigammaln

from builtin import dtypes, labelled, live, make, steps
from oracle import Oracle
from speciate_schemas import encode

Members = list[np.ndarray]
TOLERANCE = {"float64": 1e-8, "float32": 2e-2}
"""In nats, for figures of up to some hundred, after some dozen events."""


def chain(oracle: Oracle, members: Members) -> float:
    """log p(z₁) + log p(z₂ | z₁) + …"""
    return sum(float(oracle.predictive(members[:place]).logpdf(event)) for place, event in enumerate(members))


def closed(oracle: Oracle, members: Members) -> float:
    count, dimension = len(members), len(oracle.mean)
    _, scale, kappa, degrees = oracle.posterior(members)
    value = multigammaln(degrees / 2, dimension) - multigammaln(oracle.degrees / 2, dimension)
    value += oracle.degrees / 2 * np.linalg.slogdet(oracle.scale)[1] - degrees / 2 * np.linalg.slogdet(scale)[1]
    return float(value + dimension / 2 * (math.log(oracle.kappa / kappa) - count * math.log(math.pi)))


def check(density: Any, oracle: Oracle, members: list[Members], tolerance: float) -> None:
    pairs = list(combinations(range(len(members)), 2))
    before = encode(density.export_state())
    gains = density.merge_gain(pairs)
    assert gains.shape == (len(pairs),)
    assert encode(density.export_state()) == before
    for way in (chain, closed):
        alone = [way(oracle, held) for held in members]
        wanted = [way(oracle, members[i] + members[j]) - alone[i] - alone[j] for i, j in pairs]
        assert gains == pytest.approx(np.array(wanted), rel=tolerance, abs=tolerance)
    turned = density.merge_gain([(j, i) for i, j in pairs])
    assert turned == pytest.approx(gains, rel=1e-9, abs=1e-9)


def born(seed: int, dimension: int, **options: Any) -> tuple[Any, Oracle, list[Members]]:
    """A density with a class of nine, one of two and one of five events, their oracle, and the events."""
    features, classes = labelled(seed, dimension)
    density = make("full", **options)
    density.fit(features, classes)
    oracle = Oracle(density.export_state().shared, features, classes)
    return density, oracle, [list(held) for held in oracle.members]


@dtypes
@settings(deadline=None, max_examples=40)
@given(st.integers(0, 2**16), st.integers(1, 12), steps)
def test_it_is_that_of_the_events_after_any_life(
    dtype: str, seed: int, dimension: int, script: list[tuple[str, int, int]]
) -> None:
    density, oracle, members = born(seed, dimension, dtype=dtype, shrinkage=0.2)
    for _ in live(density, members, script, seed):
        pass
    check(density, oracle, members, TOLERANCE[dtype])
    restored = make("full", dtype=dtype)
    restored.import_state(density.export_state())
    pairs = list(combinations(range(len(members)), 2))
    assert encode(restored.merge_gain(pairs).tolist()) == encode(density.merge_gain(pairs).tolist())


@dtypes
def test_rows_and_roots_of_the_inverse_tell_alike(dtype: str) -> None:
    """Of two categories neither, one and both have more events than features."""
    density, oracle, members = born(5, 4, dtype=dtype)
    rng = np.random.default_rng(6)
    for category in (0, 3, 4, 5):
        for event in rng.normal(scale=2.0, size=(12, 4)) + category:
            point = density.embed(event[np.newaxis])[0]
            if category == len(members):
                density.found(point)
                members.append([])
            else:
                density.absorb(category, point)
            members[category].append(event)
    assert density.roots.tolist() == [True, False, True, True, True, True]
    check(density, oracle, members, TOLERANCE[dtype])


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 2**16), st.integers(1, 6))
def test_gains_add_up_however_three_become_one(seed: int, dimension: int) -> None:
    """a with b, and both with c: the same as b with c, and a with both. So they are differences of one evidence."""

    def path(first: tuple[int, int]) -> float:
        density, _, _ = born(seed, dimension, dtype="float64", shrinkage=0.2)
        gain = float(density.merge_gain([first])[0])
        density.merge(*first)
        return gain + float(density.merge_gain([(0, 1)])[0])

    assert path((0, 1)) == pytest.approx(path((1, 2)), rel=1e-9, abs=1e-8)
    assert path((0, 1)) == pytest.approx(path((2, 0)), rel=1e-9, abs=1e-8)


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 2**16), st.integers(1, 6))
def test_of_a_single_event_it_is_the_lead_over_a_birth(seed: int, dimension: int) -> None:
    """log p(z | D) - log p(z): what a head weighs, before its policy does."""
    density, _, _ = born(seed, dimension, dtype="float64", shrinkage=0.2)
    point = density.embed(np.random.default_rng(seed).normal(scale=3.0, size=(1, dimension)))
    lead = density.score(point[0], [0, 1, 2]) - density.score_birth(point)
    density.found(point[0])
    assert density.merge_gain([(0, 3), (1, 3), (2, 3)]) == pytest.approx(lead, rel=1e-9, abs=1e-8)
