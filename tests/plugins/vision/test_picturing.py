"""Small pictures of images of every kind: upright, of the right size and colours, and of nothing but pixels."""

import subprocess
import sys
from io import BytesIO

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, PngImagePlugin

from pets import PHOTOGRAPHS, needs_photographs
from speciate.errors import EncodeError
from speciate_plugins.vision.decoding import hush
from speciate_plugins.vision.picturing import picture

LIMIT = 50_000_000
ROWS, COLUMNS = np.mgrid[0:240, 0:320]
SCENE = np.stack([COLUMNS * 0.7, ROWS, 255 - COLUMNS * 0.4 - ROWS * 0.4], axis=2).astype(np.uint8)
"""Smooth, so that JPEG keeps it; no two of its eight orientations are alike."""
SECRET = b"52.5163 N 13.3777 E"


@pytest.fixture(autouse=True)
def _as_in_an_encoder() -> None:
    hush()


def stored(pixels: np.ndarray | Image.Image, form: str, **options) -> bytes:
    buffer = BytesIO()
    image = pixels if isinstance(pixels, Image.Image) else Image.fromarray(pixels)
    image.save(buffer, form, **options)
    return buffer.getvalue()


def shown(data: bytes, pixels: int = 96) -> np.ndarray:
    """What the picture of an image shows."""
    small = picture(data, pixels, max_pixels=LIMIT)
    with Image.open(BytesIO(small)) as image:
        assert (image.format, image.mode) == ("JPEG", "RGB")
        return np.asarray(image).astype(int)


def expected(width: int = 96, height: int = 72) -> np.ndarray:
    return np.asarray(Image.fromarray(SCENE).resize((width, height), Image.Resampling.BOX)).astype(int)


def lying(orientation: int) -> np.ndarray:
    """The scene as a camera stores it which says of it `orientation`; by the words of the EXIF standard."""
    return {
        1: SCENE,
        2: SCENE[:, ::-1],
        3: SCENE[::-1, ::-1],
        4: SCENE[::-1],
        5: SCENE.swapaxes(0, 1),
        6: np.rot90(SCENE, 1),
        7: SCENE[::-1, ::-1].swapaxes(0, 1),
        8: np.rot90(SCENE, -1),
    }[orientation].copy()


@pytest.mark.parametrize("form", ["JPEG", "PNG", "WEBP", "TIFF", "BMP"])
def test_a_picture_shows_what_the_image_does(form) -> None:
    assert np.abs(shown(stored(SCENE, form)) - expected()).mean() < 4


