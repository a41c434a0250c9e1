"""The command line: one file a command, imported only when it is used.

`speciate --help` prints from the table below and imports nothing but click; a test holds the table to the commands.
Commands that packages bring along are looked for only to list them, or when a name is not in the table.
"""

import importlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from speciate.cli.failures import EXIT_CODES, Failure, Interrupted, unexpected
from speciate.errors import PluginError, SpeciateError

if TYPE_CHECKING:
    from speciate.commands import Announced

COMMANDS = {
    "demo": ("speciate.cli.demo", "Run the whole engine on a small real stream"),
    "init": ("speciate.cli.init", "Write a commented configuration to start from"),
    "fit": ("speciate.cli.fit", "Fit a model to labelled images or features"),
    "run": ("speciate.cli.run", "Run a pipeline, going on where an earlier run was left"),
    "record": ("speciate.cli.record", "Record a source into an event log"),
    "replay": ("speciate.cli.replay", "Replay a recorded benchmark with one method"),
    "compare": ("speciate.cli.compare", "Compare methods on recorded benchmarks"),
    "diff": ("speciate.cli.diff", "Tell what differs between two runs or comparisons"),
    "page": ("speciate.cli.page", "Show the page of a pipeline that does not run"),
    "inspect": ("speciate.cli.inspect", "Show the state of a pipeline"),
    "category": ("speciate.cli.category", "Rename, merge or forget categories of a pipeline"),
    "check": ("speciate.cli.check", "Check a configuration and its plugins without running it"),
    "plugins": ("speciate.cli.plugins", "List the installed plugins and whether each is usable"),
    "schema": ("speciate.cli.schema", "Print the JSON Schema of what Speciate reads and writes"),
}
"""Name, module (whose `command` it is) and first line of help, in the order a user meets them."""


class LazyGroup(click.Group):
    """A group whose commands are known by name and line of help until one is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  # click's signature
        """The names, in the order of the table; then those that packages bring along."""
        return [*COMMANDS, *(name for name in _brought() if name not in COMMANDS)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import one command."""
        if cmd_name in COMMANDS:
            command: click.Command = importlib.import_module(COMMANDS[cmd_name][0]).command
            return command
        try:
            return _load(_brought().get(cmd_name, []))
        except SpeciateError:
            if ctx.resilient_parsing:  # completion of a name in a shell: no place for a message
                return None
            raise

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002  # click's signature
        """The list of commands in the help, from the table; a command of a package is imported for its line."""
        lines = [(name, line) for name, (_, line) in COMMANDS.items()]
        lines += [(name, _line(owners)) for name, owners in _brought().items()]
        with formatter.section("Commands"):
            formatter.write_dl(lines)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command the arguments name; for an unknown one suggest the nearest."""
        name = args[0]
        known = name.startswith("-") or name in COMMANDS or name in _brought()
        if not known and not ctx.resilient_parsing:
            ctx.fail(f"no such command {name!r}{_nearest(name, self.list_commands(ctx))}")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> object:
        """Run the command; whatever goes wrong becomes one line and an exit code."""
        with _failures():
            return super().invoke(ctx)


@contextmanager
def _failures() -> Iterator[None]:
    try:
        yield
    except (click.ClickException, click.exceptions.Exit, BrokenPipeError):
        raise  # click's own: usage errors, --help, a reader that went away
    except (KeyboardInterrupt, click.Abort):
        raise Interrupted from None
    except SpeciateError as error:
        raise Failure(str(error), error.exit_code) from error
    except Exception as error:
        raise unexpected(error) from error


def _brought() -> "dict[str, list[Announced]]":
    """The commands that packages bring along, by name: several packages may bring one of the same."""
    from speciate.commands import announced

    found: dict[str, list[Announced]] = {}
    for one in announced():
        found.setdefault(one.name, []).append(one)
    return found


def _load(owners: "list[Announced]") -> click.Command | None:
    """The command of a name, if exactly one package has it."""
    from speciate.commands import load_command

    if not owners:
        return None
    if len(owners) > 1:
        packages = " and ".join(one.package for one in owners)
        raise PluginError(f"command {owners[0].name!r} is provided twice, by {packages}: uninstall one of the packages")
    return load_command(owners[0])


def _line(owners: "list[Announced]") -> str:
    """The first line of a command's help, or why it has none."""
    try:
        command = _load(owners)
    except PluginError as error:
        return f"not usable: {error}"
    return "" if command is None else command.get_short_help_str(limit=200).rstrip(".")


def _nearest(name: str, names: list[str]) -> str:
    from speciate.hints import did_you_mean

    hint = did_you_mean(name, names)
    return f"; {hint.rstrip()}" if hint else ""


def _epilog() -> str:
    return "\b\nExit codes:\n" + "\n".join(f"  {code:<3}  {meaning}" for code, meaning in EXIT_CODES.items())


@click.group(cls=LazyGroup, name="speciate", epilog=_epilog(), context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="speciate", message="%(prog)s %(version)s", help="Show the version and exit.")
def group() -> None:
    """Decide live, for every event of a stream: a known category, or the birth of a new one."""


def main() -> None:
    """The entry point of the `speciate` command."""
    # A head multiplies many small matrices, where a second BLAS thread costs more than it gives; whoever knows better
    # sets it. It must be set before NumPy is imported.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    group.main(prog_name="speciate")
