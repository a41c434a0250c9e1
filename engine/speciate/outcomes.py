"""What is written for an input: its answer, and for one that cannot be used the dead letter beside it."""

from collections.abc import Callable
from typing import NamedTuple

import msgspec

from speciate.errors import EventError, TooLargeError
from speciate.head import Decision
from speciate.stages import Output, Record
from speciate_schemas import Assignment, DeadLetter, Rejection, encode

MESSAGE_CHARACTERS = 500

Locate = Callable[[int], str]
"""Tells where the dead letter of an input is to be found."""


class Outcome(NamedTuple):
    """What is written for one input, mostly its answer, and for a rejection the dead letter that goes with it."""

    answer: Output
    dead_letter: DeadLetter | None = None


def dead_letter(record: Record, error: EventError, stage: str) -> DeadLetter:
    """An input that cannot be used, why, and all of its bytes."""
    event = record.event
    return DeadLetter(
        id=event.id if event else None,
        stream=event.stream if event else None,
        sequence=record.sequence,
        stage=stage,
        error=type(error).__name__,
        message=_bounded(str(error)),
        origin=record.origin,
        original=memoryview(record.original if record.original is not None else encode(event)),
    )


def passed_on(letter: DeadLetter, sequence: int) -> DeadLetter:
    """A dead letter of a pipeline in front of this one: its reason, its bytes and their origin, our number."""
    said = {name: _bounded(getattr(letter, name)) for name in ("stage", "error", "message")}
    return msgspec.structs.replace(letter, sequence=sequence, **said)


def assignment(record: Record, decision: Decision, version: int) -> Assignment:
    """The answer to an event that was decided about, by the head after so many changes."""
    event = record.event
    assert event is not None  # noqa: S101  # admission refuses a record without an event
    return Assignment(
        id=event.id,
        stream=event.stream,
        sequence=record.sequence,
        category=decision.category,
        label=decision.label,
        birth=decision.birth,
        log_evidence=decision.log_evidence,
        margin=decision.margin,
        probability=decision.probability,
        drift=decision.drift,
        head_version=version,
        origin=record.origin,
    )


def rejected(record: Record, letter: DeadLetter, locate: Locate) -> Outcome:
    """The answer to an input that cannot be used, with its dead letter."""
    rejection = Rejection(
        id=letter.id,
        stream=letter.stream,
        sequence=record.sequence,
        stage=letter.stage,
        error=letter.error,
        message=letter.message,
        origin=record.origin,
        dead_letter=locate(record.sequence),
    )
    return Outcome(rejection, letter)


def stage_of(record: Record, refusal: EventError) -> str:
    """Where an input was refused: one with an error of its own failed before it came here."""
    if refusal is not record.error:
        return "admission"
    # A whole event that is too large was refused where it was read.
    return "source" if record.event is None or isinstance(refusal, TooLargeError) else "encoder"


def _bounded(message: str) -> str:
    """A message that quotes a hostile input must not be as large as the input; the dead letter has all of it."""
    return message if len(message) <= MESSAGE_CHARACTERS else f"{message[:MESSAGE_CHARACTERS]}…"