@pytest.mark.parametrize("form", ["JPEG", "PNG", "TIFF"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_it_is_upright(form, orientation) -> None:
    exif = Image.Exif()
    exif[274] = orientation
    assert np.abs(shown(stored(lying(orientation), form, exif=exif)) - expected()).mean() < 4


@given(st.integers(1, 400), st.integers(1, 400), st.integers(1, 130), st.sampled_from(["JPEG", "PNG"]))
def test_its_longer_side_is_as_asked_or_as_it_was_and_no_side_is_nothing(width, height, pixels, form) -> None:
    tall, wide, _ = shown(stored(Image.new("RGB", (width, height), "teal"), form), pixels).shape
    assert max(tall, wide) == min(pixels, max(width, height))
    # The shorter one is rounded, from a length that may have been rounded before.
    assert abs(min(tall, wide) - max(1, min(width, height) * max(tall, wide) / max(width, height))) <= 1


@pytest.mark.parametrize(("width", "height"), [(1, 4000), (4000, 1), (4000, 41), (1, 1)])
def test_a_strip_and_a_dot_are_pictures_too(width, height) -> None:
    small = shown(stored(Image.new("RGB", (width, height), "white"), "JPEG"))
    assert small.shape == (96 if height == 4000 else 1, 96 if width == 4000 else 1, 3)
    assert small.min() > 250


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGBA", "CMYK", "I;16"])
def test_every_kind_of_pixels_is_shown(mode) -> None:
    grey = Image.fromarray(ROWS.astype(np.uint8))
    deep = Image.fromarray(ROWS.astype(np.uint16) * 257)
    image = {"CMYK": grey.convert("RGB").convert("CMYK"), "I;16": deep}.get(mode) or grey.convert(mode)
    small = shown(stored(image, "JPEG" if mode == "CMYK" else "PNG"))
    wanted = np.asarray(grey.resize((96, 72), Image.Resampling.BOX)).astype(int)
    assert np.abs(small - wanted[:, :, None]).mean() < (25 if mode == "1" else 4)


@pytest.mark.parametrize("form", ["GIF", "WEBP", "PNG"])
def test_of_an_animation_the_first_image_is_shown(form) -> None:
    others = [Image.new("RGB", (320, 240), colour) for colour in ("red", "blue")]
    first = Image.fromarray(SCENE)
    small = shown(stored(first, form, save_all=True, append_images=others))
    assert np.abs(small - expected()).mean() < (12 if form == "GIF" else 4)


def test_nothing_is_left_of_what_was_said_about_the_image() -> None:
    exif = Image.Exif()
    exif[274], exif[270] = 6, SECRET.decode()
    exif.get_ifd(0x8825)[29] = SECRET.decode()
    said = {"exif": exif, "comment": SECRET, "icc_profile": SECRET, "xmp": SECRET}
    told = PngImagePlugin.PngInfo()
    told.add_text("place", SECRET.decode())
    small = Image.fromarray(SCENE).resize((40, 30))
    for scene in (SCENE, np.asarray(small)):
        for data in (stored(scene, "JPEG", **said), stored(scene, "PNG", pnginfo=told, exif=exif, icc_profile=SECRET)):
            assert SECRET in data or b"iCCP" in data
            made = picture(data, 96, max_pixels=LIMIT)
            assert SECRET not in made
            with Image.open(BytesIO(made)) as image:
                assert not {"exif", "comment", "icc_profile", "xmp"} & image.info.keys()
                assert not image.getexif()


WHOLE = stored(SCENE, "JPEG")


@pytest.mark.parametrize("data", [b"", b"no image", WHOLE[: len(WHOLE) // 2], stored(SCENE, "PNG")[:300]])
def test_what_cannot_be_decoded_is_refused(data) -> None:
    with pytest.raises(EncodeError, match=r"cannot be decoded|no bytes"):
        picture(data, 96, max_pixels=LIMIT)


def test_an_image_of_too_many_pixels_is_refused() -> None:
    with pytest.raises(EncodeError, match="320 x 240 pixels, more than max_pixels = 76799"):
        picture(WHOLE, 96, max_pixels=320 * 240 - 1)


@needs_photographs
def test_photographs_become_a_few_thousand_bytes_that_look_like_them() -> None:
    paths = sorted(PHOTOGRAPHS.glob("*/*.jpg"))[::60]
    assert paths
    for path in paths:
        data = path.read_bytes()
        assert len(picture(data, 96, max_pixels=LIMIT)) < 5_000
        small = shown(data)
        with Image.open(path) as photograph:
            whole = np.asarray(photograph.convert("RGB").resize(small.shape[1::-1]))
        assert np.corrcoef(small.ravel(), whole.ravel())[0, 1] > 0.96


def test_a_process_without_simplejpeg_makes_the_same_bytes() -> None:
    code = f"""
import sys
sys.modules["simplejpeg"] = sys.modules["torch"] = None
from speciate_plugins.encoders.thumbnail import ThumbnailEncoder, ThumbnailOptions
from speciate_schemas import ImageEvent
assert "PIL" not in sys.modules
encoder = ThumbnailEncoder(ThumbnailOptions())
encoder.load()
sys.stdout.buffer.write(encoder.picture(ImageEvent(id="x", image=memoryview({WHOLE!r})), 96))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert done.stdout == picture(WHOLE, 96, max_pixels=LIMIT), done.stderr
