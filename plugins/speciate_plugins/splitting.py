"""Cutting bytes that arrive in chunks of any size into pieces, at places that depend on the bytes alone."""

from abc import ABC, abstractmethod
from typing import NamedTuple

from speciate.errors import DecodeError, EventError, TooLargeError
from speciate_schemas import framing
from speciate_schemas.framing import Frame, next_frame

PIECE_BYTES = 64 << 20
"""A longer line or frame is cut and rejected: memory stays bounded whatever arrives."""


class Piece(NamedTuple):
    """One line or frame, or bytes that are none and why; `start` and `end` count from the start of the file."""

    payload: memoryview
    start: int
    end: int
    error: EventError | None = None


class Splitter(ABC):
    """Takes chunks, gives pieces. A payload is a view of the chunk it came in, not a copy."""

    def __init__(self, offset: int = 0) -> None:
        self._buffer = b""
        self._start = 0
        self._base = offset
        self._late: list[bytes] = []
        self._late_bytes = 0
        self._final = False

    def feed(self, chunk: bytes) -> None:
        """Add the bytes that follow."""
        self._late.append(chunk)
        self._late_bytes += len(chunk)
        # Joined only when that tells a piece: a long one in small chunks is not copied again for each of them.
        if self._tells(chunk):
            self._join()

    def finish(self) -> None:
        """Nothing follows: what is left is a piece too."""
        self._final = True
        self._join()

    def take(self, limit: int) -> list[Piece]:
        """At most `limit` of the pieces that can be told by now."""
        pieces: list[Piece] = []
        while len(pieces) < limit and self._start < len(self._buffer):
            piece = self._next()
            if piece is None:
                break
            pieces.append(piece)
            self._start = piece.end - self._base
        return pieces

    @property
    def held(self) -> int:
        """Bytes not yet given out."""
        return len(self._buffer) - self._start + self._late_bytes

    def _join(self) -> None:
        self._buffer = b"".join((memoryview(self._buffer)[self._start :], *self._late))
        self._base += self._start
        self._start = 0
        self._late.clear()
        self._late_bytes = 0

    def _piece(self, end: int, error: EventError | None = None) -> Piece:
        """The bytes from here to `end` of the buffer."""
        return Piece(memoryview(self._buffer)[self._start : end], self._base + self._start, self._base + end, error)

    @abstractmethod
    def _tells(self, chunk: bytes) -> bool:
        """Whether a piece may be told now that this chunk has been added."""

    @abstractmethod
    def _next(self) -> Piece | None:
        """The next piece, if the buffer tells it."""


class LineSplitter(Splitter):
    """Cuts at newlines, which belong to no piece. The last line needs none."""

    def _tells(self, chunk: bytes) -> bool:
        return b"\n" in chunk or self.held > PIECE_BYTES

    def _next(self) -> Piece | None:
        start = self._start
        newline = self._buffer.find(b"\n", start, start + PIECE_BYTES + 1)
        if newline >= 0:
            empty = newline == start or self._buffer[start:newline] == b"\r"
            line = self._piece(newline, DecodeError("empty line") if empty else None)
            return line._replace(end=line.end + 1)
        if len(self._buffer) - start > PIECE_BYTES:
            reason = f"line of more than {PIECE_BYTES} bytes; the rest of it is read as another line"
            return self._piece(start + PIECE_BYTES, TooLargeError(reason))
        return self._piece(len(self._buffer)) if self._final else None


class FrameSplitter(Splitter):
    """Cuts an event log into the payloads of its frames; see `speciate_schemas.framing`."""

    def __init__(self, offset: int = 0) -> None:
        super().__init__(offset)
        self._needed = framing.HEADER_BYTES

    def _tells(self, chunk: bytes) -> bool:  # noqa: ARG002 - the length is what counts
        return self.held >= self._needed

    def _next(self) -> Piece | None:
        frame = next_frame(self._buffer, self._start, final=False)
        if isinstance(frame, int) or frame.damage or len(frame.payload) > PIECE_BYTES:
            frame = self._within_limits(frame)
        if isinstance(frame, int):
            if not self._final:
                self._needed = frame
                return None
            frame = self._last_frame()
        self._needed = framing.HEADER_BYTES
        payload, end, damage = frame
        error = None if damage is None else DecodeError(damage)
        return Piece(payload, self._base + self._start, self._base + end, error)

    def _last_frame(self) -> Frame:
        """The frame or damage at the end of the log, which can always be told."""
        frame = next_frame(self._buffer, self._start, final=True)
        if isinstance(frame, int):
            raise TypeError(f"next_frame must tell the end of a log, and asked for {frame} bytes")
        return frame

    def _within_limits(self, frame: Frame | int) -> Frame | int:
        """The same, unless the frame is larger than a piece may be: then its beginning, as damage."""
        start, most = self._start, framing.HEADER_BYTES + PIECE_BYTES
        seen = frame
        if len(self._buffer) - start > most:
            # What a frame is must not depend on how much of it happens to be here.
            seen = next_frame(self._buffer[start : start + most], 0, final=False)
        if not isinstance(seen, int) or seen <= most:
            return frame
        window = framing.DAMAGE_BYTES + framing.HEADER_BYTES
        if len(self._buffer) - start < window:
            return window
        # A buffer that ends before the frame does makes damage of it, cut where all damage is cut.
        cut = next_frame(self._buffer[start : start + window], 0, final=True)
        end = start + len(cut.payload) if isinstance(cut, Frame) else start + window
        reason = f"frame of {seen - framing.HEADER_BYTES} bytes, more than the {PIECE_BYTES} allowed"
        return Frame(memoryview(self._buffer)[start:end], end, reason)
