"""`speciate category`: control events for a pipeline, sent to where it takes them in."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from speciate.cli.options import config_argument, json_option, overrides_option
from speciate.cli.output import print_json, print_table

if TYPE_CHECKING:
    from speciate.config import Resolved
    from speciate.snapshot import Snapshot
    from speciate.suggesting import Suggestion
    from speciate_schemas import Control, HeadState

category_type = click.IntRange(0, 2**63 - 1)


def _options(command: Callable[..., None]) -> Callable[..., None]:
    """What all of them take."""
    partition = click.option(
        "--partition",
        type=click.IntRange(0),
        help="Number of the task whose category is meant; needed if there is more than one.",
    )
    stream = click.option(
        "--stream", help='The stream whose category is meant; needed if run.universe is "stream". May be empty.'
    )
    for option in (json_option, overrides_option, stream, partition):
        command = option(command)
    return command


@click.group(name="category")
def command() -> None:
    """Rename, merge or forget categories of a pipeline.

    A control event is sent to where the pipeline takes it in: to the control topic of Kafka or, where the source is
    files or a pipe, to the [store]. A running pipeline comes to it in a moment, a stopped one when it is run again. It
    takes effect between two events and is answered like them; `speciate inspect` shows the numbers of the categories,
    and `suggest` which of them are rather one.
    """


@command.command(name="rename")
@config_argument
@click.argument("category", metavar="CATEGORY", type=category_type)
@click.argument("label", metavar="LABEL")
@_options
def rename(*, config: Path, category: int, label: str, **where: Any) -> None:
    """Give a category a label.

    CONFIG is the TOML file of the pipeline, CATEGORY the number of a category and LABEL its new name.
    """
    from speciate_schemas import RenameCategory

    _send(config, RenameCategory, {"category": category, "label": label}, **where)


@command.command(name="merge")
@config_argument
@click.argument("keep", metavar="KEEP", type=category_type)
@click.argument("absorb", metavar="ABSORB", type=category_type)
@_options
def merge(*, config: Path, keep: int, absorb: int, **where: Any) -> None:
    """Fold one category into another.

    CONFIG is the TOML file of the pipeline. The category KEEP gets all that ABSORB has learnt; the number of ABSORB is
    never used again.
    """
    from speciate_schemas import MergeCategories

    if keep == absorb:
        raise click.UsageError(f"KEEP and ABSORB are both {keep}: name two different categories")
    _send(config, MergeCategories, {"keep": keep, "absorb": absorb}, **where)


@command.command(name="forget")
@config_argument
@click.argument("category", metavar="CATEGORY", type=category_type)
@_options
def forget(*, config: Path, category: int, **where: Any) -> None:
    """Remove a category.

    CONFIG is the TOML file of the pipeline and CATEGORY the number of a category, which is never used again.
    """
    from speciate_schemas import ForgetCategory

    _send(config, ForgetCategory, {"category": category}, **where)


@command.command(name="undo")
@config_argument
@_options
def undo(*, config: Path, **where: Any) -> None:
    """Take back the last rename, merge or forget.

    CONFIG is the TOML file of the pipeline. Only the last one can be taken back, and only once; what a merged category
    has learnt since goes to whichever of the two it would have gone to.
    """
    from speciate_schemas import UndoLast

    _send(config, UndoLast, {}, **where)


@command.command(name="suggest")
@config_argument
@click.option("--most", type=click.IntRange(1), default=20, show_default=True, help="Most suggestions that are made.")
@click.option("--all", "everything", is_flag=True, help="Also pairs that are rather two categories than one.")
@_options
def suggest(
    *,
    config: Path,
    most: int,
    everything: bool,
    partition: int | None,
    stream: str | None,
    overrides: tuple[str, ...],
    as_json: bool,
) -> None:
    """Suggest merges, the best supported first.

    CONFIG is the TOML file of the pipeline, which may be running: only its newest whole snapshot is read, and nothing
    is merged. Each category is compared with the nearest others. The log Bayes factor says, in nats, how much likelier
    the events of both are as one category's than as two's; above 0 they speak for a merge. Each suggestion is about
    the categories as they are: after a merge, ask again.
    """
    from speciate.config import load, resolve
    from speciate.head import Head
    from speciate.logs import configure
    from speciate.plugins import installed
    from speciate.suggesting import suggest

    configure()
    resolved = resolve(load(config, overrides), installed())
    _require_stream(resolved, stream)
    snapshot = asyncio.run(_newest(resolved, partition))
    found = suggest(Head.from_state(_head_of(snapshot, stream)), most, everything=everything)
    if as_json:
        told = [one._asdict() for one in found]
        print_json({"snapshot_sequence": snapshot.commit.sequence, "suggestions": told})
    elif found:
        columns = ("keep", "label", "events", "absorb", "label", "events", "log Bayes factor")
        print_table(columns, [_suggestion_cells(one) for one in found])
    else:
        click.echo("no suggestion: every category is rather one of its own")


def _suggestion_cells(one: "Suggestion") -> list[str]:
    sides = zip((one.keep, one.absorb), one.labels, one.counts, strict=True)
    cells = [cell for number, label, count in sides for cell in (str(number), label or "", f"{count:,}")]
    return [*cells, f"{one.log_bayes_factor:,.2f}"]


async def _newest(resolved: "Resolved", partition: int | None) -> "Snapshot":
    """The newest whole snapshot of a task."""
    from speciate.errors import StateMismatchError
    from speciate.looking import look
    from speciate.stages import Seat

    view = await look(resolved, Seat(*await _task(resolved, partition)))
    if view.snapshot is None:
        raise StateMismatchError(f"{view.state or view.outputs} holds no categories yet: run the pipeline first")
    return view.snapshot


def _head_of(snapshot: "Snapshot", stream: str | None) -> "HeadState":
    """The state of the head that is meant."""
    from speciate.errors import ConfigError

    heads = snapshot.heads
    if stream in heads:
        return heads[stream]
    if None in heads:
        raise ConfigError(f"--stream {stream!r}: streams share their categories in the newest snapshot: leave it out")
    known = ", ".join(map(repr, heads)) or "none"
    if stream is None:
        raise ConfigError(f"each stream has its own categories in the newest snapshot: name one of {known} by --stream")
    raise ConfigError(f"--stream {stream!r} has no categories in the newest snapshot: streams that have are {known}")


def _send(
    path: Path,
    kind: "type[Control]",
    fields: dict[str, Any],
    *,
    partition: int | None,
    stream: str | None,
    overrides: tuple[str, ...],
    as_json: bool,
) -> None:
    from speciate.config import load, resolve
    from speciate.logs import configure
    from speciate.plugins import installed

    configure()
    resolved = resolve(load(path, overrides), installed())
    control = _control(resolved, kind, fields, stream)
    number, place = asyncio.run(_sent(resolved, partition, control))
    if as_json:
        print_json({"id": control.id, "partition": number, "place": place})
    else:
        click.echo(f"{control.id} is in {place}: it takes effect when the pipeline comes to it")


def _control(resolved: "Resolved", kind: "type[Control]", fields: dict[str, Any], stream: str | None) -> "Control":
    """The control event, checked as it will be by whoever reads it."""
    import uuid

    import msgspec

    from speciate.errors import ConfigError, LabelError
    from speciate.naming import check_name
    from speciate_schemas import decode, encode
    from speciate_schemas.events import tag_of

    _require_stream(resolved, stream)
    verb = tag_of(kind).partition(".")[0]
    try:
        given = msgspec.convert({**fields, "id": f"{verb}-{uuid.uuid4().hex}", "stream": stream or ""}, kind)
        check_name(given)
        # A name may have bytes of the terminal that are no text.
        control: Control = decode(encode(given), kind)
    except (msgspec.ValidationError, UnicodeEncodeError, LabelError) as error:
        raise ConfigError(f"cannot {verb} it: {error}") from error
    return control


def _require_stream(resolved: "Resolved", stream: str | None) -> None:
    from speciate.errors import ConfigError

    if stream is None and resolved.config.run.universe == "stream":
        raise ConfigError('run.universe is "stream": each stream has categories of its own, name it with --stream')


async def _sent(resolved: "Resolved", partition: int | None, control: "Control") -> tuple[int, str]:
    """Send it; the number of the task it is for, and where it is."""
    from speciate.steering import send_control

    number, _ = await _task(resolved, partition)
    return number, await send_control(resolved, number, control)


async def _task(resolved: "Resolved", partition: int | None) -> tuple[int, int]:
    """The number of the task that is meant, and how many there are."""
    from speciate.errors import ConfigError
    from speciate.looking import count_tasks

    count = await count_tasks(resolved)
    if partition is None and count > 1:
        raise ConfigError(
            f"there are {count} tasks, each with categories of its own: say which with --partition, 0 to {count - 1}"
        )
    if partition is not None and partition >= count:
        raise ConfigError(f"--partition {partition}: the tasks are numbered from 0 to {count - 1}")
    return partition or 0, count
