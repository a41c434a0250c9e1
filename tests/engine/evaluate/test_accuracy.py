"""Strict and greedy accuracy, against every possible matching on small cases and the square matrix on larger ones."""

import math
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from labellings import arrays, category_names, class_orders, masks, random_arrays
from labellings import pairs as longer_pairs
from scipy.optimize import linear_sum_assignment

from speciate.evaluate.accuracy import greedy, match, strict, strict_accuracy, strict_by_group
from speciate.evaluate.contingency import contingency

pairs = st.lists(st.tuples(st.integers(0, 4), st.sampled_from("abcd")), min_size=1, max_size=14)
sizes = st.tuples(st.integers(1, 400), st.integers(1, 40), st.integers(1, 40), st.floats(0, 1))


def matchings(found, truth):
    """All ways to give each category a class of its own, or none."""
    categories, classes = sorted(set(found)), sorted(set(truth))
    classes += [None] * len(categories)
    return ({*zip(categories, chosen, strict=True)} for chosen in set(permutations(classes, len(categories))))


def dense(table):
    matrix = np.zeros((len(table.categories), len(table.classes)))
    matrix[table.rows, table.columns] = table.counts
    return matrix


def zero_padded(matrix):
    padded = np.zeros((max(matrix.shape), max(matrix.shape)))
    padded[: matrix.shape[0], : matrix.shape[1]] = matrix
    return padded


def best(matrix):
    return matrix[linear_sum_assignment(matrix, maximize=True)].sum()


@settings(deadline=None)
@given(pairs, st.sets(st.sampled_from("abcd")))
def test_no_matching_does_better_and_one_does_as_well(drawn, known):
    found, truth = [category for category, _ in drawn], [name for _, name in drawn]
    accuracy = strict_accuracy(found, truth, known)
    rights = [[pair in matching for pair in drawn] for matching in matchings(found, truth)]
    highest = max(map(sum, rights))
    assert accuracy.all == pytest.approx(highest / len(drawn))

    def split(right):
        return [
            sum(ok for ok, name in zip(right, truth, strict=True) if (name in known) == side) for side in (True, False)
        ]

    sizes = split([True] * len(drawn))
    counts = [
        0 if math.isnan(part) else round(part * size)
        for part, size in zip((accuracy.known, accuracy.novel), sizes, strict=True)
    ]
    assert counts in [split(right) for right in rights if sum(right) == highest]


@settings(deadline=None)
@given(sizes, st.integers(0, 2**32))
def test_the_sparse_match_is_worth_the_rectangular_and_the_zero_padded_one(size, seed):
    table = contingency(*random_arrays(seed, *size))
    matrix = dense(table)
    right = match(table)
    assert table.counts[right].sum() == best(matrix) == best(zero_padded(matrix))
    assert len(set(table.rows[right])) == len(set(table.columns[right])) == right.sum()


@pytest.mark.parametrize("agreement", [0.0, 0.7])
def test_ten_thousand_categories_are_matched_to_two_hundred_classes(agreement):
    table = contingency(*random_arrays(1, 200_000, 10_000, 200, agreement))
    assert table.counts[match(table)].sum() == best(dense(table))


def test_every_event_a_category_of_its_own_needs_no_matrix():
    """One that is square would have 10^11 cells."""
    events, classes = 300_000, 50
    truth = np.arange(events) % classes
    known = np.arange(classes) < 25
    assert strict(contingency(np.arange(events), truth), known) == pytest.approx((classes / events,) * 3)


@settings(deadline=None)
@given(longer_pairs, masks)
def test_greedy_is_the_strict_accuracy_of_known_and_novel_events_by_themselves(drawn, known):
    found, truth = arrays(drawn)
    accuracy = greedy(contingency(found, truth), known)
    parts = [strict(contingency(found[side], truth[side]), known).all for side in (known[truth], ~known[truth])]
    assert (accuracy.known, accuracy.novel) == pytest.approx(tuple(parts), nan_ok=True)
    weights = known[truth].mean(), 1 - known[truth].mean()
    whole = sum(part * weight for part, weight in zip(parts, weights, strict=True) if weight)
    assert accuracy.all == pytest.approx(whole)


@settings(deadline=None)
@given(longer_pairs, masks)
def test_strict_is_never_above_greedy(drawn, known):
    table = contingency(*arrays(drawn))
    assert strict(table, known).all <= greedy(table, known).all


