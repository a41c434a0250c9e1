"""What the page may cost: shares of the time that hold whoever asks for however much."""

import asyncio
import threading
import time
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from open_pages import RunningPage, ShownPage, feature_tree, stopped_of
from worlds import leaping

from speciate.instruments import Instruments
from speciate.page import api, asking, budget, category, live, pace
from speciate.page.asking import StuckError
from speciate.page.budget import Budget
from speciate.page.costs import Cost, Counted
from speciate.page.listing import Listing
from speciate.page.live import Live
from speciate.page.pace import Pace
from speciate.page.subject import Where

SHARE = budget.LOOK_SHARE


# ---- the budget


@given(st.lists(st.tuples(st.floats(0.0, 0.2), st.booleans()), min_size=1, max_size=30))
def test_looking_takes_no_more_than_its_share(looks):
    async def main():
        spent, longest = 0.0, max(seconds for seconds, _ in looks)
        one, clock = Budget(SHARE), asyncio.get_running_loop().time

        async def look(seconds, background):
            nonlocal spent
            async with one.turn(leaving=budget.MOST_SECONDS / 2 if background else 0.0):
                await asyncio.sleep(seconds)
                one.spend(seconds)
                spent += seconds
                assert spent <= budget.MOST_SECONDS + longest + SHARE * clock() + 1e-6

        await asyncio.gather(*(look(seconds, background) for seconds, background in looks))

    leaping(main())


def test_what_can_wait_lets_others_go_first():
    async def main():
        order, one = [], Budget(SHARE)

        async def look(name, leaving):
            async with one.turn(leaving=leaving):
                order.append(name)
                one.spend(0.04)

        await look("first", 0.0)
        await look("second", 0.0)
        await asyncio.gather(look("background", budget.MOST_SECONDS / 2), look("person", 0.0))
        assert order == ["first", "second", "person", "background"]

    leaping(main())


