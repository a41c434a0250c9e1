"""The head: a batch is its events one by one, a saved head is the head, and every mistake is named."""

import math
import tempfile
from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from worlds import CENTRES, DIMENSION, bits, make_head, split, support, vectors

from speciate import Head
from speciate.errors import (
    ConfigError,
    FeatureError,
    OutputError,
    PluginError,
    StateDamagedError,
    StateMismatchError,
    SupportError,
    UnknownCategoryError,
)
from speciate.sealed import seal
from speciate_schemas import HeadState, decode, encode

streams = st.lists(vectors, min_size=1, max_size=25)
cuts = st.lists(st.integers(1, 25), max_size=8)
alphas = st.sampled_from([1e-9, 1e-2, 1.0, 1e6])
far_out = pytest.mark.parametrize("event", [(1e200, 0.0, 0.0), (0.0, -1e308, 1e308)])


@settings(deadline=None)
@given(streams, cuts, alphas)
def test_many_at_once_are_decided_and_learnt_as_one_by_one(events, places, alpha):
    batched, stepped = make_head(alpha), make_head(alpha)
    decisions = [decision for batch in split(events, places) for decision in batched.process(batch)]
    assert bits(decisions) == bits([stepped.step(event) for event in events])
    assert bits(batched.state()) == bits(stepped.state())


@settings(deadline=None)
@given(streams, alphas)
def test_learning_what_was_decided_gives_the_same_state_without_deciding(events, alpha):
    deciding, learning = make_head(alpha), make_head(alpha)
    for event in events:
        decision = deciding.step(event)
        learning.learn(np.array(event), decision.category, birth=decision.birth)
    assert bits(learning.state()) == bits(deciding.state())


@settings(deadline=None)
@given(streams, streams, alphas)
def test_a_state_goes_on_as_if_it_had_never_been_taken(before, after, alpha):
    whole, stopped = make_head(alpha), make_head(alpha)
    whole.process(before)
    stopped.process(before)
    state = stopped.state()
    taken = bits(state)
    resumed = Head.from_state(decode(taken, HeadState))
    assert bits(resumed.process(after)) == bits(whole.process(after))
    assert bits(resumed.state()) == bits(whole.state())
    stopped.process(after)
    assert bits(state) == taken, "a state must not change when its head learns on"


@settings(deadline=None, max_examples=40)
@given(streams)
def test_saving_and_loading_is_the_identity(events):
    head = make_head()
    head.process(events)
    head.rename(0, "ä")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "head"
        head.save(path)
        head.save(path)
        loaded = Head.load(str(path))
    assert bits(loaded.state()) == bits(head.state())
    assert loaded.categories == head.categories
    assert loaded.version == head.version


@settings(deadline=None)
@given(streams, alphas)
def test_decisions_and_categories_tell_one_story(events, alpha):
    head = make_head(alpha)
    counts = {one.id: one.count for one in head.categories}
    for version, event in enumerate(events):
        assert head.version == version
        decision = head.step(event)
        assert decision.birth == (decision.category not in counts)
        counts[decision.category] = counts.get(decision.category, 0) + 1
        assert 0.0 <= decision.probability <= 1.0
        assert decision.margin is None or decision.margin >= 0.0
        assert decision.drift is None if decision.birth else decision.drift >= 0.0
        assert decision.label == {0: "a", 1: "b"}.get(decision.category)
    assert {one.id: one.count for one in head.categories} == counts
    assert [one.known for one in head.categories] == [one.id < 2 for one in head.categories]
    assert head.size == len(counts)


commands = st.lists(
    st.tuples(st.sampled_from(["step", "merge", "forget", "rename"]), st.integers(0, 6), st.integers(0, 6), vectors),
    max_size=25,
)


