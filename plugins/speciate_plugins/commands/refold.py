"""`speciate refold`: the state of a pipeline on Kafka made anew, after its universe or its partitions have changed."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from speciate.cli.options import config_argument, json_option, overrides_option
from speciate.cli.output import print_json, print_table

if TYPE_CHECKING:
    from speciate_plugins.kafka.refolding import Plan, Refold, Result

COLUMNS = ("task", "records", "known", "born", "rejected", "controls")


@click.command(name="refold")
@config_argument
@click.option(
    "--answers",
    metavar="TOPIC",
    help="The topic that the answers were in until now, if [sink] names a new one: going back to fewer tasks needs it.",
)
@click.option("--yes", is_flag=True, help="Do not ask.")
@overrides_option
@json_option
def command(*, config: Path, answers: str | None, yes: bool, overrides: tuple[str, ...], as_json: bool) -> None:
    """Make the state of a pipeline on Kafka anew.

    CONFIG is the TOML file of the pipeline. It is for a changed run.universe, a changed number of partitions, or
    whatever else the state depends on. Stop all workers first. What is answered stays answered; the records that it
    answers, as far as the input topics still hold them, are learnt again in the order of their times, each by the
    task whose it is now, and the workers go on behind them. The categories get new numbers, which a message of type
    refolded.v1 among the answers tells. Control events are applied again where the new categories allow it.

    If it is cut off, run it again: until then no worker starts.
    """
    from speciate.config import load, resolve
    from speciate.plugins import installed
    from speciate_plugins.kafka.refolding import Refold

    plugins = installed()
    refold = Refold(resolve(load(config, overrides), plugins), plugins, answers)
    results = _refold(refold, yes=yes)
    if as_json:
        print_json([result._asdict() for result in results])
    else:
        print_table(COLUMNS, [[f"{getattr(result, column):,}" for column in COLUMNS] for result in results])


def _refold(refold: "Refold", *, yes: bool) -> "list[Result]":
    import asyncio

    from speciate.cli.bars import counting
    from speciate.logs import configure

    configure()
    plan = asyncio.run(refold.plan())
    if _on_terminal() and not yes:
        _ask(plan)
    with counting("refold") as show:
        return asyncio.run(refold.run(show))


def _on_terminal() -> bool:
    return sys.stdin.isatty()


def _ask(plan: "Plan") -> None:
    from speciate.errors import ConfigError

    question = (
        f"Give up all categories, and learn about {plan.records:,} records anew into {plan.tasks} tasks "
        f"(run.universe = {plan.universe!r})?"
    )
    try:
        agreed = click.confirm(question, err=True)
    except click.Abort:
        agreed = False
    if not agreed:
        raise ConfigError("nothing was changed: answer y, or give --yes")
