"""Ready benchmarks, methods and comparisons: TOML files that installed packages bring along.

In a package's metadata, group `speciate`, the entry point `"catalogue.mine" = "my_package.my_catalogue"` announces a
package with folders `benchmarks`, `methods` and `comparisons` of TOML files. Each is called by the name of its file.
"""

from collections.abc import Sequence
from importlib.metadata import entry_points
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import TypeVar

from speciate.errors import ConfigError
from speciate.hints import did_you_mean
from speciate.hooks import PROJECT
from speciate.logs import get_logger
from speciate.trees import apply_overrides, checked, read_toml
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
    tree = read_toml(file, reference, reference)
    apply_overrides(tree, overrides)
    return Path(file.name).stem, checked(tree, config, reference)


def _find(kind: str, name: str) -> Traversable:
    found = ready(kind)
    if name not in found:
        raise ConfigError(
            f"there is no {kind.removesuffix('s')} {name!r}: {did_you_mean(name, found)}ready are "
            f"{', '.join(found) or 'none'}; a file of your own ends with {SUFFIX}"
        )
    return found[name]