@settings(deadline=None)
@given(commands)
def test_numbers_are_never_used_again_whatever_is_merged_and_forgotten(script):
    head, gone, total = make_head(alpha=1.0), set(), 8
    for kind, one, other, vector in script:
        there = {category.id: category for category in head.categories}
        version = head.version
        try:
            if kind == "step":
                decision = head.step(vector)
                assert decision.category not in gone
                assert not decision.birth or decision.category == max([1, *there, *gone]) + 1
                total += 1
            elif kind == "merge":
                head.merge(one, other)
                gone.add(other)
            elif kind == "forget":
                head.forget(one)
                gone.add(one)
                total -= there[one].count
            else:
                head.rename(one, "new")
                assert next(each.label for each in head.categories if each.id == one) == "new"
        except UnknownCategoryError:
            assert not {one, other} <= set(there) or one == other
            assert head.version == version
            assert {category.id: category for category in head.categories} == there
        else:
            assert head.version == version + 1
        assert sum(category.count for category in head.categories) == total
        numbers = [category.id for category in head.categories]
        assert numbers == sorted(set(numbers) - gone)


def test_merging_keeps_the_number_and_label_of_the_one_kept():
    head = make_head()
    head.merge(1, 0)
    (kept,) = head.categories
    assert (kept.id, kept.label, kept.count) == (1, "b", 8)


@pytest.mark.parametrize("call", [("merge", 0, 7), ("merge", 7, 0), ("merge", 1, 1), ("forget", 2), ("rename", 9, "x")])
def test_a_category_that_is_not_there_is_named(call):
    name, *arguments = call
    with pytest.raises(UnknownCategoryError, match=r"category \d"):
        getattr(make_head(), name)(*arguments)


def test_a_head_without_categories_still_gives_birth():
    head = make_head()
    head.forget(0)
    head.forget(1)
    resumed = Head.from_state(head.state())
    for one in (head, resumed):
        assert one.process(np.empty((0, DIMENSION))) == []
        first, second = one.process(CENTRES[[2, 2]])
        assert first[:3] == (2, True, None)
        assert (first.margin, first.probability) == (None, 1.0)
        assert second[:3] == (2, False, None)


def test_a_recorded_decision_that_does_not_fit_the_state_is_noticed():
    head = make_head()
    with pytest.raises(StateMismatchError, match="birth of category 5 does not follow"):
        head.learn(CENTRES[0], 5, birth=True)
    with pytest.raises(StateMismatchError, match="no category 5"):
        head.learn(CENTRES[0], 5, birth=False)
    assert head.version == 0


@far_out
def test_an_event_too_far_out_is_refused_and_teaches_nothing(event):
    head = make_head()
    before = bits(head.state())
    with pytest.raises(FeatureError, match="too far out"):
        head.step(event)
    good, refused, also_good = head.deciding(np.array([CENTRES[0], event, CENTRES[1]]))
    assert isinstance(refused, FeatureError)
    alone = make_head()
    assert bits([good, also_good]) == bits(alone.process(CENTRES[:2]))
    assert bits(head.state()) == bits(alone.state()) != before


@pytest.mark.parametrize(
    ("events", "message"),
    [
        ([1.0, 2.0, 3.0], r"shape \(3,\)"),
        ([[1.0, 2.0]], r"shape \(1, 2\), this head takes \(N, 3\)"),
        ([[0.0, 0.0, 0.0], [0.0, math.nan, 0.0]], "event 1 has nan at feature 1"),
        ([[math.inf, 0.0, 0.0]], "event 0 has inf at feature 0"),
    ],
)
def test_events_that_are_none_are_named_before_anything_is_learnt(events, message):
    head = make_head()
    with pytest.raises(FeatureError, match=message):
        head.process(events)
    assert head.version == 0


@pytest.mark.parametrize("event", [5.0, CENTRES, [[0.0, 0.0, 0.0], [0.0, 0.0, 0.0]], []])
def test_a_step_takes_one_vector(event):
    head = make_head()
    with pytest.raises(FeatureError, match="shape"):
        head.step(event)
    assert head.version == 0


TWO = [[0.0, 1.0], [2.0, 5.0]]


