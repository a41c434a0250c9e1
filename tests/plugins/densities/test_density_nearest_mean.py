"""Nearest mean: the laws of densities, and exactness against SciPy's Gaussians on data kept whole."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import multivariate_normal

from builtin import live, steps
from speciate.conformance import check_density
from speciate.plugins import installed
from speciate.stages import Density


def make() -> Density:
    provider = installed().provider("density", "nearest-mean")
    return provider.create(provider.options())


def support(seed: int, dimension: int, sizes: tuple[int, ...] = (5, 1, 3)) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    classes = np.repeat(np.arange(len(sizes)), sizes)
    centres = rng.normal(scale=3.0, size=(len(sizes), dimension))
    return centres[classes] + rng.normal(size=(len(classes), dimension)), classes


class Oracle:
    """The same density with every event kept, nothing computed before it is asked for."""

    def __init__(self, features: np.ndarray, classes: np.ndarray) -> None:
        self.members = [list(features[classes == k]) for k in range(classes.max() + 1)]
        means = [np.mean(members, axis=0) for members in self.members]
        squares = sum(
            ((np.array(members) - mean) ** 2).sum() for members, mean in zip(self.members, means, strict=True)
        )
        self.within = squares / ((len(features) - len(means)) * features.shape[1])
        self.centre = features.mean(axis=0)
        noise = self.within * np.mean([1 / len(members) for members in self.members])
        self.between = max(np.var(means, axis=0, ddof=1).mean() - noise, 1e-3 * self.within)

    def score(self, event: np.ndarray) -> list[float]:
        return [
            multivariate_normal.logpdf(
                event, np.mean(members, axis=0), self.within * (1 + 1 / len(members)) * np.eye(len(event))
            )
            for members in self.members
        ]

    def score_birth(self, event: np.ndarray) -> float:
        return multivariate_normal.logpdf(event, self.centre, (self.within + self.between) * np.eye(len(event)))


@pytest.mark.parametrize("dimension", [1, 2, 3, 7, 8, 64, 65, 768, 8192, 9001])
def test_it_keeps_the_laws(dimension: int) -> None:
    features, classes = support(dimension, dimension)
    events = np.random.default_rng(0).normal(scale=4.0, size=(11, dimension))
    check_density(make, features, classes, events)


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 1000), st.integers(1, 5), steps)
def test_it_is_the_gaussian_it_says_whatever_it_has_learnt(seed: int, dimension: int, script: list) -> None:
    features, classes = support(seed, dimension)
    density, oracle = make(), Oracle(features, classes)
    density.fit(features, classes)
    for _ in live(density, oracle.members, script, seed + 1):
        pass
    events = np.random.default_rng(seed).normal(scale=3.0, size=(4, dimension))
    for event in events:
        scores = density.score(event, range(len(oracle.members)))
        np.testing.assert_allclose(scores, oracle.score(event), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(density.score_birth(events), [oracle.score_birth(event) for event in events], rtol=1e-9)


def test_the_variance_between_classes_is_never_nothing() -> None:
    """Classes with one mean: what is left after the noise is taken off would be negative."""
    features = np.array([[-1.0], [1.0], [-1.0], [1.0]])
    density = make()
    density.fit(features, np.array([0, 0, 1, 1]))
    assert density.export_state().shared["between"].numpy() == pytest.approx(1e-3 * 2.0)


def test_a_single_class_stands_in_with_its_own_variance() -> None:
    density = make()
    density.fit(np.array([[0.0], [2.0]]), np.array([0, 0]))
    expected = multivariate_normal.logpdf([5.0], [1.0], [[2.0 + 2.0]])
    assert density.score_birth(np.array([[5.0]]))[0] == pytest.approx(expected)
