"""Endurance: whoever is away costs pauses, and nothing but a stop or another error ends the waiting."""

import asyncio
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from worlds import clock, leaping

from speciate import endurance
from speciate.endurance import FIRST_PAUSE, LONGEST_PAUSE, STEADY_SECONDS, Backoff, enduring, pausing
from speciate.errors import AwayError, FencedError, OutputError

HALF = 0.5
"""No pause is shorter than half of what it could be."""


@pytest.fixture(autouse=True)
def _leaping_time(monkeypatch):
    """How long an attempt took is told by the clock that leaps."""

    class Time:
        monotonic = staticmethod(clock)

    monkeypatch.setattr(endurance, "time", Time)


def attempts(*script):
    """An attempt that works for so many seconds each time and then fails as told; None is the end."""
    left, told = list(script), []

    async def attempt():
        seconds, error = left.pop(0)
        began = clock()
        await asyncio.sleep(seconds)
        told.append((began, clock()))
        if error is not None:
            raise error

    return attempt, told


def pauses(told):
    return [later[0] - earlier[1] for earlier, later in itertools.pairwise(told)]


@given(st.integers(0, 12))
def test_it_is_tried_until_it_works_with_growing_pauses(failures):
    attempt, told = attempts(*[(0.01, AwayError("gone"))] * failures, (0.01, None))
    leaping(enduring(attempt, asyncio.Event()))
    assert len(told) == failures + 1
    for number, pause in enumerate(pauses(told)):
        longest = min(LONGEST_PAUSE, FIRST_PAUSE * 2.0**number)
        assert longest * HALF - 1e-9 <= pause <= longest + 1e-9


def test_whoever_was_steady_begins_with_the_shortest_pause_again():
    away = AwayError("gone")
    script = [(0.0, away)] * 5 + [(STEADY_SECONDS + 1.0, away), (0.0, away), (0.0, None)]
    attempt, told = attempts(*script)
    leaping(enduring(attempt, asyncio.Event()))
    found = pauses(told)
    assert found[4] >= min(FIRST_PAUSE * 2**4, LONGEST_PAUSE) * HALF
    assert found[5] <= FIRST_PAUSE + 1e-9
    assert FIRST_PAUSE * 2 * HALF - 1e-9 <= found[6] <= FIRST_PAUSE * 2 + 1e-9


@pytest.mark.parametrize("error", [OutputError("full"), FencedError("another"), ZeroDivisionError("a bug")])
def test_what_is_not_away_is_raised_at_once(error):
    attempt, told = attempts((1.0, AwayError("gone")), (1.0, error), (1.0, None))
    with pytest.raises(type(error), match=str(error)):
        leaping(enduring(attempt, asyncio.Event()))
    assert len(told) == 2


def test_a_stop_ends_the_pause_at_once_and_is_no_error():
    async def main():
        stopping = asyncio.Event()
        attempt, told = attempts(*[(0.0, AwayError("gone"))] * 100)
        running = asyncio.create_task(enduring(attempt, stopping))
        # Pauses are as long as they get by now.
        await asyncio.sleep(100.0)
        stopped, tried = clock(), len(told)
        stopping.set()
        await running
        assert clock() == stopped
        assert len(told) == tried

    leaping(main())


def test_a_stop_while_it_is_tried_makes_this_the_last_time(caplog):
    async def main():
        stopping = asyncio.Event()
        attempt, told = attempts((5.0, AwayError("gone")), (5.0, None))
        running = asyncio.create_task(enduring(attempt, stopping))
        await asyncio.sleep(1.0)
        stopping.set()
        await running
        assert len(told) == 1
        assert clock() == 5.0

    leaping(main())
    assert "what was not committed is read again" in caplog.text


def test_what_is_begun_after_a_stop_is_tried_once():
    """A process that is stopped while it starts still opens what it has, and leaves it in order."""
    stopping = asyncio.Event()
    stopping.set()
    attempt, told = attempts((1.0, AwayError("gone")), (1.0, None))
    leaping(enduring(attempt, stopping))
    assert len(told) == 1


def test_each_pause_is_told_with_its_reason_and_whose_it_is(caplog):
    attempt, _ = attempts((0.0, AwayError("no broker answers")), (0.0, None))
    leaping(enduring(attempt, asyncio.Event(), task=7))
    (told,) = [one for one in caplog.records if "trying again" in one.message]
    assert (told.reason, told.task) == ("no broker answers", 7)
    assert FIRST_PAUSE * HALF - 0.01 <= told.seconds <= FIRST_PAUSE + 0.01


@given(st.integers(0, 30))
def test_pauses_grow_to_a_bound_and_differ(count):
    backoff = Backoff()
    for number in range(count):
        longest = min(LONGEST_PAUSE, FIRST_PAUSE * 2.0**number)
        assert longest * HALF <= backoff.next() <= longest
    backoff.reset()
    assert backoff.next() <= FIRST_PAUSE
    assert len({Backoff().next() for _ in range(50)}) > 1


@pytest.mark.parametrize(("stop", "ended"), [(None, 7.0), (3.0, 3.0), (0.0, 0.0)])
def test_a_pause_is_as_long_as_said_or_until_a_stop(stop, ended):
    async def main():
        stopping = asyncio.Event()
        if stop is not None:
            asyncio.get_running_loop().call_later(stop, stopping.set)
        await pausing(7.0, stopping)
        return clock()

    assert leaping(main()) == pytest.approx(ended)
