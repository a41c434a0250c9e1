"""Which logs the task of a seat reads: all partitions if it is the only task, else those of its number."""

from collections.abc import Mapping
from typing import NamedTuple

from speciate.errors import ConfigError, StateMismatchError
from speciate.stages import Seat
from speciate_plugins.kafka.layout import Selection, check_layout
from speciate_plugins.kafka.options import KafkaSourceOptions
from speciate_plugins.kafka.positions import Log
from speciate_plugins.kafka.topics import REFOLD


class TaskLogs(NamedTuple):
    """What one task reads."""

    data: tuple[Log, ...]
    control: Log | None

    @property
    def all(self) -> tuple[Log, ...]:
        """The data and the control log."""
        return self.data if self.control is None else (*self.data, self.control)


def selection_of(options: KafkaSourceOptions) -> Selection:
    """The input topics as the options name them."""
    return Selection(options.pattern if options.topics is None and options.pattern else options.topics or ())


def choose_logs(options: KafkaSourceOptions, seat: Seat, counts: Mapping[str, int]) -> TaskLogs:
    """The logs of a task, given the partitions of every topic there is.

    Raises:
        ConfigError: if a topic does not exist, or the control topic does not have one partition for each task.
        StateMismatchError: if there are several tasks and an input topic does not have one partition for each.
    """
    selection = selection_of(options)
    topics = selection.pick({topic: count for topic, count in counts.items() if topic != options.control})
    check_layout(selection, topics, together=True)
    control = _control_log(options, seat, counts)
    if seat.count == 1:
        return TaskLogs(tuple(Log(topic, number) for topic in topics for number in range(topics[topic])), control)
    for topic, count in topics.items():
        if count != seat.count:
            raise StateMismatchError(
                f"{selection}: {topic!r} has {count} partitions, but there are {seat.count} tasks, one for each "
                f"partition: the number was changed, or the topics differ in it; {REFOLD}"
            )
    return TaskLogs(tuple(Log(topic, seat.number) for topic in topics), control)


def _control_log(options: KafkaSourceOptions, seat: Seat, counts: Mapping[str, int]) -> Log | None:
    name = options.control
    if name is None:
        return None
    if name not in counts:
        raise ConfigError(
            f"control: there is no topic {name!r}, or we may not see it: create it with `speciate topics create "
            "CONFIG`, give us the right to describe and read it, or correct the name"
        )
    if counts[name] != seat.count:
        raise ConfigError(
            f"control = {name!r} has {counts[name]} partitions, but it needs one for each task, which is {seat.count}: "
            f"make it anew with {seat.count}, or name another"
        )
    return Log(name, seat.number)
