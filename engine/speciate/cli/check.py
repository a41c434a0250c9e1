"""`speciate check`: every key, every plugin and every option, before anything runs."""

from pathlib import Path
from typing import Any

import click

from speciate.cli.options import config_argument, json_option, overrides_option
from speciate.cli.output import print_json, print_table


@click.command(name="check")
@config_argument
@overrides_option
@json_option
def command(*, config: Path, overrides: tuple[str, ...], as_json: bool) -> None:
    """Check a configuration and its plugins without running it.

    CONFIG is the TOML file of a pipeline. Printed are each section's plugin, the package it comes from, and all
    options as they will be used, with defaults filled in. Inputs and outputs are not opened.
    """
    rows = _rows(config, overrides)
    if as_json:
        print_json({row.pop("section"): row for row in rows})
        return
    print_table(("section", "plugin", "package", "options"), [_cells(row) for row in rows])
    click.echo(f"{config} is sound")


def _rows(path: Path, overrides: tuple[str, ...]) -> list[dict[str, Any]]:
    import msgspec

    from speciate.config import load, resolve
    from speciate.plugins import installed

    resolved = resolve(load(path, overrides), installed())
    rows = []
    for section, chosen in resolved.sections.items():
        info = installed().info(chosen.stage, chosen.name)
        package = {"plugin": info.name, "package": info.package, "version": info.version}
        rows.append({"section": section, **package, "options": msgspec.to_builtins(chosen.options)})
    own = {"run": resolved.config.run, "commit": resolved.config.commit}
    return rows + [{"section": name, "options": msgspec.to_builtins(options)} for name, options in own.items()]


def _cells(row: dict[str, Any]) -> tuple[str, str, str, str]:
    from speciate.describe import toml_text

    options = [f"{key} = {toml_text(value)}" for key, value in row["options"].items() if value is not None]
    package = f"{row['package']} {row['version']}" if "package" in row else ""
    return row["section"], row.get("plugin", ""), package, "\n".join(options)
