"""What a model sees of an image: resized and cut as its own configuration says."""

import math
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

import msgspec
import numpy as np
import numpy.typing as npt

from speciate.errors import ConfigError, EncodeError
from speciate_plugins.vision.decoding import Decoded, decoded, hush
from speciate_schemas import Strict

Side = Annotated[int, msgspec.Meta(ge=1)]
Level = Annotated[int, msgspec.Meta(ge=0, le=255)]


class View(Strict, frozen=True):
    """All that timm's evaluation transform depends on, short of mean and standard deviation; the same pixels as its."""

    size: tuple[Side, Side]
    """Height and width."""
    crop_pct: Annotated[float, msgspec.Meta(gt=0)] = 0.875
    """The part of the resized image's side that is cut out."""
    interpolation: Literal["nearest", "bilinear", "bicubic", "box", "hamming", "lanczos"] = "bicubic"
    """Before 1.0.31 timm itself was bilinear, whatever the configuration said, where a view was wide or tall."""
    crop_mode: Literal["center", "squash", "border"] = "center"
    """Fill the view and lose what sticks out; or change the aspect; or lose nothing and see a border."""
    border: tuple[Level, Level, Level] = (0, 0, 0)
    """The colour of what lies outside the image."""

    def __post_init__(self) -> None:
        hush()  # a view is made when an encoder is loaded, before threads decode for it

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> Self:
        """Make the view of a data configuration of timm's."""
        channels, *size = config["input_size"]
        if channels != 3:  # noqa: PLR2004 - red, green, blue
            raise ConfigError(f"the model takes images of {channels} channels; only models of 3 (RGB) can be used")
        given = {key: config[key] for key in ("crop_pct", "interpolation", "crop_mode") if config.get(key) is not None}
        if given.get("crop_mode") == "border":
            given["border"] = [round(255 * level) for level in config["mean"]]
        try:
            return msgspec.convert({"size": size, **given}, cls)
        except msgspec.ValidationError as error:
            raise ConfigError(f"the model's data configuration {dict(config)} cannot be used: {error}") from error

    def prepare(self, data: memoryview | bytes, max_pixels: int) -> npt.NDArray[np.uint8]:
        """Decode and cut: (3, height, width). Many threads at once."""
        # With twice the pixels the resampling hardly tells the difference, and a large JPEG is decoded much faster.
        at_least = None if self.interpolation == "nearest" else 2 * max(self._scaled())
        with decoded(data, max_pixels=max_pixels, at_least=at_least) as image:
            (height, width), resized = image.size, self._resized(*image.size)
            if math.prod(resized) > max_pixels:
                raise EncodeError(
                    f"the image is too narrow: of {width} x {height} pixels, it would be resized to "
                    f"{resized[1]} x {resized[0]}, more than max_pixels = {max_pixels}; cut it"
                )
            return self._cut(image)

    def _cut(self, image: Decoded) -> npt.NDArray[np.uint8]:
        """Resize and cut out the middle, contiguous and writable."""
        from PIL import Image  # noqa: PLC0415 - heavy, and an extra

        height, width = self._resized(*image.size)
        resampling = Image.Resampling[self.interpolation.upper()]
        resized = Image.fromarray(image.pixels).resize((width, height), resampling, image.box)
        canvas = Image.new("RGB", self.size[::-1], self.border)
        canvas.paste(resized, (-_before(width, self.size[1]), -_before(height, self.size[0])))
        return np.asarray(canvas).transpose(2, 0, 1).copy()

    def _scaled(self) -> tuple[int, int]:
        """Height and width of which the view is the middle part."""
        height, width = self.size
        return math.floor(height / self.crop_pct), math.floor(width / self.crop_pct)

    def _resized(self, height: int, width: int) -> tuple[int, int]:
        """Height and width to which an image is resized; each mode rounds as it does in timm."""
        across, along = self._scaled()
        if self.crop_mode == "squash":
            return across, along
        if self.crop_mode == "center" and across == along:
            shorter = min(height, width)
            return int(across * height / shorter), int(across * width / shorter)
        choose = min if self.crop_mode == "center" else max
        ratio = choose(height / across, width / along)
        return max(1, round(height / ratio)), max(1, round(width / ratio))


def _before(had: int, wanted: int) -> int:
    """How many rows lie before the middle ones; if there are too few, minus how many are missing there."""
    return round((had - wanted) / 2) if had >= wanted else -((wanted - had) // 2)
