"""Sink `eventlog`: answers as MessagePack in the frames of an event log."""

from speciate.hooks import Provider, hookimpl
from speciate.stages import Sink
from speciate_plugins.sinks.appending import AppendingSink, FileOptions
from speciate_plugins.splitting import FrameSplitter
from speciate_schemas.framing import pack


class EventLogSink(AppendingSink):
    """Writes an event log: compact, and every answer has its checksum."""

    def __init__(self, options: FileOptions) -> None:
        super().__init__(options, form="msgpack", wrap=pack, splitter=FrameSplitter)


@hookimpl
def speciate_sink() -> Provider[Sink]:
    """Provide the sink."""
    return Provider(options=FileOptions, create=EventLogSink)
