"""What a JPEG consists of, counted before a decoder sees it: a small one can keep a decoder busy for minutes."""

import re

from speciate.errors import EncodeError

MOST_SEGMENTS = 300
"""Pillow looks at each with the interpreter held, and joins those of EXIF one by one. A photograph has about ten, one
with megabytes of depths a hundred."""

MOST_SCANS = 100
"""Each goes through all pixels, for a few bytes. A progressive image has ten or so; only its own are counted, not those
of a preview among its segments nor of what follows its end, such as further pictures or a film."""

JPEG = b"\xff\xd8\xff"
END, SCAN = 0xD9, 0xDA

# Pillow steps through whatever else stands here byte by byte; to the stricter decoder it is damage in any case.
HEADING = re.compile(rb"\xff{1,64}([\xc0-\xc7\xc9-\xcf\xda-\xef\xfe])")
"""What begins a segment before the first scan."""

AMONG_SCANS = re.compile(rb"\xff([\xc0-\xcf\xd8-\xfe])")
"""What begins a segment among the bytes of pixels, in which a 255 is followed by 0 or by the number of a restart."""


def check_segments(data: bytes) -> None:
    """Reject a JPEG that is laborious on purpose. Anything else that is wrong with it is left to its decoder."""
    if not data.startswith(JPEG):
        return
    place, scans = len(JPEG) - 1, 0
    for _ in range(MOST_SEGMENTS):
        found = AMONG_SCANS.search(data, place) if scans else HEADING.match(data, place)
        if found is None and not scans and place < len(data):
            raise EncodeError("the image cannot be decoded: there are bytes between the segments of the JPEG")
        if found is None or found[1][0] == END:
            return
        scans += found[1][0] == SCAN
        if scans > MOST_SCANS:
            raise EncodeError(f"the image is a JPEG of more than {MOST_SCANS} scans; store it with fewer")
        length = int.from_bytes(data[found.end() : found.end() + 2])
        place = found.end() + max(length, 2)
    raise EncodeError(f"the image is a JPEG of more than {MOST_SEGMENTS} segments; store it without what is not pixels")
