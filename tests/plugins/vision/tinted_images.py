"""Images of a few tints, as events: something that even a small network with random weights can learn."""

from io import BytesIO

import numpy as np
from PIL import Image

from speciate_schemas import ImageEvent

SIZE = 160
"""Of the test models of timm."""

TINTS = np.array([[1, 0, 0], [0, 1, 0], [0, 0, 1], [-1, 0, 0]])


def tinted_events(count: int, seed: int) -> tuple[list[ImageEvent], np.ndarray]:
    """Grey noise of any brightness with a tint, one a class: distances tell the brightness, not the class."""
    random = np.random.default_rng(seed)
    classes = np.arange(count) % len(TINTS)
    return [_event(f"{seed}-{n}", TINTS[one], random) for n, one in enumerate(classes)], classes


def _event(name: str, tint: np.ndarray, random: np.random.Generator) -> ImageEvent:
    light = random.uniform(40, 215) + random.normal(0, 10, (SIZE, SIZE, 1)) + 25 * tint
    file = BytesIO()
    Image.fromarray(np.clip(light, 0, 255).astype(np.uint8)).save(file, "PNG")
    return ImageEvent(id=name, image=memoryview(file.getvalue()), media_type="image/png")
