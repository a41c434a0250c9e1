"""Diagnostics over the stream: relative to the first fifth, of those who have one."""

import msgspec
import numpy as np
import pytest
from made import a_run, with_metrics

from speciate.reporting import plots
from speciate.reporting.grouping import group, variants
from speciate.reporting.looks import looks
from speciate.reporting.temporal import panels


def moving(method: str, drifts: list[float | None], seed: int = 0):
    run = a_run(method, seed=seed)
    bins = [msgspec.structs.replace(one, mean_drift=d) for one, d in zip(run.metrics.bins, drifts, strict=True)]
    return with_metrics(run, bins=bins)


def drift_of(runs):
    (panel,) = [one for one in panels(group(runs)) if one.part.key == "drift"]
    return panel


def test_drift_begins_with_one_and_what_it_was_is_kept():
    panel = drift_of([moving("a", [2.0, 4.0, 1.0, 0.0, None])])
    assert panel.lines["a"][:4].tolist() == [1.0, 2.0, 0.5, 0.0]
    assert np.isnan(panel.lines["a"][4])
    assert panel.firsts == {"a": 2.0}
    assert panel.left_out == []


@pytest.mark.parametrize("drifts", [[0.0] * 5, [None] * 5, [0.0, 1.0, 1.0, 1.0, 1.0], [None, 1.0, 1.0, 1.0, 1.0]])
def test_without_something_in_the_first_fifth_a_method_is_left_out(drifts):
    panel = drift_of([moving("a", [1.0] * 5), moving("b", drifts)])
    assert panel.lines.keys() == {"a"}
    assert [variant.method for variant in panel.left_out] == ["b"]


def test_false_births_are_as_they_are_and_leave_no_one_out():
    (panel,) = [one for one in panels(group([a_run(false_births=0.0)])) if one.part.key == "false_births"]
    assert panel.lines["dp-boa"].tolist() == [0.0] * 5
    assert (panel.firsts, panel.left_out) == ({}, [])


def test_the_figure_has_a_line_a_method_and_says_how_many_a_panel_goes_without():
    runs = [moving("a", [1.0] * 5), moving("b", [0.0] * 5)]
    figure = plots.temporal(runs, looks(variants(group(runs))))
    births, drift, margin = figure.axes
    assert [len(axes.lines) for axes in (births, drift, margin)] == [2, 1, 2]
    assert drift.get_xlabel() == "share of the stream\nwithout 1 method"
    assert births.get_xlabel() == margin.get_xlabel() == "share of the stream"
    assert not any("nats" in axes.get_title() for axes in figure.axes)
