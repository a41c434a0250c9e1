"""Catching up: answers meet the records they were given to, over gaps, pieces and batches of any size."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from worlds import record, split

from speciate.catchup import Replay
from speciate.errors import StateMismatchError
from speciate_schemas import Rejection


def answer(sequence):
    fields = {"stage": "source", "error": "DecodeError", "message": "", "dead_letter": ""}
    return Rejection(id=None, stream=None, sequence=sequence, origin=f"test@{sequence}", **fields)


async def pieces(*parts):
    for part in parts:
        yield part


gaps = st.lists(st.booleans(), max_size=30)
"""For each record whether it was answered, or dropped in front of the head."""
cuts = st.lists(st.integers(1, 30), max_size=5)


@given(gaps, cuts, cuts, st.integers(0, 5), st.data())
async def test_every_answer_finds_its_record_and_is_announced_once(answered, some, others, more, data):
    until = len(answered)
    numbers = [number for number, was in enumerate(answered) if was]
    replay = Replay(pieces(*split([answer(number) for number in numbers], some)), until)
    announced = []
    records = [record(number) for number in range(until + more)]
    for batch in split(records, others):
        # As many as are read at most, or some are met before they are announced.
        announced += await replay.announce(len(batch) + data.draw(st.integers(0, 10)))
        await replay.match(batch)
    assert [one.sequence for one in records if one.answer is not None] == numbers
    assert all(one.answer.sequence == one.sequence for one in records if one.answer is not None)
    assert announced == [f"test@{number}" for number in numbers][: len(announced)]


@given(gaps, cuts, st.integers(0, 40))
async def test_so_many_are_announced_or_all_there_are(answered, some, count):
    numbers = [number for number, was in enumerate(answered) if was]
    parts = split(numbers, some)
    replay = Replay(pieces(*[[answer(number) for number in part] for part in parts]), len(answered))
    announced = await replay.announce(count)
    assert announced == [f"test@{number}" for number in numbers][: len(announced)]
    assert min(count, len(numbers)) <= len(announced) <= count + max(map(len, parts), default=0)
    assert await replay.announce(count) == [], "what is known is not announced again"
    assert announced + await replay.announce(1000) == [f"test@{number}" for number in numbers]


async def test_answers_find_their_records_over_gaps_and_borders():
    replay = Replay(pieces([answer(0), answer(2)], [answer(3)], [answer(7)]), until=8)
    records = [record(number) for number in range(9)]
    for batch in (records[:4], records[4:6], records[6:8], records[8:]):
        await replay.match(batch)
    assert [one.sequence for one in records if one.answer is not None] == [0, 2, 3, 7]


async def test_with_nothing_to_catch_up_with_nothing_happens():
    replay = Replay(None, until=5)
    assert await replay.announce(10) == []
    late = record(5)
    await replay.match([late])
    assert late.answer is None


async def test_an_answer_whose_record_is_gone_is_noticed():
    replay = Replay(pieces([answer(1)]), until=2)
    with pytest.raises(StateMismatchError, match="answer record 1, which the input no longer holds"):
        await replay.match([record(0), record(2)])


async def test_an_answer_whose_record_is_gone_is_noticed_by_the_next_one_before_the_end():
    replay = Replay(pieces([answer(1), answer(2)]), until=3)
    with pytest.raises(StateMismatchError, match="answer record 1, which the input no longer holds"):
        await replay.match([record(0), record(2)])
