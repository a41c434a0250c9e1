"""Exemplars: a uniform sample of a category's events, bounded, and a function of those events alone.

Each record has a priority, drawn by its number; the lowest ones are kept. So the sample does not depend on batches or
restarts, and that of a union is made of those of its parts.
"""

import threading
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from operator import attrgetter
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from speciate.errors import EventError
from speciate.logs import Lines, get_logger
from speciate_schemas import Array, ExemplarsState, ImageEvent

MASK = (1 << 64) - 1
GOLDEN = 0x9E3779B97F4A7C15
MOST_WAITING = 64
MOST_WAITING_BYTES = 32 << 20
"""Images whose pictures are still to be made; the fold waits rather than keep more of them."""

Picture = Callable[[ImageEvent], bytes]
"""Makes a picture, or raises `EventError`."""

log = get_logger(__name__)


def priority(sequence: int, seed: int = 0) -> int:
    """A number that looks drawn at random, and no two records of a task have in common (SplitMix64)."""
    mixed = (sequence + seed + 1) * GOLDEN & MASK
    mixed = (mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9 & MASK
    mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EB & MASK
    return mixed ^ (mixed >> 31)


class Kept(msgspec.Struct, eq=False, gc=False):
    """One exemplar, with its priority. There are many: the garbage collector need not look at them."""

    priority: int
    sequence: int
    id: str
    stream: str
    time: float | None
    features: Any
    """A vector, float32."""
    picture: Any = None
    """A JPEG, or the promise of one, or nothing."""

    @property
    def thumbnail(self) -> bytes | None:
        """A small JPEG, if there is one; waits for one that is being made."""
        made: Future[bytes | None] | bytes | None = self.picture  # looked at once: the page's thread may be here, too
        if isinstance(made, Future):
            self.picture = made = made.result()
        return made

    def without_picture(self) -> "Kept":
        """The same, with less to keep."""
        return self if self.picture is None else msgspec.structs.replace(self, picture=None)


class Sample:
    """The exemplars of one category, by priority; the first few may have pictures."""

    __slots__ = ("kept",)

    def __init__(self, kept: Iterable[Kept] = ()) -> None:
        self.kept = sorted(kept, key=attrgetter("priority"))

    def wants(self, rank: int, capacity: int) -> bool:
        """Whether an event of this priority belongs to the sample."""
        return len(self.kept) < capacity or (capacity > 0 and rank < self.kept[-1].priority)

    def place(self, rank: int) -> int:
        """How many exemplars come before one of this priority."""
        return bisect_left(self.kept, rank, key=attrgetter("priority"))

    def add(self, one: Kept, capacity: int, pictures: int) -> None:
        """Take one in; the last must go if there are too many then, and one that is not among the first its picture."""
        place = self.place(one.priority)
        self.kept.insert(place, one if place < pictures else one.without_picture())
        del self.kept[capacity:]
        if len(self.kept) > pictures:
            # The others behind the first have none.
            self.kept[pictures] = self.kept[pictures].without_picture()

    def shrink(self, capacity: int, pictures: int) -> None:
        """Keep so many, of which so many with pictures."""
        del self.kept[capacity:]
        self.kept[pictures:] = [one.without_picture() for one in self.kept[pictures:]]

    def joined(self, other: "Sample", capacity: int, pictures: int) -> "Sample":
        """The sample of the events of both."""
        both = Sample([*self.kept, *other.kept])
        both.shrink(capacity, pictures)
        return both

    def state(self) -> ExemplarsState | None:
        """As it is stored; waits for pictures that are being made."""
        return stored(self.kept)

    @classmethod
    def from_state(cls, state: ExemplarsState | None, seed: int) -> "Sample":
        """The sample whose state this is."""
        return cls(restored(state, seed))


def stored(exemplars: Sequence[Kept]) -> ExemplarsState | None:
    """Exemplars as columns, in their order; waits for pictures that are being made."""
    if not exemplars:
        return None
    features = np.stack([one.features for one in exemplars])
    for one, row in zip(exemplars, features, strict=True):
        one.features = row  # once is enough in memory
    return ExemplarsState(
        sequences=[one.sequence for one in exemplars],
        ids=[one.id for one in exemplars],
        streams=[one.stream for one in exemplars],
        times=[one.time for one in exemplars],
        features=Array.of(features),
        thumbnails=[one.thumbnail for one in exemplars],
    )


def restored(state: ExemplarsState | None, seed: int) -> list[Kept]:
    """The exemplars whose columns these are, in their order."""
    if state is None:
        return []
    columns = (state.sequences, state.ids, state.streams, state.times, rows_of(state.features), state.thumbnails)
    return [Kept(priority(row[0], seed), *row) for row in zip(*columns, strict=True)]


class Pictures:
    """Makes pictures beside the fold: decoding an image takes longer than deciding on it."""

    def __init__(self, picture: Picture) -> None:
        self._picture = picture
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="pictures")
        self._turn = threading.Lock()
        self._waiting: deque[tuple[Future[bytes | None], int]] = deque()
        self._bytes = 0
        self._missing = Lines(log, "an image has no picture")

    def make(self, image: ImageEvent) -> "Future[bytes | None]":
        """A picture, in a while. Tasks share it, and wait for each other.

        Raises what was no fault of an image, be it an earlier one.
        """
        with self._turn:
            while self._waiting and (self._waiting[0][0].done() or self._too_much(image.image.nbytes)):
                future, size = self._waiting.popleft()
                self._bytes -= size
                future.result()
            made = self._thread.submit(self._made, image)
            self._waiting.append((made, image.image.nbytes))
            self._bytes += image.image.nbytes
        return made

    def close(self) -> None:
        """Make those that are still to be made, and tell how many more images have none."""
        self._thread.shutdown()
        self._missing.close()

    def _too_much(self, more: int) -> bool:
        return len(self._waiting) >= MOST_WAITING or self._bytes + more > MOST_WAITING_BYTES

    def _made(self, image: ImageEvent) -> bytes | None:
        try:
            return self._picture(image)
        except EventError as error:  # an event without a picture is still an event
            self._missing.say(id=image.id, stream=image.stream, reason=str(error))
            return None


def rows_of(matrix: Array) -> list[npt.NDArray[np.float32]]:
    """The rows of a stored matrix, which is copied: it must not hold the whole snapshot it was read from."""
    return list(matrix.numpy().astype(np.float32))


def vector_of(features: npt.ArrayLike | Array | None) -> npt.NDArray[np.float32]:
    """Features as they are kept: a copy, so that no whole batch is held for the sake of one."""
    values: Any = features.numpy() if isinstance(features, Array) else features
    with np.errstate(over="ignore"):  # what is too large to be drawn is infinitely far
        return np.array(values, dtype=np.float32)
