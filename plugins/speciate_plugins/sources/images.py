"""Source `images`: folders of image files, a file an event, its bytes exactly as they are."""

import stat
from collections.abc import Collection, Iterator, Sequence
from glob import has_magic
from itertools import takewhile
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

import msgspec

from speciate.blocking import BlockingSource
from speciate.errors import DecodeError, EventError, SourceError, TooLargeError
from speciate.hooks import Provider, hookimpl
from speciate.logs import get_logger
from speciate.stages import Progress, Record, Source
from speciate_plugins.sources.files import expand, no_match, resume_at, text_of
from speciate_plugins.sources.names import check_names
from speciate_schemas import ImageEvent, Position, Strict

log = get_logger(__name__)

BATCH_BYTES = 16 << 20
"""A read ends behind the file that reaches this, however many events are wanted."""

FILE_BYTES = 64 << 20
"""A larger file is rejected unread: memory stays bounded whatever lies in the folder."""

MEDIA_TYPES = {
    ".bmp": "image/bmp",
    ".gif": "image/gif",
    ".jpeg": "image/jpeg",
    ".jpg": "image/jpeg",
    ".png": "image/png",
    ".tif": "image/tiff",
    ".tiff": "image/tiff",
    ".webp": "image/webp",
}


class ImagesOptions(Strict, frozen=True):
    """Options of the source `images`."""

    paths: Annotated[
        list[str],
        msgspec.Meta(
            min_length=1,
            description="Folders, with all below them and behind links, or globs of files; in this order.",
        ),
    ]
    suffixes: Annotated[
        list[str],
        msgspec.Meta(min_length=1, description="Endings of the file names that are read; case does not matter."),
    ] = msgspec.field(default_factory=lambda: sorted(MEDIA_TYPES))
    labels: Annotated[
        Literal["folder", "none"],
        msgspec.Meta(description="The true class: the name of the folder a file is in, or none."),
    ] = "folder"
    stream: Annotated[
        str | None, msgspec.Meta(description="Stream of all events; without it the name of the folder given.")
    ] = None


class ImageFile(NamedTuple):
    """A file to be read, and the folder its name is relative to."""

    root: Path
    path: Path

    @property
    def id(self) -> str:
        """The path below the folder, with slashes."""
        return text_of(self.path.relative_to(self.root).as_posix())


class ImagesSource(BlockingSource):
    """Reads image files. Its position is the index and path of the last file read, and 1 for having read it."""

    def __init__(self, options: ImagesOptions) -> None:
        self._options = options
        self._files: list[ImageFile] = []
        self._next = 0
        self._sequence = 0

    def open_now(self, position: Position | None, sequence: int) -> None:
        """See `BlockingSource`."""
        suffixes = {suffix.lower() for suffix in self._options.suffixes}
        self._files = [file for pattern in self._options.paths for file in _matches(pattern, suffixes)]
        self._warn_of_depths()
        index, read = resume_at(position, [text_of(file.path) for file in self._files])
        self._next = index + read
        self._sequence = sequence

    def _warn_of_depths(self) -> None:
        """A picture beside the folders of classes, or in a folder within one, gets a class of its own."""
        if self._options.labels == "none":
            return
        depths: dict[Path, set[int]] = {}
        for file in self._files:
            depths.setdefault(file.root, set()).add(len(file.path.relative_to(file.root).parts))
        for root in (root for root, found in depths.items() if len(found) > 1):
            log.warning(
                "images lie at different depths; the class of each is the folder it is directly in",
                folder=text_of(root),
                depths=sorted(depths[root]),
            )

    def read_now(self, max_events: int) -> Sequence[Record] | None:
        """See `BlockingSource`."""
        records: list[Record] = []
        nbytes = 0
        while self._next < len(self._files) and len(records) < max_events and nbytes < BATCH_BYTES:
            record = self._record(self._files[self._next])
            records.append(record)
            nbytes += record.nbytes
            self._next += 1
            self._sequence += 1
        return records or None

    def progress(self) -> Progress:
        """See `BlockingSource`."""
        return Progress(self._next, len(self._files), "files")

    def _record(self, file: ImageFile) -> Record:
        event: ImageEvent | None = None
        error: EventError | None = None
        data = b""
        try:
            data = read_image(file.path)
            event = self._event(file, data)
        except EventError as problem:
            error = problem
        return Record(
            sequence=self._sequence,
            position=(self._next, text_of(file.path), 1),
            origin=text_of(file.path),
            nbytes=len(data),
            event=event,
            original=data,
            error=error,
        )

    def _event(self, file: ImageFile, data: bytes) -> ImageEvent:
        folder = text_of(_name(file.path.parent))
        stream = self._options.stream
        names = check_names(
            id=file.id,
            stream=text_of(_name(file.root)) if stream is None else stream,
            label=folder or None if self._options.labels == "folder" else None,
        )
        media_type = MEDIA_TYPES.get(file.path.suffix.lower(), "")
        return ImageEvent(
            id=names.id, image=memoryview(data), media_type=media_type, stream=names.stream, label=names.label
        )


