"""Places and extents of categories, against the oracle's dense formulas and against the scores themselves."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import multivariate_normal, multivariate_t

from builtin import DENSITIES, ROWED, RULES, densities, dtypes, labelled, live, make, rowed, steps
from oracle import Oracle
from speciate.plugins import installed
from speciate.stages import Extent, is_drawable
from speciate_plugins.densities.algebra import root_of_inverse, scale_along
from speciate_plugins.densities.row_screening import FAR
from speciate_schemas import encode

ROUND = ("spherical", "lowrank in features")
ONE_WIDTH = ("mahalanobis", "nearest-mean")
TOLERANCE = {"float64": 1e-7, "float32": 1e-2}


def fitted(density: str, seed: int, dimension: int, **options: Any) -> tuple[Any, Oracle, list[list[np.ndarray]]]:
    """A density with a class beyond its dimension, the oracle of its prior, and the events of each category."""
    features, classes = labelled(seed, dimension, (dimension + 3, 1, 2))
    one = make(density, dtype="float64", **options)
    one.fit(features, classes)
    prior = one if density != "nearest-mean" else make("full")
    if prior is not one:
        prior.fit(features, classes)
    oracle = Oracle(prior.export_state().shared, features, classes)
    return one, oracle, oracle.members


def some_axes(seed: int, dimension: int) -> np.ndarray:
    return np.linalg.qr(np.random.default_rng(seed).normal(size=(dimension, min(2, dimension))))[0].T


def assert_extent(found: Extent, axes: np.ndarray, wanted: Extent, rtol: float) -> None:
    assert found.freedom == pytest.approx(wanted.freedom)
    scale = axes @ wanted.scale @ axes.T
    size = math.sqrt(scale.max())
    np.testing.assert_allclose(found.centre, axes @ wanted.centre, rtol=rtol, atol=rtol * size)
    np.testing.assert_allclose(found.scale, scale, rtol=rtol, atol=rtol * scale.max())


def assert_predictives(one: Any, oracle: Oracle, members: list, axes: np.ndarray, rtol: float = 1e-7) -> None:
    for category, held in enumerate(members):
        wanted = oracle.predictive(held)
        assert_extent(one.extent(category, axes), axes, Extent(wanted.loc, wanted.shape, wanted.df), rtol)
        np.testing.assert_allclose(one.centre(category), wanted.loc, rtol=rtol, atol=rtol)
        assert one.spread(category) == pytest.approx(oracle.spread(held), rel=rtol)


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 2**32), st.integers(1, 5), steps)
def test_full_is_where_the_oracle_says(seed: int, dimension: int, script: list) -> None:
    one, oracle, members = fitted("full", seed, dimension)
    for _ in live(one, members, script, seed):
        pass
    axes = some_axes(seed, dimension)
    assert_predictives(one, oracle, members, axes)
    birth = oracle.predictive([])
    assert_extent(one.extent_of_birth(axes), axes, Extent(birth.loc, birth.shape, birth.df), 1e-9)


@dtypes
@pytest.mark.parametrize("dimension", [1, 2, 8, 40])
def test_rows_and_roots_say_the_same(dimension: int, dtype: str) -> None:
    features, classes = labelled(1, dimension, (dimension + 9, 1, dimension))
    one = make("full", dtype=dtype)
    one.fit(features, classes)
    oracle = Oracle(one.export_state().shared, features, classes)
    assert one.roots.tolist() == [True, False, False]
    assert_predictives(one, oracle, oracle.members, some_axes(1, dimension), TOLERANCE[dtype])
    one.merge(1, 0)
    copy = make("full", dtype=dtype)
    copy.import_state(one.export_state())
    members = [oracle.members[1] + oracle.members[0], oracle.members[2]]
    assert_predictives(copy, oracle, members, np.eye(dimension), TOLERANCE[dtype])


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 2**32), st.integers(1, 4), steps)
def test_a_ball_has_the_trace_of_full(seed: int, dimension: int, script: list) -> None:
    one, oracle, members = fitted("spherical", seed, dimension)
    for _ in live(one, members, script, seed):
        pass
    axes, ball = some_axes(seed, dimension), np.eye(dimension) / dimension
    for found, held in [(one.extent(place, axes), held) for place, held in enumerate(members)] + [
        (one.extent_of_birth(axes), [])
    ]:
        wanted = oracle.predictive(held)
        assert_extent(found, axes, Extent(wanted.loc, np.trace(wanted.shape) * ball, wanted.df), 1e-7)


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 2**32), st.integers(1, 4), steps)
def test_mahalanobis_has_the_covariance_within_classes_everywhere(seed: int, dimension: int, script: list) -> None:
    one, oracle, members = fitted("mahalanobis", seed, dimension)
    for _ in live(one, members, script, seed):
        pass
    axes, within = some_axes(seed, dimension), oracle.scale / oracle.strength
    for category, held in enumerate(members):
        assert_extent(one.extent(category, axes), axes, Extent(np.mean(held, axis=0), within, math.inf), 1e-7)
        np.testing.assert_allclose(one.centre(category), np.mean(held, axis=0), atol=1e-9)
    wider = (1 + 1 / oracle.kappa) * within
    assert_extent(one.extent_of_birth(axes), axes, Extent(oracle.mean, wider, math.inf), 1e-7)


@rowed
@settings(deadline=None, max_examples=15)
@given(seed=st.integers(0, 2**32), dimension=st.integers(1, 6), script=steps)
def test_the_spread_is_that_of_the_raw_points(density: str, seed: int, dimension: int, script: list) -> None:
    """Sketches forget directions, and never how much there was in them."""
    one, oracle, members = fitted(density, seed, dimension)
    for _ in live(one, members, script, seed):
        pass
    for category, held in enumerate(members):
        wanted = 1.0 if density in ONE_WIDTH else oracle.spread(held, round_=density in ROUND)
        assert one.spread(category) == pytest.approx(wanted, rel=1e-7)


def log_density(extent: Extent, places: np.ndarray) -> np.ndarray:
    if math.isinf(extent.freedom):
        return np.atleast_1d(multivariate_normal(extent.centre, extent.scale).logpdf(places))
    return np.atleast_1d(multivariate_t(extent.centre, extent.scale, extent.freedom).logpdf(places))


@densities
@settings(deadline=None, max_examples=15)
@given(seed=st.integers(0, 2**32), script=steps)
def test_scores_in_the_plane_are_the_extent_s(density: str, seed: int, script: list) -> None:
    one, _, members = fitted(density, seed, 2)
    for _ in live(one, members, script, seed):
        pass
    places = np.random.default_rng(seed).normal(scale=5.0, size=(6, 2))
    points = one.embed(places)
    for category in range(len(members)):
        scores = [one.score(point, [category])[0] for point in points]
        np.testing.assert_allclose(scores, log_density(one.extent(category, np.eye(2)), places), atol=1e-6)
    births = log_density(one.extent_of_birth(np.eye(2)), places)
    np.testing.assert_allclose(one.score_birth(points), births, atol=1e-6)


@densities
def test_along_one_axis_it_is_the_scores_summed_over_the_other(density: str) -> None:
    one, _, _ = fitted(density, 3, 2)
    axis, across = some_axes(5, 2)
    extent = one.extent(0, axis[np.newaxis])
    angles = np.linspace(-np.pi / 2, np.pi / 2, 802)[1:-1]
    steps_across, weights = 4.0 * np.tan(angles), 4.0 / np.square(np.cos(angles)) * (angles[1] - angles[0])
    for away in (-2.0, 0.0, 3.5):
        place = extent.centre + away
        others = across @ one.centre(0) + steps_across
        points = one.embed(place * axis + others[:, np.newaxis] * across)
        total = sum(w * math.exp(one.score(point, [0])[0]) for w, point in zip(weights, points, strict=True))
        assert math.log(total) == pytest.approx(log_density(extent, place[np.newaxis])[0], abs=1e-3)


@densities
@settings(deadline=None, max_examples=20)
@given(seed=st.integers(0, 2**32), dimension=st.integers(1, 6), category=st.integers(0, 2))
def test_the_centre_moves_straight_towards_what_is_absorbed(
    density: str, seed: int, dimension: int, category: int
) -> None:
    one, _, _ = fitted(density, seed, dimension)
    event = np.random.default_rng(seed).normal(scale=9.0, size=dimension)
    before = one.centre(category)
    one.absorb(category, one.embed(event[np.newaxis])[0])
    step, towards = one.centre(category) - before, event - before
    share = step @ towards / (towards @ towards)
    assert 0.0 < share < 1.0
    np.testing.assert_allclose(step, share * towards, atol=1e-7 * np.linalg.norm(towards))


@densities
@pytest.mark.parametrize("dimension", [2, 60])
def test_the_wider_category_has_the_greater_spread_whatever_their_sizes(density: str, dimension: int) -> None:
    one = make(density)
    one.fit(*labelled(0, dimension, (40, 40, 40)))
    shape = np.geomspace(3.0, 0.3, dimension)
    found = {}
    for width, size in ((0.3, 30), (0.3, 200), (1.0, 5), (1.0, 200), (3.0, 30), (3.0, 200)):
        events = width * shape * np.random.default_rng(size).normal(size=(size, dimension))
        first, *rest = one.embed(events)
        one.found(first)
        for point in rest:
            one.absorb(len(one.counts) - 1, point)
        found[width, size] = one.spread(len(one.counts) - 1)
    if density in ONE_WIDTH:
        assert set(found.values()) == {1.0}
        return
    assert max(found[0.3, 30], found[0.3, 200]) < min(found[1.0, 5], found[1.0, 200])
    assert max(found[1.0, 5], found[1.0, 200]) < min(found[3.0, 30], found[3.0, 200])
    assert found[1.0, 5] == pytest.approx(1.0, abs=0.2)
    assert found[1.0, 200] == pytest.approx(1.0, abs=0.2)


@densities
def test_to_ask_changes_nothing_and_a_copy_answers_alike(density: str) -> None:
    one, _, members = fitted(density, 4, 3)
    for _ in live(one, members, [("absorb", 0, 0), ("merge", 1, 2), ("found", 0, 0)], 4):
        pass
    axes, before = some_axes(4, 3), encode(one.export_state())
    copy = make(density, dtype="float64")
    copy.import_state(one.export_state())
    for category in range(len(members)):
        mine, theirs = one.extent(category, axes), copy.extent(category, axes)
        assert [part.tobytes() for part in mine[:2]] == [part.tobytes() for part in theirs[:2]]
        assert one.spread(category) == copy.spread(category)
        one.centre(category)[:] = mine.centre[:] = mine.scale[:] = np.nan
    one.extent_of_birth(axes).centre[:] = np.nan
    assert encode(one.export_state()) == before


@rowed
def test_frozen_it_stays_where_it_was_founded(density: str) -> None:
    one, _, _ = fitted(density, 2, 3, frozen=True)
    axes = np.eye(3)
    before = [one.centre(0).tolist(), one.spread(0), one.extent(0, axes).scale.tolist()]
    for point in one.embed(np.full((4, 3), 9.0)):
        one.absorb(0, point)
    assert [one.centre(0).tolist(), one.spread(0), one.extent(0, axes).scale.tolist()] == before


@pytest.mark.parametrize("density", [name for name in ROWED if name != "mahalanobis"])
@dtypes
@pytest.mark.parametrize("dimension", [1, 2, 5])
def test_what_has_no_digits_left_is_still_a_number(density: str, dimension: int, dtype: str) -> None:
    one = make(density, dtype=dtype)
    one.fit(*labelled(0, dimension))
    for far in (1e3, 1e7, 0.9 * math.sqrt(FAR)):
        point = np.zeros(dimension)
        point[-1] = far
        one.found(point)
        for _ in range(dimension + 2):
            one.absorb(len(one.counts) - 1, -point)
            one.absorb(len(one.counts) - 1, point)
    for category in range(len(one.counts)):
        extent = one.extent(category, np.eye(dimension))
        assert np.isfinite(extent.scale).all()
        assert (np.diag(extent.scale) > 0.0).all()
        assert np.isfinite(one.centre(category)).all()
        assert math.isfinite(one.spread(category))


@settings(deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 6), st.integers(0, 9))
def test_a_scale_along_some_sides_is_the_dense_one(seed: int, dimension: int, count: int) -> None:
    rng = np.random.default_rng(seed)
    scatter = rng.normal(scale=3.0, size=(count, dimension))
    scale = np.eye(dimension) + scatter.T @ scatter
    values, vectors = np.linalg.eigh(scale)
    sides = rng.normal(size=(dimension, 2))
    lacking = (np.sqrt(np.maximum(1.0 - 1.0 / values, 0.0)) * vectors).T[max(dimension - count, 0) :]
    turned = np.linalg.qr(rng.normal(size=(dimension, dimension)))[0] @ (vectors / np.sqrt(values)).T
    for rows, root in ((lacking, False), (turned, True)):
        np.testing.assert_allclose(scale_along(rows, sides, root=root), sides.T @ scale @ sides, rtol=1e-8, atol=1e-8)


def test_a_root_with_nothing_in_a_direction_is_as_wide_there_as_a_number_can_say() -> None:
    epsilon = np.finfo(np.float64).eps
    np.testing.assert_allclose(scale_along(np.diag([1.0, 0.0]), np.eye(2), root=True), np.diag([1.0, 1.0 / epsilon]))
    longer = np.array([[1.0 + 1e-7, 0.0], [0.0, 0.5]])
    root = root_of_inverse(longer)
    np.testing.assert_array_equal(root, np.triu(root))
    np.testing.assert_allclose(root.T @ root, np.diag([epsilon, 0.75]), atol=epsilon)
    wide = scale_along(longer, np.eye(2), root=False)
    np.testing.assert_allclose(wide, np.diag([1.0 / epsilon, 4.0 / 3.0]), rtol=1e-6)


def test_only_those_with_a_predictive_are_drawable() -> None:
    assert all(is_drawable(make(density)) for density in DENSITIES)
    for name in RULES:
        provider = installed().provider("density", name)
        assert not is_drawable(provider.create(provider.options()))
