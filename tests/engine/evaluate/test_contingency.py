"""The table of categories and classes, against counting by hand."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from labellings import arrays, category_names, class_orders, pairs

from speciate.evaluate.contingency import contingency


@given(pairs)
def test_cells_are_the_counts_of_pairs_and_each_event_is_in_its_own(drawn):
    table = contingency(*arrays(drawn))
    cells = list(zip(table.categories[table.rows].tolist(), table.classes[table.columns].tolist(), strict=True))
    assert dict(zip(cells, table.counts.tolist(), strict=True)) == Counter(drawn)
    assert [cells[cell] for cell in table.cells] == drawn
    assert table.events == len(drawn)


@given(pairs)
def test_rows_and_columns_stand_in_order_of_appearance_and_have_the_totals(drawn):
    found, truth = arrays(drawn)
    table = contingency(found, truth)
    assert table.categories.tolist() == list(dict.fromkeys(found.tolist()))
    assert table.classes.tolist() == list(dict.fromkeys(truth.tolist()))
    assert table.of_categories().tolist() == [int((found == category).sum()) for category in table.categories]
    assert table.of_classes().tolist() == [int((truth == name).sum()) for name in table.classes]


@given(pairs, category_names, class_orders)
def test_other_numbers_give_the_same_table(drawn, names, order):
    found, truth = arrays(drawn)
    table, other = contingency(found, truth), contingency(names[found], order[truth])
    for field in ("rows", "columns", "counts", "cells"):
        assert getattr(other, field).tolist() == getattr(table, field).tolist()
    assert other.categories.tolist() == names[table.categories].tolist()
    assert other.classes.tolist() == order[table.classes].tolist()


def test_no_events_are_an_empty_table():
    table = contingency(np.array([], dtype=np.int64), np.array([], dtype=np.int64))
    assert table.events == len(table.counts) == len(table.categories) == len(table.classes) == 0


@pytest.mark.parametrize("kind", [np.uint8, np.int32, np.uint64])
def test_any_integers_will_do_and_they_may_lie_in_a_file(tmp_path, kind):
    kept = np.memmap(tmp_path / "kept", dtype=[("category", kind), ("birth", "?")], mode="w+", shape=(5,))
    kept["category"] = [200, 3, 200, 3, 200]
    table = contingency(kept["category"], np.array([1, 0, 1, 1, 1], dtype=kind))
    assert table.categories.tolist() == [200, 3]
    assert table.counts.tolist() == [3, 1, 1]
