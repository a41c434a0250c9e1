"""Runs belong together where they differ in nothing but their seed."""

from itertools import pairwise
from typing import get_args

from hypothesis import given
from hypothesis import strategies as st
from made import a_comparison, a_run

from speciate.reporting.grouping import ORDERS, group, grouped, in_order, natural, options_text, settings
from speciate_schemas.benchmark import Order


def names(runs):
    return [(one.setting.order, one.variant.method, len(one.runs)) for one in group(runs)]


def test_a_method_run_in_one_way_keeps_its_name():
    assert names([a_run(seed=0), a_run(seed=1)]) == [("random", "dp-boa", 2)]


def test_ways_to_run_a_method_are_told_apart_by_the_options_they_differ_in():
    runs = [
        a_run(policy={"plugin": "dp", "alpha": 1.0}),
        a_run(policy={"plugin": "dp", "alpha": 2.0}, seed=1),
        a_run(policy={"plugin": "dp"}, title="DP"),
    ]
    assert [one.variant.method for one in group(runs)] == [
        "dp-boa policy.alpha=1.0",
        "dp-boa policy.alpha=2.0",
        "dp-boa policy.alpha=default",
    ]
    assert group(runs)[2].variant.title == "DP policy.alpha=default"


def test_bursts_of_several_lengths_are_several_orders():
    runs = [a_run(order="bursty", burst=5), a_run(order="bursty", burst=10), a_run(order="random", burst=7)]
    assert [one[0] for one in names(runs)] == ["random", "bursty-5", "bursty-10"]
    assert [one[0] for one in names(runs[1:])] == ["random", "bursty"]


@given(st.permutations(a_comparison(methods=("phe-16", "phe", "dp-boa"), seeds=2)))
def test_groups_and_runs_have_one_order_whatever_order_they_are_given_in(runs):
    expected = a_comparison(
        benchmarks=("cub", "pets"),
        orders=("random", "class-sorted", "bursty"),
        methods=("dp-boa", "phe", "phe-16"),
        seeds=2,
    )
    assert in_order(runs) == expected
    assert [run for one in group(runs) for run in one.runs] == expected
    assert [tuple(one) for one in settings(group(runs))[:3]] == [
        ("cub", "random"),
        ("cub", "class-sorted"),
        ("cub", "bursty"),
    ]


def test_every_order_there_is_has_its_place():
    assert set(ORDERS) == set(get_args(Order))
    assert [one[0] for one in names([a_run(order="odd"), a_run(order="recorded")])] == ["recorded", "odd"]


def test_numbers_in_names_go_by_their_size():
    names = ["b-10", "a=10", "a=default", "a=2", "B-9", "a=0.1", "a=1e-09"]
    assert sorted(names, key=natural) == ["a=1e-09", "a=0.1", "a=2", "a=10", "a=default", "B-9", "b-10"]


@given(st.sets(st.text("aA1.e-²٣") | st.text()))
def test_any_two_names_have_an_order(names):
    keys = [natural(name) for name in sorted(names, key=natural)]
    assert all(before < after for before, after in pairwise(keys))


def test_a_part_of_the_groups_keeps_the_names_of_the_whole():
    alphas = [a_run(order=order, policy={"plugin": "dp", "alpha": a}) for order, a in (("random", 1), ("bursty", 2))]
    groups = group(alphas)
    assert [one.variant.method for one in grouped(groups[:1])] == ["dp-boa policy.alpha=1"]
    assert [one.variant.method for one in grouped(alphas[:1])] == ["dp-boa"]


def test_options_are_one_line_whatever_is_in_them():
    assert (
        options_text({"plugin": "full", "prior": {"n_cap": 50, "on": True}})
        == "plugin=full, prior.n_cap=50, prior.on=true"
    )
