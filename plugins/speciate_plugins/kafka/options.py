"""The options of the source `kafka`: which topics, from where on, shared or alone."""

import re
from datetime import datetime
from typing import Annotated, Literal, NamedTuple

import msgspec

from speciate_plugins.kafka.connection import KafkaConnection
from speciate_plugins.kafka.payloads import Payload

TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}")
"""What Kafka allows as the name of a topic."""


class Start(NamedTuple):
    """Where reading begins when nothing was read before."""

    kind: Literal["earliest", "latest", "time", "offset"]
    value: int = 0
    """Milliseconds since the epoch, or the offset."""


class KafkaSourceOptions(KafkaConnection, frozen=True):
    """Options of the source `kafka`."""

    topics: Annotated[
        list[str] | None, msgspec.Meta(description="Topics to read, at least one; either this or `pattern`.")
    ] = None
    pattern: Annotated[
        str | None,
        msgspec.Meta(
            description="Regular expression that a topic's whole name must match to be read; looked at when opening.",
        ),
    ] = None
    group: Annotated[
        str | None,
        msgspec.Meta(
            description="Name of the workers that share the partitions; without it this process reads them all.",
        ),
    ] = None
    payload: Annotated[
        Payload,
        msgspec.Meta(
            description="What a message's value is: an event of ours, an image file, or bare float32 numbers."
        ),
    ] = "event"
    control: Annotated[
        str | None, msgspec.Meta(description="Topic of control events, if there is one; it is read before the others.")
    ] = None
    start: Annotated[
        str | int,
        msgspec.Meta(
            description='Where to begin at the very first start: "earliest", "latest", a time such as '
            '"2026-01-31T12:00:00Z", or an offset. Control events always begin at the earliest.'
        ),
    ] = "earliest"
    follow: Annotated[
        bool, msgspec.Meta(description="Wait for more at the end; false: read what was there when opening, then end.")
    ] = True
    session_timeout_ms: Annotated[
        int,
        msgspec.Meta(ge=1000, description="After how long without a sign of life a worker's share goes to others."),
    ] = 10_000
    stuck_ms: Annotated[
        int,
        msgspec.Meta(ge=1000, description="Connect anew if nothing came for so long although there is more to read."),
    ] = 30_000

    def __post_init__(self) -> None:
        """Refuse what could not be read."""
        super().__post_init__()
        _check_topics(self)
        if self.group == "":
            raise ValueError("group is empty: give the group a name, or remove it to read everything in this process")
        read_start(self.start)


def _check_topics(options: KafkaSourceOptions) -> None:
    if bool(options.topics) == bool(options.pattern):
        raise ValueError("give either topics, a list of names, or pattern, a regular expression")
    topics = options.topics or []
    for field, topic in [*(("topics", topic) for topic in topics), ("control", options.control)]:
        if topic is not None and (not TOPIC.fullmatch(topic) or topic in {".", ".."}):
            raise ValueError(
                f"{field}: {topic!r} is no name of a topic: use 1 to 249 letters, digits, dots, dashes and underscores"
            )
    twice = next((topic for topic in topics if topics.count(topic) > 1), None)
    if twice is not None:
        raise ValueError(f"topics: {twice!r} is there twice; remove one")
    if options.control in topics:
        raise ValueError(
            f"control = {options.control!r} is also one of topics: control events need a topic of their own"
        )
    if options.pattern is not None:
        try:
            re.compile(options.pattern)
        except re.error as error:
            raise ValueError(f"pattern: {options.pattern!r} is no regular expression: {error}") from None


def read_start(start: str | int) -> Start:
    """What the option says.

    Raises:
        ValueError: if it says nothing known.
    """
    if isinstance(start, int):
        if start < 0:
            raise ValueError(f'start = {start}: an offset is 0 or more; for the end use "latest"')
        return Start("offset", start)
    match start:
        case "earliest" | "latest":
            return Start(start)
    try:
        moment = datetime.fromisoformat(start)
    except ValueError:
        raise ValueError(
            f'start = {start!r} must be "earliest", "latest", an offset, or a time such as "2026-01-31T12:00:00Z"'
        ) from None
    if moment.tzinfo is None:
        raise ValueError(f'start = {start!r} names no time zone; add Z for UTC, or an offset such as "+01:00"')
    milliseconds = round(moment.timestamp() * 1000)
    if milliseconds < 0:
        raise ValueError(f"start = {start!r} is before 1970, where Kafka's time begins")
    return Start("time", milliseconds)
