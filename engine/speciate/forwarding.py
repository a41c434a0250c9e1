"""Handing on: a task without a head. Events leave as they came, images as features, the unusable as dead letters."""

from collections.abc import Sequence

import msgspec

from speciate.admission import features_of
from speciate.errors import EventError, ForwardedError
from speciate.outcomes import Outcome, dead_letter, stage_of
from speciate.stages import Output, Record
from speciate_schemas import Array, FeatureEvent, ImageEvent, Tally


class Forwarding:
    """Turns records into what a pipeline behind this one reads; it keeps nothing but its place."""

    def __init__(self, *, encodes: bool, sequence: int = 0, tally: Tally | None = None) -> None:
        self._encodes = encodes
        self.sequence = sequence
        """Number of the next input."""
        self.tally = tally or Tally()

    def fold(self, records: Sequence[Record]) -> list[Outcome]:
        """One output a record, in order."""
        outputs = [self._output(record) for record in records]
        if records:
            rejected = sum(record.error is not None for record in records)
            dropped = records[-1].sequence + 1 - self.sequence - len(records)
            self.sequence = records[-1].sequence + 1
            self.tally = msgspec.structs.replace(
                self.tally,
                forwarded=self.tally.forwarded + len(records) - rejected,
                rejected=self.tally.rejected + rejected,
                dropped=self.tally.dropped + dropped,
            )
        return [Outcome(output) for output in outputs]

    def skip_to(self, sequence: int) -> None:
        """Go on at a later input: those between were dropped."""
        dropped = self.tally.dropped + sequence - self.sequence
        self.sequence, self.tally = sequence, msgspec.structs.replace(self.tally, dropped=dropped)

    def _output(self, record: Record) -> Output:
        event = record.event
        try:
            if record.error is not None:
                raise record.error
            if isinstance(event, ImageEvent) and self._encodes:
                return FeatureEvent(
                    id=event.id,
                    features=Array.of(features_of(record)),
                    stream=event.stream,
                    time=event.time,
                    label=event.label,
                )
        except ForwardedError as error:
            return error.letter
        except EventError as error:
            record.error = error
            return dead_letter(record, error, stage_of(record, error))
        assert event is not None  # noqa: S101  # a record without an event has an error
        return event
