"""The queue between two stages: order, bounds, drops and waiting, in exact time."""

import asyncio
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from worlds import clock, leaping, record, split

from speciate.channel import Channel, Overflow
from speciate.stages import Record
from speciate_schemas import UndoLast

sizes = st.lists(st.integers(1, 9), max_size=40)
cuts = st.lists(st.integers(1, 40), max_size=10)
policies = st.sampled_from(["block", "drop-oldest", "drop-newest"])


class Watched(Channel):
    """A channel that checks its bounds whenever a record has been added."""

    def check(self) -> None:
        nbytes = sum(one.nbytes for one in self._records)
        assert nbytes == self._bytes
        assert len(self._records) <= self._max_events
        assert nbytes <= self._max_bytes or len(self._records) == 1


def records_of(nbytes: Sequence[int]) -> list[Record]:
    return [record(place, nbytes=size) for place, size in enumerate(nbytes)]


def numbers(records: Sequence[Record]) -> list[int]:
    return [one.sequence for one in records]


def channel(max_events: int = 4, max_bytes: int = 100, overflow: Overflow = "block", **more: int) -> Watched:
    return Watched(max_events=max_events, max_bytes=max_bytes, overflow=overflow, **more)


async def flow(
    link: Watched, pieces: Sequence[Sequence[Record]], *, take: int, linger: float, pauses: Sequence[float]
) -> list[list[Record]]:
    """Put pieces on one side with pauses between them, and take batches on the other until nothing is left."""

    async def produce() -> None:
        for place, piece in enumerate(pieces):
            for one in piece:
                await link.put([one])
                link.check()
            if pauses:
                await asyncio.sleep(pauses[place % len(pauses)])
        link.close()

    taken = []
    async with asyncio.TaskGroup() as group:
        group.create_task(produce())
        while batch := await link.get(take, linger=linger):
            link.check()
            taken.append(batch)
    assert link.drained
    return taken


bounds = st.tuples(st.integers(1, 5), st.integers(1, 20))


@settings(deadline=None)
@given(sizes, cuts, bounds, st.tuples(st.integers(1, 8), st.sampled_from([0.0, 0.5])), policies)
def test_order_is_kept_bounds_hold_and_what_is_dropped_is_counted(nbytes, places, limits, taking, overflow):
    records, (take, linger) = records_of(nbytes), taking
    link = channel(*limits, overflow)
    pauses = [0.0, 0.2, 1.0]
    taken = leaping(flow(link, split(records, places), take=take, linger=linger, pauses=pauses))
    came = [number for batch in taken for number in numbers(batch)]
    assert came == sorted(set(came))
    assert len(came) + link.dropped == len(records)
    assert all(0 < len(batch) <= take for batch in taken)
    if overflow == "block":
        assert link.dropped == 0


@settings(deadline=None)
@given(st.lists(st.integers(1, 9), min_size=1, max_size=30), st.integers(1, 6))
def test_dropping_the_newest_keeps_what_came_first(nbytes, max_events):
    async def main() -> list[Record]:
        link = channel(max_events, 10**6, "drop-newest")
        await link.put(records_of(nbytes))
        assert link.dropped == max(0, len(nbytes) - max_events)
        return await link.get(100, linger=0.0)

    assert numbers(leaping(main())) == list(range(min(max_events, len(nbytes))))


@settings(deadline=None)
@given(st.lists(st.integers(1, 9), min_size=1, max_size=30), st.integers(1, 6), st.integers(1, 20))
def test_dropping_the_oldest_keeps_the_longest_end_that_fits(nbytes, max_events, max_bytes):
    async def main() -> list[Record]:
        link = channel(max_events, max_bytes, "drop-oldest")
        await link.put(records_of(nbytes))
        return await link.get(100, linger=0.0)

    kept = numbers(leaping(main()))
    assert kept == list(range(kept[0], len(nbytes)))
    longer = nbytes[kept[0] - 1 :] if kept[0] else None
    if longer:
        # One more would not have fitted, at one moment at least between its coming and the end.
        ends = range(1, len(longer) + 1)
        assert any(end > max_events or sum(longer[:end]) > max_bytes for end in ends if end > 1)


@pytest.mark.parametrize("overflow", ["drop-oldest", "drop-newest"])
def test_what_was_answered_before_is_never_dropped(overflow: Overflow):
    """Before a restart it was answered, so it must come by again; behind it the policy holds as ever."""
    link = channel(3, 10**6, overflow, lossless_before=20)
    taken = leaping(flow(link, [records_of([1] * 40)], take=2, linger=0.0, pauses=[]))
    came = [number for batch in taken for number in numbers(batch)]
    assert came[:20] == list(range(20))
    assert link.dropped == 40 - len(came) > 0


def test_a_blocked_producer_waits_for_room_and_no_longer():
    async def main() -> None:
        link = channel(max_events=2)
        putting = asyncio.create_task(link.put(records_of([1] * 3)))
        await asyncio.sleep(5.0)
        assert not putting.done()
        assert numbers(await link.get(1, linger=0.0)) == [0]
        await putting
        assert clock() == 5.0
        assert numbers(await link.get(5, linger=0.0)) == [1, 2]

    leaping(main())


