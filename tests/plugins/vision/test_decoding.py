"""Images of every kind, and what only claims to be one: the right pixels, or the reason."""

import math
import resource
import struct
import subprocess
import sys
import threading
import time
import zlib
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from itertools import count

import numpy as np
import pytest
import simplejpeg
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from pixels import decode

from speciate.errors import EncodeError
from speciate_plugins.vision import decoding
from speciate_plugins.vision.decoding import Decoded, decoded, hush
from speciate_plugins.vision.room import Room

LIMIT = 1_000_000
ROWS, COLUMNS = np.mgrid[0:48, 0:64]
PICTURE = np.stack([COLUMNS * 4, ROWS * 5, 255 - COLUMNS * 2 - ROWS * 2], axis=2).astype(np.uint8)
"""Smooth, so that JPEG keeps it; no two of its eight orientations are alike."""
GREY = PICTURE[:, :, 0]
OTHER = np.full_like(PICTURE, 99)


@pytest.fixture(autouse=True)
def _as_in_an_encoder() -> None:
    hush()


def decode_scaled(data: bytes, *, max_pixels: int, at_least: int | None) -> Decoded:
    with decoded(data, max_pixels=max_pixels, at_least=at_least) as found:
        return found


def picture(pixels: np.ndarray = PICTURE, mode: str = "RGB") -> Image.Image:
    return Image.fromarray(pixels).convert(mode)


def stored(image: Image.Image, form: str, **options) -> bytes:
    buffer = BytesIO()
    image.save(buffer, form, **options)
    return buffer.getvalue()


def jpeg(pixels: np.ndarray = PICTURE, **options) -> bytes:
    return stored(Image.fromarray(pixels), "JPEG", **{"quality": 95, "subsampling": 0, **options})


def turned(orientation: int) -> np.ndarray:
    """The picture as a camera stores it which says of it `orientation`; by the words of the EXIF standard."""
    upright = PICTURE
    return {
        1: upright,
        2: upright[:, ::-1],
        3: upright[::-1, ::-1],
        4: upright[::-1],
        5: upright.swapaxes(0, 1),
        6: np.rot90(upright, 1),
        7: upright[::-1, ::-1].swapaxes(0, 1),
        8: np.rot90(upright, -1),
    }[orientation].copy()


def exif(orientation: int) -> Image.Exif:
    tags = Image.Exif()
    tags[274] = orientation
    return tags


def png(width: int, height: int, depth: int, colours: int, rows: bytes) -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, depth, colours, 0, 0, 0)
    packed = zlib.compress(rows, 1)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", packed) + chunk(b"IEND", b"")


def deep_png() -> bytes:
    rows = (PICTURE.astype(np.uint16) * 256 + 77).astype(">u2").reshape(48, -1)
    return png(64, 48, 16, 2, b"".join(b"\0" + row.tobytes() for row in rows))


def tiff(pixels: bytes, bits: int, *, white: int = 1, order: str = "<", **more: int) -> bytes:
    """A grey TIFF of the picture's size, by hand: Pillow writes none of the odd ones."""
    tags = {256: 64, 257: 48, 258: bits, 259: 1, 262: white, 273: 0, 277: 1, 278: 48, 279: len(pixels)}
    tags |= {int(tag.removeprefix("tag")): value for tag, value in more.items()}
    tags[273] = 8 + 2 + 12 * len(tags) + 4
    entries = b"".join(struct.pack(order + "HHII", tag, 4, 1, value) for tag, value in sorted(tags.items()))
    head = (b"II" if order == "<" else b"MM") + struct.pack(order + "HI", 42, 8)
    return head + struct.pack(order + "H", len(tags)) + entries + bytes(4) + pixels


