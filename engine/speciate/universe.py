"""A universe of categories: one head for all events of a task, or one for each stream.

Streams have the prior of the support set in common and nothing else: each begins with the known categories, and its
categories are numbered by itself.
"""

from collections.abc import Sequence
from typing import Self

import msgspec

from speciate.errors import UnknownCategoryError
from speciate.head import Head
from speciate.plugins import Plugins
from speciate_schemas import HeadState


class Universe:
    """Gives every event the head that decides on it."""

    def __init__(self, head: Head, *, per_stream: bool = False, plugins: Plugins | None = None) -> None:
        self.head = head
        """The head of all events; with one head a stream, what every new stream begins with."""
        self.per_stream = per_stream
        """Whether each stream has a head of its own."""
        self._plugins = plugins
        self._beginning = head.state() if per_stream else None
        self._streams: dict[str, Head] = {}

    @classmethod
    def from_state(cls, head: HeadState, streams: dict[str, HeadState], *, per_stream: bool, plugins: Plugins) -> Self:
        """The universe whose state this is."""
        universe = cls(Head.from_state(head, plugins), per_stream=per_stream, plugins=plugins)
        for name, state in streams.items():
            whole = msgspec.structs.replace(state, shared=head.shared)
            universe._streams[name] = Head.from_state(whole, plugins)
        return universe

    def states(self) -> tuple[HeadState, dict[str, HeadState]]:
        """The state of the head, and those of the streams, without what they share with it."""
        head = self._beginning or self.head.state()
        return head, {name: msgspec.structs.replace(one.state(), shared={}) for name, one in self._streams.items()}

    def of(self, stream: str) -> Head:
        """The head that decides on events of the stream; a new stream gets one."""
        if self._beginning is None:
            return self.head
        found = self._streams.get(stream)
        if found is None:
            found = self._streams[stream] = Head.from_state(self._beginning, self._plugins)
        return found

    def existing(self, stream: str) -> Head:
        """The head whose categories a control event of the stream means; it makes no new one."""
        if self._beginning is not None and stream not in self._streams:
            raise UnknownCategoryError(f"stream {stream!r} has no categories: no event of it has come yet")
        return self.of(stream)

    @property
    def heads(self) -> Sequence[Head]:
        """Every head that has decided, or could. A copy: others ask while streams are added on the head's thread."""
        return list(self._streams.values()) if self._beginning is not None else [self.head]

    @property
    def streams(self) -> list[str]:
        """The streams that have heads of their own; where all share one, it has the empty name."""
        return list(self._streams) if self._beginning is not None else [""]

    @property
    def size(self) -> int:
        """How many categories there are, of all heads."""
        return sum(head.size for head in self.heads)

    @property
    def nbytes(self) -> int:
        """Memory held by all categories."""
        return sum(head.nbytes for head in self.heads)
