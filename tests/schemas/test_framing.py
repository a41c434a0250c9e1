"""The event log: frames are found again whatever happened to the log, and however it is read."""

import random
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from speciate_schemas import framing
from speciate_schemas.framing import DAMAGE_BYTES, HEADER_BYTES, MARKER, Frame, next_frame, pack

payloads = st.lists(st.binary(max_size=60), max_size=8)
SMALL = 50
"""Damage is handed over in pieces of this size in the laws, so that short logs have long damage."""


def read(log: bytes, chunks: Sequence[int] = ()) -> list[Frame]:
    """All pieces of a log that arrives in chunks of these sizes, and then the rest; keeps no more than it must."""
    pieces = []
    arrived, start = 0, 0
    sizes: Iterator[int] = iter(chunks)
    while True:
        final = arrived == len(log)
        answer = next_frame(log[:arrived], start, final=final) if start < arrived else 1
        if isinstance(answer, Frame):
            pieces.append(answer)
            start = answer.end
        elif final:
            assert start == arrived, "with nothing to follow, next_frame must not ask for more"
            return pieces
        else:
            assert answer > arrived - start, "asking for what is there already would never end"
            arrived = min(len(log), arrived + max(1, next(sizes, len(log))))


def tiles(log: bytes, pieces: Sequence[Frame]) -> bool:
    """The pieces, put behind one another, are the log: nothing is skipped, nothing told twice."""
    return log == b"".join(pack(piece.payload) if piece.damage is None else bytes(piece.payload) for piece in pieces)


def small_damage() -> mock._patch:
    return mock.patch.object(framing, "DAMAGE_BYTES", SMALL)


chunkings = st.lists(st.integers(1, 40), max_size=30)


@given(payloads, chunkings)
def test_any_payloads_come_back_however_they_are_read(contents: list[bytes], chunks: list[int]) -> None:
    log = b"".join(map(pack, contents))
    pieces = read(log, chunks)
    assert [bytes(piece.payload) for piece in pieces] == contents
    assert all(piece.damage is None for piece in pieces)
    assert tiles(log, pieces)


@given(payloads, payloads)
def test_logs_join(first: list[bytes], second: list[bytes]) -> None:
    joined = b"".join(map(pack, first)) + b"".join(map(pack, second))
    assert [bytes(piece.payload) for piece in read(joined)] == first + second


def flip(log: bytearray, place: int, chance: random.Random) -> None:
    if place < len(log):
        log[place] ^= 1 << chance.randrange(8)


def delete(log: bytearray, place: int, chance: random.Random) -> None:
    del log[place : place + chance.randrange(1, 30)]


def insert(log: bytearray, place: int, chance: random.Random) -> None:
    log[place:place] = chance.randbytes(chance.randrange(1, 30))


def truncate(log: bytearray, place: int, chance: random.Random) -> None:
    del log[place:]


def insert_markers(log: bytearray, place: int, chance: random.Random) -> None:
    log[place:place] = MARKER * chance.randrange(1, 30)


def repeat(log: bytearray, place: int, chance: random.Random) -> None:
    log[place:place] = log[max(0, place - chance.randrange(1, 60)) : place]


damages = st.sampled_from([flip, delete, insert, truncate, insert_markers, repeat])
Damage = Callable[[bytearray, int, random.Random], None]


@st.composite
def damaged_logs(draw: st.DrawFn) -> bytes:
    log = bytearray(b"".join(map(pack, draw(payloads))))
    for damage in draw(st.lists(damages, max_size=4)):
        damage(log, draw(st.integers(0, len(log))), draw(st.randoms(use_true_random=False)))
    return bytes(log)


@given(damaged_logs() | st.binary(max_size=300), chunkings)
def test_damage_never_hides_bytes_and_does_not_depend_on_the_reading(log: bytes, chunks: list[int]) -> None:
    with small_damage():
        at_once, in_pieces = read(log), read(log, chunks)
    assert tiles(log, at_once)
    assert at_once == in_pieces
    assert [piece.end for piece in at_once] == sorted({piece.end for piece in at_once})
    assert all(piece.damage is None or 0 < len(piece.payload) <= SMALL for piece in at_once)


