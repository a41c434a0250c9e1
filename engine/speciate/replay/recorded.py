"""The recorded events of a benchmark: features that may stay on disk, and what is known of each event.

Everything that can be wrong with a benchmark is found here, before anything runs, and told in one line.
"""

import asyncio
import hashlib
import json
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
import numpy.typing as npt

from speciate.config import choose
from speciate.errors import ConfigError, SupportError
from speciate.plugins import Plugins
from speciate.support import read_support
from speciate_schemas import BenchmarkConfig, DataOptions

Indices = npt.NDArray[np.int64]
LEAST_CLASSES = 2
PIECE = 4096
"""Rows looked at at once."""
MATRIX_AXES = 2


@dataclass(frozen=True)
class Recorded:
    """All usable events of a benchmark."""

    features: npt.NDArray[Any]
    """One row an event of the recording; may be mapped from a file."""
    events: Indices
    """The rows that are used, in the order they were recorded."""
    classes: Indices
    """The class of each used event, as a place in `names`."""
    names: list[str]
    """The classes, in sorted order."""
    known: npt.NDArray[np.bool_]
    """Which of the classes have a support set."""
    groups: tuple[Indices, list[str]] | None
    """The group of each used event, as a place in a list of names."""
    fingerprint: str
    """Of everything above: the same data gives the same."""

    @property
    def dimension(self) -> int:
        """Length of a feature vector."""
        return int(self.features.shape[1])

    def rows(self, places: Indices) -> npt.NDArray[np.float64]:
        """Features of some of the used events, in double precision."""
        return np.asarray(self.features[self.events[places]], dtype=np.float64)


def load_recorded(name: str, config: BenchmarkConfig, folder: Path, plugins: Plugins) -> Recorded:
    """Read and check a benchmark whose data is in a folder."""
    try:
        return _load(config, folder, plugins)
    except (ConfigError, SupportError) as error:
        about = f" ({' '.join(config.about.split())})" if isinstance(error, _MissingError) and config.about else ""
        raise ConfigError(f"benchmark {name!r}: {error}{about}") from error


class _MissingError(ConfigError):
    """The data is not there."""


def _load(config: BenchmarkConfig, folder: Path, plugins: Plugins) -> Recorded:
    data = config.data
    if (not data.features) == (data.source is None):
        raise ConfigError("[data] needs either features or source")
    if config.support.groups and data.group_key is None:
        raise ConfigError("[support] groups needs [data] group_key, the array that says of which group an event is")
    columns = _from_files(data, folder) if data.source is None else _from_source(config, folder, plugins)
    features, labels = columns["features"], _checked(columns)
    events = np.arange(len(labels))
    if data.splits:
        events = np.flatnonzero(np.isin(columns["splits"].astype(str), data.splits))
        if not len(events):
            raise ConfigError(f"no event is of the splits {', '.join(data.splits)}")
    names, classes = _numbered(labels[events])
    known = _known(config, folder, names)
    groups = None
    if "groups" in columns:
        group_names, members = _numbered(columns["groups"][events])
        _check_groups(config.support.groups, group_names)
        groups = (members, group_names)
    fingerprint = _fingerprint(features, events, classes, names, known, groups)
    return Recorded(features, events, classes, names, known, groups, fingerprint)


def _checked(columns: dict[str, npt.NDArray[Any]]) -> npt.NDArray[Any]:
    """The labels, after features and all else have been looked at."""
    features, labels = columns["features"], columns["labels"]
    if features.ndim != MATRIX_AXES or not features.size or features.dtype.kind not in "fiu":
        raise ConfigError(f"features are {features.dtype} of shape {features.shape}: they must be a matrix of numbers")
    for key, column in columns.items():
        if len(column) != len(features):
            raise ConfigError(f"{len(features)} rows of features but {len(column)} {key}: one is needed a row")
    if labels.dtype.kind == "S":
        labels = np.char.decode(labels, "utf-8", "replace")
    if labels.ndim != 1 or labels.dtype.kind not in "Uiu":
        raise ConfigError(f"labels are {labels.dtype} of shape {labels.shape}: give one text or whole number an event")
    return labels


def _numbered(values: npt.NDArray[Any]) -> tuple[list[str], Indices]:
    """The different values in sorted order, as text, and the place of each value among them."""
    different, places = np.unique(values, return_inverse=True)
    return [str(value) for value in different], places.astype(np.int64).reshape(-1)


def _fingerprint(features: npt.NDArray[Any], events: Indices, *others: Any) -> str:
    """One pass over everything, a piece at a time; what is no number is found on the way."""
    digest = hashlib.sha256(str(features.dtype).encode())
    for start in range(0, len(events), PIECE):
        rows = events[start : start + PIECE]
        piece = np.ascontiguousarray(features[rows])
        bad = np.flatnonzero(~np.isfinite(piece.astype(np.float64, copy=False)).all(axis=1))
        if len(bad):
            raise ConfigError(f"row {rows[bad[0]]} of the features holds NaN or infinity: clean or drop it")
        digest.update(piece.tobytes())
    digest.update(repr([one.tobytes() if isinstance(one, np.ndarray) else one for one in others]).encode())
    return digest.hexdigest()


