"""Whose a message is: which task of those there are now learns from it."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from speciate_plugins.kafka.positions import Log

KEYS = 1 << 16
"""Keys whose partition is remembered: working it out in Python takes as long as deciding on some events."""


class Dealer:
    """Deals messages among `count` tasks as the partitions of a topic are dealt among them.

    A message that was written when its topic had another number of partitions (`moved` says up to where) goes to the
    partition that Kafka's own partitioner chooses for its key now. All others, messages without a key and those of
    the `control` topic stay with their own.
    """

    def __init__(self, count: int, *, control: str | None, moved: Mapping[Log, int]) -> None:
        from aiokafka.partitioner import DefaultPartitioner  # noqa: PLC0415 - only who uses Kafka has it

        self._count = count
        self._control = control
        self._moved = moved
        partitioner, numbers = DefaultPartitioner(), list(range(count))

        @lru_cache(KEYS)
        def partition_of(key: bytes) -> int:
            number: int = partitioner(key, numbers, numbers)
            return number

        self._partition_of = partition_of

    def task_of(self, message: Any) -> int:
        """The number of the task whose the message is."""
        if self._count == 1:
            return 0
        before = message.offset < self._moved.get(Log(message.topic, message.partition), 0)
        if before and message.key is not None and message.topic != self._control:
            return self._partition_of(message.key)
        return int(message.partition)
