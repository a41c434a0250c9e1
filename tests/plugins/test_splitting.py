"""Where pieces are cut depends on the bytes alone, and no byte is lost."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from speciate.errors import DecodeError, TooLargeError
from speciate_plugins import splitting
from speciate_plugins.splitting import FrameSplitter, LineSplitter, Piece, Splitter
from speciate_schemas import framing
from speciate_schemas.framing import pack

LIMIT = 64
DAMAGE = 24


@pytest.fixture(autouse=True, scope="module")
def small_limits():
    """Limits small enough for Hypothesis to cross them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(splitting, "PIECE_BYTES", LIMIT)
        patch.setattr(framing, "DAMAGE_BYTES", DAMAGE)
        yield


def split(kind: type[Splitter], data: bytes, cuts: list[int], limit: int) -> list[Piece]:
    splitter = kind(0)
    places = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    pieces = []
    for start, end in pairwise(places):
        splitter.feed(data[start:end])
        while got := splitter.take(limit):
            assert len(got) <= limit
            pieces.extend(got)
    splitter.finish()
    while got := splitter.take(limit):
        pieces.extend(got)
    assert splitter.held == 0
    return pieces


def told(pieces: list[Piece]) -> list[tuple[bytes, int, int, str]]:
    return [(bytes(one.payload), one.start, one.end, repr(one.error)) for one in pieces]


lines = st.lists(st.binary(max_size=2 * LIMIT) | st.sampled_from([b"", b"\r", b"x" * LIMIT, b"x" * (LIMIT + 1)])).map(
    b"\n".join
)
junk = st.binary(max_size=40) | st.sampled_from([framing.MARKER, b"\xf5SP", pack(b"x" * (LIMIT + 9))[:40]])
frames = st.lists(st.binary(max_size=2 * LIMIT).map(pack) | junk, max_size=6).map(b"".join)
flips = st.lists(st.tuples(st.integers(0, 10**6), st.integers(1, 255)), max_size=3)
cuts = st.lists(st.integers(0, 500), max_size=12)


@given(data=lines, cuts=cuts, limit=st.integers(1, 5))
def test_lines_are_the_same_in_chunks_of_any_size(data: bytes, cuts: list[int], limit: int) -> None:
    whole = split(LineSplitter, data, [], 1000)
    assert told(split(LineSplitter, data, cuts, limit)) == told(whole)
    assert all(len(one.payload) <= LIMIT for one in whole)
    assert b"".join(data[one.start : one.end] for one in whole) == data


@given(lines=st.lists(st.binary(min_size=1, max_size=LIMIT).filter(lambda line: b"\n" not in line and line != b"\r")))
def test_lines_come_back_as_they_were(lines: list[bytes]) -> None:
    for end in (b"", b"\n") if lines else (b"",):
        pieces = split(LineSplitter, b"\n".join(lines) + end, [], 10)
        assert [bytes(one.payload) for one in pieces] == lines
        assert not any(one.error for one in pieces)


@given(data=frames, flips=flips, cuts=cuts, limit=st.integers(1, 5))
def test_a_damaged_log_is_cut_the_same_in_chunks_of_any_size(
    data: bytes, flips: list[tuple[int, int]], cuts: list[int], limit: int
) -> None:
    damaged = bytearray(data)
    for place, flip in flips if data else ():
        damaged[place % len(data)] ^= flip
    whole = split(FrameSplitter, bytes(damaged), [], 1000)
    assert told(split(FrameSplitter, bytes(damaged), cuts, limit)) == told(whole)
    assert [one.start for one in whole] == [0, *(one.end for one in whole)][: len(whole)]
    assert sum(one.end - one.start for one in whole) == len(damaged)
    for one in whole:
        header = 0 if one.error else framing.HEADER_BYTES
        assert bytes(damaged[one.start + header : one.end]) == one.payload


@given(payloads=st.lists(st.binary(max_size=LIMIT)), noise=st.binary(min_size=1, max_size=DAMAGE))
def test_every_sound_frame_is_found_behind_noise(payloads: list[bytes], noise: bytes) -> None:
    pieces = split(FrameSplitter, noise + b"".join(map(pack, payloads)), [], 10)
    assert [bytes(one.payload) for one in pieces if one.error is None] == payloads


def test_an_empty_line_is_a_piece_with_its_error() -> None:
    pieces = split(LineSplitter, b"a\n\n\r\nb\n", [], 10)
    assert [str(one.error) for one in pieces] == ["None", "empty line", "empty line", "None"]


def test_a_line_over_the_limit_is_cut_and_rejected() -> None:
    pieces = split(LineSplitter, b"x" * (2 * LIMIT + 1) + b"\ny", [], 10)
    assert [len(one.payload) for one in pieces] == [LIMIT, LIMIT, 1, 1]
    assert [type(one.error) for one in pieces[:2]] == [TooLargeError, TooLargeError]


def test_a_frame_over_the_limit_is_damage_and_reading_goes_on_behind_it() -> None:
    pieces = split(FrameSplitter, pack(b"x" * (LIMIT + 1)) + pack(b"next"), [], 10)
    assert isinstance(pieces[0].error, DecodeError)
    assert f"frame of {LIMIT + 1} bytes" in str(pieces[0].error)
    assert len(pieces[0].payload) == DAMAGE
    assert bytes(pieces[-1].payload) == b"next"


def test_a_long_frame_in_small_chunks_is_joined_once() -> None:
    splitter = FrameSplitter()
    frame = pack(bytes(LIMIT))
    for byte in frame[:-1]:
        splitter.feed(bytes([byte]))
        assert splitter.take(1) == []
    splitter.feed(frame[-1:])
    assert len(splitter.take(1)) == 1
    splitter.feed(pack(b"a"))
    assert [bytes(one.payload) for one in splitter.take(9)] == [b"a"]
