"""`speciate run`: a configuration from where it was left to the end of its source."""

import contextlib
from pathlib import Path

import click

from speciate.cli.options import config_argument, json_option, overrides_option

PAGE_ADDRESS = "127.0.0.1:8600"


@click.command(name="run")
@config_argument
@click.argument("inputs", metavar="[INPUT]...", nargs=-1)
@overrides_option
@click.option("--plugin", metavar="NAME", help="The source plugin, where the INPUTs' file names do not tell it.")
@click.option("--fresh", is_flag=True, help="Start over: discard the state and the outputs of earlier runs.")
@click.option("--follow", is_flag=True, help="Wait for more at the end of the input; short for -s source.follow=true.")
@click.option(
    "--pace",
    metavar="PACE",
    help="max, original, or events per second: how fast a recording is replayed; short for -s run.pace=PACE.",
)
@click.option("--page", is_flag=True, help=f"Serve the live page, metrics and health over HTTP at {PAGE_ADDRESS}.")
@click.option(
    "--page-address",
    metavar="HOST:PORT",
    help="The same at another address; port 0 takes a free one. One that is not this machine's own needs a token in "
    "SPECIATE_PAGE_TOKEN.",
)
@json_option
def command(
    *,
    config: Path,
    inputs: tuple[str, ...],
    overrides: tuple[str, ...],
    plugin: str | None,
    fresh: bool,
    follow: bool,
    pace: str | None,
    page: bool,
    page_address: str | None,
    as_json: bool,
) -> None:
    """Run a pipeline, going on where an earlier run was left.

    CONFIG is the TOML file of a pipeline, or a model that `speciate fit` wrote, whose answers then go to
    out/assignments.jsonl. INPUTs, which are files, folders of images or globs, are read in place of its [source].

    SIGTERM or Ctrl-C finishes what was read, commits, saves and exits with 0; a second one leaves at once with 128 +
    the signal's number and loses nothing: the next run goes on from the last commit. With --json the report is one
    line of JSON on standard output.
    """
    import msgspec

    from speciate.cli.inputs import source_section
    from speciate.cli.running import print_report, run_watched
    from speciate.config import load, resolve
    from speciate.plugins import installed

    short = [*(["source.follow=true"] if follow else []), *([] if pace is None else [f"run.pace={_pace(pace)}"])]
    source = source_section(inputs, plugin) if inputs or plugin else None
    resolved = resolve(load(config, [*overrides, *short], source), installed())
    address = page_address or (PAGE_ADDRESS if page else None)
    report = run_watched(resolved, fresh=fresh, page=address, title=config.stem)
    if as_json:
        click.echo(msgspec.json.encode(report.as_json()))
    else:
        print_report(report)


def _pace(text: str) -> str:
    """The pace as TOML or a word."""
    import math

    from speciate.errors import ConfigError

    if text in ("max", "original"):
        return text
    with contextlib.suppress(ValueError):
        if math.isfinite(rate := float(text)) and rate > 0:
            return repr(rate)
    raise ConfigError(f"--pace {text}: must be max, original, or a number of events per second above 0")
