"""The pixels of a stored image, as they are while it is decoded."""

import numpy as np

from speciate_plugins.vision.decoding import decoded


def decode(data: memoryview | bytes, *, max_pixels: int) -> np.ndarray:
    """Upright, as RGB (height, width, 3), in full size."""
    with decoded(data, max_pixels=max_pixels, at_least=None) as image:
        return image.pixels
