"""The spread over orders beside the gaps between methods."""

import pytest
from made import a_run

from speciate.reporting.orders import order_effects


def runs_of(scores):
    return [a_run(method, order=order, all=score) for method, by in scores.items() for order, score in by.items()]


def test_a_small_spread_is_smaller_than_the_gap():
    (effect,) = order_effects(runs_of({"a": {"random": 0.6, "bursty": 0.58}, "b": {"random": 0.4, "bursty": 0.41}}))
    assert [one.method for one in effect.methods] == ["a", "b"]
    assert effect.methods[0].spread == pytest.approx(0.02)
    assert effect.methods[0].gap == pytest.approx(0.185)
    assert effect.methods[0].larger is False
    assert effect.larger is False
    assert effect.leaders == {"random": "a", "bursty": "a"}


def test_a_large_spread_turns_the_ranking_over():
    (effect,) = order_effects(runs_of({"a": {"random": 0.6, "bursty": 0.3}, "b": {"random": 0.5, "bursty": 0.45}}))
    assert effect.larger is True
    assert effect.leaders == {"random": "a", "bursty": "b"}
    assert effect.mean_spread == pytest.approx(0.175)
    assert effect.mean_gap == pytest.approx(0.025)


def test_a_method_spared_an_order_is_not_compared():
    (effect,) = order_effects(runs_of({"a": {"random": 0.6, "bursty": 0.3}, "b": {"random": 0.5}}))
    assert [one.method for one in effect.methods] == ["a"]
    assert effect.methods[0].gap is None
    assert effect.larger is None


def test_one_order_has_no_effect():
    assert order_effects(runs_of({"a": {"random": 0.6}})) == []
