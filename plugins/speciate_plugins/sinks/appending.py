"""Sinks that append to one file: the base of JSON Lines and event logs."""

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Annotated

import msgspec

from speciate.blocking import BlockingSink
from speciate.errors import EventError, StateMismatchError
from speciate.files import fsync_directory, make_directory, writing
from speciate.stages import Output
from speciate_plugins.sinks.positions import number_in, too_short, unexpected
from speciate_plugins.splitting import Piece, Splitter
from speciate_schemas import Answer, Position, Strict, decode, encode
from speciate_schemas.codec import Format

BUFFER_BYTES = 1 << 20
PIECE_ANSWERS = 1024


class FileOptions(Strict, frozen=True):
    """Options of a sink that writes one file."""

    path: Annotated[str, msgspec.Meta(min_length=1, description="The file to append to.")]


class AppendingSink(BlockingSink):
    """Appends to a file. Its position is the file's length in bytes."""

    def __init__(
        self, options: FileOptions, *, form: Format, wrap: Callable[[bytes], bytes], splitter: type[Splitter]
    ) -> None:
        self._path = Path(options.path)
        self._form: Format = form
        self._wrap = wrap
        self._splitter = splitter
        self._descriptor: int | None = None
        self._buffer = bytearray()
        self._length = 0
        # Whether the file's name is known to survive a crash.
        self._named = False

    def open_now(self, position: Position | None, *, fresh: bool) -> None:
        """See `BlockingSink`."""
        wanted = number_in(position, str(self._path))
        size = self._path.stat().st_size if self._path.exists() else 0
        if size < wanted:
            raise too_short(str(self._path), size, wanted, "bytes")
        if position is None and size and not fresh:
            raise unexpected(str(self._path))
        self._named = False
        make_directory(self._path.parent)
        self._descriptor = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
        if size > wanted:
            os.ftruncate(self._descriptor, wanted)
        self._length = wanted
        self._buffer.clear()

    def write_now(self, items: Sequence[Output]) -> None:
        """See `BlockingSink`."""
        for item in items:
            self._buffer += self._wrap(encode(item, self._form))
            if len(self._buffer) >= BUFFER_BYTES:
                self._drain()

    def flush_now(self) -> Position:
        """See `BlockingSink`."""
        self._drain()
        with writing(self._path):
            os.fsync(self._opened)
            if not self._named:
                fsync_directory(self._path.parent)
            self._check_alone()
        self._named = True
        return (self._length,)

    def read_back_now(self, start: Position, end: Position) -> Iterator[Sequence[Answer]]:
        """See `BlockingSink`."""
        begin = number_in(start, str(self._path))
        left = number_in(end, str(self._path)) - begin
        splitter = self._splitter(begin)
        with self._path.open("rb") as file:
            file.seek(begin)
            while left:
                chunk = file.read(min(left, BUFFER_BYTES))
                if not chunk:
                    raise too_short(str(self._path), file.tell(), file.tell() + left, "bytes")
                left -= len(chunk)
                splitter.feed(chunk)
                if not left:
                    splitter.finish()
                while pieces := splitter.take(PIECE_ANSWERS):
                    yield [self._answer(piece) for piece in pieces]

    def describe(self) -> str:
        """See `BlockingSink`."""
        return str(self._path)

    def close_now(self) -> None:
        """See `BlockingSink`. What was not flushed was not promised."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    @property
    def _opened(self) -> int:
        if self._descriptor is None:
            raise ValueError(f"{self._path} is not open; call open first")
        return self._descriptor

    def _drain(self) -> None:
        """Hand the buffer to the system. What a full disk left over stays in it, so that trying again is safe."""
        with writing(self._path):
            while self._buffer:
                written = os.write(self._opened, self._buffer)
                del self._buffer[:written]
                self._length += written

    def _check_alone(self) -> None:
        """Nobody else may write here: a commit that counts on a wrong length would cut whole answers in two."""
        ours, named = os.fstat(self._opened), self._path.stat()
        if ours.st_size != self._length or (ours.st_dev, ours.st_ino) != (named.st_dev, named.st_ino):
            raise StateMismatchError(
                f"{self._path} was written to, cut or replaced by someone else while it was open; "
                "give every pipeline files of its own and start over with --fresh"
            )

    def _answer(self, piece: Piece) -> Answer:
        try:
            if piece.error is not None:
                raise piece.error
            answer: Answer = decode(piece.payload, Answer, self._form)
        except (msgspec.DecodeError, EventError) as error:
            raise StateMismatchError(
                f"{self._path}@{piece.start} is not an answer any more ({error}); "
                "restore the file or start over with --fresh"
            ) from error
        return answer
