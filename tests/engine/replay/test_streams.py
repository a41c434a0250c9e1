"""Drawing support sets and ordering streams."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from speciate.errors import ConfigError
from speciate.replay.recorded import Recorded
from speciate.replay.streams import make_stream
from speciate_schemas import SupportRule

ORDERS = ("recorded", "class-sorted", "random", "bursty")


def made(classes, groups=None) -> Recorded:
    classes = np.array(classes, dtype=np.int64)
    names = [str(one) for one in range(int(classes.max()) + 1)]
    known = np.arange(len(names)) < max(1, len(names) // 2)
    return Recorded(np.zeros((len(classes), 1)), np.arange(len(classes)), classes, names, known, groups, "")


streams = st.lists(st.integers(0, 5), min_size=8, max_size=80).map(lambda rest: [0, 0, 0, 0, 1, *rest])


@settings(max_examples=60, deadline=None)
@given(
    streams, st.sampled_from(ORDERS), st.integers(1, 7), st.integers(0, 99), st.sampled_from(["pooled", "per-class"])
)
def test_every_event_is_either_support_or_comes_once(classes, order, burst, seed, rule):
    recorded = made(classes)
    found = make_stream(recorded, SupportRule(rule=rule), order, burst, seed)
    assert sorted([*found.support.tolist(), *found.stream.tolist()]) == list(range(len(classes)))
    assert recorded.known[recorded.classes[found.support]].all()
    again = make_stream(recorded, SupportRule(rule=rule), order, burst, seed)
    assert all(np.array_equal(one, other) for one, other in zip(found, again, strict=True))


@settings(max_examples=40, deadline=None)
@given(streams, st.integers(0, 99))
def test_half_of_the_known_events_are_support_pooled_or_class_by_class(classes, seed):
    recorded = made(classes)
    known = np.flatnonzero(recorded.known[recorded.classes])
    pooled = make_stream(recorded, SupportRule(), "recorded", 1, seed).support
    assert len(pooled) == len(known) // 2
    apart = make_stream(recorded, SupportRule(rule="per-class"), "recorded", 1, seed).support
    for number in np.flatnonzero(recorded.known):
        have, drawn = (int((recorded.classes[one] == number).sum()) for one in (known, apart))
        assert drawn == min(have, max(1, have // 2))


@settings(max_examples=40, deadline=None)
@given(streams, st.integers(0, 99), st.integers(1, 6))
def test_orders_are_what_they_are_called(classes, seed, burst):
    recorded = made(classes)
    stream = {order: make_stream(recorded, SupportRule(seed=4), order, burst, seed).stream for order in ORDERS}
    assert stream["recorded"].tolist() == sorted(stream["recorded"].tolist())
    sorted_classes = recorded.classes[stream["class-sorted"]]
    assert sorted_classes.tolist() == sorted(sorted_classes.tolist())
    # Within a class events keep the order they were recorded in.
    for number in set(sorted_classes.tolist()):
        own = stream["class-sorted"][sorted_classes == number].tolist()
        assert own == sorted(own)
    assert sorted(stream["random"].tolist()) == stream["recorded"].tolist()


def test_bursts_have_their_length_and_come_shuffled():
    recorded = made([0, 1, 2, 3] * 40)
    classes = recorded.classes[make_stream(recorded, SupportRule(), "bursty", 10, 0).stream]
    ends = [*(np.flatnonzero(np.diff(classes)) + 1).tolist(), len(classes)]
    lengths = np.diff([0, *ends])
    whole = classes[np.isin(classes, [2, 3])]
    assert len(whole) == 80
    assert all(length % 10 == 0 for length, end in zip(lengths, ends, strict=True) if classes[end - 1] in (2, 3))
    assert len(ends) > 4, "the bursts of a class must not all stand together"


def test_another_seed_draws_another_support_set_unless_it_is_fixed():
    recorded = made([0, 1] * 30)
    one, other = (make_stream(recorded, SupportRule(), "random", 1, seed) for seed in (0, 1))
    assert one.support.tolist() != other.support.tolist()
    one, other = (make_stream(recorded, SupportRule(seed=7), "random", 1, seed) for seed in (0, 1))
    assert one.support.tolist() == other.support.tolist()
    assert one.stream.tolist() != other.stream.tolist()


def test_support_may_come_from_one_group_alone():
    groups = (np.arange(60) % 2, ["real", "sketch"])
    recorded = made([0, 0, 1, 1] * 15, groups)
    found = make_stream(recorded, SupportRule(groups=("real",)), "recorded", 1, 0)
    assert set((found.support % 2).tolist()) == {0}
    assert len(found.stream) + len(found.support) == 60


def test_a_share_that_leaves_nothing_is_refused():
    with pytest.raises(ConfigError, match=r"share = 0.01 leaves no support event"):
        make_stream(made([0, 0, 1]), SupportRule(share=0.01), "random", 1, 0)
    with pytest.raises(ConfigError, match="leaves no event for the stream"):
        make_stream(made([0]), SupportRule(rule="per-class"), "random", 1, 0)