@pytest.mark.parametrize(
    ("features", "labels", "message"),
    [
        ([], [], "shape"),
        (np.empty((0, 3)), [], "shape"),
        (np.empty((3, 0)), ["a"] * 3, "shape"),
        ([1.0, 2.0], ["a", "b"], r"shape \(2,\)"),
        (TWO, ["a"], "2 support features but 1 labels"),
        ([[0.0, 1.0], [2.0]], ["a", "b"], "not a matrix of numbers"),
        ([["x", "y"], ["z", "w"]], ["a", "a"], "not a matrix of numbers"),
        ([[0.0, 1.0], [math.nan, 5.0]], ["a", "a"], "row 1 holds NaN"),
        ([[0.0, math.inf], [2.0, 5.0]], ["a", "a"], "row 0 holds NaN or infinity"),
        (TWO, ["a", "b"], "two different samples"),
        ([[1.0], [1.0]], ["a", "a"], "two different samples"),
        (TWO, ["a", None], "labels are object"),
        (TWO, [["a", "b"], ["c", "d"]], r"of shape \(2, 2\)"),
        (TWO, "ab", r"of shape \(\)"),
    ],
)
def test_a_support_set_that_cannot_be_fitted_is_told(features, labels, message):
    with pytest.raises(SupportError, match=message):
        Head.fit(features, labels, density="nearest-mean", policy="dp")


@pytest.mark.parametrize(
    ("labels", "names"),
    [([3, 20], ["3", "20"]), (["b", "a"], ["a", "b"]), (np.array([True, False]), ["False", "True"])],
)
def test_classes_become_categories_in_sorted_order(labels, names):
    features = [[0.0], [1.0], [5.0], [6.0]]
    head = Head.fit(features, np.repeat(labels, 2), density="nearest-mean", policy="dp")
    assert [(one.id, one.label, one.count) for one in head.categories] == [(n, name, 2) for n, name in enumerate(names)]


def test_one_class_is_enough():
    head = Head.fit([[0.0], [1.0]], ["only", "only"], density="nearest-mean", policy="dp", alpha=1.0)
    assert head.step([0.5])[:3] == (0, False, "only")
    assert head.step([50.0])[:3] == (1, True, None)


def test_options_go_to_the_plugin_that_knows_them_and_an_unknown_one_is_named():
    assert make_head(alpha=0.25).state().policy_options == {"alpha": 0.25, "prior": "dp"}
    with pytest.raises(ConfigError, match=r"unknown option 'alhpa': 'nearest-mean' and 'dp' have alpha"):
        Head.fit(*support(), density="nearest-mean", policy="dp", alhpa=1.0)
    with pytest.raises(ConfigError, match="alpha"):
        Head.fit(*support(), density="nearest-mean", policy="dp", alpha=-1.0)
    with pytest.raises(PluginError, match=r"unknown density 'nearest-maen': did you mean 'nearest-mean'\?"):
        Head.fit(*support(), density="nearest-maen", policy="dp")


@pytest.fixture(scope="module")
def saved(tmp_path_factory) -> bytes:
    path = tmp_path_factory.mktemp("saved") / "head"
    head = make_head()
    head.process(CENTRES)
    head.save(path)
    return path.read_bytes()


def refused(data: bytes) -> bool:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "head"
        path.write_bytes(data)
        try:
            Head.load(path)
        except StateDamagedError as error:
            return str(path) in str(error)
    return False


@settings(deadline=None)
@given(st.data())
def test_a_flipped_bit_anywhere_is_noticed(saved, data):
    place = data.draw(st.integers(0, len(saved) - 1))
    damaged = bytearray(saved)
    damaged[place] ^= 1 << data.draw(st.integers(0, 7))
    assert refused(bytes(damaged))


@settings(deadline=None)
@given(st.data())
def test_a_file_cut_or_grown_anywhere_is_noticed(saved, data):
    assert refused(saved[: data.draw(st.integers(0, len(saved) - 1))])
    assert refused(saved + data.draw(st.binary(min_size=1, max_size=30)))


