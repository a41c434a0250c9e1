"""Files of events one behind another, which may still grow: the base of event logs and JSON Lines."""

import os
from collections.abc import Sequence
from io import FileIO
from pathlib import Path
from typing import Annotated

import msgspec

from speciate.blocking import BlockingSource
from speciate.errors import SourceError
from speciate.stages import Progress, Record
from speciate_plugins.sources.files import Paths, cut_since, find_files, resume_at, text_of
from speciate_plugins.sources.reading import CHUNK_BYTES, RecordReader
from speciate_schemas import Position, Strict
from speciate_schemas.codec import Format


class StreamOptions(Strict, frozen=True):
    """Options of a source that reads files of events."""

    paths: Paths
    follow: Annotated[
        bool, msgspec.Meta(description="At the end of the last file, wait for it to grow instead of ending.")
    ] = False


class StreamSource(BlockingSource):
    """Reads files of events one after another. Its position is the file's index and path and a byte offset."""

    def __init__(self, options: StreamOptions, form: Format) -> None:
        self._options = options
        self._form: Format = form
        self._files: list[Path] = []
        self._index = 0
        self._file: FileIO | None = None
        self._reader: RecordReader | None = None
        self._bytes_before = 0
        self._bytes_total = 0
        self._ended = False

    def open_now(self, position: Position | None, sequence: int) -> None:
        """See `BlockingSource`."""
        self._files = find_files(self._options.paths)
        self._index, offset = resume_at(position, [text_of(path) for path in self._files])
        sizes = [path.stat().st_size for path in self._files]
        self._bytes_before = sum(sizes[: self._index])
        self._bytes_total = sum(sizes)
        self._enter(offset, sequence, behind=position is not None)

    def read_now(self, max_events: int) -> Sequence[Record] | None:
        """See `BlockingSource`. Takes what one chunk holds, so that a batch has bounded bytes."""
        while self._file is not None and self._reader is not None:
            records = self._reader.take(max_events)
            if records:
                return records
            # Once the end was met nothing more is read: what grows later belongs to the next run.
            chunk = b"" if self._ended else self._file.read(CHUNK_BYTES)
            if chunk:
                self._reader.feed(chunk)
            elif self._following:
                self._check_followed(self._file)
                return ()
            else:
                records = self._finish(self._reader, max_events)
                if records:
                    return records
        return None

    def progress(self) -> Progress:
        """See `BlockingSource`."""
        reader, done = self._reader, self._bytes_before
        return Progress(done + (reader.offset if reader else 0), self._total(), "bytes")

    def close_now(self) -> None:
        """See `BlockingSource`."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _total(self) -> int | None:
        """Bytes there are by now; a followed file grows."""
        if not self._following:
            return self._bytes_total
        try:
            return self._bytes_before + self._files[self._index].stat().st_size
        except OSError:
            return None

    @property
    def _following(self) -> bool:
        return self._options.follow and self._index == len(self._files) - 1

    def _enter(self, offset: int, sequence: int, *, behind: bool = False) -> None:
        """Open the file at the present index and go to the offset, or `behind` the record that ends there."""
        path = self._files[self._index]
        self._ended = False
        self._file = FileIO(path)
        size = os.fstat(self._file.fileno()).st_size
        if offset > size:
            raise cut_since(text_of(path), size, offset, "bytes")
        self._file.seek(offset)
        # A line's newline belongs to it, and may have come only since.
        if behind and self._form == "json" and self._file.read(1) == b"\n":
            offset += 1
        self._file.seek(offset)
        self._reader = RecordReader(
            self._form, name=text_of(path.name), index=self._index, path=text_of(path), offset=offset, sequence=sequence
        )

    def _finish(self, reader: RecordReader, max_events: int) -> list[Record]:
        """The file has ended: what is left of it, and when nothing is, on to the next one."""
        self._ended = True
        reader.finish()
        records = reader.take(max_events)
        if not records:
            self.close_now()
            if self._index + 1 < len(self._files):
                self._bytes_before += reader.offset
                self._index += 1
                self._enter(0, reader.sequence)
        return records

    def _check_followed(self, file: FileIO) -> None:
        """The file must still be the one that was opened, and not shorter than what was read of it."""
        path = self._files[self._index]
        opened, named = os.fstat(file.fileno()), path.stat()
        if opened.st_size < file.tell():
            raise cut_since(text_of(path), opened.st_size, file.tell(), "bytes")
        if (opened.st_dev, opened.st_ino) != (named.st_dev, named.st_ino):
            raise SourceError(
                f"{text_of(path)} was replaced by another file while it was followed; "
                "append to followed files, or give each file a name of its own"
            )
