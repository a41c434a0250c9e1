"""An encoder that sees colours and nothing else: which share of an image has which of a few colours.

Red, green and blue are cut into `levels` each, which makes levels³ colours. The root of each share is a feature, so
that all vectors have length 1 and a colour that covers little still counts.
"""

from collections.abc import Sequence
from io import BytesIO
from typing import Annotated, Any

import msgspec
import numpy as np
import numpy.typing as npt

from speciate.errors import EncodeError
from speciate.hooks import Provider, hookimpl
from speciate.stages import Encoder
from speciate_schemas import ImageEvent, Strict

SIDE = 64
FORMATS = ("JPEG", "PNG")


class HistogramOptions(Strict, frozen=True):
    """Options of the encoder: the keys one may write below `plugin = "colour-histogram"`."""

    levels: Annotated[
        int, msgspec.Meta(ge=2, le=16, description="Levels of red, green and blue; the dimension is their cube.")
    ] = 4
    max_pixels: Annotated[int, msgspec.Meta(ge=1, description="An image with more pixels is rejected.")] = 50_000_000


class HistogramEncoder:
    """What concerns one image is done by `prepare`, on many threads; what a batch can share is done by `encode`."""

    def __init__(self, options: HistogramOptions) -> None:
        self._levels = options.levels
        self._max_pixels = options.max_pixels
        self.dimension = options.levels**3

    def load(self) -> None:
        """See `speciate.stages.Encoder`; there are no weights."""

    def prepare(self, image: ImageEvent) -> npt.NDArray[np.uint8]:
        """See `speciate.stages.Encoder`."""
        from PIL import Image, UnidentifiedImageError  # noqa: PLC0415 - `speciate plugins` must work without it

        try:
            with Image.open(BytesIO(image.image), formats=FORMATS) as stored:
                self._check_size(stored.width, stored.height)  # before anything is decoded
                return np.array(stored.convert("RGB").resize((SIDE, SIDE), Image.Resampling.BOX))
        except EncodeError:
            raise
        except UnidentifiedImageError:
            # Pillow's own words name an address in memory, which is another one after a restart.
            raise EncodeError(f"the image is none of {', '.join(FORMATS)}") from None
        except Exception as error:  # Pillow raises whatever a damaged file makes it stumble over
            raise EncodeError(f"the image cannot be decoded: {type(error).__name__}: {error}") from error

    def encode(self, prepared: Sequence[npt.NDArray[Any]]) -> npt.NDArray[np.float32]:
        """See `speciate.stages.Encoder`."""
        levels = np.stack(prepared).reshape(len(prepared), -1, 3).astype(np.intp) * self._levels // 256
        colours = levels @ np.array([self._levels**2, self._levels, 1])
        # All images are counted at once, each from a number of its own on.
        numbers = colours + self.dimension * np.arange(len(prepared))[:, np.newaxis]
        counts = np.bincount(numbers.ravel(), minlength=self.dimension * len(prepared))
        return np.sqrt(counts.reshape(len(prepared), self.dimension) / SIDE**2).astype(np.float32)

    def _check_size(self, width: int, height: int) -> None:
        if width * height > self._max_pixels:
            raise EncodeError(
                f"the image has {width} x {height} pixels, more than max_pixels = {self._max_pixels}: shrink it"
            )


@hookimpl
def speciate_encoder() -> Provider[Encoder]:
    """Provide the encoder; the entry point `encoder.colour-histogram` names this module."""
    return Provider(
        options=HistogramOptions,
        create=HistogramEncoder,
        requires=("PIL",),
        install="speciate-example-plugin[images]",
    )
