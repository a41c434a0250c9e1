"""The mark on the last record of a commit: what of the input is answered. The outputs themselves are the truth."""

from typing import Any

import msgspec

from speciate.errors import StateMismatchError
from speciate_plugins.kafka.positions import Log
from speciate_schemas import Position, decode, encode

HEADER = "speciate-commit"


class Mark(msgspec.Struct, frozen=True, omit_defaults=True):
    """How far the input is answered by this record and those before it."""

    sequence: int
    """Number of the first input that is not answered."""
    source: Position | None
    """Where the source goes on."""
    tasks: int
    """Number of tasks the input was split into."""
    moved: Position = ()
    """Before these offsets keys were dealt among another number of partitions; what came before them was learnt by the
    task that has its key since, whichever log it lies in."""
    refolding: bool = False
    """True if the state behind these answers was given up for a new one, which is not there yet."""
    writer: str = ""
    """Who wrote it, in a topic that several write to."""


def header_of(mark: Mark) -> tuple[str, bytes]:
    """The header to put on a record."""
    return HEADER, encode(mark)


def mark_of(record: Any, writer: str = "") -> tuple[Mark, int] | None:
    """The mark of a writer on a record of aiokafka, and the offset behind the record; None if it bears none.

    Raises:
        StateMismatchError: if there is something else in its place.
    """
    for name, value in record.headers:
        if name == HEADER:
            try:
                mark: Mark = decode(value or b"", Mark)
            except msgspec.DecodeError as error:
                place = Log(record.topic, record.partition).origin(record.offset)
                raise StateMismatchError(
                    f"{place} has a header {HEADER} that is none of ours ({error}); use a topic of its own for answers"
                ) from error
            return (mark, record.offset + 1) if mark.writer == writer else None
    return None
