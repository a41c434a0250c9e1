"""A message of Kafka as a record of the pipeline."""

from typing import Any

from speciate.errors import DecodeError, EventError, ForwardedError
from speciate.stages import Record
from speciate_plugins.kafka.payloads import KafkaMessage, Payload, decode_message
from speciate_plugins.kafka.positions import Log
from speciate_schemas import Control, DeadLetter, Event, Position


def make_record(
    message: Any, payload: Payload, *, sequence: int, position: Position, only_control: bool = False
) -> Record:
    """The record of an aiokafka message; what cannot be used has its error, and in any case its bytes."""
    event: Event | None = None
    error: EventError | None = None
    try:
        found = decode_message(KafkaMessage.of(message), payload)
        if only_control and not isinstance(found, Control):
            raise DecodeError(
                f"{type(found).__name__} is no control event, and only those belong into the control topic"
            )
        if isinstance(found, DeadLetter):
            error = ForwardedError.of(found)
        else:
            event = found
    except EventError as problem:
        error = problem
    value = message.value or b""
    return Record(
        sequence=sequence,
        position=position,
        origin=Log(message.topic, message.partition).origin(message.offset),
        nbytes=len(value),
        event=event,
        original=value,
        error=error,
    )
