"""Views are those of timm's own evaluation transform, to the last bit."""

import math
from io import BytesIO

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from pets import PHOTOGRAPHS, needs_photographs
from speciate.errors import ConfigError, EncodeError
from speciate_plugins.vision.decoding import PILLOW_PIXELS
from speciate_plugins.vision.viewing import View

timm_data = pytest.importorskip("timm.data", reason="timm is what views are compared with")
from timm.data.transforms import ResizeKeepRatio, str_to_interp_mode  # noqa: E402 - only where timm is

LIMIT = 50_000_000

CONFIGS = {
    "efficientnet_lite0": {"input_size": (3, 224, 224), "crop_pct": 0.875, "interpolation": "bicubic"},
    "whole": {"input_size": (3, 224, 224), "crop_pct": 1.0, "interpolation": "bicubic"},
    "384": {"input_size": (3, 384, 384), "crop_pct": 0.9, "interpolation": "bilinear"},
    "lanczos": {"input_size": (3, 97, 97), "crop_pct": 0.95, "interpolation": "lanczos"},
    "nearest": {"input_size": (3, 64, 64), "crop_pct": 0.8, "interpolation": "nearest"},
    "larger than the image": {"input_size": (3, 224, 224), "crop_pct": 1.1, "interpolation": "bicubic"},
    "squash": {"input_size": (3, 256, 256), "crop_pct": 1.0, "interpolation": "bicubic", "crop_mode": "squash"},
    "squash and crop": {"input_size": (3, 96, 80), "crop_pct": 0.9, "interpolation": "bicubic", "crop_mode": "squash"},
    "wide": {"input_size": (3, 96, 160), "crop_pct": 0.875, "interpolation": "bicubic"},
    "tall": {"input_size": (3, 160, 96), "crop_pct": 1.0, "interpolation": "bicubic"},
    "border": {"input_size": (3, 128, 128), "crop_pct": 0.9, "interpolation": "bicubic", "crop_mode": "border"},
    "wide border": {"input_size": (3, 96, 160), "crop_pct": 1.0, "interpolation": "bilinear", "crop_mode": "border"},
}
SHAPES = {
    "portrait": (333, 250),
    "landscape": (250, 333),
    "square": (224, 224),
    "large": (701, 1203),
    "odd": (101, 67),
    "tiny": (3, 2),
    "one pixel": (1, 1),
    "a line": (1, 500),
    "a column": (100, 1),
}


def noise(height: int, width: int) -> np.ndarray:
    return np.random.default_rng(height * width).integers(0, 256, (height, width, 3), np.uint8)


def config_of(name: str) -> dict:
    return timm_data.resolve_data_config(CONFIGS[name], pretrained_cfg={"mean": (0.5, 0.4, 0.3)})


def of_timm(config: dict, rgb: np.ndarray) -> np.ndarray:
    transform = timm_data.create_transform(**config, is_training=False, normalize=False)
    for step in transform.transforms:
        if isinstance(step, ResizeKeepRatio):
            # Before 1.0.31 timm forgot to hand it on where the view is not square; since then this changes nothing.
            step.interpolation = str_to_interp_mode(config["interpolation"])
    return transform(Image.fromarray(rgb)).numpy()


def jpeg(rgb: np.ndarray) -> bytes:
    buffer = BytesIO()
    Image.fromarray(rgb).save(buffer, "JPEG", quality=95)
    return buffer.getvalue()


def prepared(view: View, rgb: np.ndarray) -> np.ndarray:
    """What is seen of just these pixels: PNG keeps them."""
    buffer = BytesIO()
    Image.fromarray(rgb).save(buffer, "PNG", compress_level=1)
    return view.prepare(memoryview(buffer.getvalue()), PILLOW_PIXELS)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", CONFIGS)
