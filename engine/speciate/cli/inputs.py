"""Files and folders given on the command line, as a source."""

from collections.abc import Sequence
from glob import glob
from pathlib import Path
from typing import Any

from speciate.errors import ConfigError
from speciate.plugins import installed


def source_section(inputs: Sequence[str], plugin: str | None) -> dict[str, Any]:
    """The section of the source that reads some inputs: the named plugin, or the one their names tell."""
    name = plugin or _plugin_for(inputs)
    if not inputs:
        return {"plugin": name}
    if "paths" not in installed().provider("source", name).options.__struct_fields__:
        raise ConfigError(f"source {name!r} takes no INPUT: leave out {', '.join(inputs)}")
    return {"plugin": name, "paths": list(inputs)}


def _plugin_for(inputs: Sequence[str]) -> str:
    if not inputs:
        raise ConfigError("there is nothing to read: give an INPUT, --plugin or --config")
    name = installed().source_for(inputs[0])
    if name is None:
        known = ", ".join(installed().names("source"))
        # It need not be a file: that is for the plugin to say. But what is spelt wrong is one more often than not.
        there = Path(inputs[0]).exists() or glob(inputs[0], recursive=True)  # noqa: PTH207 - of any folder
        absent = "" if there else " (no such file or folder)"
        raise ConfigError(f"no source plugin is known for {inputs[0]!r}{absent}: name one with --plugin, of {known}")
    return name
