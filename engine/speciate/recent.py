"""The newest accepted ids: what makes a repeated event a duplicate, in bounded memory."""

from collections import deque
from typing import Self

import numpy as np

from speciate.errors import DuplicateError
from speciate_schemas import Array, RecentState


class RecentIds:
    """Remembers the (stream, id) of the newest `window` accepted events and where each was."""

    def __init__(self, window: int) -> None:
        self._window = window
        self._seen: dict[tuple[str, str], int] = {}
        # Beside the dict, whose own first key is found only by walking over all that were removed before it.
        self._oldest: deque[tuple[str, str]] = deque()

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
        key = (stream, id_)
        self._seen[key] = sequence
        self._oldest.append(key)
        if len(self._oldest) > self._window:
            del self._seen[self._oldest.popleft()]

    def state(self) -> RecentState:
        """All that is remembered."""
        return RecentState(
            streams=[stream for stream, _ in self._oldest],
            ids=[id_ for _, id_ in self._oldest],
            sequences=Array.of(np.array([self._seen[key] for key in self._oldest], dtype=np.int64)),
        )

    @classmethod
    def from_state(cls, window: int, state: RecentState) -> Self:
        """Remember what `state` says."""
        recent = cls(window)
        for stream, id_, sequence in zip(state.streams, state.ids, state.sequences.numpy().tolist(), strict=True):
            recent.add(stream, id_, sequence)
        return recent
