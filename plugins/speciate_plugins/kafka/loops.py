"""An event loop on a thread of its own: for plain functions that must talk to an asynchronous client."""

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class LoopThread:
    """Runs coroutines for callers that block. Started by the first, ended by `close`, started again if need be."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._starting = threading.Lock()
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ending: asyncio.Event | None = None

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """What the coroutine returns or raises; the caller's thread waits."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._running()).result()

    def close(self) -> None:
        """End the thread, and cancel what still runs on it; may be called more than once."""
        with self._starting:
            thread, loop, ending = self._thread, self._loop, self._ending
            self._thread = self._loop = self._ending = None
        if thread is not None and loop is not None and ending is not None:
            loop.call_soon_threadsafe(ending.set)
            thread.join()

    def _running(self) -> asyncio.AbstractEventLoop:
        with self._starting:
            if self._loop is None:
                ready = threading.Event()
                # A daemon: whoever forgets to close it must still be able to exit.
                self._thread = threading.Thread(
                    target=lambda: asyncio.run(self._serve(ready)), name=self._name, daemon=True
                )
                self._thread.start()
                ready.wait()
            assert self._loop is not None  # noqa: S101  # `_serve` said so
            return self._loop

    async def _serve(self, ready: threading.Event) -> None:
        ending = asyncio.Event()
        self._loop, self._ending = asyncio.get_running_loop(), ending
        ready.set()
        await ending.wait()
