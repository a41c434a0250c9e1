"""Mutual information, the Rand index and purity, against scikit-learn, counting and small sums by hand."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from labellings import arrays, category_names, class_orders, pairs, random_arrays
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score

from speciate.evaluate.clustering import adjusted_rand_index, normalized_mutual_information, purities, purity
from speciate.evaluate.contingency import contingency

NAMES = "abcd"


def scores(found, truth):
    table = contingency(found, truth)
    return normalized_mutual_information(table), adjusted_rand_index(table), purity(table)


def agrees_with_scikit_learn(found, truth):
    nmi, ari, _ = scores(found, truth)
    assert nmi == pytest.approx(normalized_mutual_info_score(truth, found), abs=1e-9)
    assert ari == pytest.approx(adjusted_rand_score(truth, found), abs=1e-12)


@settings(deadline=None)
@given(pairs)
def test_small_cases_are_scored_as_scikit_learn_does(drawn):
    agrees_with_scikit_learn(*arrays(drawn))


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(("categories", "classes"), [(30, 10), (10, 30), (2000, 20), (1, 10), (10, 1)])
def test_larger_cases_are_scored_as_scikit_learn_does(seed, categories, classes):
    agrees_with_scikit_learn(*random_arrays(seed, 5000, categories, classes, agreement=seed / 4))


@pytest.mark.parametrize(
    ("found", "truth", "expected"),
    [
        ([0, 0, 1, 1], [5, 5, 7, 7], (1, 1, 1)),
        # Independent: nothing is shared; 0 pairs together where 2·2/6 were to be expected, of at most 2.
        ([0, 1, 0, 1], [0, 0, 1, 1], (0, -1 / 2, 1 / 2)),
        # H(category) = 0 and so I = 0; all pairs are together, as chance has it.
        ([0, 0, 0, 0], [0, 0, 1, 1], (0, 0, 1 / 2)),
        # H(category) = 3/2, H(class) = I = 1, in bits. Pairs: 1 together, 1 and 2 in each, 1·2/6 expected.
        ([0, 0, 1, 2], [0, 0, 1, 1], (4 / 5, (1 - 1 / 3) / (3 / 2 - 1 / 3), 1)),
        ([3], [2], (1, 1, 1)),
        ([0, 1, 2], [2, 1, 0], (1, 1, 1)),
    ],
)
def test_cases_computed_by_hand(found, truth, expected):
    assert scores(np.array(found), np.array(truth)) == pytest.approx(expected, abs=1e-12)


@given(pairs, category_names, class_orders)
def test_what_categories_and_classes_are_called_does_not_matter(drawn, names, order):
    found, truth = arrays(drawn)
    renamed = scores(names[found], order[truth])
    assert renamed == pytest.approx(scores(found, truth), rel=1e-12, abs=1e-12)


@given(pairs)
def test_categories_and_classes_change_places_freely(drawn):
    found, truth = arrays(drawn)
    assert scores(found, truth)[:2] == pytest.approx(scores(truth, found)[:2], rel=1e-9, abs=1e-12)


@given(pairs, category_names)
def test_a_perfect_answer_scores_one(drawn, names):
    _, truth = arrays(drawn)
    assert scores(names[truth], truth) == pytest.approx((1, 1, 1))
    assert all(one.purity == 1 for one in purities(contingency(names[truth], truth), NAMES))


@given(pairs)
def test_each_category_has_its_majority_counted(drawn):
    found, truth = arrays(drawn)
    table = contingency(found, truth)
    told = purities(table, NAMES)
    members = {category: [truth for other, truth in drawn if other == category] for category in found.tolist()}
    assert {one.category for one in told} == set(members)
    assert len(told) == len(members)
    for one in told:
        counts = Counter(NAMES[place] for place in members[one.category])
        assert one.events == counts.total()
        assert counts[one.majority] == max(counts.values())
        assert one.purity == pytest.approx(max(counts.values()) / one.events)
    assert [one.events for one in told] == sorted((one.events for one in told), reverse=True)
    assert sum(one.purity * one.events for one in told) / len(drawn) == pytest.approx(purity(table))


def test_equals_stand_in_the_order_of_the_stream():
    found, truth = np.array([8, 2, 8, 2, 5, 5, 5]), np.array([3, 1, 0, 1, 2, 2, 0])
    told = purities(contingency(found, truth), NAMES)
    assert [(one.category, one.events, one.majority) for one in told] == [(5, 3, "c"), (8, 2, "d"), (2, 2, "b")]
    assert [one.purity for one in told] == pytest.approx([2 / 3, 1 / 2, 1])


def test_pairs_of_a_long_stream_do_not_overflow():
    """A million events have 5 · 10^11 pairs, and 64 bits do not hold the square of that."""
    truth = np.arange(10**6) % 3
    found = np.where(truth == 2, 1, truth)
    # Of three equal classes, two are one: in the limit, (1/3 - 5/27) / (4/9 - 5/27).
    assert adjusted_rand_index(contingency(found, truth)) == pytest.approx(4 / 7, abs=1e-5)
