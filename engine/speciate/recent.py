"""The newest accepted ids: what makes a repeated event a duplicate, in bounded memory."""

from collections.abc import Iterable

from speciate.errors import DuplicateError

Seen = tuple[str, str, int]


class RecentIds:
    """Remembers the (stream, id) of the newest `window` accepted events and where each was."""

    def __init__(self, window: int, seen: Iterable[Seen] = ()) -> None:
        self._window = window
        self._seen: dict[tuple[str, str], int] = {(stream, id_): sequence for stream, id_, sequence in seen}

    def check(self, stream: str, id_: str) -> None:
        """Refuse an event that was accepted already."""
        first = self._seen.get((stream, id_))
        if first is not None:
            raise DuplicateError(
                f"id {id_!r} of stream {stream!r} was answered already, as record {first}: "
                f"give every event an id of its own"
            )

    def add(self, stream: str, id_: str, sequence: int) -> None:
        """Remember an accepted event; the oldest makes room."""
        self._seen[stream, id_] = sequence
        if len(self._seen) > self._window:
            del self._seen[next(iter(self._seen))]

    def export(self) -> list[Seen]:
        """All that is remembered, oldest first."""
        return [(stream, id_, sequence) for (stream, id_), sequence in self._seen.items()]
