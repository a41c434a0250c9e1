"""Sink `jsonl`: one answer a line, as JSON."""

from speciate.hooks import Provider, hookimpl
from speciate.stages import Sink
from speciate_plugins.sinks.appending import AppendingSink, FileOptions
from speciate_plugins.splitting import LineSplitter


class JsonLinesSink(AppendingSink):
    """Writes JSON Lines."""

    def __init__(self, options: FileOptions) -> None:
        super().__init__(options, form="json", wrap=_line, splitter=LineSplitter)


def _line(payload: bytes) -> bytes:
    return payload + b"\n"


@hookimpl
def speciate_sink() -> Provider[Sink]:
    """Provide the sink."""
    return Provider(options=FileOptions, create=JsonLinesSink)
