"""`speciate record`: any source into an event log."""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

import click

from speciate.cli.options import json_option
from speciate.cli.output import print_json

if TYPE_CHECKING:
    from speciate.config import Chosen
    from speciate.recording import Recorded


@click.command(name="record")
@click.argument("inputs", metavar="[INPUT]...", nargs=-1)
@click.option(
    "--to", "output", required=True, type=click.Path(path_type=Path), help="The event log to write; must not exist."
)
@click.option("--plugin", metavar="NAME", help="The source plugin, where the inputs' file names do not tell it.")
@click.option(
    "--config", type=click.Path(path_type=Path), help="Record the [source] of this configuration instead of INPUTs."
)
@click.option(
    "-s",
    "--set",
    "options",
    metavar="KEY=VALUE",
    multiple=True,
    help="Set an option of the source, such as follow=true. May be given more than once.",
)
@json_option
def command(
    *,
    inputs: tuple[str, ...],
    output: Path,
    plugin: str | None,
    config: Path | None,
    options: tuple[str, ...],
    as_json: bool,
) -> None:
    """Record a source into an event log.

    INPUT is a file, a folder of images or a glob; several are recorded in order. The file name's ending tells the
    source plugin, or --plugin does; --plugin stdin reads standard input. What is no event is recorded as it is and
    rejected on replay.
    """
    recorded = asyncio.run(_record(_source(inputs, plugin, config, options), output))
    if as_json:
        print_json({"events": recorded.events, "damaged": recorded.damaged, "bytes": recorded.bytes})
    else:
        damaged = f", {recorded.damaged:,} of them damaged" if recorded.damaged else ""
        click.echo(f"{recorded.events:,} inputs{damaged}, {recorded.bytes:,} bytes in {output}")


def _source(inputs: tuple[str, ...], plugin: str | None, config: Path | None, options: tuple[str, ...]) -> "Chosen":
    """The source to record, from a configuration or from the inputs."""
    from speciate.cli.inputs import source_section
    from speciate.config import choose, load, resolve
    from speciate.errors import ConfigError
    from speciate.plugins import installed
    from speciate.trees import apply_overrides

    if config is not None:
        if inputs or plugin:
            raise ConfigError("give either --config, or INPUTs and --plugin, not both")
        return resolve(load(config, [f"source.{option}" for option in options]), installed())["source"]
    section = source_section(inputs, plugin)
    apply_overrides(section, options)
    return choose(installed(), "source", section, "source")


async def _record(chosen: "Chosen", output: Path) -> "Recorded":
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn

    from speciate.cli.signals import stopping_on_signals
    from speciate.logs import configure
    from speciate.recording import Recorded, record

    source = chosen.create()
    columns = (SpinnerColumn(), TextColumn("{task.description}"))
    console = Console(stderr=True)
    bar = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
    with stopping_on_signals(source.stop), bar as progress:
        configure()  # here, so that the bar puts log lines above itself
        task = progress.add_task("recording", total=None)

        def show(done: Recorded) -> None:
            progress.update(task, description=f"{done.events:,} inputs, {done.bytes:,} bytes")

        return await record(source, output, watch=show)
