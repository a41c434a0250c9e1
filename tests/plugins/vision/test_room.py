"""Room for pixels: never more than there is, and nobody waits for ever."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from speciate_plugins.vision.room import Room


@settings(max_examples=30, deadline=None)
@given(wanted=st.lists(st.integers(0, 15), min_size=1, max_size=40), most=st.integers(1, 10))
def test_together_they_never_hold_more_than_there_is(wanted, most) -> None:
    room, lock, held, seen = Room(most), threading.Lock(), [], []

    def hold(pixels: int) -> None:
        with room.taken(pixels):
            with lock:
                held.append(pixels)
                seen.append(list(held))
            with lock:
                held.remove(pixels)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(hold, wanted))
    assert len(seen) == len(wanted)
    for together in seen:
        larger_than_all = max(together) > most
        assert sum(together) <= (max(together) if larger_than_all else most)


def test_an_error_gives_the_room_back() -> None:
    room = Room(1)
    for _ in range(3):
        with pytest.raises(KeyError), room.taken(1):
            raise KeyError
