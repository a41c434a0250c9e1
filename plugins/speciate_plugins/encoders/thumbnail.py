"""Encoder `thumbnail`: the image itself, grey and very small. No model: a baseline, and a way to try a pipeline."""

import warnings
from collections.abc import Sequence
from io import BytesIO
from typing import Annotated, Any

import msgspec
import numpy as np
import numpy.typing as npt

from speciate.errors import EncodeError, EventError
from speciate.hooks import Provider, hookimpl
from speciate.stages import Encoder
from speciate_schemas import ImageEvent, Strict

FORMATS = ("BMP", "GIF", "JPEG", "PNG", "TIFF", "WEBP")
"""What is decoded. Pillow knows more, and for some of them starts other programs on the bytes."""

PILLOW_PIXELS = 178_956_970
"""Pillow refuses larger images whatever we allow."""


class ThumbnailOptions(Strict, frozen=True):
    """Options of the encoder `thumbnail`."""

    size: Annotated[int, msgspec.Meta(ge=1, le=1024, description="Width and height; the dimension is its square.")] = 16
    max_pixels: Annotated[
        int,
        msgspec.Meta(ge=1, le=PILLOW_PIXELS, description="An image with more pixels is rejected before decoding."),
    ] = 50_000_000


class ThumbnailEncoder:
    """Decodes, turns upright, makes grey, shrinks by averaging; pixels in 0 … 1, row by row."""

    def __init__(self, options: ThumbnailOptions) -> None:
        self._size = options.size
        self._max_pixels = options.max_pixels
        self.dimension = options.size * options.size
        # Pillow warns of odd images; to the user an image is either used or rejected. Filters are per process and
        # not safe to change while threads decode, so this is done once, here.
        warnings.filterwarnings("ignore", module=r"PIL\.")

    def encode(self, images: Sequence[ImageEvent]) -> Sequence[npt.NDArray[Any] | EventError]:
        """See `Encoder`."""
        return [self._encode(image.image) for image in images]

    def _encode(self, data: memoryview) -> npt.NDArray[np.float32] | EventError:
        try:
            return self._thumbnail(data)
        except EventError as error:
            return error
        except Exception as error:  # noqa: BLE001 - decoders raise whatever a damaged file makes them stumble over
            return EncodeError(f"the image cannot be decoded: {type(error).__name__}: {error}")

    def _thumbnail(self, data: memoryview) -> npt.NDArray[np.float32]:
        from PIL import ImageOps  # noqa: PLC0415 - heavy, and an extra
        from PIL.Image import Resampling  # noqa: PLC0415

        if not data.nbytes:
            raise EncodeError("the image has no bytes")
        with _opened(data) as image:
            if image.width * image.height > self._max_pixels:
                raise EncodeError(
                    f"the image has {image.width} x {image.height} pixels, more than max_pixels = {self._max_pixels}; "
                    "shrink it or raise max_pixels"
                )
            upright = ImageOps.exif_transpose(image)
            # Deep greys have 16 bits; converting them straight to 8 would cut them off at white.
            deep = upright.mode.startswith("I")
            grey = upright.convert("I").convert("F") if deep else upright.convert("L")
            small = grey.resize((self._size, self._size), Resampling.BOX)
        scale = np.float32(65535 if deep else 255)
        return np.asarray(small, dtype=np.float32).reshape(-1) / scale


def _opened(data: memoryview) -> Any:
    from PIL import Image, UnidentifiedImageError  # noqa: PLC0415

    try:
        return Image.open(BytesIO(data), formats=FORMATS)
    except UnidentifiedImageError:
        # Its own words name an address in memory: the same image would be rejected in other words after a restart.
        raise EncodeError(
            f"the image cannot be decoded: its first bytes are those of no {', '.join(FORMATS)}"
        ) from None


@hookimpl
def speciate_encoder() -> Provider[Encoder]:
    """Provide the encoder."""
    return Provider(options=ThumbnailOptions, create=ThumbnailEncoder, requires=("PIL",), install="speciate[images]")