def _from_files(data: DataOptions, folder: Path) -> dict[str, npt.NDArray[Any]]:
    """Features and their companions from .npz and .npy files."""
    assert data.features is not None  # noqa: S101  # _load checks it
    path = _one_file(folder, data.features)
    wanted = {"labels": data.label_key}
    if data.splits:
        if data.split_key is None:
            raise ConfigError("[data] splits needs split_key, the array that says of which split an event is")
        wanted["splits"] = data.split_key
    if data.group_key is not None:
        wanted["groups"] = data.group_key
    if path.suffix == ".npy":
        if data.arrays is None:
            raise ConfigError(
                f"[data] arrays must name the file with {', '.join(wanted.values())}: {path.name} has none"
            )
        return {"features": _mapped(path), **_arrays(_one_file(folder, data.arrays), wanted)}
    found = _arrays(path, {"features": data.feature_key, **({} if data.arrays else wanted)})
    return found | (_arrays(_one_file(folder, data.arrays), wanted) if data.arrays else {})


def _one_file(folder: Path, pattern: str) -> Path:
    if not folder.is_dir():
        raise _MissingError(f"there is no data folder {folder}: give it with --data")
    plain = folder / pattern
    found = [plain] if plain.is_file() else [] if Path(pattern).is_absolute() else sorted(folder.glob(pattern))
    if not found:
        raise _MissingError(f"there is no {pattern} in {folder}")
    if len(found) > 1:
        raise ConfigError(f"{pattern} is {len(found)} files in {folder}, {found[0].name} the first: keep one")
    return found[0]


def _mapped(path: Path) -> npt.NDArray[Any]:
    try:
        return np.load(path, mmap_mode="r", allow_pickle=False)  # type: ignore[no-any-return]
    except (OSError, ValueError, EOFError) as error:
        raise ConfigError(f"{path.name} cannot be read as a NumPy array of numbers: {error}") from error


def _arrays(path: Path, wanted: dict[str, str]) -> dict[str, npt.NDArray[Any]]:
    try:
        with path.open("rb") as file:
            archive = np.load(file, allow_pickle=False)
            if isinstance(archive, np.ndarray):
                raise ConfigError(f"{path.name} is one array: an .npz with {', '.join(wanted.values())} is wanted")
            for key in wanted.values():
                if key not in archive.files:
                    raise ConfigError(f"{path.name} has no array {key!r}: it has {', '.join(archive.files) or 'none'}")
            return {name: archive[key] for name, key in wanted.items()}
    except (OSError, ValueError, EOFError, BadZipFile, zlib.error) as error:
        raise ConfigError(f"{path.name} cannot be read as NumPy arrays without Python objects: {error}") from error


def _from_source(config: BenchmarkConfig, folder: Path, plugins: Plugins) -> dict[str, npt.NDArray[Any]]:
    """Features and labels of any source of labelled events."""
    data, section = config.data, dict(config.data.source or {})
    beside = {"arrays": data.arrays, "split_key": data.split_key, "splits": data.splits, "group_key": data.group_key}
    for key, value in beside.items():
        if value:
            raise ConfigError(f"[data] {key} goes with features, not with source: a source has events and labels alone")
    if isinstance(section.get("paths"), list):
        section["paths"] = [str(folder / str(path)) for path in section["paths"]]
    source = choose(plugins, "source", section, "data.source").create()
    encoder = choose(plugins, "encoder", config.encoder, "encoder").create() if config.encoder else None
    features, labels = asyncio.run(read_support(source, encoder))
    return {"features": features, "labels": np.array(labels)}


def _known(config: BenchmarkConfig, folder: Path, names: Sequence[str]) -> npt.NDArray[np.bool_]:
    """Which of the classes are known; there must be some, and some not."""
    rule = config.known
    given = [bool(rule.classes), rule.first is not None, rule.file is not None]
    if sum(given) != 1:
        raise ConfigError("[known] needs one of classes, first and file")
    chosen = rule.classes or (names[: rule.first] if rule.first else _listed(folder, rule.file or "", rule.path))
    wanted = {str(one) for one in chosen}
    missing = wanted - set(names)
    if missing:
        raise ConfigError(f"the known class {min(missing)!r} has no event here: the classes are {_few(names)}")
    if len(names) < LEAST_CLASSES:
        raise ConfigError(f"{names[0]!r} is the only class: a benchmark has known ones and others to discover")
    if not wanted:
        raise ConfigError("no class is known: a support set needs at least one")
    if len(wanted) == len(names):
        raise ConfigError(f"all {len(names)} classes are known: a benchmark has others to discover")
    return np.array([name in wanted for name in names])


def _listed(folder: Path, file: str, path: Sequence[str]) -> list[Any]:
    place = _one_file(folder, file)
    try:
        tree = json.loads(place.read_text("utf-8"))
        for key in path:
            tree = tree[key]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigError(f"{file} has no list of known classes at {'.'.join(path) or 'its top'}: {error!r}") from error
    if not isinstance(tree, list):
        raise ConfigError(f"{file} has {type(tree).__name__} at {'.'.join(path) or 'its top'}, not a list of classes")
    return tree


def _check_groups(wanted: Sequence[str], groups: Sequence[str]) -> None:
    for one in wanted:
        if one not in groups:
            raise ConfigError(f"[support] group {one!r} has no event: the groups are {_few(groups)}")


def _few(names: Sequence[str]) -> str:
    return ", ".join(names[:10]) + (f" and {len(names) - 10} more" if len(names) > 10 else "")  # noqa: PLR2004  # a line
