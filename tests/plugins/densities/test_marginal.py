"""The algebra of a merge's evidence, against dense matrices; and who must not claim to know it."""

import math
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import multigammaln

from builtin import DENSITIES, dtypes, labelled, make
from oracle import Oracle
from speciate.stages import is_mergeable
from speciate_plugins.densities.marginal import BLOCK, Evidence, Learnt, joint_log_det, nearest
from speciate_plugins.densities.prior import Prior
from speciate_plugins.densities.row_screening import FAR

KAPPA = 0.3


def learn(points: np.ndarray) -> tuple[Learnt, np.ndarray, np.ndarray]:
    """A category of these points, and its dense scale and mean, from all points at once."""
    count, dimension = points.shape
    mean = points.sum(axis=0) / (KAPPA + count)
    scale = np.eye(dimension) + points.T @ points - (KAPPA + count) * np.outer(mean, mean)
    values, vectors = np.linalg.eigh(np.eye(dimension) - np.linalg.inv(scale))
    rows = (np.sqrt(np.maximum(values, 0.0)) * vectors).T[max(dimension - count, 0) :]
    return Learnt(float(count), mean, rows, np.linalg.slogdet(scale)[1]), scale, mean


@settings(deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 7), st.integers(1, 12), st.integers(1, 12))
def test_the_union_is_as_wide_as_its_dense_scale(seed: int, dimension: int, one: int, other: int) -> None:
    rng = np.random.default_rng(seed)
    points = rng.normal(size=(one + other, dimension)) * rng.uniform(0.1, 5.0, dimension) + rng.normal(size=dimension)
    first, second, wanted = learn(points[:one])[0], learn(points[one:])[0], learn(points)[0].log_det
    assert joint_log_det(KAPPA, first, second) == pytest.approx(wanted, rel=1e-9, abs=1e-9)
    assert joint_log_det(KAPPA, second, first) == pytest.approx(wanted, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("dimension", [1, 2, 9])
def test_the_evidence_is_the_textbook_s_less_what_each_event_adds(dimension: int) -> None:
    prior = Prior(np.zeros(dimension), np.eye(dimension), 0.0, KAPPA, 2.5, 0.0)
    evidence, before = Evidence(prior), (2.5 + dimension + 1.0) / 2.0
    for count, log_det in ((1, 0.3), (40, 12.0)):
        wanted = multigammaln(before + count / 2.0, dimension) - multigammaln(before, dimension)
        wanted += dimension / 2.0 * math.log(KAPPA / (KAPPA + count)) - (before + count / 2.0) * log_det
        assert evidence.of(count, log_det) == pytest.approx(wanted, rel=1e-12)
    assert evidence.of(0.0, 0.0) == 0.0


@settings(deadline=None)
@given(st.integers(0, 2**32), st.integers(0, 12), st.integers(1, 15), st.lists(st.integers(0, 11), max_size=4))
def test_the_nearest_are_those_of_all_pairs(seed: int, count: int, most: int, of: list[int]) -> None:
    rng = np.random.default_rng(seed)
    means, weights = rng.normal(size=(count, 3)), rng.integers(1, 9, count).astype(float)
    asked = np.array([one for one in of if one < count], dtype=np.intp)

    def cost(one: int, other: int) -> float:
        square = float(np.square(means[one] - means[other]).sum())
        return square * weights[one] * weights[other] / (weights[one] + weights[other])

    wanted = set()
    for one in asked.tolist():
        others = sorted(set(range(count)) - {one}, key=lambda other: cost(one, other))
        wanted |= {(min(one, other), max(one, other)) for other in others[:most]}
    assert nearest(means, weights, most, asked) == sorted(wanted)


def test_blocks_do_not_show() -> None:
    rng = np.random.default_rng(0)
    count = 2 * BLOCK + 3
    means, weights = rng.normal(size=(count, 4)), np.ones(count)
    each = [nearest(means, weights, 2, np.array([one])) for one in range(count)]
    assert nearest(means, weights, 2, np.arange(count)) == sorted({pair for pairs in each for pair in pairs})


def test_equal_categories_are_paired_all_the_same() -> None:
    pairs = nearest(np.ones((4, 2)), np.ones(4), 3, np.arange(4))
    assert pairs == [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)]


