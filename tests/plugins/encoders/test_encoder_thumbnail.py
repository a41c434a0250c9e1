"""Thumbnails of real images, and of what claims to be one."""

import shutil
import struct
import subprocess
import sys
import zlib
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO

import numpy as np
import pytest
from PIL import EpsImagePlugin, Image

from speciate.errors import EncodeError
from speciate_plugins.encoders.thumbnail import ThumbnailEncoder, ThumbnailOptions
from speciate_schemas import ImageEvent

GRADIENT = np.tile(np.linspace(0, 255, 64, dtype=np.uint8), (64, 1))


def stored(image: Image.Image, form: str, **options) -> bytes:
    buffer = BytesIO()
    image.save(buffer, form, **options)
    return buffer.getvalue()


def loaded(**options) -> ThumbnailEncoder:
    encoder = ThumbnailEncoder(ThumbnailOptions(**options))
    encoder.load()
    return encoder


def prepare(encoder: ThumbnailEncoder, data: bytes) -> np.ndarray:
    return encoder.prepare(ImageEvent(id="x", image=memoryview(data)))


def encode(*images: bytes, **options) -> np.ndarray:
    encoder = loaded(**options)
    return encoder.encode([prepare(encoder, data) for data in images])


def reason(data: bytes, **options) -> str:
    with pytest.raises(EncodeError) as caught:
        prepare(loaded(**options), data)
    return str(caught.value)


