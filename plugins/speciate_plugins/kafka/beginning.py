"""Where reading begins: what the options make of a first start, and what is left of a place that was kept."""

import asyncio
import time

from speciate.errors import ConfigError, StateMismatchError
from speciate_plugins.kafka.logs import TaskReader, check_within
from speciate_plugins.kafka.options import Start
from speciate_plugins.kafka.positions import Log, read_position
from speciate_plugins.kafka.seating import TaskLogs
from speciate_plugins.kafka.topics import REFOLD
from speciate_schemas import Position

SETTLE_SECONDS = 2.0
"""How long a log may seem too short: a new leader takes a moment to know where it ends."""
ASK_SECONDS = 0.25


async def first_offsets(reader: TaskReader, logs: TaskLogs, start: Start) -> dict[Log, int]:
    """Where each log begins at the very first start; control events always at the oldest."""
    spans = reader.spans
    if start.kind == "time":
        offsets = await reader.at_time(start.value)
    elif start.kind == "latest":
        offsets = {log: spans[log].end for log in logs.all}
    elif start.kind == "earliest":
        offsets = {log: spans[log].first for log in logs.all}
    else:
        offsets = dict.fromkeys(logs.all, start.value)
        for log in logs.data:
            if not spans[log].first <= start.value <= spans[log].end:
                raise ConfigError(
                    f"start = {start.value}: {log} goes from offset {spans[log].first} to {spans[log].end}; choose one "
                    'that every partition has, a time, "earliest" or "latest"'
                )
    if logs.control is not None:
        offsets[logs.control] = spans[logs.control].first
    return offsets


async def kept_offsets(reader: TaskReader, position: Position) -> dict[Log, int]:
    """Where each log goes on; one that was not there then begins at its oldest message.

    Raises:
        StateMismatchError: if a log of the position is not read any more.
        SourceError: if a log no longer has what comes next.
    """
    kept = read_position(position)
    for log, offset in kept.items():
        if log not in reader.spans:
            raise StateMismatchError(
                f"{log} was read up to offset {offset} before and is not among the input of this task now: the topic "
                f"was deleted, or topics, pattern or control was changed; restore it, or {REFOLD}"
            )
    patience = time.monotonic() + SETTLE_SECONDS
    while any(offset > reader.spans[log].end for log, offset in kept.items()) and time.monotonic() < patience:
        await asyncio.sleep(ASK_SECONDS)
        await reader.look()
    for log, offset in kept.items():
        check_within(log, offset, reader.spans[log])
    return {log: kept.get(log, span.first) for log, span in reader.spans.items()}
