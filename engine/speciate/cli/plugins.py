"""`speciate plugins`: what is installed, and whether it works here."""

from typing import TYPE_CHECKING, Any

import click

from speciate.cli.options import json_option
from speciate.cli.output import print_json, print_table

if TYPE_CHECKING:
    from speciate.plugins import PluginReport


def _known_stage(_ctx: click.Context, _param: click.Parameter, stage: str | None) -> str | None:
    """Check the stage only when one is given: a click.Choice would import the engine for `--help`."""
    from speciate.hooks import STAGES

    if stage is not None and stage not in STAGES:
        raise click.BadParameter(f"{stage!r} is not one of {', '.join(STAGES)}")
    return stage


@click.command(name="plugins")
@click.option(
    "--stage",
    metavar="STAGE",
    callback=_known_stage,
    help="Only those of one stage: source, encoder, density, policy, sink or store.",
)
@json_option
def command(*, stage: str | None, as_json: bool) -> None:
    """List the installed plugins and whether each is usable.

    A plugin that cannot be used says why and what to do, such as the pip line of the extra it needs. It never stops
    a pipeline that does not use it.
    """
    from speciate.plugins import installed

    reports = [report for report in installed().survey() if stage in (None, report.plugin.stage)]
    if as_json:
        print_json([_row(report) for report in reports])
        return
    columns = ("name", "stage", "package", "version")
    rows = [[*(str(_row(report)[column]) for column in columns), report.problem or "yes"] for report in reports]
    print_table([*columns, "usable"], rows)


def _row(report: "PluginReport") -> dict[str, Any]:
    plugin = report.plugin
    return {
        "stage": plugin.stage,
        "name": plugin.name,
        "package": plugin.package,
        "version": plugin.version,
        "usable": report.problem is None,
        "problem": report.problem,
    }