def test_a_record_larger_than_the_channel_passes_alone():
    taken = leaping(flow(channel(max_bytes=10), [records_of([4, 50, 4])], take=9, linger=0.0, pauses=[]))
    assert [numbers(batch) for batch in taken] == [[0], [1], [2]]


@settings(deadline=None, max_examples=50)
@given(st.lists(st.floats(0.01, 2.0), min_size=1, max_size=12), st.floats(0.1, 3.0), st.integers(1, 6))
def test_nothing_waits_for_company_longer_than_the_linger_time(gaps, linger, take):
    """Each record is stamped when it is put; it must be taken at most `linger` later, in a batch or alone."""

    async def main() -> None:
        link = channel(max_events=100)

        async def produce() -> None:
            for number, gap in enumerate(gaps):
                one = record(number)
                one.received = clock()
                await link.put([one])
                await asyncio.sleep(gap)
            link.close()

        async with asyncio.TaskGroup() as group:
            group.create_task(produce())
            while batch := await link.get(take, linger=linger):
                waited = clock() - batch[0].received
                assert waited <= linger + 1e-6
                assert len(batch) == take or link.drained or waited >= linger - 1e-6

    leaping(main())


@pytest.mark.parametrize(
    "case", ["batch full", "closed", "channel full of events", "channel full of bytes", "no linger"]
)
def test_nothing_is_waited_for_that_cannot_come_or_is_not_wanted(case: str):
    async def main() -> None:
        link = channel(max_events=4, max_bytes=8)
        size = 4 if case == "channel full of bytes" else 1
        putting = asyncio.create_task(link.put(records_of([size] * (3 if case in {"closed", "no linger"} else 6))))
        await asyncio.sleep(0)
        if case == "closed":
            link.close()
        batch = await link.get(2 if case == "batch full" else 5, linger=0.0 if case == "no linger" else 60.0)
        assert batch
        assert clock() == 0.0
        putting.cancel()

    leaping(main())


def test_a_producer_that_becomes_blocked_ends_the_waiting():
    async def main() -> None:
        link = channel(max_events=2)
        taking = asyncio.create_task(link.get(5, linger=60.0))
        await link.put(records_of([1]))
        await asyncio.sleep(1.0)
        putting = asyncio.create_task(link.put([record(1), record(2)]))
        assert numbers(await taking) == [0, 1]
        assert clock() == 1.0
        await putting

    leaping(main())


def test_patience_ends_empty_and_the_record_that_comes_later_is_not_lost():
    async def main() -> None:
        link = channel()
        assert await link.get(5, linger=1.0, patience=2.0) == []
        assert clock() == 2.0
        assert await link.get(5, linger=1.0, patience=0.0) == []
        await link.put([record(0)])
        assert numbers(await link.get(5, linger=0.0, patience=0.0)) == [0]
        assert not link.drained

    leaping(main())


def test_close_wakes_who_waits_and_leaves_what_is_there():
    async def main() -> None:
        link = channel()
        taking = asyncio.create_task(link.get(5, linger=60.0))
        await asyncio.sleep(3.0)
        link.close()
        assert await taking == []
        assert clock() == 3.0
        assert link.drained

        other = channel()
        await other.put([record(0)])
        other.close()
        assert len(other) == 1
        assert not other.drained
        assert numbers(await other.get(5, linger=60.0)) == [0]
        assert await other.get(5, linger=60.0) == []

    leaping(main())


@settings(deadline=None)
@given(st.integers(0, 3), st.floats(0.0, 3.0))
def test_a_get_that_is_cancelled_loses_nothing(there, moment):
    async def main() -> None:
        link = channel(max_events=10)
        await link.put(records_of([1] * there))
        taking = asyncio.create_task(link.get(5, linger=2.0))
        await asyncio.sleep(moment)
        taking.cancel()
        results = await asyncio.gather(taking, return_exceptions=True)
        await link.put([record(there)])
        taken = results[0] if isinstance(results[0], list) else []
        taken += await link.get(10, linger=0.0)
        assert numbers(taken) == list(range(there + 1))

    leaping(main())


@pytest.mark.parametrize("overflow", ["drop-oldest", "drop-newest"])
def test_control_events_are_never_dropped(overflow: Overflow):
    """Somebody relies on them; what the policy drops instead are the others."""
    records = records_of([1] * 40)
    for one in records[::4]:
        one.event = UndoLast(id=str(one.sequence))
    link = channel(3, 10**6, overflow)
    taken = leaping(flow(link, [records], take=2, linger=0.0, pauses=[]))
    came = [number for batch in taken for number in numbers(batch)]
    assert came == sorted(came)
    assert set(range(0, 40, 4)) <= set(came)
    assert link.dropped == 40 - len(came) > 0
