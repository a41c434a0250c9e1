"""`speciate init`: a configuration that explains itself.

The choice of plugins and the example values are data (`data/init.toml`); keys, types, defaults and descriptions come
from the structs that will check the file, so that it cannot say anything they do not.
"""

import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from speciate.describe import Key
    from speciate.plugins import Plugins

WIDTH = 100

HEADER = """\
# A pipeline of Speciate: one section a stage, each with a plugin and that plugin's options.
#
# A line that begins with # and no space is a key with its default, or a section left out: remove the # to use it.
# Check this file with `speciate check`; list the plugins with `speciate plugins`.
"""


@click.command(name="init")
@click.argument("path", metavar="[PATH]", default="speciate.toml", type=click.Path(path_type=Path))
@click.option("--force", is_flag=True, help="Replace the file if it exists.")
def command(*, path: Path, force: bool) -> None:
    """Write a commented configuration to start from.

    PATH is the file to write, speciate.toml if not given. It holds every key of the engine and of the plugins it
    names, with its type, default and description; edit the paths in [source] and [support] and it is ready to run.
    """
    from speciate.plugins import installed

    _write(path, render(template(), installed()), force=force)
    click.echo(f"wrote {path}: edit the paths in [source] and [support], then run: speciate check {path}")


def template() -> dict[str, Any]:
    """The plugins chosen for a new configuration, and the values filled in."""
    import tomllib
    from importlib.resources import files

    return tomllib.loads(files("speciate").joinpath("data/init.toml").read_text("utf-8"))


def render(choices: Mapping[str, Any], plugins: "Plugins") -> str:
    """The text of a configuration with the `written` choices in force and the `commented` ones at hand."""
    from speciate.config import OWN_SECTIONS, SECTION_STAGES
    from speciate.describe import describe
    from speciate_schemas import PipelineConfig

    described = {key.name: key.description for key in describe(PipelineConfig)}
    blocks = [HEADER]
    for section, stage in SECTION_STAGES.items():
        about = f"{described.pop(section)} Plugins: {', '.join(plugins.names(stage))}."
        written = section in choices["written"]
        values = choices["written" if written else "commented"][section]
        lines = [f"[{section}]", *_plugin_lines(plugins, stage, values)]
        blocks.append(_block(about, lines if written else [_off(line) for line in lines]))
    for section, about in described.items():  # what names no plugin: the engine's own sections
        keys = describe(OWN_SECTIONS[section])
        lines = [f"[{section}]", *_key_lines(keys, choices["commented"].get(section, {}))]
        # One with keys that have no default is wanted by those who know what to write there.
        blocks.append(_block(about, [_off(line) for line in lines] if any(key.required for key in keys) else lines))
    return "\n".join(blocks)


def _block(about: str, lines: list[str]) -> str:
    return "\n".join([*_prose(about), *lines, ""])


def _plugin_lines(plugins: "Plugins", stage: str, values: Mapping[str, Any]) -> Iterator[str]:
    from speciate.describe import describe, toml_text
    from speciate.errors import PluginError

    options = dict(values)
    name = options.pop("plugin")
    yield f"plugin = {toml_text(name)}"
    try:
        keys = describe(plugins.provider(stage, name).options)
    except PluginError as error:
        # Said where it matters; `check` repeats it if the section is used as it stands.
        yield from _prose(str(error))
        yield from (f"{key} = {toml_text(value)}" for key, value in options.items())
    else:
        yield from _key_lines(keys, options)


def _key_lines(keys: "list[Key]", values: Mapping[str, Any]) -> Iterator[str]:
    from speciate.describe import toml_text

    for key in keys:
        yield from _prose(f"{key.description} ({key.type}{', required' if key.required else ''})")
        if key.name in values:
            yield f"{key.name} = {toml_text(values[key.name])}"
        elif key.default is not None:
            yield f"#{key.name} = {key.default}"
        else:
            yield f"# {key.name} = not set"


def _prose(text: str) -> list[str]:
    return [f"# {line}" for line in textwrap.wrap(text, WIDTH, break_long_words=False, break_on_hyphens=False)]


def _off(line: str) -> str:
    """A line of a section left out: keys get their #, what has one stays."""
    return line if line.startswith("#") else f"#{line}"


def _write(path: Path, text: str, *, force: bool) -> None:
    from speciate.errors import ConfigError, OutputError

    try:
        with path.open("w" if force else "x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError as error:
        raise ConfigError(f"{path} exists: choose another path, or replace it with --force") from error
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error.strerror}") from error
