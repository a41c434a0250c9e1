"""Spherical: against the paper's words on dense matrices, a projection after every update."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import multivariate_t

from builtin import live, steps
from speciate.conformance import check_density
from speciate.plugins import installed
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


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 1000), st.integers(2, 7), steps)
def test_it_is_the_ball_it_says_whatever_it_has_learnt(seed: int, dimension: int, script: list) -> None:
    """Traces add up, so a merged category is the one that learnt all events of both."""
    features, classes = support(seed, dimension)
    density, oracle = make(), Oracle(features, classes)
    density.fit(features, classes)
    for _ in live(density, oracle.members, script, seed + 1):
        pass
    balls = [oracle.ball(members) for members in oracle.members]
    for event in np.random.default_rng(seed).normal(scale=3.0, size=(4, dimension)):
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


def test_its_memory_does_not_grow_with_events() -> None:
    features, classes = support(3, 32)
    density = make()
    density.fit(features, classes)
    before = density.nbytes
    for point in density.embed(np.tile(features, (9, 1))):
        density.absorb(0, point)
    assert density.nbytes == before
