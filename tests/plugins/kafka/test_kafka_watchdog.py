"""The watch over a consumer that can sit still."""

import asyncio
from collections.abc import Iterable, Mapping

import pytest

from speciate.errors import AwayError
from speciate_plugins.kafka.positions import Log
from speciate_plugins.kafka.watchdog import Watchdog

A, B = Log("a", 0), Log("b", 0)


class World:
    """A clock that is moved by hand, and logs that end somewhere."""

    def __init__(self) -> None:
        self.now = 100.0
        self.ends = {A: 0, B: 0}
        self.asked: list[list[Log]] = []
        self.answers = True
        self.watchdog = Watchdog(10.0, self.ask, lambda: self.now)

    async def ask(self, logs: Iterable[Log]) -> Mapping[Log, int]:
        self.asked.append(list(logs))
        if not self.answers:
            await asyncio.Event().wait()
        return {log: self.ends[log] for log in self.asked[-1]}

    async def wait(self, seconds: int, places: Mapping[Log, int]) -> None:
        for _ in range(seconds):
            self.now += 1
            await self.watchdog.missed(places)
            await asyncio.sleep(0)


@pytest.fixture
def world() -> World:
    return World()


async def test_idle_logs_are_asked_for_now_and_then(world: World) -> None:
    await world.wait(100, {A: 0, B: 0})
    assert 15 <= len(world.asked) <= 20


async def test_a_log_that_gives_nothing_though_it_could(world: World) -> None:
    world.ends[A] = 5
    began = world.now
    with pytest.raises(AwayError, match=r"a/0 gave nothing for 10 s \(stuck_ms\) though there is more behind offset 3"):
        await world.wait(100, {A: 3, B: 0})
    assert 10 <= world.now - began <= 14


async def test_one_log_is_noticed_while_others_give(world: World) -> None:
    world.ends[A] = 5
    with pytest.raises(AwayError, match="a/0"):  # noqa: PT012 - it takes its time
        for _ in range(20):
            world.watchdog.heard([B])
            await world.wait(1, {A: 3})


async def test_going_through_markers_is_progress(world: World) -> None:
    world.ends[A] = 1000
    for place in range(100):
        await world.wait(1, {A: place})


async def test_who_is_busy_elsewhere_is_not_stuck(world: World) -> None:
    world.ends[A] = 5
    await world.wait(8, {A: 3})
    world.now += 1000
    world.watchdog.heard([A])
    world.ends[A] = 3
    await world.wait(50, {A: 3})


async def test_nobody_answers(world: World) -> None:
    world.answers = False
    began = world.now
    with pytest.raises(AwayError, match="no broker told the ends of the logs within 5 s"):
        await world.wait(100, {A: 3})
    assert world.now - began <= 14
    world.watchdog.close()


async def test_an_error_of_asking_is_told(world: World) -> None:
    async def refuse(_: Iterable[Log]) -> Mapping[Log, int]:
        raise AwayError("no")

    watchdog = Watchdog(10.0, refuse, lambda: world.now)
    with pytest.raises(AwayError, match="no"):  # noqa: PT012 - it takes its time
        for _ in range(10):
            world.now += 1
            await watchdog.missed({A: 0})
            await asyncio.sleep(0)
