"""What holds for every density: what drift means, what is impossible, and a way out of every input at the edge."""

import math
import time
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from builtin import DENSITIES, ROWED, RULES, densities, dtypes, fit, labelled, make, rowed
from speciate import Head
from speciate.errors import FeatureError, StateMismatchError, SupportError
from speciate.plugins import installed
from speciate.stages import DensityState
from speciate_plugins.densities.prior import FALLBACK_KAPPA
from speciate_schemas import Array, encode


def test_none_is_left_out() -> None:
    assert {chosen["density"] for chosen in DENSITIES.values()} | RULES == set(installed().names("density"))


def moved(density: str, shared: dict[str, Array], before: list, after: list) -> float:
    """How far the mean of a category moved, by its raw points: in standard deviations within a class, or in features.

    In the axes of the features the deviation within a class is the same in all directions.
    """
    if density == "nearest-mean":
        return float(np.linalg.norm(np.mean(after, axis=0) - np.mean(before, axis=0)))
    root = np.linalg.inv(shared["whiten"].numpy())
    within = root @ root.T / float(shared["n0"].numpy())
    if density in ("spherical", "lowrank in features"):
        within = np.trace(within) / len(within) * np.eye(len(within))
    kappa = 0.0 if density == "mahalanobis" else float(shared["kappa0"].numpy())
    old, new = (
        (kappa * shared["mean"].numpy() + np.sum(members, axis=0)) / (kappa + len(members))
        for members in (before, after)
    )
    return math.sqrt((new - old) @ np.linalg.solve(within, new - old))


@densities
@settings(deadline=None, max_examples=20)
@given(seed=st.integers(0, 2**32), dimension=st.integers(1, 7), choices=st.lists(st.integers(0, 9), max_size=12))
def test_the_drift_is_how_far_the_mean_of_the_raw_points_moved(
    density: str, seed: int, dimension: int, choices: list[int]
) -> None:
    features, classes = labelled(seed, dimension)
    one = make(density)
    one.fit(features, classes)
    shared = one.export_state().shared
    members = [list(features[classes == k]) for k in range(3)]
    events = np.random.default_rng(seed + 1).normal(scale=4.0, size=(len(choices), dimension))
    for event, point, choice in zip(events, one.embed(events), choices, strict=True):
        place = choice % (len(members) + 1)
        if place == len(members):
            one.found(point)
            members.append([event])
            continue
        drift = one.absorb(place, point)
        assert drift == pytest.approx(moved(density, shared, members[place], [*members[place], event]), rel=1e-7)
        members[place].append(event)


@rowed
def test_frozen_nothing_moves_and_events_are_counted(density: str) -> None:
    features, classes = labelled(3, 12)
    one = make(density, frozen=True)
    one.fit(features, classes)
    point = one.embed(features[:1])[0]
    before = one.score(point, [0, 1, 2]).tobytes()
    assert one.absorb(0, point) == 0.0
    assert one.score(point, [0, 1, 2]).tobytes() == before
    assert one.counts.tolist() == [10, 2, 5]


@densities
def test_what_it_has_learnt_is_forgotten_with_its_category(density: str) -> None:
    features, classes = labelled(5, 4)
    one = make(density)
    one.fit(features, classes)
    before = encode(one.export_state())
    points = one.embed(np.full((5, 4), 1e4) + np.eye(5, 4))
    one.found(points[0])
    for point in points[1:]:
        one.absorb(3, point)
    one.remove(3)
    assert encode(one.export_state()) == before


@densities
@dtypes
@settings(deadline=None, max_examples=20)
@given(event=npst.arrays(np.float64, 3, elements=st.sampled_from([1e160, -1e200, 1e308, -1e308, 0.0])))
def test_what_lies_too_far_out_is_impossible_and_never_nan(density: str, dtype: str, event: np.ndarray) -> None:
    features, classes = labelled(0, 3)
    one = make(density, dtype=dtype)
    one.fit(features, classes)
    points = one.embed(np.array([event, features[0]]))
    far = np.abs(event).max() > 0.0
    for scores in (
        one.score(points[0], range(3)),
        one.score(points[0], [2, 0]),
        one.screen(points).row(0),
        one.screen(points[:1]).row(0),
        one.score_birth(points)[:1],
    ):
        assert (np.isneginf(scores) if far else np.isfinite(scores)).all()
    assert np.isfinite(one.score(points[1], range(3))).all()