@pytest.mark.parametrize("density", DENSITIES)
def test_only_an_exact_state_claims_to_know(density: str) -> None:
    assert is_mergeable(make(density)) == (density == "full")


@pytest.mark.parametrize("density", ["spherical", "lowrank"])
def test_the_others_scores_depend_on_the_order_so_they_have_no_marginal_likelihood(density: str) -> None:
    """The chain rule of a joint density gives the same whatever the order; `full` keeps to it."""
    features, classes = labelled(0, 4)
    events = np.random.default_rng(1).normal(scale=4.0, size=(6, 4))

    def chain(name: str, order: slice) -> float:
        one = make(name, rank=1, dtype="float64")
        one.fit(features, classes)
        first, *rest = one.embed(events[order])
        total = float(one.score_birth(first[np.newaxis])[0])
        one.found(first)
        for point in rest:
            total += float(one.score(point, [3])[0])
            one.absorb(3, point)
        return total

    assert chain("full", slice(None)) == pytest.approx(chain("full", slice(None, None, -1)), abs=1e-9)
    assert abs(chain(density, slice(None)) - chain(density, slice(None, None, -1))) > 0.01


@dtypes
def test_what_has_no_digits_left_is_still_a_number(dtype: str) -> None:
    """As far out as an event may be, rows are of length one to the last digit: a figure, without a warning."""
    density = make("full", dtype=dtype)
    density.fit(*labelled(0, 5))
    for far in (1e3, 1e7, 0.9 * math.sqrt(FAR)):
        point = np.zeros(5)
        point[2] = far
        density.found(point)
        density.absorb(len(density.counts) - 1, point)
        density.found(point)
    pairs = density.neighbours(9)
    assert len(pairs) == 9 * 8 // 2
    gains = density.merge_gain(pairs)
    assert np.isfinite(gains).all()


def test_a_frozen_category_speaks_for_what_it_has_learnt() -> None:
    features, classes = labelled(0, 3)
    frozen, plain = make("full", frozen=True), make("full")
    for one in (frozen, plain):
        one.fit(features, classes)
    before = plain.merge_gain([(0, 1)])
    for point in frozen.embed(features):
        frozen.absorb(0, point)
    assert frozen.merge_gain([(0, 1)]) == before


def test_the_figure_is_that_of_the_oracle_at_512_features_in_single_precision() -> None:
    features, classes = labelled(4, 512, (12, 30, 600, 2, 1), spread=2.0)
    density = make("full")
    density.fit(features, classes)
    oracle = Oracle(density.export_state().shared, features, classes)

    def evidence(members: list[np.ndarray]) -> float:
        _, scale, kappa, degrees = oracle.posterior(members)
        log_det = np.linalg.slogdet(scale)[1] - np.linalg.slogdet(oracle.scale)[1]
        gammas = multigammaln(degrees / 2, 512) - multigammaln(oracle.degrees / 2, 512)
        return float(gammas - degrees / 2 * log_det + 256 * math.log(oracle.kappa / kappa))

    alone = [evidence(members) for members in oracle.members]
    pairs = density.neighbours(4)
    assert len(pairs) == 10
    wanted = [evidence(oracle.members[i] + oracle.members[j]) - alone[i] - alone[j] for i, j in pairs]
    assert density.merge_gain(pairs) == pytest.approx(wanted, rel=1e-5, abs=1e-2)


def test_ten_thousand_categories_find_their_other_halves() -> None:
    rng = np.random.default_rng(0)
    centres = np.repeat(rng.normal(scale=1e3, size=(5_000, 4)), 2, axis=0)
    density = make("full")
    density.fit(*labelled(0, 4))
    for point in density.embed(centres + rng.normal(size=centres.shape)):
        density.found(point)
    began = time.perf_counter()
    pairs = density.neighbours(1)
    gains = density.merge_gain(pairs)
    assert time.perf_counter() - began < 60
    found = {pair for pair, gain in zip(pairs, gains.tolist(), strict=True) if gain > 0.0}
    assert len(found & {(3 + 2 * half, 4 + 2 * half) for half in range(5_000)}) > 4_990
