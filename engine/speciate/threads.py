"""Running plugins' code on threads, so that the event loop never waits for it."""

import asyncio
import contextvars
from collections.abc import Callable
from concurrent.futures import Executor
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


def in_thread(
    executor: Executor | None, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs
) -> asyncio.Future[T]:
    """Call a function on the executor, or on one of the loop's own threads."""

    def call() -> T:
        try:
            return function(*args, **kwargs)
        except StopIteration as error:
            # A future cannot carry it: whoever awaits it would wait for ever.
            raise RuntimeError(f"{function!r} leaked StopIteration") from error

    # With its context: what is logged on the thread belongs to the same task.
    return asyncio.get_running_loop().run_in_executor(executor, contextvars.copy_context().run, call)