class Clock:
    """Says what it is told to."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


@pytest.mark.parametrize("apart", [False, True])
def test_work_waits_until_what_was_done_before_is_made_up_for(monkeypatch, apart):
    clock = Clock()
    monkeypatch.setattr(budget, "Cost", lambda: Cost(clock))

    async def main():
        one, loop = Budget(0.1), asyncio.get_running_loop()

        def work():
            clock.now += 0.3
            return threading.current_thread() is not threading.main_thread()

        if apart:
            # A clock that leaps does not wait for a thread.
            monkeypatch.setattr(asyncio, "to_thread", lambda function: asyncio.sleep(0, function()))
        for _ in range(4):
            await one.do(work, apart=apart)
        assert loop.time() == pytest.approx(2.0 + 3.0 + 3.0, abs=0.1), "0.1 s were saved up"

    leaping(main())


def test_a_crowd_leaves_nothing_behind_that_a_newcomer_would_wait_for(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(budget, "Cost", lambda: Cost(clock))

    async def main():
        one, woken = Budget(SHARE), 0
        sleep = asyncio.sleep

        async def counting(seconds):
            nonlocal woken
            woken += 1
            await sleep(seconds)

        def work():
            clock.now += 0.008

        with monkeypatch.context() as patch:
            patch.setattr(budget.asyncio, "sleep", counting)
            done = await asyncio.gather(*(one.do(work, apart=False) for _ in range(2000)), return_exceptions=True)
        assert asyncio.get_running_loop().time() < asking.PATIENCE_SECONDS + 1.0
        assert 0 < done.count(None) < 100
        assert {type(failed) for failed in done if failed is not None} == {StuckError}
        assert woken < 200, "not all wake up at each turn"
        began = asyncio.get_running_loop().time()
        await one.do(work, apart=False)
        assert asyncio.get_running_loop().time() - began < 1.0

    leaping(main())


# ---- what a request takes


async def test_every_step_of_a_coroutine_is_counted_and_no_waiting():
    clock = Clock()
    cost = Cost(clock)

    async def request():
        clock.now += 1.0
        await asyncio.sleep(0)
        clock.now += 2.0
        try:
            await asyncio.wait_for(asyncio.Event().wait(), 0.01)
        except TimeoutError:
            clock.now += 4.0
        return "answer"

    async def others():
        while True:
            clock.now += 100.0
            await asyncio.sleep(0)

    busy = asyncio.create_task(others())
    assert await Counted(request(), cost) == "answer"
    busy.cancel()
    assert (cost.take(), cost.seconds) == (7.0, 0.0)


async def test_a_coroutine_that_is_counted_fails_and_is_ended_like_any_other():
    async def fail():
        await asyncio.sleep(0)
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await Counted(fail(), Cost())
    ended = []

    async def wait():
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(True)

    async def counted():
        await Counted(wait(), Cost())

    waiting = asyncio.create_task(counted())
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert ended == [True]


@given(st.lists(st.tuples(st.floats(0.0, 0.1), st.floats(0.0, 0.3)), min_size=1, max_size=60))
def test_requests_take_no_more_than_their_share(requests):
    async def main():
        one, loop, spent = Pace(pace.SHARE), asyncio.get_running_loop(), 0.0
        for seconds, pause in requests:
            await one.take_turn()
            # What is made up for is what was spent before.
            assert spent <= pace.SHARE * (loop.time() + pace.BURST_SECONDS) + 1e-6
            one.charge(seconds)
            spent += seconds
            await asyncio.sleep(pause)

    leaping(main())


# ---- what is done in turns


def test_whatever_takes_long_is_done_in_its_turn_and_the_plane_apart(tmp_path, monkeypatch):
    tree = feature_tree(tmp_path, 60)
    with RunningPage(tree) as running:
        running.answered(60)
    stopped, at_work, found, drawn = stopped_of(tree), [], [], []
    work, find, plane_of = stopped.work, Listing.find, category.plane_of

    async def watched(function, *, apart=False):
        at_work.append(function)
        try:
            return await work(function, apart=apart)
        finally:
            at_work.pop()

    stopped.work = watched
    monkeypatch.setattr(Listing, "find", lambda *given: found.append(bool(at_work)) or find(*given))
    monkeypatch.setattr(
        category, "plane_of", lambda points: drawn.append(threading.current_thread().name) or plane_of(points)
    )
    monkeypatch.setattr(api, "FRESH_SECONDS", 600.0)  # however long it is between two requests
    with ShownPage(stopped) as page:
        first, again = (page.client.get("/api/categories?search=a") for _ in range(2))
        assert first.content == again.content
        assert page.client.get("/api/categories/1").status_code == 200
    assert found == [True], "who asks the same at once is told the same"
    assert len(drawn) == 1
    assert drawn != ["page"]


def standing_with(look_into):
    """A pipeline that stands still, of which one may look at the only set."""
    return SimpleNamespace(instruments=Instruments, unready=list, universes=lambda: [(0, None)], look_into=look_into)


def test_a_look_waits_until_those_before_it_are_made_up_for(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(live, "Cost", lambda: Cost(clock))

    async def main():
        async def look_into(_task, _stream, function):
            return function(None)

        def look(_):
            clock.now += 0.06

        loop = asyncio.get_running_loop()
        subject = Live(standing_with(look_into), loop, "a test")
        for _ in range(4):
            await subject.look(Where(0, None), look)
        assert loop.time() == pytest.approx((3 * 0.06 - budget.MOST_SECONDS) / SHARE, abs=0.1), "0.1 s were saved up"

    leaping(main())


async def test_a_look_costs_what_the_head_has_done_and_not_how_long_the_machine_stood_still(monkeypatch):
    spent, done = [], []
    monkeypatch.setattr(Budget, "spend", lambda _, seconds: spent.append(seconds))

    def look(_):
        time.sleep(0.2)
        began = time.thread_time()
        while time.thread_time() - began < 0.02:
            pass

    def on_the_head(function):
        began = time.thread_time()
        function(None)
        done.append(time.thread_time() - began)

    async def look_into(_task, _stream, function):
        await asyncio.to_thread(on_the_head, function)

    await Live(standing_with(look_into), asyncio.get_running_loop(), "a test").look(Where(0, None), look)
    assert 0.02 <= spent[0] <= done[0]


def test_looks_that_are_not_come_to_end_in_time_however_many_wait(monkeypatch):
    async def main():
        loop, hanging = asyncio.get_running_loop(), asyncio.Event()

        async def look_into(*_):
            await hanging.wait()

        subject = Live(standing_with(look_into), loop, "a test")

        async def look():
            with pytest.raises(StuckError, match="come to it: try again"):
                await subject.look(Where(0, None), len)
            return loop.time()

        assert await asyncio.gather(*(look() for _ in range(3))) == pytest.approx([live.PATIENCE_SECONDS] * 3, abs=0.01)

    monkeypatch.setattr(asking, "PATIENCE_SECONDS", 1000.0)
    leaping(main())
