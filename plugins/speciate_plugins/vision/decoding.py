"""Encoded images to pixels. What a stranger sent is either decoded as it was meant, or rejected with the reason."""

import importlib
import math
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import BytesIO
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from speciate.errors import EncodeError, EventError, PluginError, first_line
from speciate_plugins.vision.room import Room
from speciate_plugins.vision.segments import check_segments

if TYPE_CHECKING:
    from PIL.Image import Image

FORMATS = ("BMP", "GIF", "JPEG", "PNG", "TIFF", "WEBP")
"""What is decoded. Pillow knows more, and for some of them starts other programs on the bytes."""

PILLOW_PIXELS = 178_956_970
"""Pillow refuses larger images whatever we allow."""

ROOM = Room(100_000_000)
"""Decoding takes up to some 20 bytes a pixel, so 2 GB at most: two of the largest images that are allowed at first."""

WIDEST = (2**31 - 1) // 64 - 7
"""Pillow allocates nothing for a wider row, and calls that a lack of memory."""

DECODERS = {"PIL.Image": "Pillow", "simplejpeg": "simplejpeg"}
"""What decodes: a module, and the package it comes in."""

BY_INTERPRETER = "bmp_rle"
"""Pillow decodes these pixel by pixel in Python, with the interpreter held for seconds."""

ORIENTATION, TILE_WIDTH, TILE_LENGTH, BITS, PHOTOMETRIC = 274, 322, 323, 258, 262
"""Tags of EXIF and TIFF."""


def hush() -> None:
    """Keep Pillow's warnings of odd images to itself: to the user an image is either used or rejected.

    Filters are per process and not safe to change while threads decode, so this is done once, before they do.
    """
    warnings.filterwarnings("ignore", module=r"PIL\.")


class Decoded(NamedTuple):
    """An image, upright, and perhaps smaller than it was stored."""

    pixels: npt.NDArray[np.uint8]
    """RGB: (height, width, 3)."""
    size: tuple[int, int]
    """Height and width as stored."""
    box: tuple[float, float, float, float]
    """Left, top, right and bottom of the image in `pixels`: a length which is scaled is rounded up."""


def import_decoders(*modules: str) -> None:
    """Import these of `DECODERS`, or all: one that is installed and broken is told before there is any image.

    Raises:
        PluginError: if one cannot be imported.
    """
    for module in modules or DECODERS:
        try:
            importlib.import_module(module)
        except Exception as error:  # a mismatch of binaries is a ValueError, a missing one may be an OSError
            reason = f"{type(error).__name__}: {first_line(error)}"
            raise PluginError(
                f"images are decoded by {DECODERS[module]}, which cannot be imported ({reason}): "
                f"pip install --force-reinstall {DECODERS[module]}"
            ) from error


@contextmanager
def decoded(data: memoryview | bytes, *, max_pixels: int, at_least: int | None) -> "Iterator[Decoded]":
    """Decode; of an animation or of several pages the first.

    A JPEG with `at_least` may come out smaller, which is faster: its shorter side stays at least so long.
    To be made smaller while this is open: until then there is no room for as many other pixels.
    """
    with opened(data, max_pixels, at_least) as image:
        yield _decoded(image, data, max_pixels, at_least)


def _decoded(image: "Image", data: memoryview | bytes, max_pixels: int, at_least: int | None) -> Decoded:
    jpeg = _is_jpeg(image)
    if jpeg and image.mode in {"L", "RGB"}:
        found = _jpeg(data, max_pixels, at_least)
        if found is not None:
            return _turned_scaled(found, _orientation(image))
    if jpeg and image.mode == "CMYK":
        _check_whole(data)
    # What is transparent shows the colour it hides, as in the loaders of timm and torchvision.
    pixels = np.array(shallow(image).convert("RGB"))
    height, width, _ = pixels.shape
    return Decoded(pixels, (height, width), (0, 0, width, height))


