"""Spherical: against the paper's words on dense matrices, a projection after every update."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import multivariate_t

from speciate.conformance import check_density
from speciate.errors import StateMismatchError
from speciate.head import Head
from speciate.plugins import installed
from speciate.stages import DensityState
from speciate_plugins.densities.prior import FALLBACK_KAPPA


def make(**options: Any) -> Any:
    provider = installed().provider("density", "spherical")
    return provider.create(provider.options(**{"dtype": "float64", **options}))


def support(seed: int, dimension: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    classes = np.repeat(np.arange(3), (9, 2, 5))
    scale = np.geomspace(3.0, 0.3, dimension)
    return rng.normal(scale=3.0, size=(3, dimension))[classes] + scale * rng.normal(size=(16, dimension)), classes


class Ball:
    """A posterior, updated one event at a time and made round after each."""

    def __init__(self, oracle: "Oracle") -> None:
        self.mean, self.scale = oracle.mean, oracle.scale
        self.kappa, self.degrees, self.count = oracle.kappa, oracle.degrees, 0

    def learn(self, event: np.ndarray) -> None:
        away = event - self.mean
        updated = self.scale + self.kappa / (self.kappa + 1) * np.outer(away, away)
        self.scale = np.trace(updated) / len(event) * np.eye(len(event))
        self.mean = self.mean + away / (self.kappa + 1)
        self.kappa, self.degrees, self.count = self.kappa + 1, self.degrees + 1, self.count + 1

    def score(self, event: np.ndarray) -> float:
        free = self.degrees - len(event) + 1
        return multivariate_t(self.mean, (self.kappa + 1) / (self.kappa * free) * self.scale, free).logpdf(event)


class Oracle:
    """The paper's formulas, prior and all."""

    def __init__(self, features: np.ndarray, classes: np.ndarray) -> None:
        dimension, size = features.shape[1], classes.max() + 1
        groups = [features[classes == k] for k in range(size)]
        means = np.array([group.mean(axis=0) for group in groups])
        within = sum((group - group.mean(axis=0)).T @ (group - group.mean(axis=0)) for group in groups)
        within = within / (len(features) - size)
        self.mean = features.mean(axis=0)
        strength = min(len(features) / size / 2, 50.0)
        self.degrees = strength + dimension + 1
        self.scale = strength * np.trace(within) / dimension * np.eye(dimension)
        spread = ((means - self.mean) ** 2).sum() / (size - 1) / np.trace(within)
        between = spread - np.mean([1 / len(group) for group in groups])
        self.kappa = 1 / between if between > 0 else FALLBACK_KAPPA
        self.members = [list(group) for group in groups]

    def ball(self, members: list) -> Ball:
        ball = Ball(self)
        for event in members:
            ball.learn(event)
        return ball


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("dimension", [1, 2, 7, 65])
def test_it_keeps_the_laws(dimension: int, dtype: str) -> None:
    features, classes = support(dimension, dimension)
    events = np.random.default_rng(0).normal(scale=4.0, size=(11, dimension))
    for away in (0.0, 100.0):
        check_density(lambda: make(dtype=dtype), features + away, classes, events + away)


steps = st.lists(
    st.tuples(st.sampled_from(["absorb", "found", "merge", "remove"]), st.integers(0, 9), st.integers(0, 9))
)


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 1000), st.integers(2, 7), steps)
def test_it_is_the_ball_it_says_whatever_it_has_learnt(seed: int, dimension: int, script: list) -> None:
    """Traces add up, so a merged category is the one that learnt all events of both."""
    features, classes = support(seed, dimension)
    rng = np.random.default_rng(seed + 1)
    density, oracle = make(), Oracle(features, classes)
    density.fit(features, classes)
    for kind, first, second in script:
        event, size = rng.normal(scale=3.0, size=dimension), len(oracle.members)
        point, one, other = density.embed(event[None])[0], first % max(size, 1), second % max(size, 1)
        if kind == "found" or not size:
            density.found(point)
            oracle.members.append([event])
        elif kind == "absorb":
            density.absorb(one, point)
            oracle.members[one].append(event)
        elif kind == "remove":
            density.remove(one)
            del oracle.members[one]
        elif one != other:
            density.merge(one, other)
            oracle.members[one] += oracle.members[other]
            del oracle.members[other]
    balls = [oracle.ball(members) for members in oracle.members]
    assert density.counts.tolist() == [ball.count for ball in balls]
    for event in rng.normal(scale=3.0, size=(4, dimension)):
        point = density.embed(event[None])
        got = density.score(point[0], range(len(balls)))
        np.testing.assert_allclose(got, [ball.score(event) for ball in balls], rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(density.score_birth(point), oracle.ball([]).score(event), rtol=1e-9, atol=1e-9)


def test_shrinkage_is_nothing_to_it() -> None:
    features, classes = support(3, 6)
    got = []
    for shrinkage in (0.0, 0.7, 1.0):
        density = make(shrinkage=shrinkage)
        density.fit(features, classes)
        got.append([density.score(point, [0, 1, 2]) for point in density.embed(features)])
    np.testing.assert_allclose(got[1], got[0], rtol=1e-9)
    np.testing.assert_allclose(got[2], got[0], rtol=1e-9)


def test_any_batches_give_the_decisions_of_one_by_one() -> None:
    features, classes = support(3, 32)
    rng = np.random.default_rng(4)
    events = rng.normal(scale=40.0, size=(6, 32))[rng.integers(6, size=90)] + rng.normal(size=(90, 32))
    alone = Head.fit(features, classes, density="spherical", policy="dp", alpha=1e-3)
    wanted = [alone.step(event) for event in events]
    assert alone.size > 3
    for cuts in ([], [1, 7, 40], [30, 60]):
        head = Head.fit(features, classes, density="spherical", policy="dp", alpha=1e-3)
        assert [one for part in np.split(events, cuts) for one in head.process(part)] == wanted
        assert head.state() == alone.state()


def test_its_memory_does_not_grow_with_events() -> None:
    features, classes = support(3, 32)
    density = make()
    density.fit(features, classes)
    before = density.nbytes
    for point in density.embed(np.tile(features, (9, 1))):
        density.absorb(0, point)
    assert density.nbytes == before


def test_a_state_that_is_not_its_own_is_refused() -> None:
    with pytest.raises(StateMismatchError, match="not a state of this density"):
        make().import_state(DensityState({}, []))


@pytest.mark.parametrize("far", [1e160, -1e200, 1e308])
def test_what_lies_too_far_out_is_impossible_and_never_nan(far: float) -> None:
    features, classes = support(0, 3)
    density = make()
    density.fit(features, classes)
    points = density.embed(np.array([[far, -far, 0.0]]))
    for scores in (density.score(points[0], [2, 0]), density.screen(points).row(0), density.score_birth(points)):
        assert np.isneginf(scores).all()
