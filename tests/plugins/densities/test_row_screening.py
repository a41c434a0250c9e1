"""Screening by rows: within its blur of the scores, whatever is learnt while the batch goes on."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builtin import ROWED, dtypes, labelled, make
from speciate.head import SCREENED
from speciate_plugins.densities.row_screening import BLUR, FAR, RowScreening, segment_sums, square_norms, too_far

rowed = pytest.mark.parametrize("name", ROWED)


def made(name: str, dtype: str, seed: int, dimension: int, spread: float = 3.0) -> Any:
    """A density fitted to three classes: one of few events, one at d rows, one beyond them."""
    density = make(name, dtype=dtype)
    density.fit(*labelled(seed, dimension, (2, dimension, dimension + 3), spread))
    return density


def stream(density: Any, seed: int, count: int, spread: float = 3.0) -> np.ndarray:
    return density.embed(np.random.default_rng(seed + 1).normal(scale=spread, size=(count, density.dimension)))


def assert_within_blur(screening: RowScreening, density: Any, points: np.ndarray, place: int) -> None:
    got, wanted = screening.row(place), density.score(points[place], range(len(density.counts)))
    assert got.shape == wanted.shape
    impossible = np.isneginf(wanted)
    assert np.isneginf(got[impossible]).all()
    assert np.abs(got[~impossible] - wanted[~impossible]).max(initial=0.0) <= BLUR


def learn(density: Any, points: np.ndarray, choose: Callable[[int, int], int], every: int = 1) -> None:
    """Learn a batch into chosen categories, a new one where it is the next; look at (some) behind after each."""
    screening = density.screen(points)
    for place, point in enumerate(points):
        assert_within_blur(screening, density, points, place)
        if math.isinf(density.score_birth(point[np.newaxis])[0]):
            continue
        category = choose(place, len(density.counts))
        density.found(point) if category == len(density.counts) else density.absorb(category, point)
        screening.refresh(place, category)
        for later in range(place + 1, len(points), every):
            assert_within_blur(screening, density, points, later)


@rowed
@dtypes
@settings(deadline=None, max_examples=15)
@given(
    seed=st.integers(0, 2**32),
    world=st.tuples(st.sampled_from([1, 2, 5, 9]), st.sampled_from([0.5, 3.0, 1e3])),
    choices=st.lists(st.integers(0, 99), min_size=1, max_size=14),
)
def test_it_stays_within_its_blur_of_the_scores_whoever_learns(
    name: str, dtype: str, seed: int, world: tuple[int, float], choices: list[int]
) -> None:
    dimension, spread = world
    density = made(name, dtype, seed, dimension, spread)
    learn(density, stream(density, seed, len(choices), spread), lambda place, size: choices[place] % (size + 1))


@rowed
@dtypes
def test_rows_that_are_rewritten_in_mid_batch_are_multiplied_again(name: str, dtype: str) -> None:
    """Category 0 starts with two events and gets more than d: `lowrank` meets its rank on the way, `full` d rows."""
    density = made(name, dtype, 1, 6)
    before, points = density.rows.all_rewrites(), stream(density, 1, 12)
    learn(density, points, lambda place, _: place % 2)
    rewrites = [density.rows.rewrites(category) - before[category] for category in range(2)]
    if name in ("spherical", "mahalanobis"):
        assert len(density.rows) == 0
    else:
        assert 0 < rewrites[0] < rewrites[1] == 6, "one was rewritten from somewhere on, the other always"


@rowed
@dtypes
def test_a_category_born_in_mid_batch_is_screened_and_learns(name: str, dtype: str) -> None:
    density = made(name, dtype, 2, 4)
    learn(density, stream(density, 2, 16), lambda place, size: size if place in (0, 5) else size - 1)
    assert density.counts.tolist()[3:] == [5, 11]


@rowed
@dtypes
@pytest.mark.parametrize("far", [1e6, 1e10, 1e14, 1e16, 1e200])
def test_events_far_out_are_as_exact_or_impossible_and_hurt_no_other(name: str, dtype: str, far: float) -> None:
    density = made(name, dtype, 3, 4)
    points = stream(density, 3, 10)
    points[[2, 3, 7]] *= far
    learn(density, points, lambda place, size: place % (size + 1))


@rowed
@dtypes
def test_a_batch_longer_than_the_head_would_give_is_screened_too(name: str, dtype: str) -> None:
    density = made(name, dtype, 4, 5)
    points = stream(density, 4, SCREENED + 20)
    learn(density, points, lambda place, size: size if place % 16 == 0 else place % size, every=7)
    assert len(density.counts) == 3 + 6


@rowed
def test_what_the_caller_writes_to_a_row_shows_in_no_other(name: str) -> None:
    density = made(name, "float32", 5, 4)
    points = stream(density, 5, 8)
    screening = density.screen(points)
    for place in range(len(points)):
        assert_within_blur(screening, density, points, place)
        screening.row(place)[:] = np.nan


@rowed
@dtypes
def test_one_event_is_screened_as_among_others(name: str, dtype: str) -> None:
    """A batch of one takes another way."""
    density = made(name, dtype, 6, 7)
    points = stream(density, 6, 5)
    for place in range(len(points)):
        assert_within_blur(density.screen(points[place : place + 1]), density, points[place : place + 1], 0)


def test_an_empty_batch_is_screened() -> None:
    density = made("full", "float32", 7, 3)
    assert density.screen(np.empty((0, 3))).blur == BLUR


@settings(deadline=None)
@given(st.lists(st.integers(0, 4), max_size=12), st.integers(1, 5), st.sampled_from([np.float32, np.float64]))
def test_groups_are_summed_and_an_empty_one_is_nothing(sizes: list[int], width: int, dtype: type) -> None:
    bounds = np.cumsum([0, *sizes])
    values = np.arange(bounds[-1] * width, dtype=dtype).reshape(-1, width)
    sums = segment_sums(values, bounds)
    assert sums.dtype == dtype
    assert sums.shape == (len(sizes), width)
    for group, start, end in zip(sums, bounds[:-1], bounds[1:], strict=True):
        assert group.tolist() == values[start:end].sum(axis=0).tolist()


@pytest.mark.parametrize("bad", [1.01 * math.sqrt(FAR), 1e200, math.inf, math.nan])
def test_what_is_too_far_or_no_number_is_told(bad: float) -> None:
    points = np.array([[bad, 0.0], [math.sqrt(FAR) / 2.0, 1.0], [0.0, 0.0]])
    assert too_far(square_norms(points)).tolist() == [True, False, False]
    assert too_far(square_norms(points[0]))
