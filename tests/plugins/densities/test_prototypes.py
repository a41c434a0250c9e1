"""Prototypes: the laws of densities for every rule, and what holds of all of them."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from speciate.conformance import check_density
from speciate.errors import StateMismatchError, SupportError
from speciate.head import Head
from speciate.plugins import installed
from speciate.stages import DensityState

RULES = ["leader", "diffgre", "sync", "rankstat", "wta", "smile", "phe", "dbstream"]
WITHOUT_CODES = ["rankstat", "wta", "smile"]
COUNTLESS = ["sync", "rankstat", "wta", "smile", "phe"]
"""What keeps its prototypes where they are."""


def make(name: str, **options: Any) -> Any:
    provider = installed().provider("density", name)
    return provider.create(provider.options(**options))


def support(seed: int, dimension: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    classes = np.repeat(np.arange(3), (9, 1, 5))
    return rng.normal(scale=3.0, size=(3, dimension))[classes] + rng.normal(size=(15, dimension)), classes


def fitted(name: str, seed: int = 0, dimension: int = 6) -> Any:
    density = make(name)
    density.fit(*support(seed, dimension))
    return density


@pytest.mark.parametrize("dimension", [1, 2, 7, 65])
@pytest.mark.parametrize("name", RULES)
def test_it_keeps_the_laws(name: str, dimension: int) -> None:
    features, classes = support(dimension, dimension)
    events = np.random.default_rng(0).normal(scale=4.0, size=(11, dimension))
    for away in (0.0, 100.0):
        check_density(lambda: make(name), features + away, classes, events + away)


@pytest.mark.parametrize("name", RULES)
def test_any_batches_give_the_decisions_of_one_by_one(name: str) -> None:
    features, classes = support(3, 8)
    rng = np.random.default_rng(4)
    events = rng.normal(scale=4.0, size=(6, 8))[rng.integers(6, size=90)] + rng.normal(size=(90, 8))
    options: dict[str, Any] = {"density": name, "policy": "distance-threshold", "threshold": -4.0 * (name == "leader")}
    alone = Head.fit(features, classes, **options)
    wanted = [alone.step(event) for event in events]
    assert alone.size > 3
    for cuts in ([], [1, 7, 40]):
        head = Head.fit(features, classes, **options)
        assert [one for part in np.split(events, cuts) for one in head.process(part)] == wanted
        assert head.state() == alone.state()


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize("policy", ["dp", "posterior-threshold", "distance-threshold"])
def test_any_policy_can_decide_over_it(name: str, policy: str) -> None:
    """Fixed options and tuned ones, none of which may meet a figure it cannot use."""
    rng = np.random.default_rng(1)
    classes = np.repeat(np.arange(4), 8)
    features = rng.normal(scale=5.0, size=(4, 6))[classes] + rng.normal(size=(32, 6))
    auto = {"alpha": "auto"} if policy == "dp" else {"threshold": "auto"}
    head = Head.fit(features, classes, density=name, policy=policy, **auto)
    decisions = head.process(rng.normal(scale=5.0, size=(30, 6)))
    assert all(np.isfinite(one.log_evidence) and 0.0 <= one.probability <= 1.0 for one in decisions)
    assert sum(category.count for category in head.categories) == 32 + 30


@pytest.mark.parametrize("name", RULES)
def test_the_order_in_memory_is_nothing_to_it(name: str) -> None:
    density = fitted(name)
    events = np.random.default_rng(5).normal(scale=3.0, size=(40, 6))
    points = density.embed(events)
    assert density.embed(np.asfortranarray(events)).tobytes() == points.tobytes()


@pytest.mark.parametrize("name", COUNTLESS)
def test_a_fixed_prototype_only_counts(name: str) -> None:
    density = fitted(name)
    points = density.embed(np.random.default_rng(1).normal(size=(5, 6)))
    before = [density.score(point, range(3)) for point in points]
    assert density.absorb(0, points[0]) == 0.0
    assert density.counts.tolist() == [10, 1, 5]
    np.testing.assert_array_equal([density.score(point, range(3)) for point in points], before)


@settings(deadline=None, max_examples=25)
@given(st.sampled_from([*COUNTLESS, "dbstream"]), st.integers(0, 500), st.integers(0, 5), st.integers(0, 5))
def test_a_merged_category_is_as_good_as_the_better_of_both(name: str, seed: int, keep: int, absorb: int) -> None:
    density = fitted(name, seed)
    events = np.random.default_rng(seed).normal(scale=4.0, size=(9, 6))
    points = density.embed(events)
    for point in points[:3]:
        density.found(point)
    if keep == absorb:
        return
    before = np.array([density.score(point, range(6)) for point in points])
    density.merge(keep, absorb)
    after = np.array([density.score(point, range(5)) for point in points])
    wanted = before.copy()
    wanted[:, keep] = before[:, [keep, absorb]].max(axis=1)
    np.testing.assert_array_equal(after, np.delete(wanted, absorb, axis=1))


@pytest.mark.parametrize("name", WITHOUT_CODES)
def test_a_known_class_has_no_code_until_it_is_merged_with_one_that_has(name: str) -> None:
    features, classes = support(0, 6)
    density = make(name)
    density.fit(features, classes)
    points = density.embed(features)
    assert all(np.isneginf(density.score(point, range(3))).all() for point in points)
    density.found(points[0])
    assert density.score(points[0], [3])[0] == 0.0
    density.merge(1, 3)
    assert density.score(points[0], range(3)).tolist() == [-np.inf, 0.0, -np.inf]


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize("far", [1e200, -1e250, 1e308])
def test_what_lies_too_far_out_is_never_nan(name: str, far: float) -> None:
    density = fitted(name)
    points = density.embed(np.array([[far, -far, 0.0, far, far, -far]]))
    for scores in (density.score(points[0], [2, 0]), density.screen(points).row(0), density.score_birth(points)):
        assert not np.isnan(scores).any()
        assert (scores < np.inf).all()


@pytest.mark.parametrize("name", ["leader", "diffgre", "dbstream"])
def test_what_has_no_distance_is_impossible(name: str) -> None:
    density = fitted(name)
    points = density.embed(np.full((1, 6), 1e200))
    assert np.isneginf([*density.score(points[0], range(3)), *density.score_birth(points)]).all()


def test_a_code_that_cannot_be_told_is_impossible() -> None:
    """Of features so small that the projection enlarges them."""
    features, classes = support(0, 6)
    density = make("phe")
    density.fit(1e-3 * features, classes)
    points = density.embed(np.array([[1e308, -1e308, 1e308, -1e308, 1e308, 1e308]]))
    assert np.isnan(points).all()
    assert np.isneginf([*density.score(points[0], range(3)), *density.score_birth(points)]).all()


@pytest.mark.parametrize("name", RULES)
def test_a_state_that_is_not_its_own_is_refused(name: str) -> None:
    with pytest.raises(StateMismatchError, match="not a state of this density"):
        make(name).import_state(DensityState({}, []))


def test_a_state_of_another_length_is_refused() -> None:
    with pytest.raises(StateMismatchError, match="not a state of this density, Smile"):
        make("smile").import_state(fitted("leader").export_state())


@pytest.mark.parametrize("name", RULES)
def test_a_support_set_without_two_samples_of_a_class_is_refused(name: str) -> None:
    with pytest.raises(SupportError, match=r"give (at least )?one"):
        make(name).fit(np.eye(3), np.arange(3))
