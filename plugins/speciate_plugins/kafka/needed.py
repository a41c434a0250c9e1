"""Which topics a pipeline needs, with how many partitions and which settings. Pure: nothing is asked of a broker."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from speciate.config import Resolved
from speciate.errors import ConfigError
from speciate_plugins.kafka.connection import KafkaConnection
from speciate_plugins.kafka.inspection import CLEANUP, LIMIT, Topic
from speciate_plugins.kafka.options import KafkaSourceOptions
from speciate_plugins.kafka.seating import selection_of
from speciate_plugins.sinks.kafka_keyed import KafkaKeyedOptions

MEBI = 1 << 20
STORE_LIMIT = 2 * MEBI
"""A chunk of a snapshot, with all that comes with it, and as much again."""

Rule = Literal["exactly", "at least", "any"]
Place = tuple[tuple[str, ...], str]
"""The servers of a topic and its name."""
Counts = Mapping[str, Mapping[str, int]]
"""Of each section that reads, which topics its servers have, and with how many partitions."""


@dataclass(frozen=True)
class Needed:
    """A topic that a section of the configuration names."""

    name: str
    use: str
    """For people: the section, and the key if it has several topics."""
    connection: KafkaConnection
    partitions: int
    """With how many it is created."""
    rule: Rule = "exactly"
    """How many it may have if it is there already."""
    limit: int | None = None
    """The largest message it must take, if that is more than Kafka's own default."""
    compacted: bool = False
    read_only: bool = False
    """True if others write to it: what is in it cannot be made again."""

    @property
    def place(self) -> Place:
        """What no two topics have in common."""
        return tuple(self.connection.servers), self.name

    @property
    def settings(self) -> dict[str, str]:
        """With which settings it is created."""
        limit = {} if self.limit is None else {LIMIT: str(self.limit)}
        return limit | ({CLEANUP: "compact"} if self.compacted else {})

    def misfit(self, found: Topic) -> str | None:
        """What makes a topic that is there unfit, and what to do about it; None if it is fit."""
        wrong = found.partitions < self.partitions if self.rule == "at least" else found.partitions != self.partitions
        if self.rule == "any" or not wrong:
            return None
        remedy = (
            f"ask for --partitions {found.partitions}"
            if self.read_only
            else "delete it with `speciate topics delete CONFIG` if what is in it can go"
        )
        wanted = f"at least {self.partitions}" if self.rule == "at least" else str(self.partitions)
        return (
            f"topic {self.name!r} for {self.use} has {found.partitions} partitions instead of {wanted}: {remedy}, or "
            "name another topic"
        )

    def remarks(self, found: Topic) -> list[str]:
        """What had better be changed of a topic that is there."""
        said = []
        if self.limit is not None and found.limit is not None and found.limit < self.limit:
            said.append(f"{LIMIT} is {found.limit}: raise it to {self.limit}, or large events are refused")
        if self.compacted and found.cleanup is not None and found.cleanup != "compact":
            said.append(f"{CLEANUP} is {found.cleanup}: set it to compact, or old snapshots vanish")
        return said


def kafka_sections(resolved: Resolved) -> dict[str, Any]:
    """The options of the sections that talk to Kafka.

    Raises:
        ConfigError: if there is none.
    """
    found = {name: one.options for name, one in resolved.sections.items() if isinstance(one.options, KafkaConnection)}
    if not found:
        raise ConfigError(
            "no section of the configuration uses Kafka, so it needs no topics: is it the right file? In one that "
            'does, a section such as [source] has plugin = "kafka"'
        )
    return found


def input_partitions(resolved: Resolved, asked: int | None, there: Counts) -> int:
    """How many partitions the input topics have or shall have, given the topics that are there.

    Raises:
        ConfigError: if there are no input topics to ask for, or they differ.
    """
    source = resolved["source"].options
    if not isinstance(source, KafkaSourceOptions):
        if asked not in {None, 1} and not _deals(resolved):
            raise ConfigError(
                f"--partitions {asked} is for the topics of a Kafka [source], but this one is "
                f"{resolved['source'].name!r}: a source that is no log has one task, and so each topic one partition"
            )
        return asked or 1
    counts = _pick(source, there["source"])
    if source.topics is None and not counts:
        raise ConfigError(
            f"[source] pattern = {source.pattern!r} fits no topic, and no name can be made from it: create one of your "
            "own, or name topics"
        )
    if asked is not None:
        return asked
    if len(set(counts.values())) > 1 and _shared(resolved, source):
        told = ", ".join(f"{name!r} has {count}" for name, count in counts.items())
        raise ConfigError(f"all topics of [source] need the same number of partitions, but {told}: make some anew")
    return max(counts.values(), default=1)


