"""The event log: frames that can be cut, joined, followed and found again after damage.

A frame is a marker, the payload's length, the payload's CRC-32, a CRC-32 of those three, and the payload. There is
no file header, so logs join with `cat`. A reader that loses its place looks for the next sound header; what lies
between is handed over as damage, never skipped in silence. Where damage begins and ends depends on the bytes of
the log alone, never on how they were read, so that record numbers are the same on every reading.
"""

import struct
import zlib
from typing import NamedTuple

MARKER = b"\xf5SP1"
DAMAGE_BYTES = 1 << 20
"""The most damaged bytes handed over in one piece: a reader's memory stays bounded whatever it is fed."""

_FIELDS = struct.Struct("<4sII")
_CHECK = struct.Struct("<I")
HEADER_BYTES = _FIELDS.size + _CHECK.size


class Frame(NamedTuple):
    """A piece of a log: a payload, or bytes that belong to no sound frame and why."""

    payload: memoryview
    end: int
    damage: str | None = None


def pack(payload: bytes | memoryview) -> bytes:
    """One frame around a payload."""
    fields = _FIELDS.pack(MARKER, len(payload), zlib.crc32(payload))
    return b"".join((fields, _CHECK.pack(zlib.crc32(fields)), payload))


def next_frame(buffer: bytes, start: int, *, final: bool) -> Frame | int:
    """The frame at `start`, or how many bytes the buffer must hold from `start` for it to be told.

    `final` says that nothing will follow the buffer: then whatever is incomplete is damage.
    """
    available = len(buffer) - start
    if available < HEADER_BYTES and not final:
        return HEADER_BYTES
    header = _header(buffer, start)
    if header is None:
        return _damage(buffer, start, "not a frame of an event log", final=final)
    length, checksum = header
    end = start + HEADER_BYTES + length
    if end > len(buffer):
        return _damage(buffer, start, "frame cut short", final=True) if final else HEADER_BYTES + length
    payload = memoryview(buffer)[start + HEADER_BYTES : end]
    if zlib.crc32(payload) == checksum:
        return Frame(payload, end)
    return _damage(buffer, start, "checksum does not match", final=final)


def _header(buffer: bytes, start: int) -> tuple[int, int] | None:
    """Length and checksum of the payload, if a sound header stands at `start`."""
    if len(buffer) - start < HEADER_BYTES or not buffer.startswith(MARKER, start):
        return None
    (check,) = _CHECK.unpack_from(buffer, start + _FIELDS.size)
    if zlib.crc32(memoryview(buffer)[start : start + _FIELDS.size]) != check:
        return None
    _, length, checksum = _FIELDS.unpack_from(buffer, start)
    return length, checksum


def _damage(buffer: bytes, start: int, reason: str, *, final: bool) -> Frame | int:
    """The bytes from `start` to the next sound header, at most `DAMAGE_BYTES` of them."""
    limit = min(start + DAMAGE_BYTES, len(buffer))
    candidate = buffer.find(MARKER, start + 1, limit + len(MARKER) - 1)
    while candidate != -1 and _header(buffer, candidate) is None:
        candidate = buffer.find(MARKER, candidate + 1, limit + len(MARKER) - 1)
    if candidate != -1:
        return Frame(memoryview(buffer)[start:candidate], candidate, reason)
    if len(buffer) - start < DAMAGE_BYTES + HEADER_BYTES and not final:
        # Any byte more may complete the header that ends the damage: a followed log must not wait for a mebibyte.
        return len(buffer) - start + 1
    return Frame(memoryview(buffer)[start:limit], limit, reason)