def read_image(path: Path) -> bytes:
    """The bytes of a file, if it is one and not too large; otherwise raises `EventError`."""
    try:
        found = path.stat()
        if not stat.S_ISREG(found.st_mode):
            raise DecodeError(f"{text_of(path)} is no regular file")
        size = found.st_size
        if size > FILE_BYTES:
            raise TooLargeError(f"{text_of(path)} has {size} bytes, more than the {FILE_BYTES} allowed")
        return path.read_bytes()
    except OSError as error:
        raise DecodeError(f"cannot read {text_of(path)}: {error.strerror}") from None


def _matches(pattern: str, suffixes: Collection[str]) -> list[ImageFile]:
    if found := find_images(pattern, suffixes):
        return found
    endings = ", ".join(sorted(suffixes))
    if Path(pattern).is_dir():
        raise SourceError(
            f"paths: {pattern!r} holds no image: none of its files ends in {endings}; name another folder, or say with "
            "`suffixes` how its images are named"
        )
    if Path(pattern).exists():
        raise SourceError(
            f"paths: {pattern!r} is no image: its name ends in none of {endings}; name another file, or say with "
            "`suffixes` how images are named"
        )
    raise no_match(pattern)


def find_images(pattern: str, suffixes: Collection[str]) -> list[ImageFile]:
    """The image files a folder, a file or a glob stands for, sorted by the path below its fixed part."""
    given = Path(pattern)
    if given.is_dir():
        found = [ImageFile(given, path) for path in _below(given)]
    elif given.is_file():
        found = [ImageFile(given.parent, given)]
    else:
        root = Path(*takewhile(lambda part: not has_magic(part), given.parts))
        matches = [Path(name) for name in expand(pattern)] if has_magic(pattern) else []
        files = {path for match in matches for path in (_below(match) if match.is_dir() else [match])}
        found = [ImageFile(root, path) for path in files]
    return sorted((file for file in found if file.path.suffix.lower() in suffixes), key=lambda file: file.id)


def _below(folder: Path, above: frozenset[Path] = frozenset()) -> Iterator[Path]:
    """Everything in a folder, and behind the links in it; one that leads back to a folder it is in leads nowhere."""
    real = folder.resolve()
    if real in above:
        return
    try:
        entries = list(folder.iterdir())
    except OSError as error:
        raise SourceError(f"cannot read the folder {text_of(folder)}: {error.strerror}: make it readable") from error
    for entry in entries:
        yield from _below(entry, above | {real}) if entry.is_dir() else (entry,)


def _name(folder: Path) -> str:
    """What a folder is called where it is named, be it a link; a path such as `..` does not say."""
    return folder.resolve().name if folder.name in {"", ".."} else folder.name


@hookimpl
def speciate_source() -> Provider[Source]:
    """Provide the source."""
    return Provider(options=ImagesOptions, create=ImagesSource, suffixes=("/", *MEDIA_TYPES))
