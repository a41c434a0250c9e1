"""All measures of a replay together, as they are kept in a file."""

import math
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from labellings import CLASSES, arrays, category_names, class_orders, masks, pairs, random_arrays

from speciate.errors import ConfigError
from speciate.evaluate.measure import measure
from speciate_schemas import decode, encode
from speciate_schemas.replay import RunMetrics, Shares

NAMES = ["ash", "birch", "cedar", "dogwood"]


def measured(found, truth, known, **changes):
    """A replay whose decisions are births where a category is new, one batch."""
    birth = np.zeros(len(found), dtype=bool)
    birth[np.unique(found, return_index=True)[1]] = True
    given = {
        "birth": birth & ~known[truth],
        "margin": np.full(len(found), 2.0),
        "drift": np.where(birth, math.nan, 0.5),
        "known_classes": known,
        "class_names": NAMES,
        "seconds": [0.001 * len(found)],
        "sizes": [len(found)],
        "fit_seconds": 0.25,
        "batch": 64,
        "held": 9,
        "head_bytes": 4096,
    }
    return measure(found, truth, **{**given, **changes})


@settings(deadline=None)
@given(pairs, masks, category_names)
def test_a_perfect_answer_scores_one_everywhere(drawn, known, names):
    _, truth = arrays(drawn)
    told = measured(names[truth], truth, known, groups=(np.arange(len(truth)) % 2, ["even", "odd"]))
    assert (told.nmi, told.ari, told.purity) == pytest.approx((1, 1, 1))
    for shares in (told.strict, told.greedy, *told.groups.values()):
        assert {shares.all, shares.known, shares.novel} <= {None, 1.0}
    assert told.strict.all == told.greedy.all == 1
    assert {one.purity for one in told.purities} == {1}
    assert told.false_birth_rate == 0
    assert told.categories == told.classes == len(set(truth.tolist()))
    assert told.growth.categories == told.growth.classes


@settings(deadline=None)
@given(pairs, masks, category_names, class_orders)
def test_what_categories_and_classes_are_called_does_not_matter(drawn, known, names, order):
    found, truth = arrays(drawn)
    elsewhere, class_names = np.empty_like(known), [""] * CLASSES
    elsewhere[order] = known
    for place, name in zip(order, NAMES, strict=True):
        class_names[place] = name
    one = measured(found, truth, known)
    other = measured(names[found], order[truth], elsewhere, class_names=class_names)
    for field in set(RunMetrics.__struct_fields__) - {"purities", "nmi"}:
        assert getattr(other, field) == getattr(one, field)
    assert other.nmi == pytest.approx(one.nmi, abs=1e-12)
    told, again = ([(cat.events, cat.majority, cat.purity) for cat in run.purities] for run in (one, other))
    assert again == told


@settings(deadline=None)
@given(pairs, masks, st.booleans())
def test_what_is_measured_is_written_and_read_again(drawn, known, grouped):
    found, truth = arrays(drawn)
    groups = (np.zeros(len(truth), dtype=np.int64), ["all of them", "none"]) if grouped else None
    told = measured(found, truth, known, groups=groups)
    assert decode(encode(told, "json"), RunMetrics, "json") == told
    assert told.groups == ({"all of them": told.strict, "none": Shares(None, None, None)} if grouped else {})


def test_a_case_computed_by_hand():
    """Ash is known. Category 1 takes ash and a cedar, 5 and 6 share the birches between them."""
    found, truth = np.array([1, 1, 5, 5, 1, 6, 1, 5]), np.array([0, 0, 1, 1, 2, 1, 0, 1])
    birth = np.array([0, 0, 1, 0, 0, 1, 0, 0], dtype=bool)
    drift = np.where(birth, math.nan, np.arange(8.0))
    told = measured(found, truth, np.array([True, False, False, False]), birth=birth, drift=drift)
    assert told.strict == Shares(6 / 8, 1.0, 3 / 5)
    # Among the novel events alone, the cedar has category 1 for itself.
    assert told.greedy == Shares(7 / 8, 1.0, 4 / 5)
    assert (told.categories, told.classes, told.births, told.held, told.head_bytes) == (3, 3, 2, 9, 4096)
    assert told.false_birth_rate == 1 / 8
    assert told.purity == 7 / 8
    assert [(one.category, one.majority, one.purity) for one in told.purities] == [
        (1, "ash", 3 / 4),
        (5, "birch", 1.0),
        (6, "birch", 1.0),
    ]
    assert [one.events for one in told.bins] == [1, 2, 1, 2, 2]
    assert [one.mean_drift for one in told.bins] == [0, 1, 3, 4, 6.5]
    assert told.growth.categories == [1, 1, 1, 2, 2, 2, 3, 3, 3]
    assert told.growth.classes == [1, 1, 1, 2, 2, 3, 3, 3, 3]
    assert (told.timing.batch, told.timing.fit_seconds, told.timing.mean_ms) == (64, 0.25, pytest.approx(1))


def test_a_million_events_need_little_more_than_themselves():
    events, categories, classes = 1_000_000, 10_000, 200
    found, truth = random_arrays(3, events, categories, classes, agreement=0.7)
    known = np.arange(classes) < 100
    tracemalloc.start()
    try:
        told = measured(
            found, truth, known, class_names=list(map(str, range(classes))), groups=(truth % 3, ["a", "b", "c"])
        )
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 100 * events  # bytes; one array of numbers has 8 an event
    assert told.categories == categories
    # The category that follows from the class also gets its share of the rest.
    assert told.strict.all == pytest.approx(0.7 + 0.3 / categories, abs=0.005)
    assert len(told.purities) == categories


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"drift": np.zeros(2)}, "drift has 2 values, truth 3: give one an event"),
        ({"birth": np.zeros(4, dtype=bool)}, "birth has 4 values, truth 3"),
        ({"groups": (np.zeros(1, dtype=int), ["x"])}, "groups has 1 values, truth 3"),
        ({"groups": (np.array([0, 2, 1]), ["x", "y"])}, "groups has 2, their names 2 entries"),
        ({"class_names": NAMES[:1]}, "truth has 1, class_names 1 entries: count from 0 and name each"),
        ({"sizes": [2]}, "sizes add up to 2 events, truth has 3"),
    ],
)
def test_arrays_that_do_not_fit_together_are_refused(changes, words):
    found, truth = np.array([0, 1, 1]), np.array([0, 1, 1])
    with pytest.raises(ConfigError, match=words):
        measured(found, truth, np.array([True, False, False, False]), **changes)


def test_a_class_below_zero_is_refused():
    with pytest.raises(ConfigError, match="truth has -1, class_names 4 entries"):
        measured(np.array([0]), np.array([-1]), np.array([True, False, False, False]))


def test_an_empty_stream_is_refused():
    nothing = np.array([], dtype=np.int64)
    with pytest.raises(ConfigError, match="truth has 0 events: nothing can be measured"):
        measured(nothing, nothing, np.array([True, False, False, False]))
