"""Mahalanobis: against SciPy's Gaussians around means of events kept whole."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import multivariate_normal

from builtin import live, steps
from speciate.conformance import check_density
from speciate.plugins import installed
from speciate_plugins.densities.prior import FALLBACK_KAPPA


def make(**options: Any) -> Any:
    provider = installed().provider("density", "mahalanobis")
    return provider.create(provider.options(**{"dtype": "float64", "shrinkage": 0.2, **options}))


def support(seed: int, dimension: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    classes = np.repeat(np.arange(3), (9, 2, 5))
    scale = np.geomspace(3.0, 0.3, dimension)
    return rng.normal(scale=3.0, size=(3, dimension))[classes] + scale * rng.normal(size=(16, dimension)), classes


class Oracle:
    """Means of what is kept, one covariance for everybody."""

    def __init__(self, features: np.ndarray, classes: np.ndarray, shrinkage: float = 0.2) -> None:
        groups = [features[classes == k] for k in range(classes.max() + 1)]
        residuals = np.concatenate([group - group.mean(axis=0) for group in groups])
        pooled = residuals.T @ residuals / (len(features) - len(groups))
        dimension = features.shape[1]
        self.within = (1 - shrinkage) * pooled + shrinkage * np.trace(pooled) / dimension * np.eye(dimension)
        self.centre = features.mean(axis=0)
        spread = sum(((group.mean(axis=0) - self.centre) ** 2).sum() for group in groups) / (len(groups) - 1)
        between = spread / np.trace(self.within) - np.mean([1 / len(group) for group in groups])
        self.birth = multivariate_normal(
            self.centre, (1 + (between if between > 0 else 1 / FALLBACK_KAPPA)) * self.within
        )
        self.members = [list(group) for group in groups]

    def score(self, event: np.ndarray) -> list[float]:
        return [multivariate_normal.logpdf(event, np.mean(one, axis=0), self.within) for one in self.members]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("dimension", [1, 2, 7, 65])
def test_it_keeps_the_laws(dimension: int, dtype: str) -> None:
    features, classes = support(dimension, dimension)
    events = np.random.default_rng(0).normal(scale=4.0, size=(11, dimension))
    for away in (0.0, 100.0):
        check_density(lambda: make(dtype=dtype), features + away, classes, events + away)


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 1000), st.integers(2, 7), steps)
def test_it_is_the_gaussian_it_says_whatever_it_has_learnt(seed: int, dimension: int, script: list) -> None:
    features, classes = support(seed, dimension)
    density, oracle = make(), Oracle(features, classes)
    density.fit(features, classes)
    for _ in live(density, oracle.members, script, seed + 1):
        pass
    for event in np.random.default_rng(seed).normal(scale=3.0, size=(4, dimension)):
        point = density.embed(event[None])
        got = density.score(point[0], range(len(oracle.members)))
        np.testing.assert_allclose(got, oracle.score(event), rtol=1e-8, atol=1e-8)
        np.testing.assert_allclose(density.score_birth(point), oracle.birth.logpdf(event), rtol=1e-8, atol=1e-8)


def test_the_log_density_at_no_distance_is_the_same_for_all() -> None:
    """So that a threshold on the log density is one on the distance, for a category of one event or of many."""
    features, classes = support(3, 6)
    density = make()
    density.fit(features, classes)
    density.found(density.embed(features[:1])[0])
    means = [features[classes == k].mean(axis=0) for k in range(3)] + [features[0]]
    at_home = [density.score(point, [k])[0] for k, point in enumerate(density.embed(np.array(means)))]
    wanted = -0.5 * np.linalg.slogdet(2 * np.pi * Oracle(features, classes).within)[1]
    np.testing.assert_allclose(at_home, wanted, rtol=1e-9)


def test_how_much_the_prior_counts_for_is_nothing_to_it() -> None:
    features, classes = support(3, 6)
    got = []
    for cap in (0.5, 50.0):
        density = make(n_cap=cap)
        density.fit(features, classes)
        got.append([density.score(point, [0, 1, 2]) for point in density.embed(features)])
    np.testing.assert_allclose(*got, rtol=1e-9)
