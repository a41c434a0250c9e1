"""Source `jsonl`: one event a line, as JSON."""

from speciate.hooks import Provider, hookimpl
from speciate.stages import Source
from speciate_plugins.sources.streams import StreamOptions, StreamSource


class JsonLinesSource(StreamSource):
    """Reads JSON Lines. The last line needs no newline, unless the file is followed: then it is not whole yet."""

    def __init__(self, options: StreamOptions) -> None:
        super().__init__(options, "json")


@hookimpl
def speciate_source() -> Provider[Source]:
    """Provide the source."""
    return Provider(options=StreamOptions, create=JsonLinesSource, suffixes=(".jsonl", ".ndjson"))
