"""`speciate compare`: many methods on many benchmarks, in several orders, several times."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from speciate.cli.options import data_option, json_option, overrides_option
from speciate.cli.output import print_json, print_table

if TYPE_CHECKING:
    from speciate.replay.comparing import Job, Outcome
    from speciate_schemas import Run


@click.command(name="compare")
@click.argument("comparison", metavar="COMPARISON")
@data_option
@overrides_option
@click.option("--out", type=click.Path(path_type=Path), help="Folder of the comparison; without it its name.")
@click.option(
    "--jobs", type=click.IntRange(1), help="Runs at a time; without it as many as there are processors.", default=None
)
@json_option
def command(
    *, comparison: str, data: Path, overrides: tuple[str, ...], out: Path | None, jobs: int | None, as_json: bool
) -> None:
    """Compare methods on recorded benchmarks.

    COMPARISON is the name of a ready comparison, or a TOML file of your own. Runs that are finished are not done again:
    an interrupted comparison goes on where it was. The folder holds every run, the tables as CSV and JSON, and a page
    with the figures.
    """
    from speciate.catalogue import is_path, load
    from speciate.errors import ConfigError
    from speciate.replay.comparing import plan
    from speciate.replay.publishing import write_tables
    from speciate.reporting.tables import for_terminal
    from speciate_schemas import ComparisonConfig

    name, config = load("comparisons", comparison, ComparisonConfig, overrides)
    folder = out or Path(name)
    beside = Path(comparison).parent if is_path(comparison) else Path()
    jobs_planned = plan(config, folder, beside)
    found = {outcome.job.folder: outcome for outcome in _compare(jobs_planned, data, jobs or os.cpu_count() or 1)}
    # As planned, not as they came: who was ready first must not show.
    outcomes = [found[job.folder] for job in jobs_planned]
    done = [(outcome.run, outcome.job.folder) for outcome in outcomes if outcome.run is not None]
    runs = [run for run, _ in done]
    problems = sorted({outcome.problem for outcome in outcomes if outcome.problem is not None})
    if runs:
        write_tables(runs, folder)
        if as_json:
            print_json({"folder": str(folder), "runs": runs, "problems": problems})
        else:
            print_table(*for_terminal(runs))
        _publish(done, folder, data, config.title, problems)
    if problems:
        failed = len(outcomes) - len(runs)
        raise ConfigError(f"{failed} of {len(outcomes)} runs could not be done: {'; '.join(problems)}")


def _publish(done: "list[tuple[Run, Path]]", folder: Path, data: Path, title: str, problems: list[str]) -> None:
    """The page and the figures, where what draws them is installed."""
    from importlib.util import find_spec

    from speciate.plugins import installed
    from speciate.replay.publishing import PAGE, drawn_categories, write_figures, write_page

    if find_spec("matplotlib") is None:
        click.echo(f"tables are in {folder}; for the page and the figures: pip install 'speciate[report]'", err=True)
        return
    runs = [run for run, _ in done]
    categories, drawn = drawn_categories(done, data, installed())
    write_page(runs, folder / PAGE, title, categories, drawn=drawn, problems=problems)
    write_figures(runs, folder / "figures", categories)
    click.echo(f"runs: {len(runs)}; tables and figures are in {folder}, the page is {folder / PAGE}", err=True)


def _compare(jobs: "list[Job]", data: Path, workers: int) -> "list[Outcome]":
    from speciate.cli.bars import counting
    from speciate.replay.comparing import compare

    outcomes = []
    with counting("compare") as show:
        show(0, len(jobs), "")
        for outcome in compare(jobs, data, workers):
            outcomes.append(outcome)
            recipe = outcome.job.recipe
            show(len(outcomes), len(jobs), f"{recipe.method} on {recipe.benchmark}, {recipe.order}, seed {recipe.seed}")
    return outcomes
