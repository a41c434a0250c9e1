"""What a comparison is read by: tables as CSV and JSON, and with the extra `report` a page and its figures."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from speciate.files import make_directory, write_atomically, writing
from speciate.plugins import Plugins
from speciate.replay.projections import projections
from speciate.replay.recorded import load_recorded
from speciate.replay.running import load_recipe
from speciate.reporting.ellipses import Category
from speciate.reporting.findings import paper
from speciate.reporting.grouping import group, settings, variants
from speciate.reporting.looks import looks
from speciate.reporting.orders import order_effects
from speciate.reporting.tables import aggregates_csv, as_json, runs_csv
from speciate_schemas import Run

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PAGE = "report.html"


def write_tables(runs: Sequence[Run], folder: Path) -> None:
    """One row a run, one row a method, and everything for programs."""
    files = {
        "runs.csv": runs_csv(runs).encode(),
        "table.csv": aggregates_csv(runs).encode(),
        "report.json": msgspec.json.format(msgspec.json.encode(as_json(runs)), indent=1),
    }
    with writing(folder):
        make_directory(folder)
        for name, data in files.items():
            write_atomically(folder / name, data)


def write_page(  # all that is on it
    runs: Sequence[Run],
    path: Path,
    title: str,
    categories: Sequence[Category] = (),
    *,
    drawn: str = "",
    problems: Sequence[str] = (),
) -> None:
    """One HTML file that needs nothing else."""
    from speciate.reporting.page import render  # noqa: PLC0415  # it draws: matplotlib is an extra, and slow to import

    with writing(path):
        make_directory(path.absolute().parent)
        write_atomically(path, render(runs, title, categories, drawn=drawn, problems=problems).encode())


def write_figures(runs: Sequence[Run], folder: Path, categories: Sequence[Category] = ()) -> None:
    """Every figure of the page as SVG and PNG."""
    from speciate.reporting.svg import save  # noqa: PLC0415  # as above

    with writing(folder):
        make_directory(folder)
        for name, figure in _figures(runs, categories):
            for suffix in (".svg", ".png"):
                save(figure, folder / f"{name}{suffix}")


def _figures(runs: Sequence[Run], categories: Sequence[Category]) -> Iterator[tuple[str, "Figure"]]:
    from speciate.reporting import plots  # noqa: PLC0415  # as above
    from speciate.reporting.page import SETTING_FIGURES  # noqa: PLC0415  # as above

    groups = group(runs)
    colours = looks(variants(groups))
    for setting in settings(groups):
        here = [one for one in groups if one.setting == setting]
        for key, _, _, draw in SETTING_FIGURES:
            yield f"{setting.benchmark}-{setting.order}-{key}", draw(here, colours)
    for effect in order_effects(runs):
        yield f"{effect.benchmark}-orders", plots.order_spread(effect, colours)
    if categories:
        yield "ellipses", plots.ellipses(categories)


def drawn_categories(runs: Sequence[tuple[Run, Path]], data: Path, plugins: Plugins) -> tuple[list[Category], str]:
    """Categories of the first run whose method's posterior an ellipse shows truly, and which run that is."""
    for run, folder in runs:
        info = run.info
        if info.method in paper().drawn and {"kappa0", "n0"} <= info.estimated.keys():
            recipe = load_recipe(folder)
            recorded = load_recorded(recipe.benchmark, recipe.benchmark_config, data, plugins)
            which = f"{info.method_title} on {info.benchmark_title}, {info.order} order, seed {info.seed}"
            return projections(recipe, run, recorded, folder), which
    return [], ""