@densities
def test_a_state_that_is_not_its_own_is_refused(density: str) -> None:
    with pytest.raises(StateMismatchError, match=r"the state has no array .*: it is not a "):
        make(density).import_state(DensityState({}, []))


ARRAYS = {"mean": np.zeros(5), "rows": np.zeros((2, 5)), "whiten": np.eye(5), "centre": np.zeros(5)}


@pytest.mark.parametrize(
    ("density", "array"),
    [*product(ROWED, ["mean", "rows", "whiten"]), ("nearest-mean", "mean"), ("nearest-mean", "centre")],
)
def test_a_state_whose_arrays_have_other_dimensions_is_refused(density: str, array: str) -> None:
    """A frame's checksum tells damage; a state made elsewhere must be refused before anything is decided by it."""
    features, classes = labelled(3, 4)
    one = make(density)
    one.fit(features, classes)
    state = one.export_state()
    where = state.categories[1] if array in state.categories[1] else state.shared
    assert array in where
    where[array] = Array.of(ARRAYS[array])
    # Where there are two of another length than all others, those are what is odd.
    with pytest.raises(StateMismatchError, match="mean" if array == "centre" else array):
        make(density).import_state(state)


# Inputs at the edge: each has a fallback or an error that says what to do.


@densities
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_events_and_support_that_are_no_numbers_are_refused(density: str, bad: float) -> None:
    features, classes = labelled(0, 3)
    head = fit(density, features, classes)
    with pytest.raises(FeatureError, match=r"event 1 has (nan|inf|-inf) at feature 2: clean or drop it"):
        head.process([[0.0, 0.0, 0.0], [0.0, 0.0, bad]])
    assert head.version == 0
    features[4, 1] = bad
    with pytest.raises(SupportError, match="support row 4 holds NaN or infinity: clean or drop it"):
        fit(density, features, classes)


@densities
@pytest.mark.parametrize("event", [[0.0, 0.0], [0.0, 0.0, 0.0, 0.0], [], 1.0])
def test_events_of_another_dimension_are_refused(density: str, event: Any) -> None:
    head = fit(density, *labelled(0, 3))
    with pytest.raises(FeatureError, match=r"this head takes \(N, 3\)"):
        head.step(event)
    assert head.version == 0


@densities
@pytest.mark.parametrize("features", [[], np.empty((0, 3)), np.empty((3, 0))])
def test_an_empty_support_is_refused(density: str, features: Any) -> None:
    with pytest.raises(SupportError, match=r"give a matrix \(N, d\) with N, d ≥ 1"):
        fit(density, features, ["a"] * len(features))


@densities
def test_one_class_is_enough(density: str) -> None:
    features, classes = labelled(0, 3, (9,))
    head = fit(density, features, classes)
    assert float(head.state().shared.get("kappa0", Array.of(FALLBACK_KAPPA)).numpy()) == FALLBACK_KAPPA
    assert head.step(features.mean(axis=0)).category == 0
    assert head.step(features.mean(axis=0) + 1e4)[:2] == (1, True)


