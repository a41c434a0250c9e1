"""Every density under every policy: a batch is its events one by one, and the head can say how exact it is."""

from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builtin import POLICIES, densities, dtypes, fit, labelled, make, policies
from speciate.head import SCREENED, Head
from speciate.plugins import installed
from speciate_schemas import HeadState, encode

EVENTS = 2 * SCREENED + 22
worlds = pytest.mark.parametrize("dimension", [3, 32])


def test_none_is_left_out() -> None:
    assert set(POLICIES) == set(installed().names("policy"))


def stream(dimension: int, count: int = EVENTS, seed: int = 4) -> np.ndarray:
    """Events of the six classes of the support and of four others: in turn, then one after another."""
    rng = np.random.default_rng(seed)
    features, classes = world(dimension)
    centres = [features[classes == k].mean(axis=0) for k in range(6)]
    centres = np.concatenate((centres, rng.normal(scale=15.0, size=(4, dimension))))
    places = rng.integers(10, size=count)
    places[count // 2 :].sort()
    return centres[places] + np.geomspace(3.0, 0.3, dimension) * rng.normal(size=(count, dimension))


def world(dimension: int) -> tuple[np.ndarray, np.ndarray]:
    return labelled(3, dimension, (9, 7, 8, 12, 6, 9), spread=15.0)


@cache
def stepped(density: str, policy: str, dimension: int) -> tuple[HeadState, bytes, bytes]:
    """The state of a fitted head; and decisions and state of one that took the events one by one."""
    options: dict[str, Any] = {"alpha": 1e-3} if policy == "dp" else {}
    head = fit(density, *world(dimension), policy=policy, **options)
    state = head.state()
    decisions = [head.step(event) for event in stream(dimension)]
    births = sum(decision.birth for decision in decisions)
    assert 0 < births < EVENTS, "a stream without births, or of nothing else, shows little"
    assert all((decision.drift is None) == decision.birth for decision in decisions)
    return state, encode(decisions), encode(head.state())


def batched(density: str, policy: str, dimension: int, cuts: list[int]) -> tuple[bytes, bytes]:
    head = Head.from_state(stepped(density, policy, dimension)[0])
    parts = np.split(stream(dimension), sorted(cuts))
    return encode([decision for part in parts for decision in head.process(part)]), encode(head.state())


@densities
@policies
@worlds
def test_more_events_than_are_screened_at_once_are_decided_as_one_by_one(
    density: str, policy: str, dimension: int
) -> None:
    assert batched(density, policy, dimension, []) == stepped(density, policy, dimension)[1:]


@densities
@policies
@worlds
@settings(deadline=None, max_examples=4)
@given(cuts=st.lists(st.integers(0, EVENTS), min_size=1, max_size=8))
def test_any_split_is_decided_as_one_by_one(density: str, policy: str, dimension: int, cuts: list[int]) -> None:
    assert batched(density, policy, dimension, cuts) == stepped(density, policy, dimension)[1:]


@densities
@policies
@pytest.mark.parametrize("dimension", [3, 33, 128])
def test_columns_in_memory_are_decided_as_rows(density: str, policy: str, dimension: int) -> None:
    """A transposed matrix, or one out of a table by columns, holds the same events."""
    state = fit(density, *world(dimension), policy=policy).state()
    events = stream(dimension, EVENTS)
    by_columns = Head.from_state(state).process(np.asfortranarray(events))
    assert encode(by_columns) == encode(Head.from_state(state).process(events))


def life(density: str, dtype: str) -> Head:
    """Some hundred events, a merge and a removal."""
    head = fit(density, *world(5), dtype=dtype, alpha=1e-3)
    head.process(stream(5, 300))
    head.merge(0, 1)
    head.forget(3)
    head.process(stream(5, 50, seed=5))
    return head


@densities
@dtypes
def test_it_says_of_each_category_by_its_number_how_exact_it_is_and_changes_nothing(density: str, dtype: str) -> None:
    head = life(density, dtype)
    before = encode(head.state())
    verified = head.verify()
    assert list(verified) == [category.id for category in head.categories]
    assert {1, 3}.isdisjoint(verified)
    assert all(0.0 <= off < (1e-9 if dtype == "float64" else 1e-2) for off in verified.values())
    assert encode(head.state()) == before
    assert head.verify() == verified


@pytest.mark.parametrize("density", ["full", "lowrank", "lowrank in features"])
@dtypes
def test_rows_that_are_not_what_was_learnt_show_in_their_category_alone(density: str, dtype: str) -> None:
    head = life(density, dtype)
    before, spoilt = head.verify(), head._density
    spoilt.rows.rewrite(2, 0.99 * spoilt.rows.of(2))
    after, number = head.verify(), head.categories[2].id
    assert after[number] > 0.02 > before[number]
    assert {k: off for k, off in after.items() if k != number} == {k: off for k, off in before.items() if k != number}


def test_a_spherical_category_of_another_width_than_its_determinant_says_shows() -> None:
    head = life("spherical", "float64")
    number = head.categories[2].id
    head._density._dropped[2] *= 1.1
    assert head.verify()[number] > 0.1


@densities
def test_without_categories_there_is_nothing_to_verify(density: str) -> None:
    assert make(density).verify().tolist() == []
