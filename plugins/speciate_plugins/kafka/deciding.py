"""Waits until it is settled what a log holds.

What lies behind the first record of an open transaction is hidden from those who read what is committed. That is so of
a commit, too, for a moment: its writer is told that it is done before the partitions are.
"""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence

from speciate.logs import get_logger
from speciate_plugins.kafka.connection import KafkaConnection
from speciate_plugins.kafka.positions import Log
from speciate_plugins.kafka.tail import LogReader

DECIDED_SECONDS = 90.0
"""Longest to wait for the open transactions of others: brokers abort ours after 60 s, and look every 10 s."""
POLL_SECONDS = 0.1
TELL_SECONDS = 1.0

log = get_logger(__name__)


async def wait_until_decided(
    options: KafkaConnection, logs: Sequence[Log], seconds: float, *, enough: Callable[[], bool] = lambda: False
) -> Mapping[Log, int]:
    """Wait until every transaction that now has records in the logs has ended.

    Gives back the logs, and their ends, in which one is still open after so many seconds, or when the caller has had
    `enough`.
    """
    async with LogReader(options, committed=False) as reader:
        ends = {one: end for one, (_, end) in (await reader.bounds(logs)).items()}
    began, told = time.monotonic(), False
    async with LogReader(options) as reader:
        while hidden := await _hidden(reader, ends):
            waited = time.monotonic() - began
            if enough() or waited > seconds:
                break
            if waited > TELL_SECONDS and not told:
                log.info("waiting until a transaction ends", log=str(min(hidden)))
                told = True
            await asyncio.sleep(POLL_SECONDS)
    return hidden


async def _hidden(reader: LogReader, ends: Mapping[Log, int]) -> dict[Log, int]:
    bounds = await reader.bounds(ends)
    return {one: end for one, end in ends.items() if bounds[one][1] < end}
