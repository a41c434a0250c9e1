"""Ready benchmarks, methods and comparisons: TOML files that installed packages bring along.

In a package's metadata, group `speciate`, the entry point `"catalogue.mine" = "my_package.my_catalogue"` announces a
package with folders `benchmarks`, `methods` and `comparisons` of TOML files. Each is called by the name of its file.
"""

import difflib
import tomllib
from collections.abc import Mapping, Sequence
from importlib.metadata import entry_points
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from speciate.config import apply_overrides, check_keys, readable
from speciate.errors import ConfigError
from speciate.hooks import PROJECT
from speciate.logs import get_logger
from speciate_schemas import BenchmarkConfig, ComparisonConfig, MethodConfig, Strict

log = get_logger(__name__)

KINDS: dict[str, type[Strict]] = {
    "benchmarks": BenchmarkConfig,
    "methods": MethodConfig,
    "comparisons": ComparisonConfig,
}
SUFFIX = ".toml"

Config = TypeVar("Config", bound=Strict)


def ready(kind: str) -> dict[str, Traversable]:
    """The files of one kind that installed packages bring along, by name."""
    found: dict[str, Traversable] = {}
    for entry in sorted(entry_points(group=PROJECT), key=lambda one: one.name):
        if entry.name.startswith("catalogue."):
            try:
                folder = files(entry.value) / kind
                there = list(folder.iterdir()) if folder.is_dir() else []
            except Exception as error:  # noqa: BLE001  # a stranger's broken package must not hide the others
                log.warning("a catalogue cannot be read", catalogue=entry.name, package=entry.value, error=repr(error))
                continue
            found |= {one.name.removesuffix(SUFFIX): one for one in there if one.name.endswith(SUFFIX)}
    return dict(sorted(found.items()))


def is_path(reference: str) -> bool:
    """Whether it is a file of one's own, not the name of a ready one."""
    return reference.endswith(SUFFIX) or "/" in reference


def load(kind: str, reference: str, config: type[Config], overrides: Sequence[str] = ()) -> tuple[str, Config]:
    """The name and the checked contents of a ready file, or of one's own, after overrides."""
    file: Traversable = Path(reference) if is_path(reference) else _find(kind, reference)
    try:
        tree = tomllib.loads(file.read_text("utf-8"))
    except OSError as error:
        raise ConfigError(f"cannot read {reference}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{reference} is not valid TOML: {error}") from error
    apply_overrides(tree, overrides)
    return Path(file.name).stem, parse(tree, config, reference)


def parse(tree: Mapping[str, Any], config: type[Config], where: str) -> Config:
    """Check a tree of keys and values."""
    check_keys(tree, config, where)
    try:
        return msgspec.convert(tree, config)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{where}: {readable(error)}") from error


def _find(kind: str, name: str) -> Traversable:
    found = ready(kind)
    if name not in found:
        near = difflib.get_close_matches(name, found, n=1)
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise ConfigError(
            f"there is no {kind.removesuffix('s')} {name!r}: {hint}ready are {', '.join(found) or 'none'}; "
            f"a file of your own ends with {SUFFIX}"
        )
    return found[name]
