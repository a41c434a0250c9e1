"""Bins, false births and growth, against a walk through the stream."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from labellings import CLASSES, class_orders, masks

from speciate.evaluate.temporal import false_birth_rate, false_births, growth, temporal_bins

NAN = math.nan

values = st.floats(0, 1e6) | st.just(NAN)
walks = st.lists(st.tuples(st.booleans(), st.integers(0, CLASSES - 1), values, values), min_size=1, max_size=60)


def columns(walk):
    birth, truth, drift, margin = zip(*walk, strict=True)
    return np.array(birth), np.array(truth), np.array(drift), np.array(margin)


def walk_through(birth, truth, known):
    """Event by event, as the definition reads."""
    represented = {place for place, is_known in enumerate(known) if is_known}
    false, categories, classes = [], [len(represented)], [len(represented)]
    for born, name in zip(birth.tolist(), truth.tolist(), strict=True):
        false.append(born and name in represented)
        represented.add(name)
        categories.append(categories[-1] + born)
        classes.append(len(represented))
    return false, categories, classes


@given(walks, masks)
def test_a_birth_is_false_if_its_class_was_there(walk, known):
    birth, truth, _, _ = columns(walk)
    false = false_births(birth, truth, known)
    expected, _, _ = walk_through(birth, truth, known)
    assert false.tolist() == expected
    assert false_birth_rate(false) == pytest.approx(sum(expected) / len(walk))


@given(walks, masks, class_orders)
def test_what_classes_are_called_does_not_matter(walk, known, order):
    birth, truth, _, _ = columns(walk)
    elsewhere = np.empty_like(known)
    elsewhere[order] = known
    assert false_births(birth, order[truth], elsewhere).tolist() == false_births(birth, truth, known).tolist()
    assert growth(birth, order[truth], elsewhere) == growth(birth, truth, known)


@given(walks, masks)
def test_bins_add_up_to_the_whole(walk, known):
    birth, truth, drift, margin = columns(walk)
    false = false_births(birth, truth, known)
    bins = temporal_bins(birth, false, drift, margin)
    assert len(bins) == 5
    sizes = [one.events for one in bins]
    assert sum(sizes) == len(walk)
    assert max(sizes) - min(sizes) <= 1
    assert sum(one.births for one in bins) == birth.sum()
    assert sum(one.false_birth_rate * one.events for one in bins if one.events) == pytest.approx(false.sum())
    assert [one.events for one in bins if one.false_birth_rate is None] == [0] * sizes.count(0)


@given(walks)
def test_means_are_over_what_is_there(walk):
    birth, _, drift, margin = columns(walk)
    start = 0
    for one in temporal_bins(birth, birth, drift, margin):
        part = slice(start, start + one.events)
        start += one.events
        for mean, column in ((one.mean_drift, drift), (one.mean_margin, margin)):
            there = [value for value in column[part].tolist() if not math.isnan(value)]
            assert mean == (pytest.approx(math.fsum(there) / len(there)) if there else None)


@given(walks, masks)
def test_growth_counts_births_and_classes_shown(walk, known):
    birth, truth, _, _ = columns(walk)
    told = growth(birth, truth, known)
    _, categories, classes = walk_through(birth, truth, known)
    assert told.events == list(range(len(walk) + 1))
    assert told.categories == categories
    assert told.classes == classes


@pytest.mark.parametrize("events", [199, 200, 201, 5000])
def test_growth_is_told_at_no_more_than_two_hundred_places_from_start_to_end(events):
    chance = np.random.default_rng(events)
    birth, truth = chance.random(events) < 0.1, chance.integers(50, size=events)
    known = np.arange(60) >= 45
    told = growth(birth, truth, known)
    _, categories, classes = walk_through(birth, truth, known)
    assert len(told.events) == 200
    assert (told.events[0], told.events[-1]) == (0, events)
    assert all(np.diff(told.events) > 0)
    assert told.categories == [categories[place] for place in told.events]
    assert told.classes == [classes[place] for place in told.events]


def test_a_case_computed_by_hand():
    """Class 0 is known. Events 1, 5 and 9 give false births, 0 and 4 true ones; 3 lets a novel class pass unborn."""
    truth = np.array([1, 1, 0, 2, 3, 0, 0, 1, 2, 2])
    birth = np.array([1, 1, 0, 0, 1, 1, 0, 0, 0, 1], dtype=bool)
    drift = np.array([NAN, NAN, 3, 5, NAN, NAN, 2, 4, 6, NAN])
    margin = np.array([1, 2, NAN, 4, NAN, NAN, 0, 1, 5, 5])
    false = false_births(birth, truth, np.array([True, False, False, False]))
    assert np.flatnonzero(false).tolist() == [1, 5, 9]
    bins = temporal_bins(birth, false, drift, margin)
    assert [(one.events, one.births) for one in bins] == [(2, 2), (2, 0), (2, 2), (2, 0), (2, 1)]
    assert [one.false_birth_rate for one in bins] == [0.5, 0, 0.5, 0, 0.5]
    assert [one.mean_drift for one in bins] == [None, 4, None, 3, 6]
    assert [one.mean_margin for one in bins] == [1.5, 4, None, 0.5, 5]
    told = growth(birth, truth, np.array([True, False, False, False]))
    assert told.categories == [1, 2, 3, 3, 3, 4, 5, 5, 5, 5, 6]
    assert told.classes == [1, 2, 2, 2, 3, 4, 4, 4, 4, 4, 4]


def test_a_stream_shorter_than_the_bins_has_empty_ones():
    bins = temporal_bins(*(np.array([one]) for one in (True, True, NAN, 2.0)))
    assert [one.events for one in bins] == [0, 0, 0, 0, 1]
    assert [one.false_birth_rate for one in bins] == [None] * 4 + [1]
    assert false_birth_rate(np.array([], dtype=bool)) is None


def test_means_of_short_floats_are_not_rounded_as_they_are_added():
    """In single precision, 16 777 216 and 1 is 16 777 216."""
    drift = np.array([2**24, 1, 1, 1] * 500, dtype=np.float32)
    nothing = np.zeros(len(drift), dtype=bool)
    for one in temporal_bins(nothing, nothing, drift, drift):
        assert one.mean_drift == one.mean_margin == (2**24 + 3) / 4
