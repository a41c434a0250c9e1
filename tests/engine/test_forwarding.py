"""Handing on: what a pipeline behind this one reads is as good as the input, and the unusable keeps its bytes."""

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from worlds import CENTRES, as_records, bits, feature, inputs, make_head, record, split

from speciate.errors import DecodeError, EncodeError, ForwardedError, StateMismatchError, TooLargeError
from speciate.forwarding import Forwarding
from speciate.outcomes import MESSAGE_CHARACTERS
from speciate.task import Task
from speciate.universe import Universe
from speciate_schemas import (
    Assignment,
    DeadLetter,
    FeatureEvent,
    ImageEvent,
    Rejection,
    Tally,
    encode,
)

IMAGE = ImageEvent(id="i", image=memoryview(b"image"), media_type="image/png", stream="cam", time=3.5, label="dog")
VECTOR = np.array([1.5, -2.0, 0.25], dtype=np.float32)

scripts = st.lists(inputs(), max_size=25)
cuts = st.lists(st.integers(1, 30), max_size=4)


def make_task():
    return Task(Universe(make_head()), duplicate_window=100, locate=lambda sequence: f"dead#{sequence}")


def encoded(records):
    """As the encoder leaves them: every image without an error has features."""
    for one in records:
        if isinstance(one.event, ImageEvent) and one.error is None:
            one.features = VECTOR
    return records


def forwarded(records, *, encodes=True):
    return [outcome.answer for outcome in Forwarding(encodes=encodes).fold(records)]


def behind(outputs, start=0):
    """The records that a source makes of what was handed on."""
    return [
        record(start + place, error=ForwardedError.of(one), original=encode(one))
        if isinstance(one, DeadLetter)
        else record(start + place, one)
        for place, one in enumerate(outputs)
    ]


def told(answer):
    """What an answer says of its input, whichever way that came."""
    gone = {"origin": ""} | ({"dead_letter": ""} if isinstance(answer, Rejection) else {})
    return bits(msgspec.structs.replace(answer, **gone))


@settings(deadline=None, max_examples=60)
@given(scripts, cuts)
def test_decided_behind_another_pipeline_is_decided_all_the_same(script, places):
    direct, far = make_task(), make_task()
    expected = direct.fold(encoded(as_records(script)))
    records = behind(forwarded(encoded(as_records(script))))
    outcomes = [outcome for batch in split(records, places) for outcome in far.fold(batch)]
    assert [told(one.answer) for one in outcomes] == [told(one.answer) for one in expected]
    assert bits(far.state()) == bits(direct.state())
    assert far.tally == direct.tally


@settings(deadline=None, max_examples=60)
@given(scripts, cuts, cuts)
def test_forwarded_answers_can_be_folded_again(script, some, others):
    first, again = make_task(), make_task()
    outputs = forwarded(encoded(as_records(script)))
    answers = [one.answer for batch in split(behind(outputs), some) for one in first.fold(batch)]
    for batch in split(list(zip(behind(outputs), answers, strict=True)), others):
        again.refold([one for one, _ in batch], [answer for _, answer in batch])
    assert bits(again.state()) == bits(first.state())
    assert again.tally == first.tally


@settings(deadline=None)
@given(scripts, cuts, st.booleans())
def test_there_is_one_output_a_record_whatever_the_batches(script, places, encodes):
    one, other = Forwarding(encodes=encodes), Forwarding(encodes=encodes)
    at_once = [outcome.answer for outcome in one.fold(encoded(as_records(script)))]
    records = encoded(as_records(script))
    in_parts = [outcome.answer for batch in split(records, places) for outcome in other.fold(batch)]
    assert list(map(bits, at_once)) == list(map(bits, in_parts))
    assert len(at_once) == len(script) == one.sequence == other.sequence
    letters = sum(isinstance(output, DeadLetter) for output in at_once)
    assert one.tally == other.tally == Tally(forwarded=len(script) - letters, rejected=letters)


@settings(deadline=None)
@given(scripts)
def test_what_is_usable_leaves_as_it_came(script):
    records = as_records(script)
    for one, output in zip(records, forwarded(records, encodes=False), strict=True):
        if one.error is None:
            assert output is one.event
        else:
            assert isinstance(output, DeadLetter)


def test_an_image_leaves_as_features_with_all_that_was_said_of_it():
    (output,) = forwarded(encoded([record(0, IMAGE)]))
    assert isinstance(output, FeatureEvent)
    assert (output.id, output.stream, output.time, output.label) == ("i", "cam", 3.5, "dog")
    assert output.features.numpy().tobytes() == VECTOR.tobytes()
    assert output.features.numpy().dtype == VECTOR.dtype