def needed_topics(resolved: Resolved, partitions: int, there: Counts, *, asked: bool) -> list[Needed]:
    """Every topic the configuration needs, in the order of an event's way.

    `partitions` is the number of the input; `asked` tells that someone wants just that one.

    Raises:
        ConfigError: if two sections would write to one topic, or one writes to what another reads.
    """
    source = resolved["source"].options
    shared = isinstance(source, KafkaSourceOptions) and _shared(resolved, source)
    tasks = partitions if shared else 1
    rule: Rule = "exactly" if shared or asked else "any"
    found: dict[Place, Needed] = {}
    topics = (*_read(resolved, partitions, tasks, rule, there), *_written(resolved, partitions, tasks, rule))
    for one in topics:
        other = found.setdefault(one.place, one)
        if other is not one:
            if not (one.read_only and other.read_only):
                raise ConfigError(f"{one.use} and {other.use} have the same topic {one.name!r}: give each its own")
            found[one.place] = replace(other, use=f"{other.use}, {one.use}")
    return list(found.values())


def _deals(resolved: Resolved) -> bool:
    """Whether events are dealt among the partitions of the output, of which there may be any number."""
    return isinstance(resolved["sink"].options, KafkaKeyedOptions)


def _shared(resolved: Resolved, source: KafkaSourceOptions) -> bool:
    """Whether each partition of the input is a task of its own."""
    return source.group is not None and resolved.config.run.universe != "shared"


def _read(resolved: Resolved, partitions: int, tasks: int, rule: Rule, there: Counts) -> Iterator[Needed]:
    """The topics that the pipeline reads."""
    options, large = kafka_sections(resolved), _largest(resolved)
    if "support" in options:
        for name in _inputs(options["support"], there["support"]):
            yield Needed(name, "[support]", options["support"], 1, "any", large, read_only=True)
    if "source" in options:
        source = options["source"]
        for name in _inputs(source, there["source"]):
            yield Needed(name, "[source]", source, partitions, rule, large, read_only=True)
        if source.control is not None:
            yield Needed(source.control, "[source] control", source, tasks)


def _written(resolved: Resolved, partitions: int, tasks: int, rule: Rule) -> Iterator[Needed]:
    """The topics that the pipeline writes."""
    options, large = kafka_sections(resolved), _largest(resolved)
    if _deals(resolved):
        any_or_asked: Rule = "any" if "source" in options else rule
        yield Needed(options["sink"].topic, "[sink]", options["sink"], partitions, any_or_asked, large)
    elif "sink" in options:
        sink = options["sink"]
        # What hands events on without deciding writes them as they came, and dead letters among them.
        yield Needed(sink.topic, "[sink]", sink, tasks, limit=None if resolved.decides else large)
        if sink.births is not None:
            yield Needed(sink.births, "[sink] births", sink, tasks, "any")
    if "dead_letters" in options:
        letters = options["dead_letters"]
        yield Needed(letters.topic, "[dead_letters]", letters, tasks, "at least", large)
    if "store" in options:
        store = options["store"]
        yield Needed(store.topic, "[store]", store, tasks, "at least", STORE_LIMIT, compacted=True)


def _largest(resolved: Resolved) -> int:
    """The size of the largest event that is taken, and of what is said about it."""
    return resolved.config.run.max_event_bytes + MEBI


def _inputs(options: KafkaSourceOptions, there: Mapping[str, int]) -> list[str]:
    return options.topics if options.topics is not None else list(_pick(options, there))


def _pick(options: KafkaSourceOptions, there: Mapping[str, int]) -> dict[str, int]:
    """The input topics among those that are there."""
    return selection_of(options).pick({name: count for name, count in there.items() if name != options.control})
