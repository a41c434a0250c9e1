"""`speciate page`: the page of a pipeline that does not run, read from its state without changing it."""

import asyncio
import os
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from speciate.cli.options import overrides_option
from speciate.cli.run import PAGE_ADDRESS

if TYPE_CHECKING:
    from speciate.config import Chosen
    from speciate.page.stopped import StoppedTask
    from speciate.stages import Seat

MOST_PARTITIONS = 1024
"""Numbers that are tried where nobody says how many tasks there are."""


@click.command(name="page")
@click.argument("state", metavar="STATE", type=click.Path(path_type=Path))
@overrides_option
@click.option(
    "--page-address",
    metavar="HOST:PORT",
    default=PAGE_ADDRESS,
    show_default=True,
    help="Where to serve it; port 0 takes a free one. One that is not this machine's own needs a token in "
    "SPECIATE_PAGE_TOKEN.",
)
def command(*, state: Path, overrides: tuple[str, ...], page_address: str) -> None:
    """Show the page of a pipeline that does not run.

    STATE is the TOML file of the pipeline, or the folder that it keeps its state in, of which the partitions 0 to 1023
    are shown. The newest whole snapshot is read once; nothing is changed, and nothing can be from the page. Ctrl-C
    ends it.
    """
    from speciate.errors import ConfigError
    from speciate.logs import configure

    configure()
    if state.is_dir():
        if overrides:
            raise ConfigError(
                f"-s {overrides[0]}: {state} is a folder, and its state is shown as it was saved; leave -s out, or "
                "name the pipeline's TOML file"
            )
        tasks, title = _from_folder(state), str(state)
    else:
        tasks, title = asyncio.run(_from_config(state, overrides)), state.stem
    asyncio.run(_show(tasks, title, page_address))


async def _show(tasks: "list[StoppedTask]", title: str, address: str) -> None:
    from speciate.page import showing
    from speciate.page.stopped import Stopped

    stopped = Stopped(title, tasks)
    stopped.check()
    ending = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, ending.set)
    async with showing(stopped, address, os.environ.get("SPECIATE_PAGE_TOKEN")) as url:
        click.echo(f"speciate: page at {url}", err=True)
        await ending.wait()


async def _from_config(path: Path, overrides: Sequence[str]) -> "list[StoppedTask]":
    """The tasks of the pipeline, as they were saved last."""
    from speciate.config import load, resolve
    from speciate.errors import ConfigError, StateMismatchError
    from speciate.looking import count_tasks, look
    from speciate.page.stopped import StoppedTask
    from speciate.plugins import installed
    from speciate.stages import Seat

    resolved = resolve(load(path, overrides), installed())
    if not resolved.decides:
        raise ConfigError(f"the pipeline {path} hands events on: it has no categories to show")
    count = await count_tasks(resolved)
    views = [await look(resolved, Seat(number, count)) for number in range(count)]
    found = [StoppedTask(one.number, one.snapshot, one.behind) for one in views if one.snapshot is not None]
    if not found:
        raise StateMismatchError(f"{views[0].state or views[0].outputs} holds no state yet: run the pipeline first")
    return found


def _from_folder(path: Path) -> "list[StoppedTask]":
    """The tasks whose states are in a folder: one, or one a partition."""
    from speciate.errors import StateMismatchError
    from speciate.stages import Seat

    chosen = _store_for(path)
    alone = _saved(chosen, Seat())
    if alone is not None:
        return [alone]
    seats = [Seat(number, MOST_PARTITIONS) for number in range(MOST_PARTITIONS)]
    found = [task for seat in seats if (task := _saved(chosen, seat)) is not None]
    if not found:
        raise StateMismatchError(f"{path} holds no state: name the folder of a [store], or the pipeline's TOML file")
    click.echo(
        f"speciate: shown of the partitions 0 to {MOST_PARTITIONS - 1} in {path}: {len(found)}; for any above them, "
        "name the pipeline's TOML file",
        err=True,
    )
    return found


def _store_for(path: Path) -> "Chosen":
    """The store that keeps its state in such a place, as its plugin says."""
    from speciate.config import choose
    from speciate.errors import ConfigError, PluginError
    from speciate.plugins import installed

    plugins = installed()
    for name in plugins.names("store"):
        try:
            provider = plugins.provider("store", name)
        except PluginError:
            continue  # not usable here
        if f"{path}/".endswith(provider.suffixes or ("\0",)) and "path" in provider.options.__struct_fields__:
            return choose(plugins, "store", {"plugin": name, "path": str(path)}, "store")
    raise ConfigError(f"no store plugin is known for {path}: name the pipeline's TOML file instead")


def _saved(chosen: "Chosen", seat: "Seat") -> "StoppedTask | None":
    from speciate.page.stopped import StoppedTask
    from speciate.restore import latest

    store = chosen.create(seat)
    try:
        if not store.snapshots() and store.load_commit() is None:
            return None
        found = latest(store)
        return None if found is None else StoppedTask(seat.number, found[0])
    finally:
        store.close()
