"""Labels keep apart, and stay as near as they can."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from speciate.reporting.layout import place_beside, spread_out

places = st.lists(st.floats(0, 100), max_size=12)


@given(places, st.floats(0.1, 5))
def test_places_are_apart_within_bounds_and_in_order(wanted, apart):
    found = spread_out(wanted, apart, 0, 100)
    assert len(found) == len(wanted)
    assert all(-1e-9 <= one <= 100 + 1e-9 for one in found)
    assert all(b - a >= apart - 1e-6 for a, b in pairwise(sorted(found)))
    for (a, x), (b, y) in pairwise(sorted(zip(wanted, found, strict=True))):
        assert a == b or x < y


@given(st.lists(st.integers(0, 20), max_size=10, unique=True))
def test_what_is_apart_already_is_not_moved(wanted):
    assert spread_out([5.0 * one for one in wanted], 5.0, 0, 100) == pytest.approx([5.0 * one for one in wanted])


def test_where_there_is_no_room_they_are_evenly_spread():
    assert spread_out([1, 1, 1], 60, 0, 100) == [0, 50, 100]


def test_touching_neighbours_share_what_they_give_way():
    assert spread_out([50, 50], 10, 0, 100) == pytest.approx([45, 55])


@given(st.lists(st.tuples(st.floats(0, 50), st.floats(0, 50)), max_size=8, unique=True))
def test_boxes_beside_points_never_meet(points):
    boxes = place_beside(points, [(20.0, 4.0)] * len(points), 2.0)
    assert not any(a.meets(b) for n, a in enumerate(boxes) for b in boxes[:n])
    assert all(box.left == point[0] + 2.0 for box, point in zip(boxes, points, strict=True))
