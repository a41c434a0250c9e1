"""Which files a source reads, in which order, and where among them it goes on."""

import glob
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import msgspec

from speciate.errors import SourceError
from speciate_schemas import Position

Paths = Annotated[
    list[str],
    msgspec.Meta(min_length=1, description="Files, in this order; each glob stands for its matches, sorted."),
]


def find_files(patterns: Sequence[str]) -> list[Path]:
    """The files that paths and globs stand for, in the given order, each glob's matches sorted."""
    return [path for pattern in patterns for path in _matches(pattern)]


def _matches(pattern: str) -> list[Path]:
    # A file may have a name that looks like a glob.
    found = [pattern] if Path(pattern).is_file() else expand(pattern)
    files = [Path(name) for name in found if Path(name).is_file()]
    if not files:
        raise no_match(pattern)
    return files


def expand(pattern: str) -> list[str]:
    """What a glob matches, sorted."""
    return sorted(glob.glob(pattern, recursive=True))  # noqa: PTH207 - Path.glob takes no absolute pattern


def no_match(pattern: str) -> SourceError:
    """What to tell the operator of a path or glob that stands for nothing."""
    return SourceError(f"paths: no file matches {pattern!r}; check the spelling, relative paths start at {Path.cwd()}")


def text_of(path: Path | str) -> str:
    """A path as text that can be stored: bytes that are no UTF-8 are spelt out."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def resume_at(position: Position | None, names: Sequence[str]) -> tuple[int, int]:
    """Index of the file to go on with and the place in it; the file must still be where it was in the list."""
    match position:
        case None:
            return 0, 0
        case (int(index), str(name), int(place)):
            found = names[index] if index < len(names) else "none"
            if found != name:
                raise SourceError(
                    f"paths: file number {index} was {name!r} and is now {found!r}; "
                    "restore the list of files or start over with --fresh"
                )
            return index, place
        case _:
            raise SourceError(
                f"position {position!r} was not made by this source; restore [source] or start over with --fresh"
            )


def cut_since(name: str, now: int, then: int, unit: str) -> SourceError:
    """What to tell the operator of a file that is shorter than what was read of it before."""
    return SourceError(
        f"{name} has {now} {unit} but was read up to {then} before: it was cut or replaced; "
        "restore it or start over with --fresh"
    )
