"""`speciate diff`: what differs between two runs or comparisons."""

from pathlib import Path

import click

from speciate.cli.options import json_option
from speciate.cli.output import print_json, print_table


@click.command(name="diff")
@click.argument("first", metavar="FIRST", type=click.Path(path_type=Path))
@click.argument("second", metavar="SECOND", type=click.Path(path_type=Path))
@json_option
def command(*, first: Path, second: Path, as_json: bool) -> None:
    """Tell what differs between two runs or comparisons.

    FIRST and SECOND are folders that `replay` or `compare` wrote. Listed are runs only one of them has, runs with the
    same configuration that saw other data or decided otherwise, and figures that moved. Exits with 1 if anything but a
    time differs.
    """
    from speciate.replay.running import load_runs
    from speciate.reporting.difference import as_table, compare

    changes = compare(load_runs(first), load_runs(second))
    if as_json:
        print_json(changes)
    elif changes:
        print_table(*as_table(changes))
    else:
        click.echo("nothing differs")
    if any(not change.timing for change in changes):
        raise click.exceptions.Exit(1)
