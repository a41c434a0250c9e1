"""The histogram of colours obeys the laws of encoders, and counts colours."""

from io import BytesIO

import numpy as np
import pytest
from PIL import Image

from speciate.conformance.encoders import check_encoder
from speciate.errors import EncodeError
from speciate_example_plugin.colour_histogram import HistogramEncoder, HistogramOptions
from speciate_schemas import ImageEvent

RED, BLUE = (255, 0, 0), (0, 0, 255)


def event(image: Image.Image, form: str = "PNG") -> ImageEvent:
    stored = BytesIO()
    image.save(stored, form)
    return ImageEvent(id="image", image=memoryview(stored.getvalue()))


def features(image: Image.Image, levels: int = 2) -> np.ndarray:
    encoder = HistogramEncoder(HistogramOptions(levels=levels))
    encoder.load()
    return encoder.encode([encoder.prepare(event(image))])[0]


def test_a_colour_has_its_place() -> None:
    np.testing.assert_array_equal(features(Image.new("RGB", (9, 5), RED)), np.eye(8)[4])
    np.testing.assert_array_equal(features(Image.new("RGB", (9, 5), BLUE)), np.eye(8)[1])
    np.testing.assert_array_equal(features(Image.new("L", (9, 5), 255), levels=4), np.eye(64)[63])


def test_a_feature_is_the_root_of_a_share() -> None:
    image = Image.new("RGB", (64, 64), RED)
    image.paste(BLUE, (0, 0, 16, 64))
    shares = features(image) ** 2
    assert shares[4] == pytest.approx(0.75)
    assert shares[1] == pytest.approx(0.25)
    assert shares.sum() == pytest.approx(1.0)


def test_too_many_pixels_are_refused() -> None:
    encoder = HistogramEncoder(HistogramOptions(max_pixels=44))
    with pytest.raises(EncodeError, match="9 x 5 pixels, more than max_pixels = 44"):
        encoder.prepare(event(Image.new("RGB", (9, 5))))


def test_other_formats_are_refused() -> None:
    encoder = HistogramEncoder(HistogramOptions())
    with pytest.raises(EncodeError, match="none of JPEG, PNG"):
        encoder.prepare(event(Image.new("RGB", (9, 5)), "BMP"))


def test_it_obeys_the_laws_of_encoders() -> None:
    check_encoder(lambda: HistogramEncoder(HistogramOptions()))


def test_it_obeys_them_with_jpegs_too() -> None:
    random = np.random.default_rng(0)
    pictures = [Image.fromarray(random.integers(0, high, (60, 80, 3), dtype=np.uint8)) for high in (256, 90, 40)]
    check_encoder(
        lambda: HistogramEncoder(HistogramOptions(levels=8)),
        [bytes(event(picture, "JPEG").image) for picture in pictures],
    )
