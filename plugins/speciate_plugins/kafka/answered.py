"""What of the input is answered: what the last marks in all partitions of the answers tell together.

A mark says it of the logs of its task, and tasks may have had other logs before, or be fewer or more now. A log is
answered as far as the farthest mark says.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from speciate.logs import get_logger
from speciate.stages import Seat
from speciate_plugins.kafka.logs import Span, check_within
from speciate_plugins.kafka.marks import Mark
from speciate_plugins.kafka.options import KafkaSourceOptions
from speciate_plugins.kafka.positions import Log, Places, read_position
from speciate_plugins.kafka.seating import TaskLogs, choose_logs
from speciate_plugins.kafka.tail import LogReader
from speciate_plugins.kafka.topics import count_partitions
from speciate_schemas import Position

log = get_logger(__name__)


class History(NamedTuple):
    """How far logs are answered, and how keys were dealt among them."""

    answered: dict[Log, int]
    """The first offset of each log that is not answered."""
    moved: dict[Log, int]
    """Before this offset of a log, keys were dealt among another number of partitions than its topic has now."""


def merge_marks(marks: Iterable[Mark], counts: Mapping[str, int]) -> History:
    """What the marks say together; `counts` is how many partitions every topic has now."""
    history = History({}, {})
    for mark in marks:
        places = read_position(mark.source) if mark.source else {}
        moved = read_position(mark.moved) if mark.moved else {}
        for place, offset in places.items():
            # One task reads all partitions; of several, each reads one of every topic.
            before = mark.tasks if mark.tasks > 1 else sum(one.topic == place.topic for one in places)
            kept = moved.get(place, 0) if before == counts.get(place.topic) else offset
            history.answered[place] = max(offset, history.answered.get(place, 0))
            history.moved[place] = max(kept, history.moved.get(place, 0))
    return history


class Survey(NamedTuple):
    """The input of all tasks, and how far it is answered."""

    logs: tuple[TaskLogs, ...]
    """Of each task."""
    spans: dict[Log, Span]
    history: History
    begun: dict[Log, int]
    """Where logs begin of which nothing is answered, if that was settled once; else they do at their oldest."""

    @property
    def ends(self) -> dict[Log, int]:
        """Where the part of each log ends that is answered and still there to be learnt from."""
        return {
            place: offset
            for place, offset in self.history.answered.items()
            if place in self.spans and offset > self.spans[place].first
        }

    @property
    def records(self) -> int:
        """About how many records that is; markers of transactions count too."""
        return sum(end - self.spans[place].first for place, end in self.ends.items())

    def position(self, number: int) -> Position:
        """Where a task goes on: each log where the answers end, one that nobody has read yet at its beginning."""
        known = {**self.begun, **self.history.answered}
        return Places({one: known.get(one, self.spans[one].first) for one in self.logs[number].all}).position

    def moved(self, number: int) -> Position:
        """What a mark of the task says of keys that were dealt otherwise before."""
        moved = {one: self.history.moved.get(one, 0) for one in self.logs[number].all}
        return Places({one: offset for one, offset in moved.items() if offset}).position


async def survey(
    options: KafkaSourceOptions, count: int, marks: Iterable[Mark], begun: Iterable[Position] = ()
) -> Survey:
    """Look at the input of `count` tasks; `begun` tells where logs begin of which nothing is answered yet.

    Raises:
        SourceError: if a topic is not there, or a log no longer has what comes behind what is answered.
        ConfigError: if topics do not have the partitions that so many tasks need.
    """
    counts = await count_partitions(options)
    history = merge_marks(marks, counts)
    beginnings = {place: offset for position in begun for place, offset in read_position(position).items()}
    logs = tuple(choose_logs(options, Seat(number, count), counts) for number in range(count))
    async with LogReader(options) as reader:
        bounds = await reader.bounds([place for one in logs for place in one.all])
    spans = {place: Span(*bound) for place, bound in bounds.items()}
    for place, offset in {**beginnings, **history.answered}.items():
        if place in spans:
            check_within(place, offset, spans[place])
    return Survey(logs, spans, history, beginnings)


def tell_gaps(found: Survey, options: KafkaSourceOptions) -> None:
    """Warn of what cannot be learnt again, or was not learnt before."""
    for place, offset in sorted(found.history.answered.items()):
        if place not in found.spans:
            log.warning("answered, but no input any more: it is not learnt", log=str(place), answered=offset)
        elif offset and found.spans[place].first:
            log.warning("what is gone is not learnt", log=str(place), oldest=found.spans[place].first)
    if options.start == "latest":
        log.warning('start = "latest": what was there before the very first start is learnt, too')
