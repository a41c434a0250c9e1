"""The laws of an encoder."""

import re
import struct
import threading
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import numpy.typing as npt

from speciate.conformance.encoders_picturing import check_pictures
from speciate.conformance.expecting import expect, expect_equal
from speciate.errors import EventError
from speciate.stages import Encoder, Matrix, is_picturing
from speciate_schemas import ImageEvent

SEED = 13
FEWEST_IMAGES = 2
THREADS = 4
TOLERANCE = 1e-3
NO_IMAGE = b"this is no image, whoever sent it. " * 20
ADDRESS = re.compile(r"0x[0-9a-f]{6,}", re.IGNORECASE)

Bits = tuple[tuple[int, ...], str, bytes]
Prepared = Sequence[npt.NDArray[Any]]


def check_encoder(
    make: Callable[[], Encoder], images: Sequence[bytes] | None = None, *, tolerance: float = TOLERANCE
) -> None:
    """Check an encoder with some images, two at least, each the bytes of a file; left out: with PNGs made here.

    `make` makes a new encoder with the same options each time, not loaded yet. The laws:

    - `dimension` is known after `load` and is the length of every row; to load twice changes nothing.
    - `prepare` is pure: the same bytes give the same bits, in whatever event, from several threads at once; to prepare
      another image does not change them.
    - `encode` gives one row an image, in order, of finite floats; it changes neither what it is given nor the rows it
      gave before.
    - The features of an image are the same again, alone, in a batch of any size and order, and from another instance.
    - What is no image, what has no bytes and what was cut off is refused by `prepare`, with an `EventError` and nothing
      else, in the same words each time: they go into the dead letter, which a replay must write alike. It does not
      show in the features of what comes afterwards.
    - Where there is `picture`, it gives a JPEG whose longer side is no longer than asked, without EXIF, XMP, IPTC or a
      comment. It is pure as `prepare` is, refuses the same, and does not show in the features of what comes afterwards.

    A batch without an image is never asked for. Features are the same if they differ by no more than `tolerance` times
    their length. It is not 0, because a network may sum in another order when the batch has another size: in single
    precision that shows in the sixth digit or later, while what leaks from a neighbour or is left to chance shows in
    the first ones. An encoder that computes in half precision may need more tolerance.
    """
    given = list(_pictures()) if images is None else list(images)
    expect(len(given) >= FEWEST_IMAGES, f"the check needs at least {FEWEST_IMAGES} images")
    encoder = _loaded(make)
    prepared = _check_preparing(encoder, given)
    features = _check_rows(encoder, prepared, tolerance)
    _check_batches(encoder, prepared, features, tolerance)
    refused = {"what is no image": NO_IMAGE, "an image without bytes": b""}
    refused |= {f"the first half of image {place}": data[: len(data) // 2] for place, data in enumerate(given)}
    _check_refusing(encoder, make, refused)
    _check_same(encoder, given, features, tolerance, "after images were refused")
    if is_picturing(encoder):
        check_pictures(encoder, make, given, refused)
        _check_same(encoder, given, features, tolerance, "after pictures were made")
    encoder.load()
    expect_equal(encoder.dimension, features.shape[1], "to load twice must not change the dimension")
    _check_same(encoder, given, features, tolerance, "loaded twice")
    _check_same(_loaded(make), given, features, tolerance, "from another instance")


def _loaded(make: Callable[[], Encoder]) -> Encoder:
    encoder = make()
    encoder.load()
    expect(encoder.dimension > 0, f"dimension must be known after load, it is {encoder.dimension}")
    return encoder


def _check_preparing(encoder: Encoder, images: Sequence[bytes]) -> Prepared:
    prepared: list[npt.NDArray[Any]] = []
    before: list[Bits] = []
    for place, data in enumerate(images):
        prepared.append(_prepare(encoder, place, data))
        before.append(_bits(prepared[-1]))
    law = "what was prepared must not change when other images are prepared"
    expect([_bits(one) for one in prepared] == before, law)
    for place, data in enumerate(images):
        again = _bits(_prepare(encoder, place, data))
        expect(again == before[place], f"image {place} prepared again must have the same bits")
        elsewhere = ImageEvent(id="other", image=memoryview(data), stream="there", time=1.5, label="something")
        law = f"image {place} must be prepared by its bytes alone, not by the id, stream, time or label of its event"
        expect(_bits(encoder.prepare(elsewhere)) == before[place], law)
    _check_threads(encoder, images, before)
    return prepared


def _check_threads(encoder: Encoder, images: Sequence[bytes], before: Sequence[Bits]) -> None:
    start = threading.Barrier(THREADS)

    def work(first: int) -> bool:
        places = [(first + step) % len(images) for step in range(2 * len(images))]
        start.wait()
        return all(_bits(_prepare(encoder, place, images[place])) == before[place] for place in places)

    with ThreadPoolExecutor(THREADS) as pool:
        alike = list(pool.map(work, range(THREADS)))
    expect(all(alike), "images prepared by several threads at once must have the same bits")


def _prepare(encoder: Encoder, place: int, data: bytes) -> npt.NDArray[Any]:
    try:
        prepared = encoder.prepare(ImageEvent(id=f"image-{place}", image=memoryview(data)))
    except EventError as error:
        raise AssertionError(f"image {place} is refused ({error}): check with images that the encoder takes") from error
    expect(isinstance(prepared, np.ndarray), f"prepare must give an array, not a {type(prepared).__name__}")
    return prepared


def _check_rows(encoder: Encoder, prepared: Prepared, tolerance: float) -> Matrix:
    """The features of each image alone: what all others are compared with."""
    given: list[npt.NDArray[Any]] = []
    kept: list[npt.NDArray[Any]] = []
    for one in prepared:
        given.append(_encode(encoder, [one]))
        kept.append(given[-1].copy())
    law = "rows must not change when other images are encoded"
    expect([_bits(row) for row in given] == [_bits(row) for row in kept], law)
    features = np.concatenate(kept).astype(np.float64)
    apart = _difference(features, np.roll(features, 1, axis=0))
    law = "the images of the check have all the same features, so their order cannot be seen: use others"
    expect(bool(apart > tolerance), law)
    return features


def _check_batches(encoder: Encoder, prepared: Prepared, features: Matrix, tolerance: float) -> None:
    size = len(prepared)
    everything, half = np.arange(size), size // 2
    shuffled = np.random.default_rng(SEED).permutation(size)
    twice = np.concatenate([shuffled, everything])
    batches = [twice, everything[::-1], everything[:half], everything[half:], np.zeros(2, dtype=np.intp)]
    for places in batches:
        rows = _encode(encoder, [prepared[place] for place in places])
        law = f"encoded as the batch {places.tolist()}, images must have the features they have alone, in order"
        _expect_same(rows, features[places], tolerance, law)


def _encode(encoder: Encoder, prepared: Prepared) -> npt.NDArray[Any]:
    before = [_bits(one) for one in prepared]
    rows = np.asarray(encoder.encode(prepared))
    expect([_bits(one) for one in prepared] == before, "encode must not change what it is given")
    wanted = (len(prepared), encoder.dimension)
    expect_equal(rows.shape, wanted, "encode must give one row an image, as long as dimension says")
    expect(rows.dtype.kind == "f", f"features must be floats, not {rows.dtype}")
    expect(bool(np.isfinite(rows).all()), "features must be finite")
    return rows


def _check_refusing(encoder: Encoder, make: Callable[[], Encoder], refused: Mapping[str, bytes]) -> None:
    other = _loaded(make)
    for what, data in refused.items():
        # All three are kept until they are compared: what they name by its address has another one each time.
        refusals = [_refusal(one, data, what) for one in (encoder, encoder, other)]
        words = sorted({f"{type(error).__name__}: {error}" for error in refusals})
        expect(bool(str(refusals[0])), f"{what} must be refused with a reason")
        expect(len(words) == 1, f"{what} must be refused in the same words each time, not: {' / '.join(words)}")
        expect(not ADDRESS.search(words[0]), f"what refuses {what} must name no address in memory: {words[0]}")


def _refusal(encoder: Encoder, data: bytes, what: str) -> EventError:
    try:
        encoder.prepare(ImageEvent(id="refused", image=memoryview(data)))
    except EventError as error:
        return error
    except Exception as error:
        raise AssertionError(f"{what} must be refused with an EventError, not with {error!r}") from error
    raise AssertionError(f"{what} must be refused by prepare, with an EventError")


def _check_same(encoder: Encoder, images: Sequence[bytes], features: Matrix, tolerance: float, when: str) -> None:
    rows = _encode(encoder, [_prepare(encoder, place, data) for place, data in enumerate(images)])
    _expect_same(rows, features, tolerance, f"{when}, images must have the same features")


def _expect_same(rows: npt.NDArray[Any], features: Matrix, tolerance: float, law: str) -> None:
    off = _difference(rows.astype(np.float64), features)
    expect(off <= tolerance, f"{law}: they are off by {off:.1e} of their length, more than {tolerance:.1e}")


def _difference(rows: Matrix, features: Matrix) -> float:
    """The largest distance of two rows, relative to the length of the second; nothing is as long as nothing."""
    apart, length = np.linalg.norm(rows - features, axis=1), np.linalg.norm(features, axis=1)
    relative = np.divide(apart, length, out=np.where(apart > 0.0, np.inf, 0.0), where=length > 0.0)
    return float(relative.max())


def _bits(values: npt.NDArray[Any]) -> Bits:
    return values.shape, values.dtype.str, np.ascontiguousarray(values).tobytes()


def _pictures() -> Iterator[bytes]:
    """Images no two of which are alike, upright and lying, in colour and grey; the same each time."""
    random = np.random.default_rng(SEED)
    down, across = np.mgrid[0:255:64j, 0:255:48j]
    yield _png(np.stack([down, across, 255 - down], axis=2).astype(np.uint8))
    yield _png(random.integers(0, 256, (40, 60, 3), dtype=np.uint8))
    yield _png(np.full((32, 32, 3), (240, 200, 40), dtype=np.uint8))
    yield _png(across.astype(np.uint8))
    yield _png(random.integers(0, 60, (90, 30, 3), dtype=np.uint8))


def _png(pixels: npt.NDArray[np.uint8]) -> bytes:
    """Write (height, width, 3) in colour, or (height, width) in grey; an image library is an extra."""
    height, width, *channels = pixels.shape
    header = struct.pack(">IIBBBBB", width, height, 8, 2 if channels else 0, 0, 0, 0)
    rows = b"".join(b"\0" + row.tobytes() for row in pixels)
    return b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", header) + _chunk(b"IDAT", zlib.compress(rows)) + _chunk(b"IEND", b"")


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
