"""Replaying at a rate, in original time, or as fast as possible: in exact time."""

import asyncio
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from worlds import clock, feature, leaping, record, split

from speciate import pacing
from speciate.errors import DecodeError
from speciate.pacing import Pacer


@pytest.fixture(autouse=True, scope="module")
def _leaping_clock():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pacing, "time", SimpleNamespace(perf_counter=clock))
        yield


def timed(times):
    return [record(n, feature(n, time=time)) for n, time in enumerate(times)]


def replay(pacer, batches, *, unpaced_before=0, hurry_at=None):
    """When each record was released, in order."""

    async def main():
        if hurry_at is not None:
            asyncio.get_running_loop().call_later(hurry_at, pacer.hurry)
        released = []
        for batch in batches:
            async for piece in pacer.release(batch, unpaced_before=unpaced_before):
                assert piece
                released += [(one.sequence, clock()) for one in piece]
        assert [number for number, _ in released] == list(range(len(released)))
        return [when for _, when in released]

    return leaping(main())


counts = st.integers(1, 40)
cuts = st.lists(st.integers(1, 40), max_size=6)


@settings(deadline=None)
@given(counts, cuts, st.sampled_from([0.5, 3.0, 100.0]) | st.integers(1, 50))
def test_at_a_rate_each_record_comes_when_it_is_due_however_they_are_read(count, places, rate):
    released = replay(Pacer(rate), split(timed([None] * count), places))
    assert released == pytest.approx([n / rate for n in range(count)])


@settings(deadline=None)
@given(st.lists(st.floats(0, 1e4), min_size=1, max_size=20), cuts)
def test_in_original_time_the_gaps_are_those_of_the_recording(times, places):
    times = [1.7e9 + time for time in sorted(times)]
    released = replay(Pacer("original"), split(timed(times), places))
    assert released == pytest.approx([time - times[0] for time in times], abs=1e-5)


@settings(deadline=None)
@given(counts, cuts, st.lists(st.none() | st.floats(0, 1e9), min_size=40, max_size=40))
def test_as_fast_as_possible_takes_no_time(count, places, times):
    batches = split(timed(times[:count]), places)
    assert replay(Pacer("max"), batches) == [0.0] * count


@settings(deadline=None)
@given(counts, cuts, st.integers(0, 40))
def test_what_was_answered_before_is_not_paced_and_the_rest_begins_anew(count, places, before):
    batches = split(timed([10.0 * n for n in range(count)]), places)
    begin = min(before, count)
    expected = [0.0] * begin + [10.0 * n for n in range(count - begin)]
    assert replay(Pacer("original"), batches, unpaced_before=before) == pytest.approx(expected)
    assert replay(Pacer(0.1), batches, unpaced_before=before) == pytest.approx(expected)


@pytest.mark.parametrize("pace", ["original", 0.1])
def test_hurry_releases_whatever_is_held(pace):
    batches = split(timed([10.0 * n for n in range(10)]), [4])
    assert replay(Pacer(pace), batches, hurry_at=25.0) == [0.0, 10.0, 20.0] + [25.0] * 7


@pytest.mark.parametrize("odd", [None, 50.0, float("nan"), float("inf"), -float("inf")])
def test_a_time_that_is_missing_goes_back_or_is_no_number_holds_nobody_up(odd):
    assert replay(Pacer("original"), [timed([100.0, odd, 103.0])]) == [0.0, 0.0, 3.0]


@pytest.mark.parametrize("odd", [None, float("nan"), float("inf")])
def test_the_first_time_that_is_one_is_where_the_recording_begins(odd):
    assert replay(Pacer("original"), [timed([odd, 100.0, 103.0])]) == [0.0, 0.0, 3.0]


def test_a_damaged_record_follows_the_one_before_it():
    first, last = timed([5.0, 8.0])
    last.sequence = 2
    damaged = record(1, error=DecodeError("damaged"))
    assert replay(Pacer("original"), [[first, damaged, last]]) == [0.0, 0.0, 3.0]
