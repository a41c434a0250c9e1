"""Encoder `thumbnail`: the image itself, grey and very small. No model: a baseline, and a way to try a pipeline."""

from collections.abc import Sequence
from typing import Annotated, Any

import msgspec
import numpy as np
import numpy.typing as npt

from speciate.hooks import Provider, hookimpl
from speciate.stages import Encoder
from speciate_plugins.vision.decoding import hush, import_decoders, opened, shallow
from speciate_plugins.vision.options import MaxPixels
from speciate_plugins.vision.picturing import picture
from speciate_schemas import ImageEvent, Strict


class ThumbnailOptions(Strict, frozen=True):
    """Options of the encoder `thumbnail`."""

    size: Annotated[int, msgspec.Meta(ge=1, le=1024, description="Width and height; the dimension is its square.")] = 16
    max_pixels: MaxPixels = 50_000_000


class ThumbnailEncoder:
    """Decodes, turns upright, makes grey, shrinks by averaging; pixels in 0 … 1, row by row."""

    def __init__(self, options: ThumbnailOptions) -> None:
        self._size = options.size
        self._max_pixels = options.max_pixels
        self.dimension = options.size * options.size

    def load(self) -> None:
        """See `Encoder`."""
        import_decoders("PIL.Image")
        hush()

    def prepare(self, image: ImageEvent) -> npt.NDArray[np.float32]:
        """See `Encoder`."""
        from PIL.Image import Resampling  # noqa: PLC0415 - heavy, and an extra

        with opened(image.image, self._max_pixels) as stored:
            small = shallow(stored).convert("L").resize((self._size, self._size), Resampling.BOX)
        return np.asarray(small, dtype=np.float32).reshape(-1) / np.float32(255)

    def encode(self, prepared: Sequence[npt.NDArray[Any]]) -> npt.NDArray[np.float32]:
        """See `Encoder`."""
        return np.asarray(prepared, dtype=np.float32).reshape(len(prepared), self.dimension)

    def picture(self, image: ImageEvent, pixels: int) -> bytes:
        """See `Picturing`."""
        return picture(image.image, pixels, max_pixels=self._max_pixels)


@hookimpl
def speciate_encoder() -> Provider[Encoder]:
    """Provide the encoder."""
    return Provider(options=ThumbnailOptions, create=ThumbnailEncoder, requires=("PIL",), install="speciate[images]")
