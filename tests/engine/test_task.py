"""The fold: its state and answers depend on the records alone, not on batches, restarts or how they were learnt."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from worlds import CENTRES, as_records, bits, feature, inputs, make_head, record, split

from speciate.chronicle import Album
from speciate.errors import DecodeError, EncodeError, StateMismatchError, TooLargeError
from speciate.outcomes import MESSAGE_CHARACTERS, Outcome
from speciate.plugins import installed
from speciate.task import Task
from speciate.universe import Universe
from speciate_schemas import (
    AlbumOptions,
    Answer,
    Array,
    Assignment,
    ControlApplied,
    FeatureEvent,
    ForgetCategory,
    ImageEvent,
    MergeCategories,
    Rejection,
    RenameCategory,
    Tally,
    TaskState,
    decode,
    encode,
)

scripts = st.lists(inputs(), min_size=1, max_size=30)
cuts = st.lists(st.integers(1, 30), max_size=8)
windows = st.sampled_from([0, 1, 4, 100])


def locate(sequence: int) -> str:
    return f"dead#{sequence}"


ALBUM = Album(AlbumOptions(exemplars=4, bytes=4000))
"""So small that with a few births each category keeps fewer exemplars: that must not depend on batches or stops."""


def make_task(window: int = 100) -> Task:
    return Task(Universe(make_head()), duplicate_window=window, locate=locate, album=ALBUM)


def resumed(task: Task, window: int) -> Task:
    """What the next process makes of the state, by way of bytes."""
    state = decode(encode(task.state()), TaskState)
    return Task.from_state(
        state,
        plugins=installed(),
        per_stream=False,
        duplicate_window=window,
        locate=locate,
        tally=task.tally,
        album=ALBUM,
    )


def fold(task: Task, batches) -> list[Outcome]:
    return [outcome for batch in batches for outcome in task.fold(batch)]


def told(outcomes: list[Outcome]) -> bytes:
    return bits([tuple(outcome) for outcome in outcomes])


def ends_alike(one: Task, other: Task) -> bool:
    return bits(one.state()) == bits(other.state()) and one.tally == other.tally


@settings(deadline=None)
@given(scripts, cuts, windows)
def test_any_batching_gives_the_same_outcomes_and_the_same_state(script, places, window):
    whole, batched, single = make_task(window), make_task(window), make_task(window)
    at_once = told(fold(whole, [as_records(script)]))
    assert told(fold(batched, split(as_records(script), places))) == at_once
    assert told(fold(single, [[one] for one in as_records(script)])) == at_once
    assert ends_alike(batched, whole)
    assert ends_alike(single, whole)


@settings(deadline=None)
@given(scripts, cuts, cuts, windows)
def test_learning_from_recorded_answers_gives_the_state_of_deciding(script, places, other_places, window):
    deciding, learning = make_task(window), make_task(window)
    answers = [outcome.answer for outcome in fold(deciding, split(as_records(script), places))]
    # As a sink gives them back, in JSON.
    recorded = [decode(encode(answer, "json"), Answer, "json") for answer in answers]
    for batch in split(list(zip(as_records(script), recorded, strict=True)), other_places):
        learning.refold([one for one, _ in batch], [answer for _, answer in batch])
    assert ends_alike(learning, deciding)


@settings(deadline=None)
@given(scripts, st.integers(0, 30), windows)
def test_stopping_anywhere_is_as_if_it_had_never_been(script, stop, window):
    whole, stopped = make_task(window), make_task(window)
    expected = told(fold(whole, [as_records(script)]))
    first, rest = as_records(script)[:stop], as_records(script)[stop:]
    outcomes = stopped.fold(first)
    again = resumed(stopped, window)
    outcomes += again.fold(rest)
    assert told(outcomes) == expected
    assert ends_alike(again, whole)


@settings(deadline=None)
@given(scripts, windows)
def test_every_record_has_one_answer_and_every_rejection_its_dead_letter(script, window):
    task, records = make_task(window), as_records(script)
    versions = {"now": 0}
    outcomes = task.fold(records)
    assert [outcome.answer.sequence for outcome in outcomes] == [one.sequence for one in records]
    assert task.sequence == len(records)
    for one, (answer, letter) in zip(records, outcomes, strict=True):
        assert answer.id == (one.event.id if one.event else None)
        assert answer.stream == (one.event.stream if one.event else None)
        assert (letter is not None) == isinstance(answer, Rejection)
        if letter is None:
            assert answer.head_version == versions["now"]
            versions["now"] += 1
            continue
        shared = ("id", "stream", "sequence", "stage", "error", "message")
        assert [getattr(letter, name) for name in shared] == [getattr(answer, name) for name in shared]
        assert answer.dead_letter == locate(one.sequence)
        assert letter.origin == one.origin
        assert bytes(letter.original) == (one.original if one.original is not None else encode(one.event))
    kinds = [type(outcome.answer) for outcome in outcomes]
    assert task.tally == Tally(
        assigned=kinds.count(Assignment),
        births=sum(outcome.answer.birth for outcome in outcomes if isinstance(outcome.answer, Assignment)),
        rejected=kinds.count(Rejection),
        controls=kinds.count(ControlApplied),
    )


@settings(deadline=None)
@given(scripts, st.sets(st.integers(0, 30)), cuts)
def test_numbers_that_are_missing_were_dropped_and_counted(script, missing, places):
    records = [one for one in as_records(script) if one.sequence not in missing]
    whole, batched = make_task(), make_task()
    fold(whole, [records])
    fold(batched, split(records, places))
    tally = whole.tally
    assert tally.dropped == (records[-1].sequence + 1 if records else 0) - len(records)
    assert tally.assigned + tally.rejected + tally.controls + tally.dropped == whole.sequence
    assert ends_alike(batched, whole)


@settings(deadline=None)
@given(st.lists(st.sampled_from("abcde"), min_size=1, max_size=25), cuts, st.integers(1, 6))
def test_an_id_is_refused_while_it_is_among_the_newest_accepted(ids, places, window):
    records = [record(n, feature(id_)) for n, id_ in enumerate(ids)]
    outcomes = fold(make_task(window), split(records, places))
    accepted: list[str] = []
    for id_, (answer, _) in zip(ids, outcomes, strict=True):
        if id_ in accepted[-window:]:
            assert (answer.stage, answer.error) == ("admission", "DuplicateError")
        else:
            assert isinstance(answer, Assignment)
            accepted.append(id_)


def test_an_id_may_return_in_another_stream_without_a_window_or_if_it_was_refused():
    outcomes = make_task().fold([record(0, feature("x")), record(1, feature("x", stream="other"))])
    assert all(isinstance(answer, Assignment) for answer, _ in outcomes)
    outcomes = make_task(window=0).fold([record(0, feature("x")), record(1, feature("x"))])
    assert all(isinstance(answer, Assignment) for answer, _ in outcomes)
    bad, good = make_task().fold([record(0, feature("x", (np.nan, 0, 0))), record(1, feature("x"))])
    assert (bad.answer.error, type(good.answer)) == ("FeatureError", Assignment)


def test_what_the_head_could_not_decide_is_remembered_all_the_same():
    """It was admitted: a replay, which does not decide, must come to the same memory."""
    records = [record(0, feature("x", (1e200, 0, 0))), record(1, feature("x"))]
    first, second = make_task().fold(records)
    assert first.answer.stage == "head"
    assert second.answer.error == "DuplicateError"


def test_control_events_take_effect_between_the_observations_around_them():
    events = [
        feature(0, CENTRES[1]),
        RenameCategory(id="r", category=1, label="bee"),
        feature(1, CENTRES[1]),
        ForgetCategory(id="f", category=1),
        feature(2, CENTRES[1]),
        MergeCategories(id="m", keep=2, absorb=0),
        feature(3, CENTRES[0]),
        ForgetCategory(id="gone", category=0),
    ]
    task = make_task()
    answers = [answer for answer, _ in task.fold([record(n, event) for n, event in enumerate(events)])]
    assert [(answers[n].category, answers[n].label, answers[n].birth) for n in (0, 2, 4)] == [
        (1, "b", False),
        (1, "bee", False),
        (2, None, True),
    ]
    applied = [answer for answer in answers if isinstance(answer, ControlApplied)]
    assert [answer.control for answer in applied] == [events[1], events[3], events[5]]
    assert (answers[-1].stage, answers[-1].error) == ("control", "UnknownCategoryError")
    assert task.tally == Tally(assigned=4, births=task.tally.births, rejected=1, controls=3)


RAW = b"\x00as it came"
IMAGE = ImageEvent(id="i", image=memoryview(b"image"), stream="cam")
FORGET = ForgetCategory(id="f", category=0, stream="cam")
NO_SUCH = ForgetCategory(id="f", category=77, stream="cam")
LARGE = TooLargeError("too large")


@pytest.mark.parametrize(
    ("event", "error", "stage", "name"),
    [
        (None, DecodeError("broken"), "source", "DecodeError"),
        (None, LARGE, "source", "TooLargeError"),
        (feature("x", stream="cam"), LARGE, "source", "TooLargeError"),
        (IMAGE, LARGE, "source", "TooLargeError"),
        (FORGET, LARGE, "source", "TooLargeError"),
        (IMAGE, EncodeError("no image"), "encoder", "EncodeError"),
        (IMAGE, None, "admission", "EncodeError"),
        (feature("x", (1.0,), stream="cam"), None, "admission", "FeatureError"),
        (feature("x", (0.0, np.nan, 0.0), stream="cam"), None, "admission", "FeatureError"),
        (feature("known", stream="cam"), None, "admission", "DuplicateError"),
        (
            FeatureEvent(id="x", features=Array.of(np.array([True] * 3)), stream="cam"),
            None,
            "admission",
            "FeatureError",
        ),
        (feature("x", (1e200, 0.0, 0.0), stream="cam"), None, "head", "FeatureError"),
        (NO_SUCH, None, "control", "UnknownCategoryError"),
    ],
)
@pytest.mark.parametrize("original", [RAW, None])
def test_each_kind_of_rejection_says_where_and_why_and_keeps_the_bytes(event, error, stage, name, original):
    """With a good event before and behind it, in one batch, which nothing happens to."""
    if event is None:
        original = RAW
    task, alone = make_task(), make_task()
    before, behind = feature("known", CENTRES[0], stream="cam"), feature("next", CENTRES[1], stream="cam")
    bad = record(1, event, error=error, original=original)
    first, (answer, letter), last = task.fold([record(0, before), bad, record(2, behind)])
    assert (answer.stage, answer.error) == (stage, name)
    assert answer.id == (event.id if event else None)
    assert answer.stream == ("cam" if event else None)
    assert answer.message
    assert bytes(letter.original) == (original or encode(event))
    assert told([first, last]) == told(alone.fold([record(0, before), record(2, behind)]))
    assert bits(task.universe.head.state()) == bits(alone.universe.head.state())
    assert decode(encode(answer), Answer) == answer


def answered(*events) -> tuple[list, list[Answer]]:
    records = [record(n, event) for n, event in enumerate(events)]
    return records, [answer for answer, _ in make_task().fold(records)]


@pytest.mark.parametrize(
    "changed",
    [feature("other", CENTRES[0]), feature("x", (np.nan, 0, 0)), FORGET, IMAGE],
    ids=["id", "NaN", "kind", "image"],
)
def test_an_input_that_is_not_the_one_answered_is_noticed(changed):
    _, answers = answered(feature("x", CENTRES[0]))
    with pytest.raises(StateMismatchError, match=r"record 0 \(test@0\) is not the input that was answered as 'x'"):
        make_task().refold([record(0, changed)], answers)


@pytest.mark.parametrize(
    "changed", [feature("f", CENTRES[0]), NO_SUCH.__class__(id="g", category=0)], ids=["kind", "id"]
)
def test_a_control_event_that_is_not_the_one_answered_is_noticed(changed):
    _, answers = answered(FORGET)
    with pytest.raises(StateMismatchError, match="the input was changed since"):
        make_task().refold([record(0, changed)], answers)


def test_answers_of_another_state_are_noticed():
    forget, assign = answered(FORGET), answered(feature("x", CENTRES[0]))
    task = make_task()
    task.universe.head.forget(0)
    for records, answers in (forget, assign):
        with pytest.raises(StateMismatchError, match="another state"):
            task.refold(records, answers)


def test_nothing_to_fold_changes_nothing():
    task = make_task()
    before = bits(task.state())
    assert task.fold([]) == []
    task.refold([], [])
    assert bits(task.state()) == before
    assert task.tally == Tally()


@settings(deadline=None, max_examples=40)
@given(st.text(max_size=30), st.integers(0, 3 * MESSAGE_CHARACTERS))
def test_a_message_is_bounded_however_long_what_it_quotes(text, times):
    """And begins as it would have begun."""
    message = text * times
    (outcome,) = make_task().fold([record(0, error=DecodeError(message), original=b"all of it")])
    answer, letter = outcome
    assert answer.message == letter.message
    assert len(answer.message) <= MESSAGE_CHARACTERS + 1
    assert message.startswith(answer.message.removesuffix("…") if len(message) > MESSAGE_CHARACTERS else message)
    assert (answer.message == message) == (len(message) <= MESSAGE_CHARACTERS)
    assert bytes(letter.original) == b"all of it"


@settings(deadline=None)
@given(scripts, scripts, st.integers(0, 29))
def test_a_record_with_another_name_than_its_answer_is_noticed_whatever_the_answer(script, others, place):
    """Each record in turn is replaced by another one: either it has the very name, or it is refused."""
    place %= len(script)
    answers = [answer for answer, _ in make_task().fold(as_records(script))]
    for other in others:
        changed = as_records([*script[:place], other, *script[place + 1 :]])
        event = changed[place].event
        named = (event.id, event.stream) if event else (None, None)
        if named != (answers[place].id, answers[place].stream):
            with pytest.raises(StateMismatchError, match="the input was changed since"):
                make_task().refold(changed, answers)


@settings(deadline=None)
@given(st.lists(st.tuples(st.sampled_from("ab"), st.booleans()), min_size=1, max_size=10), cuts)
def test_an_id_counts_once_for_observations_and_control_events_alike(drawn, places):
    def event(id_, control):
        return RenameCategory(id=id_, category=0, label=f"by {id_}") if control else feature(id_)

    records = [record(n, event(*one)) for n, one in enumerate(drawn)]
    seen = set()
    for (id_, control), (answer, _) in zip(drawn, fold(make_task(), split(records, places)), strict=True):
        if id_ in seen:
            assert (answer.error, answer.stage) == ("DuplicateError", "control" if control else "admission")
        else:
            assert isinstance(answer, ControlApplied if control else Assignment)
        seen.add(id_)