def test_a_view_is_the_one_of_timm(name, shape) -> None:
    config, rgb = config_of(name), noise(*SHAPES[shape])
    view = View.of(config)
    if "border" in name and shape in {"a line", "a column"}:
        assert prepared(view, rgb).shape == config["input_size"]  # timm itself resizes it to nothing, and fails
        return
    mine = prepared(view, rgb)
    assert mine.dtype == np.uint8
    assert mine.flags.c_contiguous
    assert mine.flags.writeable
    np.testing.assert_array_equal(mine, of_timm(config, rgb))


@settings(max_examples=60, deadline=None)
@given(
    name=st.sampled_from(sorted(CONFIGS)),
    height=st.integers(20, 400),
    width=st.integers(20, 400),
)
def test_sizes_are_rounded_as_timm_rounds_them(name, height, width) -> None:
    config, rgb = config_of(name), noise(height, width)
    np.testing.assert_array_equal(prepared(View.of(config), rgb), of_timm(config, rgb))


def test_normalised_it_is_what_a_model_of_timm_is_given() -> None:
    config, rgb = config_of("efficientnet_lite0"), noise(300, 400)
    theirs = timm_data.create_transform(**config, is_training=False)(Image.fromarray(rgb)).numpy()
    mean, std = (np.array(config[key], np.float32)[:, None, None] for key in ("mean", "std"))
    mine = (prepared(View.of(config), rgb).astype(np.float32) / 255 - mean) / std
    np.testing.assert_allclose(mine, theirs, rtol=0, atol=1e-6)


def test_every_default_of_a_view_is_the_one_of_timm() -> None:
    config = timm_data.resolve_data_config({}, pretrained_cfg={"input_size": (3, 32, 48)})
    assert View.of(config) == View(size=(32, 48))
    assert View.of({"input_size": (3, 32, 48), "crop_mode": None}) == View(size=(32, 48))


@pytest.mark.parametrize("name", CONFIGS)
def test_a_view_survives_json(name) -> None:
    view = View.of(config_of(name))
    assert msgspec.json.decode(msgspec.json.encode(view), type=View) == view


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"interpolation": "random"}, "interpolation"),
        ({"crop_mode": "middle"}, "crop_mode"),
        ({"crop_pct": 0}, "crop_pct"),
        ({"input_size": (1, 28, 28)}, "1 channels"),
        ({"input_size": (3, 0, 28)}, "size"),
    ],
)
def test_a_configuration_that_cannot_be_followed_is_refused(change, words) -> None:
    with pytest.raises(ConfigError, match=words):
        View.of(config_of("efficientnet_lite0") | change)


def test_what_would_grow_beyond_the_limit_is_rejected() -> None:
    """A line of a few pixels, its shorter side resized to 256, would fill the memory."""
    view, line = View.of(config_of("efficientnet_lite0")), jpeg(noise(1, 2000))
    words = "2000 x 1 pixels, it would be resized to 512000 x 256, more than max_pixels = 50000000"
    with pytest.raises(EncodeError, match=words):
        view.prepare(line, LIMIT)
    assert view.prepare(jpeg(noise(1, 100)), LIMIT).shape == (3, 224, 224)


def drift(view: View, data: bytes) -> float:
    """How far a view moves by scaled decoding: root mean square, in levels of 255."""
    with Image.open(BytesIO(data)) as image:
        exact = prepared(view, np.asarray(image.convert("RGB")))
    return math.sqrt(np.mean((view.prepare(data, LIMIT).astype(float) - exact) ** 2))


@needs_photographs
def test_a_large_photograph_decoded_small_is_the_same_to_the_eye() -> None:
    view = View.of(config_of("efficientnet_lite0"))
    drifts = []
    for path in sorted(PHOTOGRAPHS.glob("*/*.jpg"))[::150]:
        assert drift(view, path.read_bytes()) <= 1  # small: nothing is scaled
        with Image.open(path) as image:
            size = (image.width * 8 + 3, image.height * 8 + 1)  # no multiples of what is decoded at a time
            large = image.convert("RGB").resize(size, Image.Resampling.BICUBIC)
        drifts.append(drift(view, jpeg(np.asarray(large))))
    assert 0 < max(drifts) < 2
