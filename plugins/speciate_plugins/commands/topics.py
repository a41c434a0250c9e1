"""`speciate topics`: the topics in Kafka that a configuration needs."""

from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from speciate.cli.options import config_argument, json_option, overrides_option
from speciate.cli.output import print_json, print_table

if TYPE_CHECKING:
    from speciate.config import Resolved
    from speciate_plugins.kafka.connection import KafkaConnection
    from speciate_plugins.kafka.inspection import Topic
    from speciate_plugins.kafka.needed import Needed

Rows = list[dict[str, Any]]

COLUMNS = ("topic", "for", "partitions", "replication", "state", "remarks")


@click.group(name="topics")
def command() -> None:
    """Create, list or delete the topics in Kafka that a pipeline needs.

    They are those that the sections of the configuration name: inputs and control events, answers and births, dead
    letters, and snapshots.
    """


@command.command(name="create")
@config_argument
@click.option(
    "--partitions",
    type=click.IntRange(1),
    help="Partitions of the input topics; without it as many as those of them have that exist, or 1. The other topics "
    'get one a task: the same number, or 1 if [source] has no group or run.universe is "shared". The topic of a sink '
    "kafka-keyed gets the same number, too, and may have any.",
)
@click.option(
    "--replication",
    type=click.IntRange(1),
    help="Brokers that keep a copy of each new topic; without it 3, or as many as there are.",
)
@overrides_option
@json_option
def create(
    *, config: Path, partitions: int | None, replication: int | None, overrides: tuple[str, ...], as_json: bool
) -> None:
    """Create the topics that a pipeline needs and that do not exist.

    CONFIG is the TOML file of the pipeline. What exists is left as it is; if it has another number of partitions than
    needed, nothing is created. So the command can be given again at any time.
    """
    _show(_create(config, overrides, partitions, replication), as_json=as_json)


@command.command(name="list")
@config_argument
@overrides_option
@json_option
def list_topics(*, config: Path, overrides: tuple[str, ...], as_json: bool) -> None:
    """List the topics that a pipeline needs, and whether each exists.

    CONFIG is the TOML file of the pipeline. A topic that exists and cannot be used, or had better be changed, has a
    remark.
    """
    _show(_list(config, overrides), as_json=as_json)


@command.command(name="delete")
@config_argument
@click.option("--inputs", is_flag=True, help="Delete the topics of [source] and [support], too.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@overrides_option
@json_option
def delete(*, config: Path, inputs: bool, yes: bool, overrides: tuple[str, ...], as_json: bool) -> None:
    """Delete the topics that a pipeline writes, to start over.

    CONFIG is the TOML file of the pipeline. Gone are then all answers, births, dead letters and snapshots, and the
    control events. The input stays, unless --inputs asks for it.
    """
    _show(_delete(config, overrides, inputs=inputs, yes=yes), as_json=as_json)


async def _create(path: Path, overrides: Sequence[str], partitions: int | None, replication: int | None) -> Rows:
    from speciate.errors import ConfigError
    from speciate_plugins.kafka.provisioning import create_topics

    needed = await _needed(_resolved(path, overrides), partitions)
    found = await _found(needed)
    misfits = [misfit for one, topic in found if topic is not None and (misfit := one.misfit(topic)) is not None]
    if misfits:
        raise ConfigError("; ".join(misfits))
    for connection, missing in _by_servers([one for one, topic in found if topic is None]):
        await create_topics(connection, missing, replication)
    created = {one.place for one, topic in found if topic is None}
    return [_row(one, topic, "created" if one.place in created else "there") for one, topic in await _found(needed)]


async def _list(path: Path, overrides: Sequence[str]) -> Rows:
    needed = await _needed(_resolved(path, overrides), None)
    return [_row(one, topic, "missing" if topic is None else "there") for one, topic in await _found(needed)]


async def _delete(path: Path, overrides: Sequence[str], *, inputs: bool, yes: bool) -> Rows:
    from speciate_plugins.kafka.options import KafkaSourceOptions
    from speciate_plugins.kafka.provisioning import check_unused, delete_topics

    resolved = _resolved(path, overrides)
    source = resolved["source"].options
    needed = await _needed(resolved, None)
    found = [(one, topic) for one, topic in await _found(needed) if inputs or not one.read_only]
    there = [one for one, topic in found if topic is not None]
    if there and isinstance(source, KafkaSourceOptions) and source.group is not None:
        await check_unused(source, source.group)
    if there and not yes:
        _ask(there)
    for connection, doomed in _by_servers(there):
        await delete_topics(connection, [one.name for one in doomed])
    return [_row(one, topic, "missing" if topic is None else "deleted") for one, topic in found]


def _ask(doomed: "list[Needed]") -> None:
    from speciate.errors import ConfigError

    names = ", ".join(f"{one.name} ({one.use})" for one in doomed)
    try:
        agreed = click.confirm(f"Delete {names} and all that is in them?", err=True)
    except click.Abort:
        agreed = False
    if not agreed:
        raise ConfigError("nothing was deleted: answer y, or give --yes")


def _resolved(path: Path, overrides: Sequence[str]) -> "Resolved":
    from speciate.config import load, resolve
    from speciate.logs import configure
    from speciate.plugins import installed

    configure()
    return resolve(load(path, overrides), installed())


async def _needed(resolved: "Resolved", asked: int | None) -> "list[Needed]":
    """What the configuration needs, given the input topics that exist."""
    from speciate_plugins.kafka.needed import input_partitions, kafka_sections, needed_topics
    from speciate_plugins.kafka.probing import probe
    from speciate_plugins.kafka.topics import count_partitions

    there: dict[str, dict[str, int]] = {}
    for section, options in kafka_sections(resolved).items():
        await probe(options)  # each may have a login of its own
        if section in {"source", "support"}:
            there[section] = await count_partitions(options)
    return needed_topics(resolved, input_partitions(resolved, asked, there), there, asked=asked is not None)


async def _found(needed: "list[Needed]") -> "list[tuple[Needed, Topic | None]]":
    """Each topic as it is now, if it exists."""
    from speciate_plugins.kafka.inspection import inspect_topics

    found = {}
    for connection, topics in _by_servers(needed):
        there = await inspect_topics(connection, [one.name for one in topics])
        found.update({one.place: there.get(one.name) for one in topics})
    return [(one, found[one.place]) for one in needed]


def _by_servers(needed: "list[Needed]") -> "list[tuple[KafkaConnection, list[Needed]]]":
    """Topics with a connection that reaches all of them."""
    groups: dict[tuple[str, ...], list[Needed]] = {}
    for one in needed:
        groups.setdefault(one.place[0], []).append(one)
    return [(topics[0].connection, topics) for topics in groups.values()]


def _row(one: "Needed", topic: "Topic | None", state: str) -> dict[str, Any]:
    misfit = None if topic is None else one.misfit(topic)
    remarks = [] if topic is None else one.remarks(topic)
    return {
        "topic": one.name,
        "for": one.use,
        "partitions": one.partitions if topic is None else topic.partitions,
        "replication": None if topic is None else topic.replication,
        "state": state,
        "remarks": [*([] if misfit is None else [misfit]), *remarks],
    }


def _show(doing: Coroutine[Any, Any, Rows], *, as_json: bool) -> None:
    import asyncio  # here: the list of all commands asks for our first line of help, and should not wait for this

    rows = asyncio.run(doing)
    if as_json:
        print_json(rows)
        return
    print_table(COLUMNS, [[_cell(row[column]) for column in COLUMNS] for row in rows])


def _cell(value: Any) -> str:
    return "; ".join(value) if isinstance(value, list) else "" if value is None else str(value)
