"""`speciate replay`: one method on one recorded benchmark."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from speciate.cli.options import data_option, json_option, overrides_option
from speciate.cli.output import print_json, print_table

if TYPE_CHECKING:
    from speciate_schemas import Recipe, Run
    from speciate_schemas.replay import Timing

ORDERS = ("recorded", "class-sorted", "random", "bursty")


@click.command(name="replay")
@click.argument("benchmark", metavar="[BENCHMARK]", required=False)
@click.argument("method", metavar="[METHOD]", required=False)
@data_option
@overrides_option
@click.option("--order", type=click.Choice(ORDERS), help="Order of the stream; without it the benchmark's own.")
@click.option("--seed", type=click.IntRange(0), show_default="0", help="Of the support set and the order.")
@click.option("--batch", type=click.IntRange(1), show_default="64", help="Events decided at once.")
@click.option("--out", type=click.Path(path_type=Path), help="Folder of the run; without it one below replays/.")
@click.option(
    "--from", "origin", type=click.Path(path_type=Path), help="Do a kept run again and check that it decides the same."
)
@click.option("--page", type=click.Path(path_type=Path), help="Also write a page about the run to this file.")
@json_option
def command(
    *,
    benchmark: str | None,
    method: str | None,
    data: Path,
    overrides: tuple[str, ...],
    order: str | None,
    seed: int | None,
    batch: int | None,
    out: Path | None,
    origin: Path | None,
    page: Path | None,
    as_json: bool,
) -> None:
    """Replay a recorded benchmark with one method.

    BENCHMARK and METHOD are names of ready ones, or TOML files of your own. Options of the method can be changed with
    --set, such as -s density.rank=16. The run is kept in a folder with its configuration, one assignment an event and
    all figures; --from does a kept run again.
    """
    if origin is None:
        if benchmark is None or method is None:
            raise click.UsageError("name a benchmark and a method, or a kept run with --from")
        recipe, before = _recipe(benchmark, method, overrides, order, seed or 0, batch or 64), None
    else:
        if (benchmark, order, seed, batch) != (None, None, None, None) or overrides:
            raise click.UsageError("--from takes the benchmark, the method and all options from the kept run")
        recipe, before = _kept(origin, out)
    if page is not None:
        from speciate.reporting.looks import drawing

        drawing()  # what cannot be drawn is told now, not after the run
    folder = out or _folder(recipe, again=origin is not None)
    run = _replay(recipe, data, folder)
    if page is not None:
        _write_page(run, folder, data, page)
    if as_json:
        print_json({"folder": str(folder), "info": run.info, "metrics": run.metrics})
    else:
        _print(run, folder)
    if before is not None:
        _check_same(before, run, f"{folder} decided otherwise than {origin}")
        click.echo(f"the same decisions as {origin}", err=True)


def _kept(origin: Path, out: Path | None) -> "tuple[Recipe, Run]":
    """What a kept run was asked for, and what it came to, before anything is written."""
    from speciate.replay.running import load_recipe, load_run

    if out is not None and out.resolve() == origin.resolve():
        raise click.UsageError("--out is the kept run itself: name another folder")
    return load_recipe(origin), load_run(origin)


def _folder(recipe: "Recipe", *, again: bool) -> Path:
    """A folder of its own for every recipe."""
    from speciate.sealed import digest
    from speciate_schemas import encode

    name = f"{recipe.benchmark}-{recipe.method}-{recipe.order}-{recipe.seed}-{digest(encode(recipe))[:8]}"
    return Path("replays", f"{name}-again" if again else name)


def _write_page(run: "Run", folder: Path, data: Path, page: Path) -> None:
    from speciate.plugins import installed
    from speciate.replay.publishing import drawn_categories, write_page

    categories, drawn = drawn_categories([(run, folder)], data, installed())
    write_page([run], page, f"{run.info.method_title} on {run.info.benchmark_title}", categories, drawn=drawn)


def _check_same(before: "Run", run: "Run", otherwise: str) -> None:
    from speciate.errors import StateMismatchError

    if before.info.decisions_sha256 != run.info.decisions_sha256:
        same = before.info.data_sha256 == run.info.data_sha256
        raise StateMismatchError(f"{otherwise}, on {'the same' if same else 'other'} data: speciate diff tells more")


def _recipe(  # noqa: PLR0917  # one an option
    benchmark: str, method: str, overrides: tuple[str, ...], order: str | None, seed: int, batch: int
) -> "Recipe":
    from speciate.catalogue import load
    from speciate_schemas import BenchmarkConfig, MethodConfig, Recipe

    benchmark_name, benchmark_config = load("benchmarks", benchmark, BenchmarkConfig)
    method_name, method_config = load("methods", method, MethodConfig, overrides)
    return Recipe(
        benchmark=benchmark_name,
        method=method_name,
        benchmark_config=benchmark_config,
        method_config=method_config,
        order=order or benchmark_config.order,  # type: ignore[arg-type]  # click has checked it
        seed=seed,
        batch=batch,
    )


def _replay(recipe: "Recipe", data: Path, folder: Path) -> "Run":
    from speciate.cli.bars import counting
    from speciate.plugins import installed
    from speciate.replay.recorded import load_recorded
    from speciate.replay.running import replay

    plugins = installed()
    with counting("replay") as show:
        show(0, 1, "reading")
        recorded = load_recorded(recipe.benchmark, recipe.benchmark_config, data, plugins)
        return replay(recipe, recorded, folder, plugins, lambda done, total: show(done, total, "events"))


def _print(run: "Run", folder: Path) -> None:
    info, found = run.info, run.metrics
    click.echo(
        f"{info.method_title} on {info.benchmark_title}: {info.stream_events:,} events in {info.order} order, "
        f"seed {info.seed}; {info.known_classes} classes known from {info.support_events:,} others"
    )
    rows = [
        (name, *(_percent(getattr(shares, part)) for part in ("all", "known", "novel")))
        for name, shares in (("strict", found.strict), ("greedy", found.greedy), *found.groups.items())
    ]
    print_table(("accuracy", "all", "known", "novel"), rows)
    timing = found.timing
    for name, text in (
        ("categories", f"{found.categories:,} used, {found.births:,} born, the truth has {found.classes:,}"),
        ("false births", _percent(found.false_birth_rate)),
        ("NMI, ARI, purity", f"{found.nmi:.3f}, {found.ari:.3f}, {found.purity:.3f}"),
        ("time an event", f"{_times(timing)} in batches of {timing.batch} ({timing.events_per_second:,.0f} events/s)"),
        ("memory", f"{found.head_bytes / 1e6:,.1f} MB"),
        ("run", str(folder)),
    ):
        click.echo(f"{name:<18}{text}")


def _times(timing: "Timing") -> str:
    return ", ".join(f"{name} {getattr(timing, f'{name}_ms'):.3f} ms" for name in ("mean", "p50", "p99", "max"))


def _percent(share: float | None) -> str:
    return "none" if share is None else f"{100 * share:.1f} %"
