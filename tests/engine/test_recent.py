"""The newest accepted ids."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from speciate.errors import DuplicateError
from speciate.recent import RecentIds

keys = st.lists(st.tuples(st.sampled_from(["", "cam"]), st.sampled_from("abcdef")), max_size=40)


def accept(recent: RecentIds, sequence: int, key: tuple[str, str]) -> bool:
    try:
        recent.check(*key)
    except DuplicateError as error:
        assert repr(key[1]) in str(error)  # noqa: PT017 - what is caught is the answer, not the failure
        return False
    recent.add(*key, sequence)
    return True


def remembered(recent: RecentIds) -> list[tuple[str, str, int]]:
    state = recent.state()
    return list(zip(state.streams, state.ids, state.sequences.numpy().tolist(), strict=True))


@settings(deadline=None)
@given(keys, st.integers(1, 8), st.integers(0, 40))
def test_an_id_is_a_duplicate_while_it_is_among_the_newest_accepted(sequence_of_keys, window, restart):
    recent, accepted = RecentIds(window), []
    for sequence, key in enumerate(sequence_of_keys):
        if sequence == restart:
            recent = RecentIds.from_state(window, recent.state())
        new = key not in [known for known, _ in accepted[-window:]]
        assert accept(recent, sequence, key) == new
        if new:
            accepted.append((key, sequence))
        assert remembered(recent) == [(*known, place) for known, place in accepted[-window:]]


def test_the_refusal_names_the_id_the_stream_and_the_record_it_repeats():
    recent = RecentIds(5)
    recent.add("cam", "x", 17)
    with pytest.raises(DuplicateError, match=r"id 'x' of stream 'cam' was answered already, as record 17"):
        recent.check("cam", "x")
    recent.check("", "x")
    assert remembered(recent) == [("cam", "x", 17)], "checking must not change what is remembered"
