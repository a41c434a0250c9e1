"""How a command fails: one line on standard error and a documented exit code, a traceback only when asked for."""

import os
import sys
from typing import IO, Any

import click

EXIT_CODES = {
    0: "done",
    1: "unexpected: a bug in Speciate or in a plugin",
    2: "yours to mend: command line, configuration, plugin or support set",
    3: "the state on disk is damaged, in use, or made by another configuration",
    4: "the machine or a service refused: what is committed is safe, run again",
    130: "left at once: Ctrl-C during a command, or a second one during a run",
    143: "left at once: a second SIGTERM during a run",
}
"""Every exit code and what it means, for `--help` and the documentation."""


def debugging() -> bool:
    """Whether the user asked for tracebacks."""
    return os.environ.get("SPECIATE_DEBUG", "") not in ("", "0")


class Failure(click.ClickException):
    """An error told in one line."""

    exit_code: int  # type: ignore[misc]  # one class for all codes; click reads it from the instance

    def __init__(self, message: str, exit_code: int) -> None:
        # One line whatever the cause wrote: logs and scripts count on it.
        super().__init__(" ".join(message.split()))
        self.exit_code = exit_code

    def show(self, file: IO[Any] | None = None) -> None:
        """Print the line, and in debugging the traceback of the cause above it."""
        stream = file or sys.stderr
        if debugging() and self.__cause__ is not None:
            import traceback

            click.echo("".join(traceback.format_exception(self.__cause__)), file=stream, nl=False)
        click.echo(f"speciate: error: {self.message}", file=stream)


class Interrupted(Failure):
    """The user pressed Ctrl-C."""

    def __init__(self) -> None:
        super().__init__("interrupted", 130)

    def show(self, file: IO[Any] | None = None) -> None:
        """Say so below the terminal's `^C`."""
        click.echo("\nspeciate: interrupted", file=file or sys.stderr)


def unexpected(error: Exception) -> Failure:
    """A failure nobody foresaw."""
    hint = "" if debugging() else "; set SPECIATE_DEBUG=1 for the traceback"
    return Failure(f"unexpected {type(error).__name__}: {error}{hint}", 1)