def test_a_file_that_is_no_head_is_named(tmp_path):
    assert refused(b"")
    assert refused(b"PK\x03\x04 something else")
    with pytest.raises(StateDamagedError, match="No such file"):
        Head.load(tmp_path / "nothing")
    with pytest.raises(OutputError, match="no-folder"):
        make_head().save(tmp_path / "no-folder" / "head")


def test_a_state_whose_dimension_is_not_that_of_its_arrays_is_refused():
    builtins = decode(encode(make_head().state()), dict)
    builtins["dimension"] = 4
    with pytest.raises(StateMismatchError, match="dimension 4, its arrays have 3"):
        Head.from_state(decode(encode(builtins), HeadState))


@pytest.mark.parametrize("kind", ["head.v2", "head.v0", "snapshot.v1"])
def test_a_state_of_another_version_or_kind_is_refused(tmp_path, kind):
    """Whole, with the right checksum, yet not ours to read."""
    builtins = decode(encode(make_head().state()), dict)
    builtins["type"] = kind
    path = tmp_path / "head"
    path.write_bytes(seal(builtins))
    with pytest.raises(StateDamagedError, match=rf"does not hold what this version writes.*{kind}") as caught:
        Head.load(path)
    assert str(path) in str(caught.value)


def test_a_state_with_a_field_of_a_later_version_is_refused(tmp_path):
    builtins = decode(encode(make_head().state()), dict)
    path = tmp_path / "head"
    path.write_bytes(seal(builtins | {"mood": "good"}))
    with pytest.raises(StateDamagedError, match=r"does not hold what this version writes.*mood"):
        Head.load(path)


def test_a_wrong_checksum_is_told(tmp_path, saved):
    damaged = bytearray(saved)
    damaged[len(damaged) // 2] ^= 1
    path = tmp_path / "head"
    path.write_bytes(bytes(damaged))
    with pytest.raises(StateDamagedError, match=r"head is damaged or not a saved state: .*checksum"):
        Head.load(path)


def test_it_says_how_exact_it_is_by_the_numbers_of_its_categories():
    head = make_head(alpha=1.0)
    head.process(CENTRES)
    head.merge(3, 0)
    head.forget(2)
    before = bits(head.state())
    assert head.verify() == {1: 0.0, 3: 0.0, 4: 0.0}
    assert bits(head.state()) == before


SUPPORT_FAR = (
    np.random.default_rng(1).normal(size=(20, 2)) + np.repeat([[0.0], [9.0]], 10, axis=0),
    np.repeat([0, 1], 10),
)


def test_process_stops_where_one_by_one_would():
    features, labels = SUPPORT_FAR
    events = np.concatenate((features[:3], [[1e200, 0.0]], features[3:5]))
    head, other = (Head.fit(features, labels, density="full", policy="dp") for _ in range(2))
    with pytest.raises(
        FeatureError, match=r"event 3: its evidence is -inf: the features are too far out; those before"
    ):
        head.process(events)
    for event in events[:3]:
        other.step(event)
    assert encode(head.state()) == encode(other.state())


def test_a_state_whose_counts_were_changed_is_refused():
    features, labels = SUPPORT_FAR
    state = Head.fit(features, labels, density="full", policy="dp").state()
    first = msgspec.structs.replace(state.categories[0], count=99)
    with pytest.raises(StateMismatchError, match="counts are not those of its arrays"):
        Head.from_state(msgspec.structs.replace(state, categories=[first, *state.categories[1:]]))


def test_labels_may_be_a_column_of_a_table():
    features, labels = SUPPORT_FAR
    head = Head.fit(features, np.array([f"class {one}" for one in labels], dtype=object), density="full", policy="dp")
    assert [one.label for one in head.categories] == ["class 0", "class 1"]


def test_tuning_learns_nothing_from_an_event_the_head_would_refuse():
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(6), 20)
    features = 8.0 * rng.normal(size=(6, 4))[labels] + rng.normal(size=(120, 4))
    features[7] *= 1e20
    head = Head.fit(features, labels, density="full", policy="dp", alpha="auto")
    assert np.isfinite(head.state().policy_options["alpha"])
