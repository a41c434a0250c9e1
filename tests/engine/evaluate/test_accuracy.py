"""Strict accuracy, against every possible matching on small cases."""

import math
from itertools import permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from speciate.evaluate.accuracy import strict_accuracy

pairs = st.lists(st.tuples(st.integers(0, 4), st.sampled_from("abcd")), min_size=1, max_size=14)


def matchings(found, truth):
    """All ways to give each category a class of its own, or none."""
    categories, classes = sorted(set(found)), sorted(set(truth))
    classes += [None] * len(categories)
    return ({*zip(categories, chosen, strict=True)} for chosen in set(permutations(classes, len(categories))))


@settings(deadline=None)
@given(pairs, st.sets(st.sampled_from("abcd")))
def test_no_matching_does_better_and_one_does_as_well(drawn, known):
    found, truth = [category for category, _ in drawn], [name for _, name in drawn]
    accuracy = strict_accuracy(found, truth, known)
    rights = [[pair in matching for pair in drawn] for matching in matchings(found, truth)]
    best = max(map(sum, rights))
    assert accuracy.all == pytest.approx(best / len(drawn))

    def split(right):
        return [
            sum(ok for ok, name in zip(right, truth, strict=True) if (name in known) == side) for side in (True, False)
        ]

    sizes = split([True] * len(drawn))
    counts = [
        0 if math.isnan(part) else round(part * size)
        for part, size in zip((accuracy.known, accuracy.novel), sizes, strict=True)
    ]
    assert counts in [split(right) for right in rights if sum(right) == best]


@settings(deadline=None)
@given(pairs, st.randoms(use_true_random=False))
def test_names_and_order_do_not_matter(drawn, chance):
    known = {"a", "b"}
    accuracy = strict_accuracy([category for category, _ in drawn], [name for _, name in drawn], known)
    chance.shuffle(drawn)
    renamed = strict_accuracy([f"x{9 - category}" for category, _ in drawn], [name for _, name in drawn], known)
    assert renamed.all == pytest.approx(accuracy.all)


@pytest.mark.parametrize(
    ("found", "truth", "expected"),
    [
        ([7, 7, 3], "aan", (1.0, 1.0, 1.0)),
        # A class in two pieces: the larger counts, the surplus is an error.
        ([0, 0, 1], "aaa", (2 / 3, 2 / 3, math.nan)),
        # Two classes in one category: one of them is lost.
        ([0, 0, 0], "aan", (2 / 3, 1.0, 0.0)),
        # The match is made over all events at once, so the novel class takes the category from the known one.
        ([0, 0, 0, 0, 1], "annnn", (3 / 5, 0.0, 3 / 4)),
        ([0, 1], "an", (1.0, 1.0, 1.0)),
        ([], "", (math.nan, math.nan, math.nan)),
    ],
)
def test_cases_computed_by_hand(found, truth, expected):
    assert strict_accuracy(found, list(truth), {"a"}) == pytest.approx(expected, nan_ok=True)


@settings(deadline=None)
@given(st.integers(1, 30))
def test_every_event_its_own_category_is_as_wrong_as_it_can_be(count):
    accuracy = strict_accuracy(range(count), ["n"] * count, {"a"})
    assert accuracy.novel == pytest.approx(1 / count)
    assert math.isnan(accuracy.known)
