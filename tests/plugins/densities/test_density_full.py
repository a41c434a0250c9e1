"""The full-covariance density: the laws of densities, exactness against raw points, and a way out of every bad support.

That it decides as the paper says is in `tests/laws/test_head_oracle.py`.
"""

import math
import time
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oracle import Oracle
from speciate import Head
from speciate.config import choose
from speciate.conformance import check_density
from speciate.errors import FeatureError, SupportError
from speciate.plugins import installed
from speciate.stages import Density, DensityState
from speciate_schemas import encode

dtypes = pytest.mark.parametrize("dtype", ["float32", "float64"])
seeds = st.integers(0, 2**32)


def make(**options: Any) -> Density:
    return choose(installed(), "density", {"plugin": "full", **options}, "density").create()


def fit(features: Any, labels: Any, **options: Any) -> Head:
    return Head.fit(features, labels, density="full", policy="dp", **options)


def support(
    seed: int, dimension: int, sizes: tuple[int, ...] = (9, 1, 5), spread: float = 3.0
) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    classes = np.repeat(np.arange(len(sizes)), sizes)
    centres = rng.normal(scale=spread, size=(len(sizes), dimension))
    return centres[classes] + rng.normal(size=(len(classes), dimension)), classes


def stream(seed: int, dimension: int, count: int, clusters: int = 7, spread: float = 3.0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    centres = rng.normal(scale=spread, size=(clusters, dimension))
    return centres[rng.integers(clusters, size=count)] + rng.normal(size=(count, dimension))


def assert_scores(density: Density, oracle: Oracle, events: np.ndarray, tolerance: float = 1e-9) -> None:
    for event, point in zip(events, density.embed(events), strict=True):
        scores = density.score(point, range(len(density.counts)))
        np.testing.assert_allclose(scores, oracle.score(event), rtol=0, atol=tolerance)


@dtypes
@pytest.mark.parametrize("spread", [1.0, 30.0, 1000.0])
@pytest.mark.parametrize("dimension", [1, 2, 3, 7, 8, 64, 65, 300])
def test_it_keeps_the_laws(dimension: int, spread: float, dtype: str) -> None:
    features, classes = support(dimension, dimension, (20, 2, 5), spread)
    events = stream(1, dimension, 40, spread=spread)
    check_density(lambda: make(dtype=dtype), features, classes, np.concatenate((events, features[:5])))


@dtypes
def test_frozen_it_keeps_the_laws(dtype: str) -> None:
    features, classes = support(3, 4)
    check_density(lambda: make(dtype=dtype, frozen=True), features, classes, stream(1, 4, 20))


@settings(deadline=None, max_examples=60)
@given(
    seeds,
    st.sampled_from([1, 2, 5, 17]),
    st.sampled_from(["float32", "float64"]),
    st.sampled_from([1e-9, 1.0, 1e6]),
    st.lists(st.integers(1, 40), max_size=6),
)
def test_any_split_gives_the_bits_of_one_by_one(
    seed: int, dimension: int, dtype: str, alpha: float, cuts: list[int]
) -> None:
    features, classes = support(seed, dimension)
    events = stream(seed + 1, dimension, 40)
    batched, stepped = (fit(features, classes, dtype=dtype, alpha=alpha) for _ in range(2))
    decisions = [one for part in np.split(events, sorted(cuts)) for one in batched.process(part)]
    assert encode(decisions) == encode([stepped.step(event) for event in events])
    assert encode(batched.state()) == encode(stepped.state())


@dtypes
def test_a_head_without_categories_learns_a_batch_as_one_by_one(dtype: str) -> None:
    features, classes = support(0, 6)
    heads = [fit(features, classes, dtype=dtype, alpha=1.0) for _ in range(2)]
    for head in heads:
        for category in range(3):
            head.forget(category)
    batched, stepped = heads
    events = stream(2, 6, 50)
    assert encode(batched.process(events)) == encode([stepped.step(event) for event in events])
    assert encode(batched.state()) == encode(stepped.state())


@settings(deadline=None, max_examples=40)
@given(seeds, st.integers(1, 20), st.integers(1, 40))
def test_learning_one_by_one_is_learning_at_once(seed: int, dimension: int, count: int) -> None:
    features, classes = support(seed, dimension)
    density = make(dtype="float64")
    density.fit(features, classes)
    oracle = Oracle(density.export_state().shared, features, classes)
    events = stream(seed + 1, dimension, count)
    density.found(density.embed(events)[0])
    for point in density.embed(events)[1:]:
        density.absorb(3, point)
    oracle.predictives.append(oracle.predictive(list(events)))
    assert_scores(density, oracle, events[:5])


@settings(deadline=None, max_examples=60)
@given(seeds, st.integers(1, 12), st.permutations(range(3)))
def test_merging_is_fitting_the_union(seed: int, dimension: int, order: list[int]) -> None:
    features, classes = support(seed, dimension, (dimension + 9, 1, 5))
    keep, absorb, _ = order
    density = make(dtype="float64")
    density.fit(features, classes)
    oracle = Oracle(density.export_state().shared, features, classes)
    density.merge(keep, absorb)
    oracle.predictives[keep] = oracle.predictive(oracle.members[keep] + oracle.members[absorb])
    del oracle.predictives[absorb]
    assert density.counts.tolist() == [
        len(features) - oracle.counts[order[2]] if k == keep else oracle.counts[k] for k in range(3) if k != absorb
    ]
    events = stream(seed + 1, dimension, 6)
    assert_scores(density, oracle, events)
    place = keep - (keep > absorb)
    density.absorb(place, density.embed(events)[0])
    merged = oracle.members[keep] + oracle.members[absorb]
    oracle.predictives[place] = oracle.predictive([*merged, events[0]])
    assert_scores(density, oracle, events)


@dtypes
@pytest.mark.parametrize("gone", [0, 1, 2])
def test_a_forgotten_class_was_never_there(gone: int, dtype: str) -> None:
    features, classes = support(5, 4)
    head, never = make(dtype=dtype), make(dtype=dtype)
    head.fit(features, classes)
    shared, categories = head.export_state()
    never.import_state(DensityState(shared, [one for k, one in enumerate(categories) if k != gone]))
    head.remove(gone)
    points = head.embed(stream(1, 4, 12))
    for point in points[:6]:
        for one in (head, never):
            one.absorb(1, point)
            one.found(point)
    assert encode(head.export_state()) == encode(never.export_state())
    for point in points[6:]:
        assert head.score(point, range(8)).tobytes() == never.score(point, range(8)).tobytes()


@dtypes
def test_a_forgotten_birth_was_never_there(dtype: str) -> None:
    head = fit(*support(5, 4), dtype=dtype, alpha=1.0)
    before = encode([one.arrays for one in head.state().categories])
    decisions = head.process(np.full((5, 4), 1e4) + np.eye(5, 4))
    assert {one.category for one in decisions} == {3}
    head.forget(3)
    assert encode([one.arrays for one in head.state().categories]) == before


@pytest.mark.parametrize(("dtype", "tolerance"), [("float64", 1e-9), ("float32", 1e-3)])
def test_a_category_of_many_events_keeps_as_many_rows_as_features_and_stays_exact(dtype: str, tolerance: float) -> None:
    features, classes = support(0, 3)
    density = make(dtype=dtype)
    density.fit(features, classes)
    oracle = Oracle(density.export_state().shared, features, classes)
    events = np.random.default_rng(1).normal(size=(500, 3))
    for place, point in enumerate(density.embed(events)):
        density.absorb(0, point)
        assert density.export_state().categories[0]["rows"].shape == (3, 3)
        if place % 100 == 99:
            oracle.predictives[0] = oracle.predictive([*oracle.members[0], *events[: place + 1]])
            assert_scores(density, oracle, events[:20], tolerance)
    assert density.counts[0] == 509


@settings(deadline=None, max_examples=30)
@given(seeds, st.integers(1, 8), st.permutations(range(4)))
def test_classes_with_other_names_get_the_same_events(seed: int, dimension: int, names: list[int]) -> None:
    features, classes = support(seed, dimension, (9, 2, 5, 4))
    events = stream(seed + 1, dimension, 30)
    as_is = fit(features, classes, dtype="float64").process(events)
    renamed = fit(features, np.array(names)[classes], dtype="float64").process(events)
    number = [*names, *range(4, 40)]
    assert [one.category for one in renamed] == [number[one.category] for one in as_is]
    np.testing.assert_allclose(
        [one.log_evidence for one in renamed], [one.log_evidence for one in as_is], rtol=0, atol=1e-8
    )


def crooked(seed: int, dimension: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    left, right = (np.linalg.qr(rng.normal(size=(dimension, dimension)))[0] for _ in range(2))
    return left * rng.uniform(0.2, 5.0, dimension) @ right


def assert_same_decisions(seed: int, change: np.ndarray, **options: Any) -> None:
    dimension = len(change)
    features, classes = support(seed, dimension, (dimension + 4, 1, 5, 4))
    events, shift = stream(seed + 1, dimension, 30), np.arange(dimension) - 7.0
    as_is = fit(features, classes, shrinkage=0.0, dtype="float64", **options).process(events)
    moved = fit(features @ change + shift, classes, shrinkage=0.0, dtype="float64", **options)
    decisions = moved.process(events @ change + shift)
    assert [one[:2] for one in decisions] == [one[:2] for one in as_is]
    volume = np.linalg.slogdet(change)[1]
    np.testing.assert_allclose(
        [one.log_evidence + volume for one in decisions], [one.log_evidence for one in as_is], rtol=0, atol=1e-7
    )


@settings(deadline=None, max_examples=30)
@given(seeds, st.integers(1, 10))
def test_without_shrinkage_an_affine_change_of_the_features_changes_no_decision(seed: int, dimension: int) -> None:
    """With a given strength of the prior mean: that found by matching traces depends on the units of the features."""
    assert_same_decisions(seed, crooked(seed, dimension), kappa0=0.05)


@settings(deadline=None, max_examples=30)
@given(seeds, st.integers(1, 10))
def test_without_shrinkage_turning_and_scaling_the_features_changes_no_decision(seed: int, dimension: int) -> None:
    turn = np.linalg.qr(crooked(seed, dimension))[0]
    assert_same_decisions(seed, 0.3 * turn)


def test_the_prior_is_that_of_the_paper() -> None:
    """Section 3.3, written out."""
    features, classes = support(0, 4, (9, 1, 5, 3))
    groups = [features[classes == k] for k in range(4)]
    scatter = sum((g - g.mean(axis=0)).T @ (g - g.mean(axis=0)) for g in groups)
    within = scatter / (len(features) - len(groups))
    between = sum(((g.mean(axis=0) - features.mean(axis=0)) ** 2).sum() for g in groups) / 3
    kappa = 1 / (between / np.trace(within) - np.mean([1 / len(g) for g in groups]))
    for shrinkage in (0.0, 0.25):
        shared = fit(features, classes, shrinkage=shrinkage).state().shared
        target = (1 - shrinkage) * within + shrinkage * np.trace(within) / 4 * np.eye(4)
        root = np.linalg.inv(shared["whiten"].numpy())
        np.testing.assert_allclose(root @ root.T, 18 / 4 / 2 * target, rtol=1e-10)
        np.testing.assert_allclose(shared["mean"].numpy(), features.mean(axis=0), rtol=1e-12)
        assert shared["log_det"].numpy() == pytest.approx(np.linalg.slogdet(18 / 4 / 2 * target)[1])
        assert shared["kappa0"].numpy() == pytest.approx(kappa)
        assert shared["n0"].numpy() == 18 / 4 / 2
        assert shared["shrinkage"].numpy() == shrinkage
    assert fit(features, classes, n_cap=1.5).state().shared["n0"].numpy() == 1.5
    assert fit(features, classes, kappa0=2.5).state().shared["kappa0"].numpy() == 2.5
    assert not fit(features, classes, mean="zero").state().shared["mean"].numpy().any()
    root = np.linalg.inv(fit(features, classes, scale="identity").state().shared["whiten"].numpy())
    np.testing.assert_allclose(root @ root.T, 18 / 4 / 2 * np.trace(within) / 4 * np.eye(4), rtol=1e-10)


# Inputs at the edge: each has a fallback or an error that says what to do.


@dtypes
@pytest.mark.parametrize("size", [1e10, 1e14, 1e16, 1e20, 1e39, 1e160, 1e308])
def test_events_far_out_are_decided_as_one_by_one_or_refused_and_never_nan(size: float, dtype: str) -> None:
    features, classes = support(0, 3)
    events = np.array([features[0], [size, -size, size], features[-1], [0.0, 0.0, -size], features[3]])
    batched, stepped = fit(features, classes, dtype=dtype), fit(features, classes, dtype=dtype)
    decisions = list(batched.deciding(events))
    alone = [next(stepped.deciding(event[np.newaxis])) for event in events]
    for one, other in zip(decisions, alone, strict=True):
        if isinstance(one, FeatureError):
            assert str(one) == str(other)
            assert size > 1e14
        else:
            assert encode(one) == encode(other)
    assert encode(batched.state()) == encode(stepped.state())
    assert not any(isinstance(decisions[place], FeatureError) for place in (0, 2, 4))
    assert b"nan" not in encode([one for one in decisions if not isinstance(one, FeatureError)], "json")


@dtypes
@pytest.mark.parametrize("size", [1e4, 1e7, 1e10, 1e14])
def test_many_events_far_out_are_learnt_without_harm(size: float, dtype: str) -> None:
    """Single precision cannot tell how far apart they are; it must not break down over it."""
    features, classes = support(0, 3)
    events = size * (1.0 + np.random.default_rng(1).normal(scale=1e-3, size=(60, 3)))
    batched, stepped = fit(features, classes, dtype=dtype), fit(features, classes, dtype=dtype)
    decisions = batched.process(events)
    assert encode(decisions) == encode([stepped.step(event) for event in events])
    assert all(math.isfinite(one.log_evidence) for one in decisions)
    assert encode(batched.state()) == encode(stepped.state())
    first, second = batched.categories[0].id, batched.categories[-1].id
    for head in (batched, stepped):
        head.merge(first, second)
    assert encode(batched.process(features)) == encode([stepped.step(event) for event in features])


def test_class_means_closer_than_chance_fall_back() -> None:
    head = fit([[-1.0], [1.0], [-1.0], [1.0]], [0, 0, 1, 1])
    assert head.state().shared["kappa0"].numpy() == 1e-2
    assert head.step([0.1]).category == 0


def test_a_constant_feature_is_fine_unless_shrinkage_is_off() -> None:
    features, classes = support(0, 4, (9, 8, 7), spread=30.0)
    features[:, 2] = 5.0
    decisions = fit(features, classes).process(features)
    assert [one.category for one in decisions] == classes.tolist()
    with pytest.raises(SupportError, match=r'singular at shrinkage = 0\.0.*use shrinkage = "auto"'):
        fit(features, classes, shrinkage=0.0)


@dtypes
def test_duplicates_are_learnt_as_any_other(dtype: str) -> None:
    features, classes = support(0, 3, (4, 4))
    features[classes == 1] = features[-1]
    head = fit(features, classes, dtype=dtype)
    decisions = head.process(np.repeat(features[[0, -1]], 300, axis=0))
    assert [one.category for one in decisions] == [0] * 300 + [1] * 300
    density = make(dtype="float64")
    density.fit(features, classes)
    oracle = Oracle(density.export_state().shared, features, classes)
    oracle.predictives = [oracle.predictive([*m, *[m[-1 * k]] * 300]) for k, m in enumerate(oracle.members)]
    for k, event in enumerate(features[[0, -1]]):
        for point in density.embed(np.repeat(event[np.newaxis], 300, axis=0)):
            density.absorb(k, point)
    assert_scores(density, oracle, features, 1e-8)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize(("dimension", "sizes"), [(20, (3, 3, 3)), (9, (4, 4, 4)), (10, (4, 4, 4)), (64, (2,))])
def test_fewer_samples_than_features_need_shrinkage(dimension: int, sizes: tuple[int, ...], seed: int) -> None:
    features, classes = support(seed, dimension, sizes)
    head = fit(features, classes)
    assert 0.0 < head.state().shared["shrinkage"].numpy() <= 1.0
    assert [one.category for one in head.process(features)] == classes.tolist()
    if len(features) - len(sizes) < dimension:
        with pytest.raises(SupportError, match='fewer independent samples than features; use shrinkage = "auto"'):
            fit(features, classes, shrinkage=0.0)


@dtypes
def test_one_feature_is_enough(dtype: str) -> None:
    features, classes = support(0, 1, (5, 6), spread=30.0)
    head = fit(features, classes, dtype=dtype)
    oracle = Oracle(head.state().shared, features, classes)
    for event in stream(1, 1, 60, spread=30.0):
        decision, verdict = head.step(event), oracle.step(event)
        assert decision[:2] == verdict[:2]
        assert decision.log_evidence == pytest.approx(verdict.log_evidence, abs=1e-2)


def test_ten_thousand_categories() -> None:
    rng = np.random.default_rng(0)
    centres = rng.normal(scale=1e3, size=(10_000, 16))
    began = time.perf_counter()
    head = fit(np.repeat(centres, 2, axis=0) + rng.normal(size=(20_000, 16)), np.repeat(np.arange(10_000), 2))
    wanted = rng.integers(10_000, size=100)
    decisions = head.process(centres[wanted])
    assert [one.category for one in decisions] == wanted.tolist()
    assert head.step(np.full(16, 1e5))[:2] == (10_000, True)
    head.merge(0, 10_000)
    head.forget(5_000)
    assert head.size == 9_999
    assert head.nbytes < 10_000 * 1_000
    assert time.perf_counter() - began < 60
