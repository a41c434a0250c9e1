"""The command line: one file a command, imported only when it is used.

`speciate --help` prints from the table below and imports nothing but click; a test holds the table to the commands.
"""

import importlib
import os
from collections.abc import Iterator
from contextlib import contextmanager

import click

from speciate.cli.failures import EXIT_CODES, Failure, Interrupted, unexpected
from speciate.errors import SpeciateError

COMMANDS = {
    "demo": ("speciate.cli.demo", "Run the whole engine on a small real stream"),
    "init": ("speciate.cli.init", "Write a commented configuration to start from"),
    "run": ("speciate.cli.run", "Run a pipeline, going on where an earlier run was left"),
    "record": ("speciate.cli.record", "Record a source into an event log"),
    "replay": ("speciate.cli.replay", "Replay a recorded benchmark with one method"),
    "compare": ("speciate.cli.compare", "Compare methods on recorded benchmarks"),
    "diff": ("speciate.cli.diff", "Tell what differs between two runs or comparisons"),
    "inspect": ("speciate.cli.inspect", "Show the state of a pipeline"),
    "check": ("speciate.cli.check", "Check a configuration and its plugins without running it"),
    "plugins": ("speciate.cli.plugins", "List the installed plugins and whether each is usable"),
    "schema": ("speciate.cli.schema", "Print the JSON Schema of what Speciate reads and writes"),
}
"""Name, module (whose `command` it is) and first line of help, in the order a user meets them."""


class LazyGroup(click.Group):
    """A group whose commands are known by name and line of help until one is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  # click's signature
        """The names, in the order of the table."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002  # click's signature
        """Import one command."""
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = importlib.import_module(COMMANDS[cmd_name][0]).command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002  # click's signature
        """The list of commands in the help, from the table alone."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in COMMANDS.items()])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command the arguments name; for an unknown one suggest the nearest."""
        name = args[0]
        if name not in COMMANDS and not name.startswith("-") and not ctx.resilient_parsing:
            ctx.fail(f"no such command {name!r}{_nearest(name)}")
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


def _nearest(name: str) -> str:
    import difflib

    near = difflib.get_close_matches(name, COMMANDS, n=1)
    return f"; did you mean {near[0]!r}?" if near else ""


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
