"""Code on threads: what it returns or raises arrives, whatever it raises."""

import asyncio
from concurrent.futures import ThreadPoolExecutor

import pytest

from speciate.threads import in_thread


@pytest.fixture(params=[False, True], ids=["the loop's own", "a pool"])
def executor(request):
    if not request.param:
        yield None
        return
    with ThreadPoolExecutor(1) as pool:
        yield pool


async def test_what_is_returned_arrives(executor):
    assert await in_thread(executor, divmod, 7, 3) == (2, 1)
    assert await in_thread(executor, sorted, [1, 3, 2], reverse=True) == [3, 2, 1]


def fail(error):
    raise error


@pytest.mark.parametrize("error", [ValueError("x"), KeyError("x"), MemoryError(), SystemError()])
async def test_what_is_raised_arrives_as_it_is(executor, error):
    with pytest.raises(type(error)) as caught:
        await asyncio.wait_for(in_thread(executor, fail, error), 5)
    assert caught.value is error


@pytest.mark.parametrize("leak", [lambda: next(iter(())), lambda: fail(StopIteration(3))], ids=["next", "raise"])
async def test_a_stop_iteration_ends_the_wait(executor, leak):
    """A future cannot carry one; whoever waited for it waited for ever."""
    with pytest.raises(RuntimeError, match="leaked StopIteration") as caught:
        await asyncio.wait_for(in_thread(executor, leak), 5)
    assert isinstance(caught.value.__cause__, StopIteration)