def bomb(width: int, height: int) -> bytes:
    """A PNG whose header promises more than it holds."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"\0")) + chunk(b"IEND", b"")


@pytest.mark.parametrize("form", ["PNG", "JPEG", "WEBP", "BMP", "TIFF", "GIF"])
def test_the_same_picture_in_every_format(form) -> None:
    (vector,) = encode(stored(Image.fromarray(GRADIENT), form), size=8)
    expected = GRADIENT.reshape(8, 8, 8, 8).mean((1, 3)).ravel() / 255
    assert vector.dtype == np.float32
    assert vector.shape == (64,)
    np.testing.assert_allclose(vector, expected, atol=0.02)


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA", "CMYK", "YCbCr", "I;16"])
def test_every_mode_gives_numbers_from_0_to_1(mode) -> None:
    image = Image.fromarray(GRADIENT).convert("RGB" if mode in {"YCbCr", "CMYK"} else "L")
    form = {"CMYK": "JPEG", "YCbCr": "JPEG"}.get(mode, "PNG")
    (vector,) = encode(stored(image.convert(mode), form))
    assert vector.shape == (256,)
    assert 0 <= vector.min() <= vector.max() <= 1


def test_16_bits_are_not_cut_off_at_white() -> None:
    deep = Image.fromarray(GRADIENT.astype(np.uint16) * 257)
    flat, full = encode(stored(Image.fromarray(GRADIENT), "PNG"), stored(deep, "PNG"))
    np.testing.assert_allclose(full, flat, atol=0.01)


def deep_tiff(values: np.ndarray, bits: int, white: int) -> bytes:
    """A grey one by hand: Pillow writes none of the odd ones. Two numbers of 12 bits are three bytes."""
    high, low = values[:, ::2].astype(int), values[:, 1::2].astype(int)
    packed = np.stack([high >> 4, (high & 15) << 4 | low >> 8, low & 255], axis=2).astype(np.uint8)
    pixels = (packed if bits == 12 else values.astype("<u2")).tobytes()
    tags = {256: 64, 257: 64, 258: bits, 259: 1, 262: white, 273: 122, 277: 1, 278: 64, 279: len(pixels)}
    entries = b"".join(struct.pack("<HHII", tag, 4, 1, value) for tag, value in tags.items())
    return b"II" + struct.pack("<HIH", 42, 8, len(tags)) + entries + bytes(4) + pixels


@pytest.mark.parametrize(("bits", "white"), [(12, 1), (16, 1), (16, 0)])
def test_deep_greys_are_as_bright_as_shallow_ones(bits, white) -> None:
    deep = GRADIENT.astype(np.uint16) << (bits - 8)
    flat, full = encode(
        stored(Image.fromarray(GRADIENT), "PNG"), deep_tiff(deep if white else 2**bits - 1 - deep, bits, white)
    )
    np.testing.assert_allclose(full, flat, atol=1e-6)


@pytest.mark.parametrize("mode", ["I", "F"])
def test_numbers_without_a_white_are_refused(mode) -> None:
    image = Image.fromarray(GRADIENT).convert(mode)
    assert f"mode {mode}, in which white is undefined" in reason(stored(image, "TIFF"))


def test_exif_turns_the_image_upright() -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    turned = Image.fromarray(np.rot90(GRADIENT).copy())
    plain, upright = encode(stored(Image.fromarray(GRADIENT), "PNG"), stored(turned, "PNG", exif=exif))
    np.testing.assert_allclose(upright, plain, atol=1e-6)


GOOD, JPEG = stored(Image.fromarray(GRADIENT), "PNG"), stored(Image.fromarray(GRADIENT), "JPEG")


@pytest.mark.parametrize("data", [b"not an image", GOOD[:50], JPEG[: len(JPEG) // 2], GOOD[:8] + bytes(100)])
def test_what_is_no_image_gets_its_error(data) -> None:
    assert reason(data).startswith("the image cannot be decoded: ")
    assert reason(data) == reason(data)


def test_an_image_of_no_bytes_is_named_so() -> None:
    assert reason(b"") == "the image has no bytes"


def test_too_many_pixels_are_refused_by_the_header() -> None:
    assert "10000 x 5001 pixels, more than max_pixels = 50000000" in reason(bomb(10_000, 5_001))
    assert "10000 x 10000 pixels, more than max_pixels" in reason(bomb(10_000, 10_000))
    assert "more than max_pixels = 50000000" in reason(bomb(60_000, 60_000))
    assert "11 x 10 pixels" in reason(bomb(11, 10), max_pixels=100)
    assert "pixels" not in reason(bomb(11, 10))


def test_an_image_has_the_same_thumbnail_whatever_its_neighbours_and_threads() -> None:
    rng = np.random.default_rng(0)
    files = [stored(Image.fromarray(rng.integers(0, 255, (40, 30, 3), np.uint8)), "JPEG") for _ in range(20)]
    together = encode(*files)
    encoder = loaded()
    with ThreadPoolExecutor(4) as pool:
        apart = [encoder.encode([one])[0] for one in pool.map(lambda data: prepare(encoder, data), files)]
    np.testing.assert_array_equal(together, apart)
    assert encoder.dimension == 256
    assert encoder.encode([]).shape == (0, 256)


def test_pillow_is_all_it_needs() -> None:
    """It comes with the extra `images`, without the decoder of the larger encoders."""
    code = f"""
import sys
sys.modules["simplejpeg"] = sys.modules["torch"] = None
from speciate_plugins.encoders.thumbnail import ThumbnailEncoder, ThumbnailOptions
from speciate_schemas import ImageEvent
encoder = ThumbnailEncoder(ThumbnailOptions())
assert "PIL" not in sys.modules
encoder.load()
print(encoder.encode([encoder.prepare(ImageEvent(id="x", image=memoryview({JPEG!r})))]).shape)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout == "(1, 256)\n", done.stderr


EPS = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 100 100\n%%EndComments\nshowpage\n%%EOF\n"


def test_no_image_starts_another_program(tmp_path, monkeypatch) -> None:
    """Pillow hands PostScript to Ghostscript: an interpreter of whatever a stranger sent."""
    mark, program = tmp_path / "was-called", tmp_path / "gs"
    program.write_text(f"#!/bin/sh\ntouch {mark}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setattr(EpsImagePlugin, "gs_binary", None)
    assert shutil.which("gs") == str(program)
    assert "does not begin with the whole header" in reason(EPS)
    assert not mark.exists()
