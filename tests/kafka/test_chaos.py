"""Killed, frozen and left without a broker, a group of workers answers everything exactly once.

A short schedule here; the long one is `python tests/kafka/chaos.py`. And a check that finds nothing proves nothing, so
the check itself is shown what it must find.
"""

import logging
from dataclasses import replace
from pathlib import Path

import pytest
from aiokafka.structs import ConsumerRecord
from chaos import Options, Span, first_after, longest_pause, plan, quantile, unleash
from chaos_check import check_answers, check_births, check_dead_letters
from chaos_stream import ANSWERS, BIRTHS, CONTROL, DEAD_LETTERS, EVENTS, messages

from speciate_schemas import Assignment, ControlApplied, DeadLetter, Rejection, RenameCategory, encode

SHORT = Options(events=6000, partitions=3, workers=2, kills=5, stops=2, broker_kills=1, standby=1, seed=4)


async def test_whatever_happens_to_workers_and_broker_each_input_is_answered_once(
    kafka_runs_here: None, tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    caplog.set_level(logging.CRITICAL, "aiokafka")  # it says again and again that the broker is away
    toll = await unleash(SHORT, tmp_path)
    assert toll.done == {"kill": SHORT.kills, "stop": SHORT.stops, "broker": SHORT.broker_kills}
    assert toll.inputs >= SHORT.events
    assert toll.restores > SHORT.partitions, "nobody took over from anybody: the schedule proved nothing"
    tallies = [found.tally for found in toll.found.values()]
    assert all(tally.rejected and tally.controls and tally.births for tally in tallies), "the stream was too simple"


def test_a_plan_follows_from_its_seed_alone_and_holds_all_that_was_ordered():
    acts = plan(SHORT)
    assert acts == plan(SHORT)
    assert acts != plan(replace(SHORT, seed=SHORT.seed + 1))
    kinds = [act.kind for act in acts]
    assert (kinds.count("kill"), kinds.count("stop"), kinds.count("broker")) == (5, 2, 1)
    assert all(act.away * 1000 > SHORT.session_ms for act in acts if act.kind == "stop"), "nobody would take over"


def test_the_stream_follows_from_its_seed_and_reaches_every_partition():
    first, again = messages(3, 4), messages(3, 4)
    taken = [next(first) for _ in range(2000)]
    assert taken == [next(again) for _ in range(2000)]
    assert {(message.topic, message.partition) for message in taken} == {
        (topic, number) for topic in (EVENTS, CONTROL) for number in range(4)
    }


def test_the_longest_pause_is_the_one_that_an_act_fell_into_or_set_off():
    times = [0.0, 1.0, 5.0, 5.5, 9.0, 9.1]
    assert longest_pause(times, 2.0, reach=0.0) == Span(1.0, 5.0)
    assert longest_pause(times, 5.1, reach=1.0) == Span(5.5, 9.0)
    assert longest_pause(times, 10.0, reach=1.0).seconds == 0.0
    assert first_after(times, 5.1) == Span(5.1, 5.5)
    assert quantile([3.0, 1.0, 2.0], 0.5) == 2.0


def record(topic: str, offset: int, value: bytes | None) -> ConsumerRecord:
    return ConsumerRecord(topic, 0, offset, 0, 0, None, value, 0, 0, 0, ())


def assignment(sequence: int, origin: str, *, birth: bool = False) -> Assignment:
    return Assignment(
        id=f"event-{sequence}",
        stream="",
        sequence=sequence,
        category=0,
        label=None,
        birth=birth,
        log_evidence=0.0,
        margin=None,
        probability=1.0,
        drift=None,
        head_version=0,
        origin=origin,
    )


RENAME = RenameCategory(id="rename", category=0, label="name")
BAD = {"id": None, "stream": None, "sequence": 1, "stage": "source", "error": "DecodeError", "message": "no event"}
RIGHT = [
    assignment(0, "events/0@0", birth=True),
    Rejection(**BAD, origin="events/0@1", dead_letter="dead-letters/0#1"),
    ControlApplied(id="rename", stream="", sequence=2, control=RENAME, head_version=1, origin="control/0@0"),
    assignment(3, "events/0@2"),
]
LETTER = DeadLetter(**BAD, origin="events/0@1", original=memoryview(b"damaged"))


def logs(answers=RIGHT, letters=(LETTER,), births=(RIGHT[0],)):
    """What the topics hold after three events and a control event."""
    encoded = [encode(answer, "json") for answer in answers]
    found = {
        EVENTS: [b"first", b"damaged", b"last"],
        CONTROL: [encode(RENAME)],
        ANSWERS: encoded,
        DEAD_LETTERS: [encode(letter) for letter in letters],
        BIRTHS: [encode(answer, "json") for answer in births],
    }
    return {
        topic: {0: [record(topic, offset, value) for offset, value in enumerate(values)]}
        for topic, values in found.items()
    }


def check(found) -> None:
    answers = check_answers(found, 0)
    check_dead_letters(found, 0, answers)
    check_births(found, 0, answers)


def test_the_check_is_content_with_what_is_right():
    check(logs())


@pytest.mark.parametrize(
    ("answers", "complaint"),
    [
        (RIGHT[:3], "1 of 4 inputs are not answered"),
        ([*RIGHT, assignment(4, "events/0@2")], "1 inputs are answered more than once"),
        ([*RIGHT, assignment(4, "events/1@0")], "1 answers have no input"),
        ([*RIGHT[:3], assignment(7, "events/0@2")], "answer 3 has the number 7"),
        ([assignment(0, "events/0@2"), *RIGHT[1:3], assignment(3, "events/0@0")], "were answered in this order"),
    ],
)
def test_the_check_finds_answers_that_are_lost_doubled_strange_or_out_of_order(answers, complaint: str):
    with pytest.raises(AssertionError, match=complaint):
        check(logs(answers))


@pytest.mark.parametrize(
    ("letters", "complaint"),
    [
        ((), "0 dead letters for 1 rejections"),
        ((LETTER, LETTER), "2 dead letters for 1 rejections"),
        ((DeadLetter(**BAD, origin="events/0@1", original=memoryview(b"damage")),), "has other bytes"),
        ((DeadLetter(**BAD, origin="events/0@2", original=memoryview(b"last")),), "events/0@2"),
    ],
)
def test_the_check_finds_dead_letters_that_are_missing_doubled_or_changed(letters, complaint: str):
    with pytest.raises(AssertionError, match=complaint):
        check(logs(letters=letters))


@pytest.mark.parametrize("births", [(), (RIGHT[0], RIGHT[0]), (RIGHT[3],)])
def test_the_check_finds_births_that_are_missing_doubled_or_none(births):
    with pytest.raises(AssertionError, match="for 1 births"):
        check(logs(births=births))
