"""JPEGs that would take a decoder seconds or minutes, and ordinary ones that must not be taken for them."""

import struct
import time
from collections.abc import Callable
from io import BytesIO

import numpy as np
import pytest
import simplejpeg
from PIL import Image
from pixels import decode

from speciate.errors import EncodeError
from speciate_plugins.encoders.thumbnail import ThumbnailEncoder, ThumbnailOptions
from speciate_plugins.vision.decoding import hush
from speciate_plugins.vision.segments import MOST_SCANS, MOST_SEGMENTS, check_segments
from speciate_schemas import ImageEvent

LIMIT = 50_000_000


@pytest.fixture(autouse=True)
def _as_in_an_encoder() -> None:
    hush()


def stored(form: str = "JPEG", **options) -> bytes:
    pixels = np.random.default_rng(0).integers(0, 256, (40, 60, 3), dtype=np.uint8)
    buffer = BytesIO()
    Image.fromarray(pixels).save(buffer, form, **options)
    return buffer.getvalue()


def segment(marker: int, content: bytes) -> bytes:
    return bytes([0xFF, marker]) + struct.pack(">H", len(content) + 2) + content


def before_the_rest(inserted: bytes, data: bytes | None = None) -> bytes:
    data = data or stored()
    return data[:2] + inserted + data[2:]


def of_scans(side: int, count: int) -> bytes:
    """A grey image of two bytes or so a scan, each of which says of all blocks that they stay as they are."""
    blocks = (side // 8) ** 2
    runs = -(-blocks // 16384) * 15 // 8 + 1
    parts = [
        b"\xff\xd8",
        segment(0xDB, bytes(1) + b"\x01" * 64),
        segment(0xC2, struct.pack(">BHHB", 8, side, side, 1) + b"\x01\x11\x00"),
        segment(0xC4, b"\x00\x01" + bytes(15) + b"\x00") + segment(0xC4, b"\x10\x01" + bytes(15) + b"\xe0"),
        segment(0xDA, b"\x01\x01\x00\x00\x00\x00") + bytes(blocks // 8 + 1),
    ]
    steps = [(bit, place) for bit in range(13, -1, -1) for place in range(1, 64)][: count - 1]
    for bit, place in steps:
        which = bytes([place, place, ((bit + 1 if bit < 13 else 0) << 4) | bit])
        parts.append(segment(0xDA, b"\x01\x01\x00" + which) + bytes(runs))
    return b"".join(parts) + b"\xff\xd9"


EXIF = segment(0xE1, b"Exif\0\0" + bytes(90))
BOMBS = {
    "segments of EXIF": (before_the_rest(EXIF * 40_000), "more than 300 segments"),
    "empty segments": (before_the_rest(segment(0xE5, b"") * 4_000_000), "more than 300 segments"),
    "scans": (of_scans(4000, 880), "more than 100 scans"),
    "zeros": (before_the_rest(segment(0xE5, b"") + bytes(16_000_000)), "bytes between the segments"),
    "filling": (before_the_rest(b"\xff" * 16_000_000), "bytes between the segments"),
    "restarts": (before_the_rest(b"\xff\xd0" * 8_000_000), "bytes between the segments"),
    "ends": (before_the_rest(b"\xff\xd9" * 8_000_000), "bytes between the segments"),
    "extensions": (before_the_rest(segment(0xF0, bytes(65_000)) * 250), "bytes between the segments"),
}


def seconds_until_rejected(attempt: Callable[[], object], reason: str) -> float:
    began = time.thread_time()
    with pytest.raises(EncodeError, match=reason):
        attempt()
    return time.thread_time() - began


@pytest.mark.parametrize("kind", BOMBS)
def test_a_bomb_is_rejected_at_once(kind) -> None:
    """Without the check, the least of them takes a second with the interpreter held."""
    data, reason = BOMBS[kind]
    assert len(data) < 2**24 + 2000
    thumbnail = ThumbnailEncoder(ThumbnailOptions())
    for attempt in (
        lambda: decode(data, max_pixels=LIMIT),
        lambda: thumbnail.prepare(ImageEvent(id="x", image=memoryview(data))),
    ):
        # The least of some: garbage is collected at any time, and that takes as long.
        assert min(seconds_until_rejected(attempt, reason) for _ in range(3)) < 0.1


def test_as_many_as_are_allowed() -> None:
    # Apart from what Pillow writes itself: a JFIF header, two tables for colours, four for codes, a frame and a scan.
    assert decode(before_the_rest(EXIF * (MOST_SEGMENTS - 10)), max_pixels=LIMIT).shape == (40, 60, 3)
    assert decode(of_scans(64, MOST_SCANS), max_pixels=LIMIT).shape == (64, 64, 3)
    with pytest.raises(EncodeError, match="more than 100 scans"):
        decode(of_scans(64, MOST_SCANS + 1), max_pixels=LIMIT)


FRAMES = {"save_all": True, "append_images": [Image.new("RGB", (60, 40))] * 30, "progressive": True}
ORDINARY = {
    "progressive": stored(progressive=True),
    "progressive, in ink": simplejpeg.encode_jpeg(np.full((40, 60, 4), 99, np.uint8), 90, "CMYK", "444"),
    "with restarts": stored(restart_marker_blocks=1),
    "a preview among the segments": before_the_rest(segment(0xE2, stored(progressive=True) * 5)),
    "a profile in many parts": stored(icc_profile=bytes(5_000_000)),
    "more pictures": stored("MPO", **FRAMES),
    "a film behind it": stored() + np.random.default_rng(0).bytes(100_000) + b"\xff\xda" * 1000,
    "filled up": before_the_rest(b"\xff" * 30),
}


@pytest.mark.parametrize("kind", ORDINARY)
def test_ordinary_images_are_no_bombs(kind) -> None:
    assert decode(ORDINARY[kind], max_pixels=LIMIT).shape == (40, 60, 3)


def test_it_costs_nothing_beside_decoding() -> None:
    data = stored()

    def least(job) -> float:
        times = []
        for _ in range(50):
            began = time.perf_counter()
            job()
            times.append(time.perf_counter() - began)
        return min(times)

    assert least(lambda: check_segments(data)) < least(lambda: decode(data, max_pixels=LIMIT)) / 4
