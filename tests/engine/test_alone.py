"""Alone: one task, known at once, for good."""

import asyncio

import pytest

from speciate.alone import Alone
from speciate.errors import FencedError


async def test_there_is_one_task_and_it_is_ours():
    share = Alone()
    assert await share.join() == 1
    assert await share.changed() == {0}


async def test_the_share_never_changes():
    share = Alone()
    await share.changed()
    changed = asyncio.create_task(share.changed())
    done, _ = await asyncio.wait({changed}, timeout=0.05)
    assert not done
    changed.cancel()


async def test_there_is_nobody_to_settle_who_may_write():
    share = Alone()
    await share.changed()
    await share.rejoin()
    assert await share.changed() == {0}, "who slept through its transaction begins again"
    with pytest.raises(FencedError, match="another process writes to the same outputs: stop one of them"):
        await share.rejoin()


async def test_there_is_nobody_to_tell_or_to_leave():
    share = Alone()
    share.keep_ready(frozenset({0}))
    await share.leave()
    await share.leave()