@given(st.lists(st.binary(min_size=1, max_size=40), min_size=1, max_size=8), damages, st.data())
def test_frames_beside_the_damage_are_recovered(contents: list[bytes], damage: Damage, data: st.DataObject) -> None:
    """Damage to one frame costs that frame and no other."""
    frames = [pack(content) for content in contents]
    hit = data.draw(st.integers(0, len(frames) - 1))
    broken = bytearray(frames[hit])
    damage(broken, data.draw(st.integers(0, len(broken))), data.draw(st.randoms(use_true_random=False)))
    log = b"".join([*frames[:hit], bytes(broken), *frames[hit + 1 :]])
    with small_damage():
        sound = [bytes(piece.payload) for piece in read(log) if piece.damage is None]
    assert sound[:hit] == contents[:hit]
    behind = contents[hit + 1 :]
    assert sound[len(sound) - len(behind) :] == behind


@pytest.mark.parametrize(
    ("log", "reason"),
    [
        (b"rubbish", "not a frame of an event log"),
        (pack(b"payload")[:-1], "frame cut short"),
        (pack(b"payload")[:-1] + b"?", "checksum does not match"),
    ],
)
def test_the_reason_of_the_damage_is_told(log: bytes, reason: str) -> None:
    (piece,) = read(log)
    assert piece.damage == reason
    assert bytes(piece.payload) == log


def test_damage_is_handed_over_in_bounded_pieces() -> None:
    log = bytes(2 * DAMAGE_BYTES + 17) + pack(b"found again")
    pieces = read(log, [DAMAGE_BYTES // 3] * 3)
    assert [len(piece.payload) for piece in pieces] == [DAMAGE_BYTES, DAMAGE_BYTES, 17, len(b"found again")]
    assert pieces[-1].damage is None


def test_a_header_astride_the_bound_of_a_piece_is_found() -> None:
    for shift, lure in product(range(-HEADER_BYTES - 1, 2), (b"", MARKER)):
        log = b"?" + lure + bytes(SMALL + shift - 1 - len(lure)) + pack(b"x")
        with small_damage():
            pieces = read(log, [7] * 20)
        assert tiles(log, pieces)
        assert bytes(pieces[-1].payload) == b"x"
        assert pieces[-1].damage is None


def test_a_frame_inside_a_sound_payload_is_not_taken_for_one() -> None:
    inner = pack(b"inner")
    assert [bytes(piece.payload) for piece in read(pack(inner))] == [inner]


def test_next_frame_says_how_much_it_needs_so_that_a_reader_can_refuse() -> None:
    """A header may promise four gigabytes; the reader learns that before it has to find room for them."""
    frame = pack(bytes(1000))
    assert next_frame(frame[:3], 0, final=False) == HEADER_BYTES
    assert next_frame(frame[:HEADER_BYTES], 0, final=False) == HEADER_BYTES + 1000


def test_every_single_wound_is_told_the_same_wherever_the_reading_pauses() -> None:
    """Exhaustive where chance is unlikely to strike: each byte flipped or lost, each place to pause."""
    frames = [pack(b"one"), pack(b"two"), pack(b"three")]
    log = b"".join(frames)
    inner = range(len(frames[0]), len(frames[0]) + len(frames[1]))
    wounded = [log[:place] + bytes([log[place] ^ 0x10]) + log[place + 1 :] for place in inner]
    wounded += [log[:place] + log[place + 1 :] for place in inner]
    for broken in wounded:
        at_once = read(broken)
        assert [bytes(piece.payload) for piece in at_once if piece.damage is None] == [b"one", b"three"]
        assert all(read(broken, [pause]) == at_once for pause in range(1, len(broken)))


@pytest.mark.parametrize("place", range(HEADER_BYTES))
def test_a_broken_header_is_not_believed(place: int) -> None:
    """Otherwise a flipped bit of the length would make a reader wait for gigabytes that never come."""
    broken = bytearray(pack(b"one"))
    broken[place] ^= 0x80
    piece = next_frame(bytes(broken) + pack(b"two"), 0, final=False)
    assert isinstance(piece, Frame)
    assert (piece.damage, piece.end) == ("not a frame of an event log", len(broken))
