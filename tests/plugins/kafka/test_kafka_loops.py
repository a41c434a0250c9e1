"""A loop on a thread of its own, for callers that block."""

import asyncio
import threading

import pytest

from speciate_plugins.kafka.loops import LoopThread


def test_results_and_errors_come_back_and_it_can_be_used_again():
    async def where() -> str:
        return threading.current_thread().name

    async def fail() -> None:
        raise LookupError("no")

    thread = LoopThread("mine")
    thread.close()
    for _ in range(2):
        assert thread.run(where()) == "mine"
        with pytest.raises(LookupError, match="no"):
            thread.run(fail())
        thread.close()
        thread.close()
    assert "mine" not in [one.name for one in threading.enumerate()]


def test_callers_on_several_threads_share_one_loop():
    async def loop() -> asyncio.AbstractEventLoop:
        await asyncio.sleep(0.01)
        return asyncio.get_running_loop()

    thread, found = LoopThread("mine"), []
    callers = [threading.Thread(target=lambda: found.append(thread.run(loop()))) for _ in range(8)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    thread.close()
    assert len(found) == 8
    assert len(set(found)) == 1