@densities
@pytest.mark.parametrize(
    "features",
    [[[1.0, 5.0], [2.0, 3.0]], [[1.0, 1.0]] * 4, [[1.0, 5.0], [1.0, 5.0], [2.0, 3.0], [2.0, 3.0]]],
    ids=["one a class", "constant", "equal in a class"],
)
def test_a_support_without_spread_is_refused(density: str, features: list) -> None:
    with pytest.raises(SupportError, match="give at least one class two different samples"):
        fit(density, features, np.arange(len(features)) // (len(features) // 2))


@densities
@pytest.mark.parametrize("size", [1e-200, 1e200])
def test_a_support_whose_squares_are_no_numbers_is_refused(density: str, size: float) -> None:
    features, classes = labelled(0, 3)
    with pytest.raises(SupportError, match="support"):
        fit(density, size * features, classes)


@densities
@dtypes
def test_some_classes_of_one_sample_are_fine(density: str, dtype: str) -> None:
    features, classes = labelled(0, 4, (1, 1, 2, 1), spread=30.0)
    decisions = fit(density, features, classes, dtype=dtype).process(features)
    assert [one.category for one in decisions] == classes.tolist()
    assert all(math.isfinite(one.log_evidence) for one in decisions)


@densities
@dtypes
def test_a_constant_feature_is_fine(density: str, dtype: str) -> None:
    features, classes = labelled(0, 4, (9, 8, 7), spread=30.0)
    features[:, 2] = 5.0
    decisions = fit(density, features, classes, dtype=dtype).process(features)
    assert [one.category for one in decisions] == classes.tolist()
    assert all(math.isfinite(one.log_evidence) for one in decisions)


@densities
@dtypes
def test_duplicates_are_learnt_as_any_other(density: str, dtype: str) -> None:
    features, classes = labelled(0, 3, (4, 4), spread=30.0)
    features[classes == 1] = features[-1]
    head = fit(density, features, classes, dtype=dtype)
    decisions = head.process(np.repeat(features[[0, -1]], 200, axis=0))
    assert [one.category for one in decisions] == [0] * 200 + [1] * 200
    assert all(math.isfinite(one.log_evidence) for one in decisions)
    drifts = [one.drift for one in decisions[:200]]
    assert drifts == sorted(drifts, reverse=True), "the same event over and over moves a mean less and less"


@densities
@dtypes
@pytest.mark.parametrize(("dimension", "sizes"), [(20, (3, 3, 3)), (10, (4, 4, 4)), (64, (2,))])
def test_fewer_samples_than_features_are_enough(
    density: str, dtype: str, dimension: int, sizes: tuple[int, ...]
) -> None:
    features, classes = labelled(1, dimension, sizes, spread=30.0)
    decisions = fit(density, features, classes, dtype=dtype).process(features)
    assert [one.category for one in decisions] == classes.tolist()
    assert all(math.isfinite(one.log_evidence) for one in decisions)


@densities
@dtypes
def test_one_feature_is_enough(density: str, dtype: str) -> None:
    features, classes = labelled(0, 1, (5, 6), spread=100.0)
    head = fit(density, features, classes, dtype=dtype)
    decisions = head.process(np.concatenate((features, [[1e6], [1e6 + 1.0]])))
    assert [one.category for one in decisions] == [*classes.tolist(), 2, 2]
    assert all(math.isfinite(one.log_evidence) for one in decisions)


@densities
def test_ten_thousand_categories(density: str) -> None:
    rng = np.random.default_rng(0)
    centres = rng.normal(scale=1e4, size=(10_000, 4))
    began = time.perf_counter()
    one = make(density)
    one.fit(centres[np.r_[:10_000, :50]] + rng.normal(size=(10_050, 4)), np.r_[:10_000, :50])
    wanted = rng.integers(10_000, size=80)
    points = one.embed(centres[wanted])
    screening = one.screen(points)
    for place, (point, category) in enumerate(zip(points, wanted.tolist(), strict=True)):
        assert screening.row(place).argmax() == category
        one.absorb(category, point)
        screening.refresh(place, category)
    one.merge(0, 9_999)
    one.remove(5_000)
    assert len(one.counts) == 9_998
    assert one.counts.sum() == 10_050 + 80 - 1 - (wanted == 5_000).sum()
    assert one.nbytes < 10_000 * 1_000
    assert time.perf_counter() - began < 60


@densities
@dtypes
def test_saved_and_loaded_it_goes_on_bit_for_bit(tmp_path: Any, density: str, dtype: str) -> None:
    features, classes = labelled(0, 5)
    rng = np.random.default_rng(1)
    events = rng.normal(scale=9.0, size=(6, 5))[rng.integers(6, size=80)] + rng.normal(size=(80, 5))
    head = fit(density, features, classes, dtype=dtype, alpha=1.0)
    head.process(events[:40])
    head.save(tmp_path / "head")
    loaded = Head.load(tmp_path / "head")
    assert encode(loaded.process(events[40:])) == encode(head.process(events[40:]))
    assert encode(loaded.state()) == encode(head.state())
