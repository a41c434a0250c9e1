"""SynC's visual rule: against cosines computed one at a time."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from speciate.head import Head
from speciate.plugins import installed


def fit(support: np.ndarray, classes: np.ndarray, **options: Any) -> Head:
    return Head.fit(support, classes, density="sync", policy="distance-threshold", threshold=0.0, **options)


def cosine(one: np.ndarray, other: np.ndarray) -> float:
    return float(one @ other / (np.linalg.norm(one) * np.linalg.norm(other)))


def slow(support: np.ndarray, classes: np.ndarray, events: np.ndarray, width: float) -> list[tuple[int, bool]]:
    prototypes, thresholds = [], []
    for number in range(classes.max() + 1):
        own = support[classes == number] / np.linalg.norm(support[classes == number], axis=1, keepdims=True)
        prototypes.append(own.mean(axis=0))
        cosines = [cosine(one, prototypes[-1]) for one in own]
        thresholds.append(np.mean(cosines) - width * np.std(cosines))
    found = []
    for event in events:
        leads = [cosine(event, one) - low for one, low in zip(prototypes, thresholds, strict=True)]
        best = int(np.argmax(leads))
        found.append((best, False) if leads[best] >= 0 else (len(prototypes), True))
        if found[-1][1]:
            prototypes.append(event)
            thresholds.append(thresholds[best])
    return found


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 1000), st.integers(2, 8), st.floats(0.0, 4.0))
def test_it_decides_as_cosines_and_thresholds_do(seed: int, dimension: int, width: float) -> None:
    rng = np.random.default_rng(seed)
    centres = rng.normal(scale=3.0, size=(6, dimension))
    classes = np.repeat(np.arange(3), (6, 2, 4))
    support = centres[classes] + rng.normal(size=(12, dimension))
    events = centres[rng.integers(6, size=60)] + rng.normal(size=(60, dimension))
    decisions = fit(support, classes, width=width).process(events)
    assert [(one.category, one.birth) for one in decisions] == slow(support, classes, events, width)


def test_a_hand_computed_case() -> None:
    """Cosines of 0.8 to the prototypes, no spread: τ = 0.8, so (0.6, 0.8), which has 0.8 to the second, is in."""
    support = np.array([[4.0, 3.0], [4.0, -3.0], [3.0, 4.0], [-3.0, 4.0]])
    head = fit(support, np.array([0, 0, 1, 1]))
    density = head._density
    np.testing.assert_allclose(density.score(density.embed(np.array([[5.0, 0.0]]))[0], [0, 1]), [0.2, -0.8])
    assert not head.step([0.1, 9.0]).birth
    born = head.step([-1.0, -1.0])
    assert born.birth
    assert head.step([-2.0, -2.1]).category == born.category


def test_a_new_category_inherits_the_threshold_of_the_best() -> None:
    rng = np.random.default_rng(0)
    classes = np.repeat([0, 1], 20)
    support = (
        np.array([[9.0, 0.0, 0.0], [0.0, 9.0, 0.0]])[classes] + rng.normal(size=(40, 3)) * (1 + 2 * classes)[:, None]
    )
    head = fit(support, classes)
    thresholds = [float(one.arrays["traits"].numpy()[0, 0]) for one in head.state().categories]
    assert thresholds[0] != thresholds[1]
    assert head.step([1.0, -9.0, 1.0]).birth
    event = np.array([1.0, -9.0, 1.0])
    leads = [cosine(event, support[classes == k].mean(axis=0)) - thresholds[k] for k in (0, 1)]
    assert float(head.state().categories[2].arrays["traits"].numpy()[0, 0]) == thresholds[int(np.argmax(leads))]


def test_a_class_of_one_sample_takes_the_mean_threshold_of_the_others() -> None:
    rng = np.random.default_rng(0)
    classes = np.array([0, 0, 0, 1, 2, 2, 2])
    head = fit(rng.normal(size=(7, 4)) + 3.0 * np.eye(4)[classes], classes)
    first, alone, last = (float(one.arrays["traits"].numpy()[0, 0]) for one in head.state().categories)
    assert alone == pytest.approx((first + last) / 2)


def test_zeros_have_no_direction() -> None:
    provider = installed().provider("density", "sync")
    density = provider.create(provider.options())
    density.fit(np.array([[1.0, 0.0], [2.0, 0.1]]), np.array([0, 0]))
    points = density.embed(np.zeros((1, 2)))
    assert points.tolist() == [[0.0, 0.0]]
    assert np.isfinite(density.score(points[0], [0])).all()


@given(st.floats(1e-300, 1e300))
def test_lengths_are_nothing_to_it(length: float) -> None:
    provider = installed().provider("density", "sync")
    density = provider.create(provider.options())
    density.fit(np.array([[1.0, 0.0], [2.0, 0.1]]), np.array([0, 0]))
    np.testing.assert_allclose(density.embed(np.array([[3.0, 4.0]]) * length), [[0.6, 0.8]], rtol=1e-12)
