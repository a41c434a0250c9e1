"""A place in a group, without a broker: whoever wants to leave while it is being taken is heard."""

import asyncio
from types import SimpleNamespace

import pytest
from aiokafka.consumer.fetcher import Fetcher

from speciate_plugins.kafka.place import Place


async def fetch() -> None:
    """As aiokafka's own: it cleans up when it is cancelled, which takes a moment."""
    try:
        await asyncio.sleep(60.0)
    finally:
        await asyncio.sleep(0)


async def make_place() -> Place:
    """A place whose consumer has nothing to it but a fetcher that is closed as aiokafka closes it."""
    fetcher = SimpleNamespace(_fetch_task=asyncio.ensure_future(fetch()), _fetch_waiters=[], _pending_tasks=[])
    fetcher.close = lambda: Fetcher.close(fetcher)
    place = Place.__new__(Place)
    place._consumer = SimpleNamespace(start=lambda: asyncio.sleep(0), _fetcher=fetcher, subscribe=lambda **_: None)
    place._selection = SimpleNamespace(names=("events",), expression=None)
    await asyncio.sleep(0)
    return place


@pytest.mark.parametrize("steps", range(4))
async def test_a_cancellation_is_heard_wherever_it_meets_the_taking_of_a_place(steps: int):
    taking = asyncio.ensure_future((await make_place()).take())
    for _ in range(steps):
        await asyncio.sleep(0)
    taking.cancel()
    await asyncio.wait([taking])
    assert taking.cancelled(), "who waits for its end would wait for ever"