def test_features_that_are_none_are_a_dead_letter_with_the_image():
    one = record(0, IMAGE)
    one.features = np.zeros((2, 2))
    (letter,) = forwarded([one])
    assert (letter.stage, letter.error, letter.id, letter.stream) == ("encoder", "FeatureError", "i", "cam")
    assert bytes(letter.original) == encode(IMAGE)


@pytest.mark.parametrize(
    ("event", "error", "original", "stage"),
    [
        (None, DecodeError("no event"), b"\x00broken", "source"),
        (IMAGE, EncodeError("no image"), None, "encoder"),
        (feature("large"), TooLargeError("too much"), b"as it came", "source"),
    ],
)
def test_the_unusable_leaves_as_a_dead_letter_with_its_bytes(event, error, original, stage):
    (letter,) = forwarded([record(7, event, error=error, original=original)])
    assert isinstance(letter, DeadLetter)
    assert (letter.stage, letter.error, letter.message) == (stage, type(error).__name__, str(error))
    assert (letter.sequence, letter.origin) == (7, "test@7")
    assert (letter.id, letter.stream) == ((event.id, event.stream) if event else (None, None))
    assert bytes(letter.original) == (original or encode(event))


def make_letter(**changes):
    fields = {"id": "x", "stream": "cam", "sequence": 3, "stage": "encoder", "error": "EncodeError", "message": "no"}
    return DeadLetter(**{**fields, "origin": "front@3", "original": memoryview(b"bytes"), **changes})


def test_a_dead_letter_is_handed_on_by_the_next_pipeline_as_it_is():
    letter = make_letter()
    forwarding = Forwarding(encodes=True)
    (outcome,) = forwarding.fold(behind([letter], 9))
    assert outcome.answer is letter
    assert outcome.dead_letter is None
    assert forwarding.tally == Tally(rejected=1, dropped=9)


@pytest.mark.parametrize("named", [{}, {"id": None, "stream": None}, {"stage": "head"}])
def test_a_dead_letter_from_in_front_is_one_rejection_and_one_dead_letter(named):
    letter = make_letter(**named)
    task, again = make_task(), make_task()
    (outcome,) = task.fold(behind([letter], 5))
    assert outcome.answer == Rejection(
        id=letter.id,
        stream=letter.stream,
        sequence=5,
        stage=letter.stage,
        error="EncodeError",
        message="no",
        dead_letter="dead#5",
        origin="test@5",
    )
    assert outcome.dead_letter == msgspec.structs.replace(letter, sequence=5)
    assert task.tally == Tally(rejected=1, dropped=5)
    again.refold(behind([letter], 5), [outcome.answer])
    assert bits(again.state()) == bits(task.state())
    assert again.tally == task.tally


def test_a_dead_letter_takes_no_id():
    """What was never decided is no duplicate when it comes whole."""
    task = make_task()
    records = [*behind([make_letter()]), record(1, feature("x", CENTRES[0], stream="cam"))]
    first, second = (outcome.answer for outcome in task.fold(records))
    assert isinstance(first, Rejection)
    assert isinstance(second, Assignment)


@pytest.mark.parametrize("changed", [make_letter(id="y"), make_letter(stream=""), make_letter(id=None, stream=None)])
def test_another_dead_letter_than_the_one_answered_is_noticed(changed):
    (outcome,) = make_task().fold(behind([make_letter()]))
    with pytest.raises(StateMismatchError, match="is not the input that was answered as 'x'"):
        make_task().refold(behind([changed]), [outcome.answer])
    with pytest.raises(StateMismatchError, match="is not the input that was answered as 'x'"):
        make_task().refold([record(0)], [outcome.answer])


def test_what_a_hostile_dead_letter_says_is_bounded_and_its_bytes_are_not():
    """An answer must be readable again, however much somebody writes into the topic in front."""
    flood = "\x01" * 1_000_000
    letter = make_letter(stage=flood, error=flood, message=flood, original=memoryview(flood.encode()))
    (outcome,) = make_task().fold(behind([letter]))
    answer = outcome.answer
    assert all(len(said) == MESSAGE_CHARACTERS + 1 for said in (answer.stage, answer.error, answer.message))
    assert len(encode(answer, "json")) < 20_000
    assert bytes(outcome.dead_letter.original) == flood.encode()


def test_what_was_dropped_in_front_is_counted():
    forwarding = Forwarding(encodes=False, sequence=10, tally=Tally(forwarded=8, dropped=2))
    forwarding.fold([record(n) for n in (12, 13, 15)])
    assert (forwarding.sequence, forwarding.tally) == (16, Tally(forwarded=11, dropped=5))
    forwarding.skip_to(20)
    assert (forwarding.sequence, forwarding.tally) == (20, Tally(forwarded=11, dropped=9))
    assert forwarding.fold([]) == []
    assert forwarding.sequence == 20
