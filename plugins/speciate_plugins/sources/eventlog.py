"""Source `eventlog`: events as MessagePack in the frames of an event log."""

from speciate.hooks import Provider, hookimpl
from speciate.stages import Source
from speciate_plugins.sources.streams import StreamOptions, StreamSource


class EventLogSource(StreamSource):
    """Reads event logs; bytes that are no sound frame are handed over as damage and reading goes on behind them."""

    def __init__(self, options: StreamOptions) -> None:
        super().__init__(options, "msgpack")


@hookimpl
def speciate_source() -> Provider[Source]:
    """Provide the source."""
    return Provider(options=StreamOptions, create=EventLogSource, suffixes=(".log", ".msgpack"))
