"""Commands that installed packages bring along.

In a package's metadata, group `speciate`, the entry point `"command.mine" = "my_package.my_command"` announces a
module whose `command`, a command of click, is then called `speciate mine`. Its first line of help is asked for by
`speciate --help`, so the module imports little at its top.
"""

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from speciate.errors import PluginError

if TYPE_CHECKING:
    import click

GROUP = "[speciate]"
PREFIX = "command."


class Announced(NamedTuple):
    """A command as the metadata of its package names it."""

    name: str
    module: str
    package: str

    def __str__(self) -> str:
        return f"command {self.name!r} of package {self.package}"


def announced() -> list[Announced]:
    """Every command that a package announces, by name.

    Read from the files: `importlib.metadata` would take as long to import as everything else that the help does.
    """
    seen: set[str] = set()
    found: list[Announced] = []
    for folder in sys.path:
        for package, text in _entry_points(Path(folder)):
            # The first of a name on the path is the one that is imported; another copy behind it does not count.
            if package not in seen:
                seen.add(package)
                found += _commands(package, text)
    return sorted(found)


def _entry_points(folder: Path) -> Iterator[tuple[str, str]]:
    """The packages whose metadata lies in a folder of the path, with the text of their entry points."""
    try:
        found = sorted(one for one in folder.iterdir() if one.suffix in {".dist-info", ".egg-info"})
    except OSError:
        return  # not there, or an archive
    for one in found:
        try:
            text = (one / "entry_points.txt").read_text("utf-8")
        except (OSError, UnicodeDecodeError):
            continue  # most have none; one that cannot be read must not hide the others
        yield one.stem.partition("-")[0].lower().replace("_", "-"), text


def _commands(package: str, text: str) -> Iterator[Announced]:
    ours = False
    for line in map(str.strip, text.splitlines()):
        if line.startswith("["):
            ours = line == GROUP
        elif ours and line.startswith(PREFIX):
            name, _, module = line.removeprefix(PREFIX).partition("=")
            yield Announced(name.strip(), module.strip(), package)


def load_command(one: Announced) -> "click.Command":
    """Import a command.

    Raises:
        PluginError: if it cannot be imported, is none, or has the name of one of ours.
    """
    import click  # noqa: PLC0415 - whoever only wants to know what is announced does without

    from speciate.cli import COMMANDS  # noqa: PLC0415 - which imports us

    if one.name in COMMANDS:
        raise PluginError(f"{one} has the name of a built-in command: rename it, or uninstall {one.package}")
    try:
        found = getattr(importlib.import_module(one.module), "command", None)
    except (Exception, SystemExit) as error:
        raise PluginError(
            f"{one} cannot be imported: {type(error).__name__}: {error}; mend or uninstall {one.package}"
        ) from error
    if not isinstance(found, click.Command):
        raise PluginError(f"{one}: module {one.module} must have a click command called 'command', got {found!r}")
    return found
