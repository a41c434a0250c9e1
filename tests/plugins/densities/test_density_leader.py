"""Leaders, with one radius and with adaptive ones: against events kept whole."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from speciate.head import Head
from speciate.plugins import installed


def stream(seed: int, dimension: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A support set of three classes and events of these and three more."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(scale=3.0, size=(6, dimension))
    classes = np.repeat(np.arange(3), (6, 1, 4))
    support = centres[classes] + rng.normal(size=(11, dimension))
    return support, classes, centres[rng.integers(6, size=60)] + rng.normal(size=(60, dimension))


def decided(head: Head, events: np.ndarray) -> list[tuple[int, bool]]:
    return [(one.category, one.birth) for one in head.process(events)]


def slow(members: list[list[np.ndarray]], events: np.ndarray, radii: Any, learn: Any) -> list[tuple[int, bool]]:
    """The rule with every event kept: the category in whose ball the event lies deepest, or a new one."""
    found = []
    for event in events:
        away = [float(np.linalg.norm(event - np.mean(own, axis=0))) for own in members]
        depth = [radii(number) - distance for number, distance in enumerate(away)]
        best = max(range(len(members)), key=lambda number: depth[number])
        birth = depth[best] < 0
        if birth:
            best = len(members)
            members.append([])
        members[best].append(event)
        learn(best, None if birth else away[best])
        found.append((best, birth))
    return found


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 1000), st.integers(1, 6), st.floats(0.5, 8.0))
def test_it_decides_as_leader_clustering_does(seed: int, dimension: int, radius: float) -> None:
    support, classes, events = stream(seed, dimension)
    head = Head.fit(support, classes, density="leader", policy="distance-threshold", threshold=-radius)
    members = [list(support[classes == k]) for k in range(3)]
    assert decided(head, events) == slow(members, events, lambda _: radius, lambda *_: None)


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 1000), st.integers(1, 6), st.floats(0.0, 4.0), st.floats(0.5, 20.0))
def test_it_decides_as_balls_do_whose_radius_follows_their_events(
    seed: int, dimension: int, width: float, strength: float
) -> None:
    support, classes, events = stream(seed, dimension)
    options = {"density": "diffgre", "policy": "distance-threshold", "threshold": 0.0}
    head = Head.fit(support, classes, **options, width=width, strength=strength)
    members = [list(support[classes == k]) for k in range(3)]
    came = [_left_out(own) for own in members]
    pooled = np.concatenate(came)
    alike = pooled.mean(), pooled.var()

    def radius(number: int) -> float:
        weights = np.array([strength, *np.ones(len(came[number]))])
        mean = weights @ [alike[0], *came[number]] / weights.sum()
        spread = strength * (alike[1] + (alike[0] - mean) ** 2) + sum((one - mean) ** 2 for one in came[number])
        return float(mean + width * np.sqrt(spread / weights.sum()))

    def learn(number: int, away: float | None) -> None:
        if away is None:
            came.append([])
        else:
            came[number].append(away)

    assert decided(head, events) == slow(members, events, radius, learn)


def _left_out(own: list[np.ndarray]) -> list[float]:
    """How far each is from the mean of the others."""
    others = [[one for place, one in enumerate(own) if place != left] for left in range(len(own))]
    return [float(np.linalg.norm(one - np.mean(rest, axis=0))) for one, rest in zip(own, others, strict=True) if rest]


def test_the_rim_belongs_to_the_ball_and_the_first_of_equal_leaders_wins() -> None:
    support, classes = np.array([[-4.0], [-2.0], [2.0], [4.0]]), np.array([0, 0, 1, 1])
    head = Head.fit(support, classes, density="leader", policy="distance-threshold", threshold=-3.0)
    assert decided(head, np.array([[0.0]])) == [(0, False)]
    assert decided(head, np.array([[6.5]])) == [(2, True)]


def test_it_says_how_far_a_leader_moved() -> None:
    support, classes = np.array([[-4.0], [-2.0], [2.0], [4.0]]), np.array([0, 0, 1, 1])
    head = Head.fit(support, classes, density="leader", policy="distance-threshold", threshold=-3.0)
    assert head.step([0.0]).drift == pytest.approx(1.0)


def test_a_birth_scores_as_an_event_at_the_distance_most_support_keeps() -> None:
    provider = installed().provider("density", "leader")
    density = provider.create(provider.options())
    support = np.array([[-2.0], [2.0], [10.0], [18.0]])
    density.fit(support, np.array([0, 0, 1, 1]))
    wanted = -np.quantile([4.0, 4.0, 8.0, 8.0], 0.95)
    assert density.score_birth(np.array([[3.0], [4.0]])).tolist() == [wanted, wanted]


@pytest.mark.parametrize("name", ["leader", "diffgre"])
def test_merged_leaders_are_the_mean_of_all_their_events(name: str) -> None:
    support, classes, events = stream(0, 4)
    head = Head.fit(support, classes, density=name, policy="distance-threshold", threshold=-1e9)
    head.merge(2, 0)
    state = head.state().categories[1]
    mean = support[classes != 1].mean(axis=0)
    np.testing.assert_allclose(state.arrays["vectors"].numpy()[0], mean)
    assert state.count == 10
    assert len(head.process(events)) == 60
