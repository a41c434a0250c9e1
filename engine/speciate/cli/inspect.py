"""`speciate inspect`: what a pipeline knows, read from its outputs and snapshots without disturbing it."""

import asyncio
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from speciate.cli.options import config_argument, json_option, overrides_option
from speciate.cli.output import print_json, print_table

if TYPE_CHECKING:
    from speciate.config import Resolved
    from speciate.looking import TaskView
    from speciate.snapshot import Snapshot

SHOWN = 50
AT_ONCE = 4
"""Tasks looked at at a time: each may have a large state."""

Found = dict[str, Any]


@click.command(name="inspect")
@config_argument
@overrides_option
@click.option("--all", "everything", is_flag=True, help=f"List every category, not only the {SHOWN} largest.")
@click.option("--partition", type=click.IntRange(0), help="Only the task of this number, where there are several.")
@json_option
def command(
    *, config: Path, overrides: tuple[str, ...], everything: bool, partition: int | None, as_json: bool
) -> None:
    """Show the state of a pipeline.

    CONFIG is the TOML file of the pipeline, which may be running: only what it has committed and its newest whole
    snapshot are read. Shown are the categories with their labels and counts, the size of the state, what was estimated
    from the support set, how far the outputs have come since the snapshot, and how much input is left. If workers
    share the input, the tasks come first: one a partition, each with categories of its own.
    """
    found = asyncio.run(_look(config, overrides, partition))
    alone = len(found) == 1
    if as_json:
        print_json(found[0] if alone else {"tasks": found})
        return
    if not alone:
        print_table(TASK_COLUMNS, [_task_cells(one) for one in found])
        click.echo()
    _print_categories(found, everything=everything)
    if alone:
        _print_rest(found[0])


def _print_categories(found: list[Found], *, everything: bool) -> None:
    categories = [{**category, "partition": one.get("partition")} for one in found for category in one["categories"]]
    categories.sort(key=lambda one: -one["count"])
    # Columns that tell nothing apart are left out.
    apart = [] if len(found) == 1 else ["partition"]
    apart += ["stream"] if any("stream" in one for one in categories) else []
    shown = categories if everything else categories[:SHOWN]
    if categories or len(found) == 1:
        rows = [[*(str(one.get(column, "")) for column in apart), *_category_cells(one)] for one in shown]
        print_table([*apart, "category", "label", "origin", "events"], rows)
    if len(shown) < len(categories):
        click.echo(f"… and {len(categories) - len(shown):,} smaller ones (--all lists them)")


def _category_cells(one: Found) -> list[str]:
    return [str(one["id"]), one["label"] or "", "known" if one["known"] else "born", f"{one['count']:,}"]


TASK_COLUMNS = ("partition", "committed", "snapshot", "position", "lag", "categories")


def _task_cells(one: Found) -> list[str]:
    keys = ("partition", "committed_sequence", "snapshot_sequence", "source_position", "lag")
    return [*(_text(one[key]) for key in keys), f"{len(one['categories']):,}"]


def _print_rest(found: Found) -> None:
    for key, value in found.items():
        if key != "categories":
            click.echo(f"{key.replace('_', ' ')}: {_text(value)}")


def _text(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {_text(one)}" for key, one in value.items()) or "none"
    if isinstance(value, tuple):
        return " ".join(str(part) for part in value)
    if value is None:
        return "none"
    return f"{value:,}" if isinstance(value, int) else str(value)


async def _look(path: Path, overrides: Sequence[str], partition: int | None) -> list[Found]:
    """What is to be told of each task that is wanted."""
    from speciate.config import load, resolve
    from speciate.errors import ConfigError
    from speciate.logs import configure
    from speciate.looking import count_tasks
    from speciate.plugins import installed

    configure()
    resolved = resolve(load(path, overrides), installed())
    count = await count_tasks(resolved)
    if partition is not None and partition >= count:
        raise ConfigError(f"--partition {partition}: the tasks are numbered from 0 to {count - 1}")
    numbers = range(count) if partition is None else [partition]
    return await _look_at(resolved, numbers, count)


async def _look_at(resolved: "Resolved", numbers: Sequence[int], count: int) -> list[Found]:
    from speciate.errors import StateMismatchError
    from speciate.looking import look
    from speciate.stages import Seat

    turn = asyncio.Semaphore(AT_ONCE)
    idle: list[TaskView] = []

    async def one(number: int) -> Found:
        async with turn:
            view = await look(resolved, Seat(number, count))
        if not view.begun:
            idle.append(view)
        named = {"partition": number} if count > 1 else {}
        return {**named, **_told(view)}

    found = await asyncio.gather(*(one(number) for number in numbers))
    if len(idle) == len(found):
        where = idle[0].state or idle[0].outputs
        raise StateMismatchError(f"{where} holds no state yet: run the pipeline first")
    return found


def _told(view: "TaskView") -> Found:
    """A task, for programs; the keys are also what people read."""
    snapshot, tally = view.snapshot, view.tally
    head = {"categories": [], "known": 0, "born": 0} if snapshot is None else _told_head(snapshot)
    state = (
        {}
        if snapshot is None
        else {
            "state_bytes": snapshot.manifest.state_bytes,
            "state_sha256": snapshot.manifest.state_sha256,
            "plugins": snapshot.manifest.plugins,
        }
    )
    return {
        **head,
        "snapshot_sequence": None if snapshot is None else snapshot.commit.sequence,
        "committed_sequence": view.committed,
        "source_position": view.position,
        "lag": view.behind,
        "outcomes": None if tally is None else {key: getattr(tally, key) for key in tally.__struct_fields__},
        **state,
        "answers": view.outputs,
        "store": view.state,
    }


def _told_head(snapshot: "Snapshot") -> Found:
    head, categories = snapshot.state.head, list(_categories(snapshot))
    return {
        "categories": categories,
        "known": sum(one["known"] for one in categories),
        "born": sum(not one["known"] for one in categories),
        "dimension": head.dimension,
        "density": head.density,
        "policy": head.policy,
        "options": {**head.density_options, **head.policy_options},
        "estimated": {name: _estimate(array) for name, array in head.shared.items()},
    }


def _categories(snapshot: "Snapshot") -> Iterator[Found]:
    """All of them; where each stream has its own, with the stream's name."""
    for name, head in snapshot.heads.items():
        named = {} if name is None else {"stream": name}
        for one in head.categories:
            yield {**named, "id": one.id, "label": one.label, "known": one.known, "count": one.count}


def _estimate(array: Any) -> Any:
    """A number as it is; of an array its shape, dtype and norm."""
    values = array.numpy()
    if values.ndim == 0:
        return values.item()
    norm = float((values.astype("float64") ** 2).sum() ** 0.5)
    return f"{array.dtype} {'×'.join(map(str, array.shape))} of norm {norm:.6g}"
