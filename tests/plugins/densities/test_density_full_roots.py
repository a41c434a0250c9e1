"""Categories of many more events than features: as many rows as features, a root of the inverse, and still exact."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builtin import dtypes, fit, labelled, live, make, steps
from oracle import Oracle
from speciate import Head
from speciate.errors import StateMismatchError
from speciate_plugins.densities.row_screening import BLUR
from speciate_schemas import Array, encode

TOLERANCE = {"float64": 1e-9, "float32": 1e-2}
"""In nats, after a few hundred events, far wider than the prior says."""


def fitted(seed: int, dimension: int, dtype: str = "float64") -> tuple[Any, Oracle]:
    """A density with one class beyond its dimension, one of one event and one of two, and the oracle of it."""
    features, classes = labelled(seed, dimension, (dimension + 5, 1, 2))
    density = make("full", dtype=dtype)
    density.fit(features, classes)
    return density, Oracle(density.export_state().shared, features, classes)


def assert_roots(density: Any) -> None:
    for category in range(len(density.counts)):
        rows = density.rows.of(category)
        assert len(rows) <= density.dimension
        if density.counts[category] > density.dimension:
            assert density.roots[category] == (len(rows) == density.dimension)


def assert_exact(density: Any, oracle: Oracle, events: np.ndarray, tolerance: float = 1e-9) -> None:
    for event, point in zip(events, density.embed(events), strict=True):
        scores = density.score(point, range(len(density.counts)))
        np.testing.assert_allclose(scores, oracle.score(event), rtol=0, atol=tolerance)


def absorb(density: Any, oracle: Oracle, category: int, events: np.ndarray) -> None:
    for event, point in zip(events, density.embed(events), strict=True):
        density.absorb(category, point)
        oracle.members[category].append(event)
        assert_roots(density)
    oracle.predictives[category] = oracle.predictive(oracle.members[category])


@dtypes
@pytest.mark.parametrize("dimension", [1, 2, 3, 8, 40])
def test_a_category_of_many_events_is_a_root_and_stays_exact(dimension: int, dtype: str) -> None:
    density, oracle = fitted(dimension, dimension, dtype)
    events = np.random.default_rng(1).normal(scale=3.0, size=(400, dimension))
    absorb(density, oracle, 1, events[:300])
    absorb(density, oracle, 0, events[300:])
    assert [density.rows.count(category) for category in range(2)] == [dimension, dimension]
    assert density.counts[1] == 301
    assert_exact(density, oracle, events[::50], TOLERANCE[dtype])
    assert density.verify().max() < TOLERANCE[dtype]


@pytest.mark.parametrize("dimension", [2, 8])
def test_single_precision_stays_near_through_a_long_life(dimension: int) -> None:
    """Nearer than the blur of a screening, which is "more than rounding does to most scores"."""
    density, oracle = fitted(dimension, dimension, "float32")
    events = np.random.default_rng(1).normal(scale=3.0, size=(5000, dimension))
    for point in density.embed(events):
        density.absorb(1, point)
    oracle.predictives[1] = oracle.predictive([*oracle.members[1], *events])
    assert_exact(density, oracle, events[:40], BLUR)


@dtypes
@pytest.mark.parametrize("dimension", [1, 2, 8])
@pytest.mark.parametrize(("keep", "gone"), [(0, 1), (1, 0)])
def test_two_of_them_merge_into_one_and_it_learns_on(dimension: int, keep: int, gone: int, dtype: str) -> None:
    density, oracle = fitted(dimension, dimension, dtype)
    events = np.random.default_rng(2).normal(scale=3.0, size=(240, dimension))
    absorb(density, oracle, 0, events[:100])
    absorb(density, oracle, 1, events[100:200])
    density.merge(keep, gone)
    oracle.members[keep] += oracle.members[gone]
    oracle.predictives[keep] = oracle.predictive(oracle.members[keep])
    del oracle.members[gone], oracle.predictives[gone]
    assert density.rows.count(0) == dimension
    assert_roots(density)
    assert_exact(density, oracle, events[::30], TOLERANCE[dtype])
    absorb(density, oracle, 0, events[200:])
    assert_exact(density, oracle, events[::30], TOLERANCE[dtype])


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 2**32), st.integers(1, 4), steps)
def test_whatever_it_has_learnt_rows_are_few_and_a_root_where_full(seed: int, dimension: int, script: list) -> None:
    density, oracle = fitted(seed, dimension)
    for _ in live(density, oracle.members, script, seed):
        assert_roots(density)
    oracle.predictives = [oracle.predictive(members) for members in oracle.members]
    assert_exact(density, oracle, np.random.default_rng(seed).normal(scale=3.0, size=(3, dimension)), 1e-9)


@dtypes
@pytest.mark.parametrize("dimension", [1, 2, 8])
def test_saved_and_loaded_they_learn_on_bit_for_bit(tmp_path: Path, dimension: int, dtype: str) -> None:
    features, classes = labelled(3, dimension, (4, 4), spread=50.0)
    rng = np.random.default_rng(4)
    events = features[rng.integers(8, size=300)] + rng.normal(size=(300, dimension))
    head = fit("full", features, classes, dtype=dtype)
    head.process(events[:200])
    assert max(head._density.rows.count(category) for category in range(2)) == dimension
    head.save(tmp_path / "head")
    loaded = Head.load(tmp_path / "head")
    for one in (head, loaded):
        assert_roots(one._density)
    assert encode(loaded.process(events[200:])) == encode(head.process(events[200:]))
    for one in (head, loaded):
        one.merge(1, 0)
        assert_roots(one._density)
    assert encode(loaded.process(events)) == encode(head.process(events))
    assert encode(loaded.state()) == encode(head.state())
    assert loaded.verify() == head.verify()


@pytest.mark.parametrize(
    ("array", "value"),
    [
        ("rows", np.zeros((4, 3))),
        ("root", np.bool_(True)),
        ("count", np.int64(0)),
        ("weight", np.float64(-1.0)),
        ("weight", np.float64(99.0)),
        ("trace", np.float64(-1.0)),
        ("mean", np.array([0.0, np.nan, 0.0])),
    ],
)
def test_a_state_that_cannot_be_is_refused(array: str, value: Any) -> None:
    density, _ = fitted(0, 3)
    state = density.export_state()
    state.categories[1][array] = Array.of(value)
    with pytest.raises(StateMismatchError, match="it is not a state of this density"):
        make("full").import_state(state)