@settings(deadline=None)
@given(longer_pairs, masks, category_names, class_orders)
def test_what_categories_and_classes_are_called_does_not_matter(drawn, known, names, order):
    found, truth = arrays(drawn)
    elsewhere = np.empty_like(known)
    elsewhere[order] = known
    table, other = contingency(found, truth), contingency(names[found], order[truth])
    groups, group_names = np.arange(len(found)) % 3, ["x", "y", "z"]
    for measure in (strict, greedy):
        assert measure(other, elsewhere) == pytest.approx(measure(table, known), nan_ok=True, abs=0)
    by_group = strict_by_group(table, known, groups, group_names)
    renamed = strict_by_group(other, elsewhere, groups, group_names)
    for group in group_names:
        assert renamed[group] == pytest.approx(by_group[group], nan_ok=True, abs=0)


@settings(deadline=None)
@given(longer_pairs, masks, st.randoms(use_true_random=False))
def test_the_order_of_events_does_not_change_all(drawn, known, chance):
    table = contingency(*arrays(drawn))
    chance.shuffle(drawn)
    shuffled = contingency(*arrays(drawn))
    assert strict(shuffled, known).all == strict(table, known).all
    assert greedy(shuffled, known) == pytest.approx(greedy(table, known), nan_ok=True, abs=0)


@settings(deadline=None)
@given(longer_pairs, masks, category_names)
def test_a_perfect_answer_scores_one(drawn, known, names):
    _, truth = arrays(drawn)
    table = contingency(names[truth], truth)
    for accuracy in (strict(table, known), greedy(table, known)):
        assert all(math.isnan(share) or share == 1 for share in accuracy)
        assert accuracy.all == 1


@settings(deadline=None)
@given(longer_pairs, masks, st.data())
def test_splitting_a_right_category_lowers_strict_accuracy_by_the_smaller_piece(drawn, known, data):
    _, truth = arrays(drawn)
    chosen = data.draw(st.sampled_from(truth.tolist()))
    members = np.flatnonzero(truth == chosen)
    cut = data.draw(st.integers(0, len(members)))
    found = truth.copy()
    found[members[:cut]] = 99
    lost = min(cut, len(members) - cut)
    assert strict(contingency(found, truth), known).all == pytest.approx(1 - lost / len(truth))


@settings(deadline=None)
@given(longer_pairs, masks, st.lists(st.integers(0, 2), min_size=40, max_size=40))
def test_groups_are_scored_by_the_one_match_and_add_up_to_the_whole(drawn, known, drawn_groups):
    found, truth = arrays(drawn)
    groups = np.array(drawn_groups[: len(truth)])
    table = contingency(found, truth)
    right = match(table)[table.cells]
    by_group = strict_by_group(table, known, groups, ["x", "y", "z"])
    assert list(by_group) == ["x", "y", "z"]
    for place, accuracy in enumerate(by_group.values()):
        inside = groups == place
        for share, part in zip(accuracy, (inside, inside & known[truth], inside & ~known[truth]), strict=True):
            assert share == pytest.approx(right[part].mean() if part.any() else math.nan, nan_ok=True)
    assert right.mean() == pytest.approx(strict(table, known).all)


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


@pytest.mark.parametrize(
    ("found", "truth", "expected"),
    [
        # One category holds a known and a novel class: each match gives it to its own, and nothing is lost.
        ([0, 0, 0], [0, 0, 1], (1.0, 1.0, 1.0)),
        # Within the novel events the match is one to one as ever.
        ([0, 0, 0, 5], [0, 1, 2, 2], (3 / 4, 1.0, 2 / 3)),
        ([4, 4, 5], [1, 1, 1], (2 / 3, math.nan, 2 / 3)),
    ],
)
def test_greedy_cases_computed_by_hand(found, truth, expected):
    accuracy = greedy(contingency(np.array(found), np.array(truth)), np.array([True, False, False]))
    assert accuracy == pytest.approx(expected, nan_ok=True)


def test_a_group_is_not_matched_by_itself():
    """Alone, the second group would be all right: its one category has one class."""
    found, truth = np.array([0, 0, 0, 0]), np.array([0, 0, 0, 1])
    by_group = strict_by_group(
        contingency(found, truth), np.array([True, False]), np.array([0, 0, 0, 1]), ["day", "night", "never"]
    )
    assert by_group["day"] == pytest.approx((1.0, 1.0, math.nan), nan_ok=True)
    assert by_group["night"] == pytest.approx((0.0, math.nan, 0.0), nan_ok=True)
    assert all(map(math.isnan, by_group["never"]))


@settings(deadline=None)
@given(st.integers(1, 30))
def test_every_event_its_own_category_is_as_wrong_as_it_can_be(count):
    accuracy = strict_accuracy(range(count), ["n"] * count, {"a"})
    assert accuracy.novel == pytest.approx(1 / count)
    assert math.isnan(accuracy.known)
