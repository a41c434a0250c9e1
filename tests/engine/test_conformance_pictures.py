"""The checks of an encoder's pictures notice what is wrong with them."""

from collections.abc import Iterator
from io import BytesIO
from itertools import count

import pytest
from PIL import Image

from speciate.conformance import check_encoder
from speciate.errors import EventError
from speciate_plugins.encoders.thumbnail import ThumbnailEncoder, ThumbnailOptions
from speciate_schemas import ImageEvent


class Right(ThumbnailEncoder):
    """Stores its pictures in a way of its own."""

    form = "JPEG"

    def said(self, image: ImageEvent) -> dict[str, bytes]:
        return {}

    def size(self, pixels: int) -> int:
        return pixels

    def picture(self, image: ImageEvent, pixels: int) -> bytes:
        with Image.open(BytesIO(super().picture(image, self.size(pixels)))) as small:
            stored = BytesIO()
            small.save(stored, self.form, **self.said(image))
        return stored.getvalue()


class Png(Right):
    form = "PNG"


class Large(Right):
    def size(self, pixels: int) -> int:
        return pixels + 1


class Open(Right):
    def picture(self, image: ImageEvent, pixels: int) -> bytes:
        return super().picture(image, pixels)[:-10]


class Viewed(Right):
    def picture(self, image: ImageEvent, pixels: int) -> bytes:
        return memoryview(super().picture(image, pixels))


class Telling(Right):
    def said(self, image: ImageEvent) -> dict[str, bytes]:
        return {"exif": b"Exif\0\0MM"}


class Commenting(Right):
    def said(self, image: ImageEvent) -> dict[str, bytes]:
        return {"comment": b"here"}


class Labelled(Right):
    def said(self, image: ImageEvent) -> dict[str, bytes]:
        return {"icc_profile": (image.label or "").encode()}


class Numbered(Right):
    def __init__(self, options: ThumbnailOptions) -> None:
        super().__init__(options)
        self._numbers: Iterator[int] = count()

    def said(self, image: ImageEvent) -> dict[str, bytes]:
        # As many as the first round has: later ones differ.
        return {"icc_profile": b"%d" % max(0, next(self._numbers) - 14)}


class Own(Right):
    names = count()

    def __init__(self, options: ThumbnailOptions) -> None:
        super().__init__(options)
        self._name = b"%d" % next(self.names)

    def said(self, image: ImageEvent) -> dict[str, bytes]:
        return {"icc_profile": self._name}


class Obliging(Right):
    def picture(self, image: ImageEvent, pixels: int) -> bytes:
        try:
            return super().picture(image, pixels)
        except EventError:
            return b""


class Rough(Right):
    def picture(self, image: ImageEvent, pixels: int) -> bytes:
        try:
            return super().picture(image, pixels)
        except EventError as error:
            raise ValueError from error


class Changed(Right):
    """Forgets what it is for once it has made pictures."""

    def picture(self, image: ImageEvent, pixels: int) -> bytes:
        self.encode = lambda prepared: 1 - ThumbnailEncoder.encode(self, prepared)
        return super().picture(image, pixels)


@pytest.mark.parametrize(
    ("kind", "law"),
    [
        (Png, "must be a whole JPEG"),
        (Open, "must be a whole JPEG"),
        (Viewed, "must be bytes, not a memoryview"),
        (Large, "the picture of image 0 in 8 pixels must be so long at most, and not empty: it is 7 x 9"),
        (Telling, "must not carry EXIF or XMP"),
        (Commenting, "must not carry a comment"),
        (Labelled, "not of its event's id, stream, time or label"),
        (Numbered, "by several threads at once, must have the same bytes"),
        (Own, "another instance must have the same bytes"),
        (Obliging, "what is no image must be refused by picture, with an EventError"),
        (Rough, r"what is no image must be refused by picture with an EventError, not with ValueError\("),
        (Changed, "after pictures were made, images must have the same features"),
    ],
)
def test_broken_pictures_are_noticed(kind, law) -> None:
    with pytest.raises(AssertionError, match=law):
        check_encoder(lambda: kind(ThumbnailOptions(size=8)))


def test_pictures_that_are_right_pass() -> None:
    check_encoder(lambda: Right(ThumbnailOptions(size=8)), tolerance=0.0)