def grey_jpeg(width: int, height: int) -> bytes:
    """A whole JPEG of mid-grey, written block by block: 6 bits each, so the largest takes no time."""
    small = stored(Image.new("L", (8, 8)), "JPEG")
    start = small.index(b"\xff\xc0")
    scan = small.index(b"\xff\xda")
    header = bytearray(small[: scan + 10])
    header[start + 5 : start + 9] = struct.pack(">HH", height, width)
    blocks = -(-width // 8) * -(-height // 8)
    bits = 6 * blocks
    data = b"\x28\xa2\x8a" * (bits // 24) + bytes.fromhex({0: "", 6: "2b", 12: "28af", 18: "28a2bf"}[bits % 24])
    return bytes(header) + data + b"\xff\xd9"


def thirds_jpeg() -> bytes:
    """Mid-grey, with one colour for three pixels of a row: legal, and TurboJPEG has no name for it."""
    small = stored(Image.new("RGB", (8, 8)), "JPEG", subsampling=0)
    start, scan = small.index(b"\xff\xc0"), small.index(b"\xff\xda")
    header = bytearray(small[: scan + 14])
    header[start + 5 : start + 9] = struct.pack(">HH", 8, 48)
    header[start + 11] = 0x31
    bits = ("001010" * 3 + "0000" * 2) * 2
    bits += "1" * (-len(bits) % 8)
    return bytes(header) + int(bits, 2).to_bytes(len(bits) // 8, "big") + b"\xff\xd9"


def frames() -> dict:
    return {"save_all": True, "append_images": [Image.fromarray(OTHER)]}


def transparent_palette() -> bytes:
    image = Image.fromarray(PICTURE).quantize(200)
    return stored(image, "PNG", transparency=bytes(range(200)))


def with_alpha() -> Image.Image:
    return Image.fromarray(np.dstack([PICTURE, 255 - GREY]))


def cmyk() -> np.ndarray:
    """Some black, little colour, stored the other way round as Adobe does."""
    return np.dstack([255 - PICTURE // 2, np.full_like(GREY, 200)])


def in_ink(inverted: np.ndarray) -> np.ndarray:
    return (inverted[:, :, :3].astype(int) * inverted[:, :, 3:] // 255).astype(np.uint8)


GREYS = np.repeat(GREY[:, :, None], 3, axis=2)
DEEP = (GREY.astype(np.uint16) * 256 + 77).astype("<u2")

GOOD = {
    "JPEG": (jpeg(), PICTURE, 6),
    "JPEG, few colours": (jpeg(subsampling=2), PICTURE, 12),
    "JPEG, progressive": (jpeg(progressive=True), PICTURE, 6),
    "JPEG, grey": (stored(picture(mode="L"), "JPEG", quality=95), np.asarray(picture(mode="L").convert("RGB")), 4),
    "JPEG, stored as RGB": (jpeg(keep_rgb=True), PICTURE, 6),
    "JPEG, with bytes behind it": (jpeg() + b"and more", PICTURE, 6),
    "JPEG, unusual sampling": (thirds_jpeg(), np.full((8, 48, 3), 128), 0),
    "JPEG, CMYK of Adobe's": (stored(Image.fromarray(255 - cmyk(), "CMYK"), "JPEG", quality=95), in_ink(cmyk()), 8),
    "JPEG, YCCK": (simplejpeg.encode_jpeg(cmyk(), 95, "CMYK", "444"), in_ink(cmyk()), 8),
    "JPEG, several pictures": (
        stored(Image.fromarray(PICTURE), "MPO", quality=95, subsampling=0, **frames()),
        PICTURE,
        6,
    ),
    "JPEG, 1 x 1": (jpeg(PICTURE[:1, :1]), PICTURE[:1, :1], 3),
    "PNG": (stored(picture(), "PNG"), PICTURE, 0),
    "PNG, 1 x 1": (stored(picture(PICTURE[:1, :1]), "PNG"), PICTURE[:1, :1], 0),
    "PNG, 16 bits, grey": (stored(Image.fromarray(DEEP), "PNG"), GREYS, 0),
    "PNG, 16 bits, colours": (deep_png(), PICTURE, 0),
    "PNG, 1 bit": (stored(picture(GREY * 0 + 255, "1"), "PNG"), GREYS * 0 + 255, 0),
    "PNG, alpha": (stored(with_alpha(), "PNG"), PICTURE, 0),
    "PNG, grey and alpha": (stored(Image.fromarray(np.dstack([GREY, 255 - GREY])), "PNG"), GREYS, 0),
    "PNG, palette": (stored(picture().quantize(200), "PNG"), PICTURE, 40),
    "PNG, palette with transparency": (transparent_palette(), PICTURE, 40),
    "PNG, animated": (stored(picture(), "PNG", **frames()), PICTURE, 0),
    "GIF": (stored(Image.fromarray(GREY), "GIF"), GREYS, 0),
    "GIF, animated": (stored(Image.fromarray(GREY), "GIF", **frames()), GREYS, 0),
    "WEBP": (stored(picture(), "WEBP", quality=95), PICTURE, 16),
    "WEBP, lossless": (stored(picture(), "WEBP", lossless=True), PICTURE, 0),
    "WEBP, alpha": (stored(with_alpha(), "WEBP", lossless=True, exact=True), PICTURE, 0),
    "WEBP, animated": (stored(picture(), "WEBP", lossless=True, **frames()), PICTURE, 0),
    "BMP": (stored(picture(), "BMP"), PICTURE, 0),
    "TIFF": (stored(picture(), "TIFF"), PICTURE, 0),
    "TIFF, several pages": (stored(picture(), "TIFF", **frames()), PICTURE, 0),
    "TIFF, packed": (stored(picture(), "TIFF", compression="tiff_lzw"), PICTURE, 0),
    "TIFF, CMYK": (stored(Image.fromarray(255 - cmyk(), "CMYK"), "TIFF"), in_ink(cmyk()), 2),
    "TIFF, 16 bits": (tiff(DEEP.tobytes(), 16), GREYS, 0),
    "TIFF, 16 bits, big end first": (tiff(DEEP.astype(">u2").tobytes(), 16, order=">"), GREYS, 0),
    "TIFF, 16 bits, white is zero": (tiff((65535 - DEEP).tobytes(), 16, white=0), GREYS, 0),
    "TIFF, 12 bits": (
        tiff(bytes.fromhex("abcdef") * (48 * 32), 12),
        np.tile([[[0xAB] * 3, [0xDE] * 3]], (48, 32, 1)),
        0,
    ),
}


@pytest.mark.parametrize("kind", GOOD)
def test_the_pixels_are_those_that_were_stored(kind) -> None:
    data, expected, tolerance = GOOD[kind]
    for given_as in (data, memoryview(data)):
        pixels = decode(given_as, max_pixels=LIMIT)
        assert pixels.dtype == np.uint8
        assert pixels.shape == expected.shape
        assert pixels.flags.c_contiguous
        np.testing.assert_allclose(pixels.astype(int), expected, rtol=0, atol=tolerance)


@pytest.mark.parametrize("kind", [kind for kind in GOOD if "16 bits" not in kind and "12 bits" not in kind])
def test_colours_are_those_of_the_loaders_of_timm(kind) -> None:
    data, _, _ = GOOD[kind]
    with Image.open(BytesIO(data)) as image:
        theirs = np.asarray(image.convert("RGB")).astype(int)
    np.testing.assert_allclose(decode(data, max_pixels=LIMIT).astype(int), theirs, rtol=0, atol=1)


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize(("form", "tolerance"), [("JPEG", 6), ("MPO", 6), ("PNG", 0), ("TIFF", 0), ("WEBP", 0)])
def test_exif_turns_the_image_upright(form, tolerance, orientation) -> None:
    lossy = {"quality": 95, "subsampling": 0}
    options = {"JPEG": lossy, "MPO": lossy | frames(), "WEBP": {"lossless": True}}.get(form, {})
    data = stored(Image.fromarray(turned(orientation)), form, exif=exif(orientation), **options)
    pixels = decode(data, max_pixels=LIMIT)
    np.testing.assert_allclose(pixels.astype(int), PICTURE, rtol=0, atol=tolerance)
    assert pixels.flags.c_contiguous


def test_deep_greys_are_turned_as_well() -> None:
    data = stored(Image.fromarray(np.rot90(DEEP).copy()), "PNG", exif=exif(6))
    np.testing.assert_array_equal(decode(data, max_pixels=LIMIT), GREYS)


@pytest.mark.parametrize("damaged", [exif(0), exif(9), exif(60_000), b"Exif\0\0junk", b"Exif\0\0II*\0\xff\xff\xff\xff"])
def test_exif_that_says_nothing_sensible_turns_nothing(damaged) -> None:
    pixels, size, box = decode_scaled(jpeg(exif=damaged), max_pixels=LIMIT, at_least=None)
    np.testing.assert_allclose(pixels.astype(int), PICTURE, rtol=0, atol=6)
    assert (size, box) == ((48, 64), (0, 0, 64, 48))


def test_a_missing_library_is_not_the_fault_of_the_image(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "simplejpeg", None)
    with pytest.raises(ImportError):
        decode(jpeg(), max_pixels=LIMIT)


NO_HEADER = "does not begin with the whole header of any of BMP, GIF, JPEG, PNG, TIFF, WEBP"
BAD = {
    "no bytes": (b"", "the image has no bytes"),
    "a word": (b"not an image", NO_HEADER),
    "a page": (b"<!DOCTYPE html><html><body>404</body></html>", NO_HEADER),
    "a page behind a JPEG's first bytes": (b"\xff\xd8\xff\xe0<html><body>404</body></html>", "cannot be decoded: "),
    "PostScript": (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 100 100\n%%EndComments\n%%EOF\n", NO_HEADER),
    "a JPEG of two bytes": (b"\xff\xd8", NO_HEADER),
    "a JPEG and its end": (b"\xff\xd8\xff\xd9", "cannot be decoded: "),
    "a PNG of zeros": (b"\x89PNG\r\n\x1a\n" + bytes(100), "cannot be decoded: "),
    "a PNG of no pixels": (png(0, 0, 8, 2, b""), "cannot be decoded: "),
    "a damaged JPEG": (jpeg()[:800] + bytes(40) + jpeg()[840:], "cannot be decoded: ValueError"),
    "a TIFF of floats": (stored(picture(mode="F"), "TIFF"), "mode F, in which white is undefined"),
    "a TIFF of 32 bits": (stored(picture(mode="I"), "TIFF"), "mode I, in which white is undefined"),
    "a TIFF of a huge tile": (tiff(bytes(9), 8, tag322=30_000, tag323=20_000, tag324=0), "30000 x 20000 pixels"),
    "more pixels than allowed": (stored(Image.new("L", (1001, 1000)), "PNG"), "1001 x 1000 pixels, more than max_pix"),
    "a JPEG with more": (
        grey_jpeg(1001, 1000),
        "1001 x 1000 pixels, more than max_pixels = 1000000; shrink it or raise",
    ),
    "more than Pillow allows": (grey_jpeg(20_000, 20_000), "more than max_pixels = 1000000; shrink it"),
}


@pytest.mark.parametrize("kind", BAD)
def test_what_cannot_be_decoded_is_rejected_with_the_reason(kind) -> None:
    data, reason = BAD[kind]
    messages = set()
    for _ in range(2):
        with pytest.raises(EncodeError) as caught:
            decode(memoryview(data), max_pixels=LIMIT)
        messages.add(str(caught.value))
    (message,) = messages
    assert reason in message
    assert " at 0x" not in message  # an address: another one after a restart


NOISE = Image.fromarray(np.random.default_rng(0).integers(0, 255, (48, 64, 3), np.uint8))
WHOLE = {form: stored(NOISE, form) for form in ("JPEG", "PNG", "GIF", "WEBP", "BMP", "TIFF")} | {
    "JPEG, progressive": stored(NOISE, "JPEG", progressive=True),
    "JPEG, CMYK": stored(NOISE.convert("CMYK"), "JPEG"),
    "TIFF, packed": stored(NOISE, "TIFF", compression="tiff_lzw"),
}


@pytest.mark.parametrize("tenths", range(10))
@pytest.mark.parametrize("kind", WHOLE)
def test_a_file_cut_off_is_no_image(kind, tenths) -> None:
    data = WHOLE[kind]
    assert decode(data, max_pixels=LIMIT).shape == (48, 64, 3)
    for at_least in (None, 10):
        with pytest.raises(EncodeError):
            decode_scaled(data[: len(data) * tenths // 10], max_pixels=LIMIT, at_least=at_least)


@pytest.mark.parametrize("tenths", range(4, 10))
@pytest.mark.parametrize("kind", ["JPEG", "JPEG, CMYK"])
def test_an_end_behind_what_is_cut_off_does_not_make_it_whole(kind, tenths) -> None:
    """Pillow, which decodes those in ink, would fill in grey for the rest."""
    data = WHOLE[kind]
    with pytest.raises(EncodeError, match="cannot be decoded"):
        decode(data[: len(data) * tenths // 10] + b"\xff\xd9", max_pixels=LIMIT)


@settings(max_examples=150, deadline=None)
@given(kind=st.sampled_from(sorted(GOOD)), kept=st.integers(0, 20_000))
def test_nothing_is_made_up_for_what_is_cut_off(kind, kept) -> None:
    """All that is missing from an image that is used is what comes after its pixels."""
    data, expected, tolerance = GOOD[kind]
    try:
        pixels = decode(data[:kept], max_pixels=LIMIT)
    except EncodeError:
        return
    np.testing.assert_allclose(pixels.astype(int), expected, rtol=0, atol=tolerance)


@settings(max_examples=300, deadline=None)
@given(
    kind=st.sampled_from(sorted(GOOD)), changes=st.dictionaries(st.integers(0, 400), st.integers(0, 255), max_size=4)
)
def test_damage_gives_pixels_or_an_error_and_nothing_else(kind, changes) -> None:
    damaged = bytearray(GOOD[kind][0])
    for place, value in changes.items():
        damaged[place % len(damaged)] = value
    try:
        pixels = decode_scaled(bytes(damaged), max_pixels=LIMIT, at_least=20).pixels
    except EncodeError:
        return
    assert pixels.dtype == np.uint8
    assert pixels.shape[2] == 3
    assert pixels.shape[0] * pixels.shape[1] <= LIMIT


@settings(max_examples=60, deadline=None)
@given(height=st.integers(1, 300), width=st.integers(1, 300), at_least=st.integers(1, 300))
def test_a_scaled_image_is_no_smaller_than_asked_for(height, width, at_least) -> None:
    whole = np.asarray(Image.fromarray(PICTURE).resize((width, height), Image.Resampling.BILINEAR))
    pixels, size, box = decode_scaled(jpeg(whole), max_pixels=LIMIT, at_least=at_least)
    assert size == (height, width)
    assert min(pixels.shape[:2]) >= min(at_least, height, width)
    assert pixels.shape[:2] == (math.ceil(box[3]), math.ceil(box[2]))
    assert box[2] * height == box[3] * width  # the aspect stays, though lengths are rounded up
    if min(height, width) < 2 * at_least:
        assert pixels.shape == whole.shape


@pytest.mark.parametrize("orientation", range(1, 9))
def test_a_scaled_image_lies_in_its_box(orientation) -> None:
    """Its lengths of 1003 and 1363 are no multiples of 8: each part of it must still be where it was."""
    upright = Image.fromarray(PICTURE).resize((1363, 1003), Image.Resampling.BICUBIC)
    lying = Image.fromarray(turned(orientation)).resize(
        upright.size if orientation < 5 else upright.size[::-1], Image.Resampling.BICUBIC
    )
    data = stored(lying, "JPEG", quality=95, subsampling=0, exif=exif(orientation))
    pixels, size, box = decode_scaled(data, max_pixels=10**7, at_least=125)
    assert size == (1003, 1363)
    assert sorted(pixels.shape) == [3, 126, 171]
    assert (box[2] - box[0], box[3] - box[1]) == (1363 / 8, 1003 / 8)
    small = Image.fromarray(pixels).resize((64, 48), Image.Resampling.BOX, box)
    exact = upright.resize((64, 48), Image.Resampling.BOX)
    moved = np.asarray(small).astype(int) - np.asarray(exact)
    assert np.abs(moved.mean((0, 1))).max() < 0.7  # 0.98 and more in a box at the wrong side


def test_scaling_makes_a_large_image_small() -> None:
    data = grey_jpeg(4000, 3000)
    assert decode_scaled(data, max_pixels=10**8, at_least=512).pixels.shape == (750, 1000, 3)
    assert decode_scaled(data, max_pixels=10**8, at_least=1501).pixels.shape == (3000, 4000, 3)


CHILD = """
import resource, sys
from speciate.errors import EncodeError
from speciate_plugins.vision.decoding import decoded, hush

def kilobytes(what):
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith(what))

def attempt(data, max_pixels):
    try:
        with decoded(data, max_pixels=max_pixels, at_least=None) as image:
            return str(image.pixels.shape)
    except (EncodeError, MemoryError) as error:
        return repr(error)

hush()
small, *bombs = [open(name, "rb").read() for name in sys.argv[1:]]
attempt(small, 1_000_000)  # the libraries are loaded
limit = kilobytes("VmSize") * 1024 + 100_000_000
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
before = kilobytes("VmHWM")
for bomb in bombs:
    print(attempt(bomb, 170_000_000))
print(kilobytes("VmHWM") - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_bomb_is_rejected_before_it_takes_memory(tmp_path) -> None:
    """20000 x 20000 real pixels: 1.2 GB decoded, where 100 MB more are allowed."""
    bombs = {"small": jpeg(), "jpeg": grey_jpeg(20_000, 20_000), "png": png(20_000, 20_000, 1, 0, bytes(20_000 * 2501))}
    bombs["control"] = grey_jpeg(12_000, 12_000)
    for name, data in bombs.items():
        (tmp_path / name).write_bytes(data)
    names = [tmp_path / name for name in bombs]
    done = subprocess.run([sys.executable, "-c", CHILD, *names], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    *answers, control, grown = done.stdout.splitlines()
    words = "the image has more than 178956970 pixels, and more than max_pixels = 170000000; shrink it"
    assert answers == [repr(EncodeError(words))] * 2
    assert control.startswith("MemoryError(")  # allowed by max_pixels: memory is short, and not by the image's fault
    assert int(grown) < 30_000
    assert not done.stderr


def test_threads_give_the_same_pixels_and_words() -> None:
    cut = [data[: len(data) * 9 // 10] for data, _, _ in GOOD.values()]
    files = [data for data, _, _ in GOOD.values()] + [data for data, _ in BAD.values()] + cut

    def answer(data: bytes) -> bytes | str:
        try:
            return decode_scaled(data, max_pixels=LIMIT, at_least=16).pixels.tobytes()
        except EncodeError as error:
            return str(error)

    alone = [answer(data) for data in files]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(answer, files * 10)) == alone * 10


def turns_beside(data: bytes) -> int:
    """How often another thread has its turn while an image is decoded, of a hundred times that it could."""
    started = time.perf_counter()
    decode(data, max_pixels=10**8)
    alone = time.perf_counter() - started
    thread = threading.Thread(target=decode, args=(data,), kwargs={"max_pixels": 10**8})
    thread.start()
    return next(turn for turn in count() if time.sleep(alone / 100) or not thread.is_alive())


def test_others_run_while_a_jpeg_is_decoded() -> None:
    """Threads are of use only if the decoder lets go of the interpreter."""
    data = grey_jpeg(8_000, 8_000)
    # Once is enough: one that kept it never would, and the machine may have other things to do.
    assert any(turns_beside(data) > 10 for _ in range(5))


def tiff_with_tiles(width: tuple[int, bytes], length: int) -> bytes:
    """A small TIFF whose header tells of tiles: the width's type and value, the length."""
    kind, value = width
    entries = {256: (4, 8), 257: (4, 8), 258: (3, 8), 262: (3, 1), 273: (4, 8), 277: (3, 1), 278: (4, 8), 279: (4, 64)}
    fields = {tag: struct.pack("<HHII", tag, kind_, 1, number) for tag, (kind_, number) in entries.items()}
    fields[322] = struct.pack("<HHI4s", 322, kind, 1, value)
    fields[323] = struct.pack("<HHII", 323, 4, 1, length)
    directory = b"".join(fields[tag] for tag in sorted(fields))
    return b"II*\0" + struct.pack("<IH", 8, len(fields)) + directory + bytes(4 + 64)


@pytest.mark.parametrize(
    ("width", "words"),
    [((2, b"A\0\0\0"), "its tiles have the sides"), ((4, struct.pack("<I", 4_000_000)), "more than max_pixels")],
)
def test_tiles_larger_than_allowed_are_never_made(width, words) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(EncodeError, match=words):
        decode(tiff_with_tiles(width, 300_000_000), max_pixels=LIMIT)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000


@pytest.mark.parametrize("depth", [8, 16])
def test_a_row_too_wide_for_the_decoder_is_the_images_fault(depth) -> None:
    """Pillow says that memory is lacking, which would stop the run, and again after each restart."""
    with pytest.raises(EncodeError, match="40000000 pixels wide, more than"):
        decode(png(40_000_000, 1, depth, 6, b""), max_pixels=50_000_000)


def test_a_jpeg_takes_as_much_room_as_it_is_decoded_to() -> None:
    plain, progressive = (Image.open(BytesIO(jpeg(np.zeros((800, 1000, 3), np.uint8), progressive=p))) for p in (0, 1))
    assert decoding._room(plain, None) == decoding._room(progressive, 100) == 800_000
    assert decoding._room(plain, 100) == 800_000 // 64
    assert decoding._room(plain, 390) == 800_000 // 4
    assert decoding._room(Image.open(BytesIO(stored(picture(), "PNG"))), 1) == 48 * 64


def test_a_bmp_that_only_python_decodes_is_rejected() -> None:
    """Four million pixels of one run; in Pillow they would take half a second with the interpreter held."""
    rows = b"\xff\x07" * 8 + b"\0\0"
    pixels = rows * 2040 + b"\0\1"
    colours = bytes(4 * 256)
    header = struct.pack("<IiiHHIIiiII", 40, 2040, 2040, 1, 8, 1, len(pixels), 0, 0, 256, 0)
    start = 14 + len(header) + len(colours)
    data = struct.pack("<2sIHHI", b"BM", start + len(pixels), 0, 0, start) + header + colours + pixels
    with pytest.raises(EncodeError, match="run-length encoded BMP"):
        decode(data, max_pixels=10**7)


def test_large_images_are_decoded_one_after_another(monkeypatch) -> None:
    """However many threads there are: each would take many bytes a pixel."""
    monkeypatch.setattr(decoding, "ROOM", Room(2 * 48 * 64))
    held, most = set(), []
    load = decoding.shallow

    def slowly(image):
        held.add(threading.get_ident())
        time.sleep(0.01)
        most.append(len(held))
        found = load(image)
        held.remove(threading.get_ident())
        return found

    monkeypatch.setattr(decoding, "shallow", slowly)
    data = stored(picture(), "PNG")
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: decode(data, max_pixels=LIMIT).tobytes(), range(24)))
    assert set(found) == {PICTURE.tobytes()}
    assert max(most) == 2
