"""Small JPEGs of images, to show to people."""

from io import BytesIO

from speciate_plugins.vision.decoding import opened, shallow

QUALITY = 80
"""Of JPEG: with less, small pictures show its blocks."""


def picture(data: memoryview | bytes, pixels: int, *, max_pixels: int) -> bytes:
    """Decode, turn upright and shrink: the longer side is `pixels` long, or as it was if it is shorter.

    By Pillow alone, which every encoder of images needs: simplejpeg is hardly faster here, and its files are larger.
    The pixels are all that is left of the image: no EXIF with the place where it was taken, no comment, no profile.
    """
    with opened(data, max_pixels, 2 * pixels) as image:
        # A JPEG may be decoded at a part of its size: with twice the pixels the resampling hardly tells the difference.
        part = 2 * pixels / max(image.size)
        image.draft(None, (max(1, int(part * image.width)), max(1, int(part * image.height))))
        small = shallow(image).convert("RGB")
    small.thumbnail((pixels, pixels), reducing_gap=2.0)
    small.info.clear()
    stored = BytesIO()
    small.save(stored, "JPEG", quality=QUALITY, optimize=True)
    return stored.getvalue()
