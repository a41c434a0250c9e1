"""Places in the logs of Kafka: what a partition is called, and where a source that reads several of them stands.

A position lists every log with the offset of the next message wanted from it: (topic, partition, offset, topic, …),
sorted. An origin names one message, `topic/partition@offset`.
"""

from collections.abc import Mapping
from typing import NamedTuple

from speciate.errors import SourceError
from speciate_plugins.kafka.remedies import START_OVER
from speciate_schemas import Position


class Log(NamedTuple):
    """One partition of one topic: a log with an order of its own. Equal to aiokafka's `TopicPartition`."""

    topic: str
    partition: int

    def origin(self, offset: int) -> str:
        """The name of a message in it."""
        return f"{self.topic}/{self.partition}@{offset}"

    def __str__(self) -> str:
        return f"{self.topic}/{self.partition}"


def read_origin(origin: str) -> tuple[Log, int]:
    """The log and the offset of the message that an origin names.

    Raises:
        SourceError: if it names none.
    """
    log, _, offset = origin.rpartition("@")
    topic, _, partition = log.rpartition("/")
    if not (topic and _is_number(partition) and _is_number(offset)):
        raise SourceError(
            f"{origin!r} is no message of Kafka, which would be topic/partition@offset: "
            f"the answers were made from another source; restore [source] or {START_OVER}"
        )
    return Log(topic, int(partition)), int(offset)


def read_position(position: Position) -> dict[Log, int]:
    """The next offset of each log.

    Raises:
        SourceError: if the position was not made by this source.
    """
    topics, partitions, offsets = position[::3], position[1::3], position[2::3]
    places = {
        Log(topic, partition): offset
        for topic, partition, offset in zip(topics, partitions, offsets, strict=False)
        if isinstance(topic, str) and isinstance(partition, int) and isinstance(offset, int)
    }
    if not places or 3 * len(places) != len(position):
        raise SourceError(f"position {position!r} was not made by this source; restore [source] or {START_OVER}")
    return places


class Places:
    """Where a source stands in each of its logs."""

    def __init__(self, offsets: Mapping[Log, int]) -> None:
        ordered = sorted(offsets.items())
        self._flat: list[int | str] = [part for log, offset in ordered for part in (log.topic, log.partition, offset)]
        self._slots = {log: 3 * index + 2 for index, (log, _) in enumerate(ordered)}

    def __getitem__(self, log: Log) -> int:
        """The offset of the next message wanted from a log."""
        return int(self._flat[self._slots[log]])

    def move(self, log: Log, offset: int) -> Position:
        """Go on at `offset` in one log; the position that makes."""
        self._flat[self._slots[log]] = offset
        return tuple(self._flat)

    @property
    def position(self) -> Position:
        """Where all of them stand."""
        return tuple(self._flat)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal()
