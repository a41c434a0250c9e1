"""Source `npz`: NumPy archives, a row of the feature matrix an event."""

import zipfile
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np
import numpy.typing as npt

from speciate.errors import DecodeError, EventError, SourceError
from speciate.hooks import Provider, hookimpl
from speciate.stages import Source
from speciate_plugins.sources.files import Paths, text_of
from speciate_plugins.sources.names import check_names
from speciate_plugins.sources.rows import Row, Rows, RowSource
from speciate_schemas import Array, FeatureEvent, Strict


class NpzOptions(Strict, frozen=True):
    """Options of the source `npz`."""

    paths: Paths
    features: Annotated[str, msgspec.Meta(description="Key of the feature matrix, a row an event.")] = "features"
    labels: Annotated[str, msgspec.Meta(description="Key of the true classes, if there.")] = "labels"
    ids: Annotated[str, msgspec.Meta(description="Key of the events' ids; without it file name and row.")] = "names"
    times: Annotated[str, msgspec.Meta(description="Key of the times in seconds since the epoch, if there.")] = "times"
    class_names: Annotated[
        str, msgspec.Meta(description="Key of the class names; if there, integer labels are indices into it.")
    ] = "class_names"
    split: Annotated[
        str | None, msgspec.Meta(description="Only the rows whose entry of the array `split` equals this.")
    ] = None
    stream: Annotated[
        str | None, msgspec.Meta(description="Stream of all events; without it the file's name without its ending.")
    ] = None


class NpzSource(RowSource):
    """Reads NumPy archives, whole into memory one at a time; what needs pickle is refused."""

    def __init__(self, options: NpzOptions) -> None:
        super().__init__(options.paths)
        self._options = options

    def load(self, path: Path, start: int) -> Rows:
        """See `RowSource`."""
        try:
            table = _Table(path, self._options)
        except (
            zipfile.BadZipFile,
            zlib.error,
            EOFError,
            ValueError,
            OverflowError,
            RuntimeError,
            MemoryError,
        ) as error:
            remedy = "write it again with numpy.savez"
            raise SourceError(f"{text_of(path)} is not a whole NumPy archive: {error}; {remedy}") from None
        numbers = [number for number in table.selected() if number >= start]
        return Rows(len(table.features), len(numbers), table.rows(numbers))


class _Table:
    """The arrays of one file, checked to fit each other."""

    def __init__(self, path: Path, options: NpzOptions) -> None:
        self._path = path
        self._options = options
        # Opened here and not by NumPy, which leaves a file open that turns out to be no archive.
        with path.open("rb") as stream:
            self._file = np.load(stream, allow_pickle=False)
            if not isinstance(self._file, np.lib.npyio.NpzFile):
                raise SourceError(f"{text_of(path)} holds one bare array; write it with numpy.savez(…, features=…)")
            self.features = self._matrix()
            self._ids = self._column("ids")
            self._labels = self._column("labels")
            self._times = self._column("times")
            class_names = self._array("class_names")
            self._split = None if options.split is None else self._column("split")
        self._class_names = None if class_names is None else [_text(name) for name in class_names.tolist()]

    def selected(self) -> Sequence[int]:
        """The numbers of the rows wanted."""
        if self._split is None:
            return range(len(self.features))
        wanted = self._options.split
        values = [_text(value) for value in self._split]
        if wanted not in values:
            there = ", ".join(sorted(set(values)))
            raise SourceError(f"{text_of(self._path)}: no row has split {wanted!r}; there are {there}")
        return [number for number, value in enumerate(values) if value == wanted]

    def rows(self, numbers: Sequence[int]) -> Iterator[Row]:
        """These rows as events."""
        for number in numbers:
            features = self.features[number]
            try:
                yield Row(number, self._event(number, features))
            except EventError as error:
                yield Row(number, error, features.tobytes())

    def _event(self, number: int, features: npt.NDArray[Any]) -> FeatureEvent:
        names = check_names(
            id=_text(self._ids[number]) if self._ids else f"{text_of(self._path.name)}:{number}",
            stream=text_of(self._path.stem) if self._options.stream is None else self._options.stream,
            time=self._times[number] if self._times else None,
            label=self._label(self._labels[number]) if self._labels else None,
        )
        return FeatureEvent(
            id=names.id, features=Array.of(features), stream=names.stream, time=names.time, label=names.label
        )

    def _label(self, value: Any) -> str:
        if self._class_names is None or not isinstance(value, int):
            return _text(value)
        if not 0 <= value < len(self._class_names):
            key = self._options.class_names
            raise DecodeError(f"label {value} is no index into the {len(self._class_names)} names of {key!r}")
        return self._class_names[value]

    def _matrix(self) -> npt.NDArray[Any]:
        key = self._options.features
        features = self._array("features", needed=True)
        if features is None or features.ndim != 2:  # noqa: PLR2004 - rows and columns
            shape = "nothing" if features is None else f"shape {list(features.shape)}"
            raise SourceError(f"{text_of(self._path)}: {key!r} has {shape}; it must have a row an event: (N, d)")
        try:
            Array.of(features[:0])
        except ValueError as error:
            raise SourceError(f"{text_of(self._path)}: {key!r}: {error}") from None
        return features

    def _column(self, field: str) -> list[Any] | None:
        """One value a row, as Python sees them; None if it is not there and need not be."""
        column = self._array(field, needed=field == "split")
        if column is None:
            return None
        if column.shape != (len(self.features),):
            raise SourceError(
                f"{text_of(self._path)}: {self._key(field)!r} has shape {list(column.shape)} but "
                f"{self._options.features!r} has {len(self.features)} rows; there must be one value a row"
            )
        values: list[Any] = column.tolist()
        return values

    def _array(self, field: str, *, needed: bool = False) -> npt.NDArray[Any] | None:
        key = self._key(field)
        if key not in self._file.files:
            # A key left at its default may be absent; one that was written down must be there.
            if needed or key != getattr(NpzOptions(paths=["."]), field):
                there = ", ".join(self._file.files) or "none"
                raise SourceError(f"{text_of(self._path)} has no array {key!r} ({field}); there are {there}")
            return None
        try:
            array: npt.NDArray[Any] = self._file[key]
        except ValueError as error:
            raise SourceError(
                f"{text_of(self._path)}: array {key!r} cannot be read: {error}; "
                "store plain numbers or text, not objects: array.astype(float) or array.astype(str)"
            ) from None
        return array

    def _key(self, field: str) -> str:
        return "split" if field == "split" else getattr(self._options, field)


def _text(value: Any) -> str:
    return value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else str(value)


@hookimpl
def speciate_source() -> Provider[Source]:
    """Provide the source."""
    return Provider(options=NpzOptions, create=NpzSource, suffixes=(".npz",))
