"""Ends aiokafka's clients for certain.

Their own `stop` first delivers what is pending, and tries that for ever while the broker is away; cancelled, it leaves
tasks behind that go on trying. So it gets a moment, and then all that belongs to the client is cancelled.
"""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

STOP_SECONDS = 5.0
"""What a client that holds nothing of value gets to stop in."""
CUT_SECONDS = 2.0
"""Time for tasks that were cancelled to notice."""


async def stop_client(
    client: Any, seconds: float, *, before: Callable[[], Coroutine[Any, Any, object]] | None = None
) -> None:
    """Stop a producer, consumer or admin client within `seconds`, after `before`; never raises, never hangs."""
    # Shielded: a second cancellation, while the first is cleaned up after, must not leave half a client behind.
    await asyncio.shield(asyncio.ensure_future(_stop(client, seconds, before)))


async def _stop(client: Any, seconds: float, before: Callable[[], Coroutine[Any, Any, object]] | None) -> None:
    try:
        if before is not None:
            # Whatever comes of it, `stop` is called: a client that was not told to stop complains when it is collected.
            with suppress(Exception):
                await asyncio.wait_for(before(), seconds / 2)
        async with asyncio.timeout(seconds / 2):
            await (client.stop if hasattr(client, "stop") else client.close)()
        _hush(client)
    except (Exception, asyncio.CancelledError):  # noqa: BLE001 - on its way out: what it still has to say helps nobody
        # Cancelled: not we, whom nobody else can, but a task of its own that it waits for.
        await _cut(client)


async def _cut(client: Any) -> None:
    _hush(client)
    parts = [client, *(part for part in vars(client).values() if type(part).__module__.startswith("aiokafka"))]
    tasks = [task for task in asyncio.all_tasks() if any(_owner(task) is part for part in parts)]
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks, timeout=CUT_SECONDS)
    connections: Any = getattr(client, "client", None) or getattr(client, "_client", None)
    with suppress(Exception):
        async with asyncio.timeout(CUT_SECONDS):
            await connections.close()


def looked_at(future: "asyncio.Future[Any]") -> None:
    """Take note of what became of a future, or asyncio says on the log that nobody did."""
    if future.done() and not future.cancelled():
        future.exception()


def _hush(client: Any) -> None:
    """A producer that fails says so in futures that we were not given, for transactions and batches we gave up."""
    manager, accumulator = getattr(client, "_txn_manager", None), getattr(client, "_message_accumulator", None)
    waiters = [] if manager is None else [manager.wait_for_transaction_end()]
    for batches in [] if accumulator is None else accumulator._batches.values():  # noqa: SLF001
        waiters += [batch._drain_waiter for batch in batches]  # noqa: SLF001
    for waiter in waiters:
        if waiter is not None:
            looked_at(waiter)


def _owner(task: "asyncio.Task[Any]") -> object:
    """Whose method a task runs; aiokafka keeps no list of its tasks."""
    frame = getattr(task.get_coro(), "cr_frame", None)
    return None if frame is None else frame.f_locals.get("self")
