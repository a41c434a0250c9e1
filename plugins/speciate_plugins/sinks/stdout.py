"""Sink `stdout`: one answer a line on standard output, as JSON."""

import os
from collections.abc import Iterator, Sequence

from speciate.blocking import BlockingSink
from speciate.errors import OutputError
from speciate.hooks import Provider, hookimpl
from speciate.stages import Output, Sink
from speciate_schemas import Answer, Position, Strict, encode

STDOUT = 1


class StdoutOptions(Strict, frozen=True):
    """The sink `stdout` has no options."""


class StdoutSink(BlockingSink):
    """Writes JSON Lines to standard output, where nothing can be cut back or read again."""

    durable = False

    def __init__(self, options: StdoutOptions) -> None:
        """There is nothing to choose."""

    def open_now(self, position: Position | None, *, fresh: bool) -> None:
        """See `BlockingSink`. A pipe is always fresh."""

    def write_now(self, items: Sequence[Output]) -> None:
        """See `BlockingSink`."""
        data = memoryview(b"".join(encode(item, "json") + b"\n" for item in items))
        try:
            while data:
                data = data[os.write(STDOUT, data) :]
        except BrokenPipeError as error:
            raise OutputError("standard output was closed by the program that was reading it") from error

    def flush_now(self) -> Position:
        """See `BlockingSink`. Nothing is held back."""
        return ()

    def read_back_now(self, start: Position, end: Position) -> Iterator[Sequence[Answer]]:
        """See `BlockingSink`."""
        raise OutputError(f"standard output cannot be read back from {start} to {end}; resume needs a file sink")

    def describe(self) -> str:
        """See `BlockingSink`."""
        return "stdout"


@hookimpl
def speciate_sink() -> Provider[Sink]:
    """Provide the sink."""
    return Provider(options=StdoutOptions, create=StdoutSink)