@contextmanager
def opened(data: memoryview | bytes, max_pixels: int, at_least: int | None = None) -> "Iterator[Image]":
    """Open the image with only its header read; whatever goes wrong while it is open is an `EncodeError`.

    A JPEG may be decoded to a shorter side of `at_least`, and needs no more room than that then.
    """
    if not data:
        raise EncodeError("the image has no bytes")
    whole = bytes(data)
    check_segments(whole)
    try:
        with _identified(whole, max_pixels) as image:
            _check(image, max_pixels)
            with ROOM.taken(_room(image, at_least)):
                yield image
    except (EventError, ImportError, MemoryError):  # a library, or room that is missing, is not the image's fault
        raise
    except Exception as error:  # decoders raise whatever a damaged file makes them stumble over
        raise EncodeError(f"the image cannot be decoded: {type(error).__name__}: {error}") from error


def shallow(image: "Image") -> "Image":
    """Decode with Pillow and turn as EXIF says; 8 bits a channel at most."""
    if image.mode == "F" or (image.mode == "I" and image.format != "PNG"):
        raise EncodeError(
            f"the image has pixels of Pillow's mode {image.mode}, in which white is undefined; store it with 16 bits"
        )
    image.load()  # first: Pillow turns a TIFF while loading, and then no longer says that it lay
    turned = _turned(image, _orientation(image))
    return _first_bits(image, turned) if image.mode.startswith("I") else turned


def _identified(data: bytes, max_pixels: int) -> "Image":
    from PIL import Image, UnidentifiedImageError  # noqa: PLC0415 - heavy, and an extra

    try:
        return Image.open(BytesIO(data), formats=FORMATS)
    except UnidentifiedImageError:
        # Its own words name an address in memory: the same image would be rejected in other words after a restart.
        raise EncodeError(
            f"the image cannot be decoded: it does not begin with the whole header of any of {', '.join(FORMATS)}"
        ) from None
    except Image.DecompressionBombError:
        raise EncodeError(
            f"the image has more than {PILLOW_PIXELS} pixels, and more than max_pixels = {max_pixels}; shrink it"
        ) from None


def _check(image: "Image", max_pixels: int) -> None:
    """Reject, by its header, what would take too much to decode."""
    _check_size(image.width, image.height, max_pixels)
    if image.width > WIDEST:
        raise EncodeError(f"the image is {image.width} pixels wide, more than {WIDEST}; cut it")
    tile = _tile(image)
    if not all(isinstance(side, int) for side in tile):  # a text times a number would be a long text
        raise EncodeError(f"the image cannot be decoded: its tiles have the sides {tile}")
    _check_size(*tile, max_pixels)
    if any(part[0] == BY_INTERPRETER for part in getattr(image, "tile", ())):
        raise EncodeError("the image is a run-length encoded BMP, which takes long to decode; store it as PNG")


