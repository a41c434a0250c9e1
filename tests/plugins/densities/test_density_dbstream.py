"""DBSTREAM: a category is River's own object, however often it is put away; decisions are those of micro-clusters."""

import itertools
import math
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from speciate.errors import PluginError
from speciate.head import Head
from speciate.plugins import installed

river = pytest.importorskip("river.cluster")


def make(**options: Any) -> Any:
    provider = installed().provider("density", "dbstream")
    return provider.create(provider.options(**options))


def arrays(density: Any, category: int) -> tuple[np.ndarray, np.ndarray]:
    state = density.export_state().categories[category]
    return state["vectors"].numpy(), state["traits"].numpy()


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 1000), st.integers(1, 4), st.integers(1, 7), st.floats(0.01, 1.0), st.integers(0, 3))
def test_a_category_is_rivers_own_through_any_number_of_states(
    seed: int, dimension: int, interval: int, fading: float, kept: int
) -> None:
    """Fast fading, so that micro-clusters come, move and go; every so often the density is made anew from its state."""
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(8, dimension))
    options = {"radius": 1.0, "fading_factor": fading, "cleanup_interval": interval}
    density = make(**options)
    density.fit(features, np.repeat([0, 1], 4))
    model = river.DBSTREAM(clustering_threshold=1.0, fading_factor=fading, cleanup_interval=interval)
    events = rng.normal(size=(30, dimension))
    for event in features[:4]:
        model.learn_one(dict(enumerate(event.tolist())))
    for place, event in enumerate(events):
        if kept and place % kept == 0:
            state, density = density.export_state(), make(**options)
            density.import_state(state)
        before = {number: np.array([*one.center.values()]) for number, one in model.micro_clusters.items()}
        drift = density.absorb(0, event)
        model.learn_one(dict(enumerate(event.tolist())))
        centres, traits = arrays(density, 0)
        wanted = list(model.micro_clusters.values())
        assert centres.tolist() == [list(one.center.values()) for one in wanted]
        assert traits.tolist() == [[one.weight, 5 + place - one.last_update] for one in wanted]
        moved = {number: np.array([*one.center.values()]) for number, one in model.micro_clusters.items()}
        steps = [np.linalg.norm(moved[number] - before[number]) for number in moved if number in before]
        assert drift == pytest.approx(max(steps, default=0.0))
    assert density.counts.tolist() == [34, 4]


class Slow:
    """One category: micro-clusters that move by a Gaussian of the distance, back if they come too near each other."""

    def __init__(self, radius: float) -> None:
        self.radius = radius
        self.centres: list[np.ndarray] = []

    def away(self, event: np.ndarray) -> float:
        return min(float(np.linalg.norm(event - centre)) for centre in self.centres)

    def learn(self, event: np.ndarray) -> None:
        near = [k for k, one in enumerate(self.centres) if np.linalg.norm(event - one) < self.radius]
        if not near:
            self.centres.append(event)
        before = list(self.centres)
        for k in near:
            pull = math.exp(-np.square(event - before[k]).sum() / (2 * (self.radius / 3) ** 2))
            self.centres[k] = before[k] + pull * (event - before[k])
        for place, k in enumerate(near):
            for other in near[place + 1 :]:
                if np.linalg.norm(self.centres[k] - self.centres[other]) < self.radius:
                    self.centres[k], self.centres[other] = before[k], before[other]


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 1000), st.integers(1, 5), st.floats(0.5, 6.0))
def test_it_decides_by_the_nearest_micro_cluster(seed: int, dimension: int, radius: float) -> None:
    rng = np.random.default_rng(seed)
    centres = rng.normal(scale=3.0, size=(6, dimension))
    classes = np.repeat(np.arange(3), (6, 1, 4))
    support = centres[classes] + rng.normal(size=(11, dimension))
    events = centres[rng.integers(6, size=60)] + rng.normal(size=(60, dimension))
    known = [Slow(radius) for _ in range(3)]
    for number, event in zip(classes, support, strict=True):
        known[number].learn(event)
    head = Head.fit(support, classes, density="dbstream", policy="distance-threshold", threshold=0.0, radius=radius)
    for event, decision in zip(events, head.process(events), strict=True):
        best = min(range(len(known)), key=lambda number: known[number].away(event))
        birth = known[best].away(event) >= radius
        if birth:
            best = len(known)
            known.append(Slow(radius))
        known[best].learn(event)
        assert (decision.category, decision.birth) == (best, birth)


def test_the_rim_is_outside_and_the_first_of_equally_near_wins() -> None:
    head = Head.fit(
        np.array([[-4.0], [-4.5], [4.0], [4.5]]),
        [0, 0, 1, 1],
        density="dbstream",
        policy="distance-threshold",
        threshold=0.0,
        radius=0.5,
    )
    head.forget(0)
    head.forget(1)
    assert [one.birth for one in head.process([[0.0], [0.5], [0.25]])] == [True, True, False]
    assert head.step([0.25]).category == 2


def test_the_radius_is_the_distance_between_events_of_one_class() -> None:
    rng = np.random.default_rng(0)
    classes = np.repeat([0, 1], (400, 300))
    features = 9.0 * classes[:, None] + rng.normal(size=(700, 5))
    density = make()
    density.fit(features, classes)
    pairs = [np.square(a - b).sum() for a, b in itertools.pairwise(features[:400])]
    assert float(density.export_state().shared["radius"].numpy()) == pytest.approx(np.sqrt(np.mean(pairs)), rel=0.05)


def test_merging_keeps_the_micro_clusters_of_both_and_their_ages() -> None:
    density = make(radius=1.0)
    density.fit(np.array([[0.0], [0.1], [9.0], [20.0]]), np.array([0, 0, 1, 1]))
    density.absorb(1, np.array([20.0]))
    before = [arrays(density, 0), arrays(density, 1)]
    density.merge(1, 0)
    centres, traits = arrays(density, 0)
    assert sorted(centres[:, 0].tolist()) == sorted([*before[0][0][:, 0], *before[1][0][:, 0]])
    assert sorted(traits.tolist()) == sorted([*before[0][1].tolist(), *before[1][1].tolist()])
    assert density.counts.tolist() == [5]
    assert density.absorb(0, np.array([9.0])) == 0.0
    assert sorted(arrays(density, 0)[1][:, 1].tolist()) == sorted([1.0, *(traits[centres[:, 0] != 9.0, 1] + 1.0)])


def test_without_river_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "river"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "river", None)
    with pytest.raises(PluginError, match=r"speciate\[river\]"):
        Head.fit(np.eye(2), [0, 1], density="dbstream", policy="dp")
