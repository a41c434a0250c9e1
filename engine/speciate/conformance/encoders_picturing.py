"""The laws of an encoder's pictures."""

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from speciate.conformance.expecting import expect, expect_equal
from speciate.errors import EventError
from speciate.stages import Encoder, Picturing, is_picturing
from speciate_schemas import ImageEvent

SIZES = (8, 96)
"""Pixels of a picture: less than any image worth a check has, and about as many as a page shows."""
THREADS = 4
BEGIN, END = b"\xff\xd8\xff", b"\xff\xd9"
FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
"""What begins the segment with height and width."""
SCAN = 0xDA
TELLTALE = {0xE1: "EXIF or XMP", 0xED: "IPTC", 0xFE: "a comment"}
"""Segments that could say where, when and by whom an image was taken."""

Asked = tuple[int, int]
"""The place of an image, and pixels."""


def check_pictures(
    encoder: Picturing, make: Callable[[], Encoder], images: Sequence[bytes], refused: Mapping[str, bytes]
) -> None:
    """Check the pictures of an encoder that has them; what is `refused` by `prepare` must be here, too."""
    pictures = {
        (place, pixels): _picture(encoder, data, pixels) for place, data in enumerate(images) for pixels in SIZES
    }
    for (place, pixels), data in pictures.items():
        what = f"the picture of image {place} in {pixels} pixels"
        height, width = _size(data, what)
        law = f"{what} must be so long at most, and not empty: it is {width} x {height}"
        expect(0 < min(height, width) <= max(height, width) <= pixels, law)
    for place, data in enumerate(images):
        elsewhere = ImageEvent(id="other", image=memoryview(data), stream="there", time=1.5, label="something")
        law = f"the picture of image {place} must be of its bytes alone, not of its event's id, stream, time or label"
        expect(encoder.picture(elsewhere, SIZES[-1]) == pictures[place, SIZES[-1]], law)
    _check_threads(encoder, images, pictures)
    other = make()
    other.load()
    law = "the pictures of another instance must have the same bytes"
    for (place, pixels), data in pictures.items():
        expect(is_picturing(other) and _picture(other, images[place], pixels) == data, law)
    for what, data in refused.items():
        _check_refused(encoder, what, data)


def _picture(encoder: Picturing, data: bytes, pixels: int) -> bytes:
    return encoder.picture(ImageEvent(id="image", image=memoryview(data)), pixels)


def _check_threads(encoder: Picturing, images: Sequence[bytes], pictures: Mapping[Asked, bytes]) -> None:
    start = threading.Barrier(THREADS)
    asked = list(pictures)

    def work(first: int) -> bool:
        start.wait()
        turned = asked[first % len(asked) :] + asked[: first % len(asked)]
        return all(_picture(encoder, images[one[0]], one[1]) == pictures[one] for one in turned)

    with ThreadPoolExecutor(THREADS) as pool:
        alike = list(pool.map(work, range(THREADS)))
    expect(all(alike), "pictures made again, by several threads at once, must have the same bytes")


def _check_refused(encoder: Picturing, what: str, data: bytes) -> None:
    try:
        _picture(encoder, data, SIZES[-1])
    except EventError:
        return
    except Exception as error:
        raise AssertionError(f"{what} must be refused by picture with an EventError, not with {error!r}") from error
    raise AssertionError(f"{what} must be refused by picture, with an EventError")


def _size(data: bytes, what: str) -> tuple[int, int]:
    """Height and width of a JPEG, whose segments up to the pixels say nothing but how to decode them."""
    expect(isinstance(data, bytes), f"{what} must be bytes, not a {type(data).__name__}")
    expect(data.startswith(BEGIN) and data.endswith(END), f"{what} must be a whole JPEG")
    size, place = (0, 0), len(BEGIN) - 1
    while place + 4 <= len(data) and data[place + 1] != SCAN:
        expect_equal(data[place], BEGIN[-1], f"{what} must be a JPEG without gaps between its segments")
        kind, length = data[place + 1], int.from_bytes(data[place + 2 : place + 4])
        expect(kind not in TELLTALE, f"{what} must not carry {TELLTALE.get(kind)} of the image")
        if kind in FRAMES:
            size = int.from_bytes(data[place + 5 : place + 7]), int.from_bytes(data[place + 7 : place + 9])
        place += 2 + length
    return size
