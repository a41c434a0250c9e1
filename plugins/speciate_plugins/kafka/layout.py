"""Which topics are shared, how many partitions they have, and whether that still is as it was.

Everything hangs on these numbers: a task is a partition number of all topics, and its state is made of what came
through it. With more partitions the same key would go to another task.
"""

import re
from collections.abc import Iterable, Mapping, Sequence

from speciate.errors import ConfigError, SourceError, StateMismatchError
from speciate_plugins.kafka.topics import REFOLD


class Selection:
    """The topics that are shared: those of a list, or all whose whole name matches a pattern."""

    def __init__(self, topics: Sequence[str] | str) -> None:
        self.names = None if isinstance(topics, str) else tuple(sorted(topics))
        self.pattern = topics if isinstance(topics, str) else None
        self.expression = _whole(topics) if isinstance(topics, str) else None
        """The pattern as aiokafka needs it, which is content with the beginning of a name."""

    def __str__(self) -> str:
        return f"pattern = {self.pattern!r}" if self.names is None else f"topics = {list(self.names)!r}"

    def pick(self, counts: Mapping[str, int]) -> dict[str, int]:
        """Those of the topics that are shared."""
        if self.names is not None:
            return {name: counts[name] for name in self.names if name in counts}
        return {name: count for name, count in sorted(counts.items()) if re.match(self.expression or "", name)}


def _whole(pattern: str) -> str:
    """The pattern, but for whole names only, and none of those that Kafka keeps for itself."""
    # Flags for all of a pattern, such as (?i), are allowed at its very beginning only.
    flags = re.match(r"(\(\?[aimsux]+\))?", pattern)
    start = flags.end() if flags else 0
    return rf"{pattern[:start]}(?!__)(?:{pattern[start:]})\Z"


def check_layout(selection: Selection, counts: Mapping[str, int], *, together: bool) -> int:
    """The number of tasks that these topics make; `together`, that is one whatever they are.

    Raises:
        ConfigError: if a topic is not there, or they cannot be shared because their numbers of partitions differ.
    """
    missing = sorted(set(selection.names or ()) - set(counts))
    if missing:
        raise ConfigError(
            f"{selection}: there is no topic {_listed(missing)}, or we may not see it: create it with `speciate topics "
            "create CONFIG`, give us the right to describe and read it, or correct the name"
        )
    if not counts:
        raise ConfigError(f"{selection} fits no topic we may see: create one, or correct the pattern")
    if together:
        return 1
    if len(set(counts.values())) > 1:
        counted = ", ".join(f"{topic!r} has {count}" for topic, count in counts.items())
        raise ConfigError(
            f"{selection}: workers share the numbers of partitions, so all topics need the same number of them, but "
            f"{counted}: make them anew with the same number, or leave some out"
        )
    return next(iter(counts.values()))


def compare_layouts(
    selection: Selection, before: Mapping[str, int], after: Mapping[str, int], *, together: bool
) -> None:
    """Refuse to go on with other partitions than those we began with.

    A topic that is new among those of a pattern is fine if it has as many partitions as the others.

    Raises:
        SourceError: if a topic is gone.
        StateMismatchError: if one has another number of partitions.
        ConfigError: if a new one has another number than the others.
    """
    gone = sorted(set(before) - set(after))
    if gone:
        raise SourceError(
            f"{selection}: topic {_listed(gone)} was deleted while we read it; what is committed is safe; to go on "
            "without it take it out of the configuration"
        )
    changed = [
        f"{topic!r} had {count} partitions and now has {after[topic]}"
        for topic, count in before.items()
        if after[topic] != count
    ]
    if changed:
        raise StateMismatchError(
            f"{selection}: {', '.join(changed)}, so keys go to other tasks than those that learnt from them; {REFOLD}"
        )
    check_layout(selection, after, together=together)


def _listed(topics: Iterable[str]) -> str:
    return ", ".join(repr(topic) for topic in topics)