def _room(image: "Image", at_least: int | None) -> int:
    """How many pixels are decoded. A JPEG is made smaller row by row, unless it comes as a whole in several scans."""
    by_rows = _is_jpeg(image) and image.mode in {"L", "RGB"} and not image.info.get("progressive")
    eighths = _eighths(min(image.size), at_least) if by_rows else 8
    return max(image.width * image.height * eighths**2 // 64, math.prod(_tile(image)))


def _tile(image: "Image") -> tuple[int, int]:
    """Its sides: a tile is decompressed whole, and may be larger than the image it is of."""
    tags: Any = getattr(image, "tag_v2", {})
    return tags.get(TILE_WIDTH, 1), tags.get(TILE_LENGTH, 1)


def _is_jpeg(image: "Image") -> bool:
    return image.format in {"JPEG", "MPO"}


def _check_size(width: int, height: int, max_pixels: int) -> None:
    if width * height > max_pixels:
        raise EncodeError(
            f"the image has {width} x {height} pixels, more than max_pixels = {max_pixels}; "
            "shrink it or raise max_pixels"
        )


def _jpeg(data: memoryview | bytes, max_pixels: int, at_least: int | None) -> Decoded | None:
    """Decode as it lies; None for one of those which only Pillow can decode."""
    import simplejpeg  # noqa: PLC0415 - an extra which the thumbnail encoder does without

    try:
        height, width, _, _ = simplejpeg.decode_jpeg_header(data)
    except ValueError:  # unusual sampling of colours, or damaged: Pillow will say
        return None
    _check_size(width, height, max_pixels)  # again, by the reader whose word the decoder takes
    eighths = _eighths(min(height, width), at_least)
    tall, wide = height * eighths / 8, width * eighths / 8
    # Strict: what is cut off or damaged would be grey or smeared otherwise.
    pixels = simplejpeg.decode_jpeg(data, "RGB", min_height=math.ceil(tall), min_width=math.ceil(wide), strict=True)
    return Decoded(pixels, (height, width), (0, 0, wide, tall))


def _check_whole(data: memoryview | bytes) -> None:
    """Raise for a JPEG in ink that is cut off or damaged: Pillow, which knows its colours, would make something up."""
    import simplejpeg  # noqa: PLC0415

    try:
        simplejpeg.decode_jpeg_header(data)
    except ValueError:  # unusual sampling of colours, which has to do without
        return
    # As small as can be: the whole file is read in any case.
    simplejpeg.decode_jpeg(data, "CMYK", min_height=1, min_width=1, strict=True)


def _eighths(shorter: int, at_least: int | None) -> int:
    """How many eighths of the lengths to decode. More than a half would take longer than the whole."""
    if at_least is None or shorter < 2 * at_least:
        return 8
    return math.ceil(8 * at_least / shorter)


def _orientation(image: "Image") -> int:
    with suppress(Exception):  # a damaged EXIF says nothing of how the image lies; its pixels may be whole
        orientation = int(image.getexif().get(ORIENTATION, 1))
        return orientation if orientation in range(1, 9) else 1
    return 1


def _turned(image: "Image", orientation: int) -> "Image":
    from PIL.Image import Transpose  # noqa: PLC0415

    ways = {
        2: Transpose.FLIP_LEFT_RIGHT,
        3: Transpose.ROTATE_180,
        4: Transpose.FLIP_TOP_BOTTOM,
        5: Transpose.TRANSPOSE,
        6: Transpose.ROTATE_270,
        7: Transpose.TRANSVERSE,
        8: Transpose.ROTATE_90,
    }
    return image if orientation == 1 else image.transpose(ways[orientation])


def _turned_scaled(lying: Decoded, orientation: int) -> Decoded:
    from PIL import Image  # noqa: PLC0415

    if orientation == 1:
        return lying
    pixels = np.array(_turned(Image.fromarray(lying.pixels), orientation))
    height, width, _ = pixels.shape
    (tall, wide), (_, _, right, bottom) = lying.size, lying.box
    if orientation >= 5:  # noqa: PLR2004 - from 5 on, rows are columns
        tall, wide, right, bottom = wide, tall, bottom, right
    # What was rounded up lay on the right and at the bottom, and was turned with the rest.
    left = width - right if orientation in {2, 3, 6, 7} else 0
    top = height - bottom if orientation in {3, 4, 7, 8} else 0
    return Decoded(pixels, (tall, wide), (left, top, left + right, top + bottom))


def _first_bits(image: "Image", turned: "Image") -> "Image":
    """Give the first 8 bits of deep greys, as Pillow does for deep colours; its own way would cut them off at white."""
    from PIL import Image  # noqa: PLC0415

    tags: Any = getattr(image, "tag_v2", {})
    (bits,) = tags.get(BITS, (16,))
    grey = (np.asarray(turned) >> (bits - 8)).astype(np.uint8)
    return Image.fromarray(~grey if tags.get(PHOTOMETRIC) == 0 else grey)  # 0: white is zero
