"""The stages a plugin can provide, as protocols, and the records that pass between them.

Sources and sinks are asynchronous; one that blocks on files derives from `speciate.blocking`. Encoders, densities
and policies are plain functions of arrays that the engine runs off the event loop.
"""

from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeGuard

import numpy as np
import numpy.typing as npt

from speciate.errors import EventError
from speciate_schemas import (
    Answer,
    Array,
    Commit,
    DeadLetter,
    Event,
    ImageEvent,
    Position,
    Refolded,
    Strict,
    TrainingReport,
)

Output = Answer | DeadLetter | Event | Refolded
"""What a sink takes: answers, dead letters, from a pipeline without a head the events themselves, and into a log word
that the categories were made anew."""

Matrix = npt.NDArray[np.float64]
Vector = npt.NDArray[np.float64]


class Record:
    """One input on its way: the event, or why there is none, and where the source goes on behind it."""

    __slots__ = (
        "answer",
        "error",
        "event",
        "features",
        "nbytes",
        "origin",
        "original",
        "position",
        "prepared",
        "received",
        "sequence",
    )

    def __init__(
        self,
        *,
        sequence: int,
        position: Position,
        origin: str,
        nbytes: int,
        event: Event | None = None,
        original: bytes | memoryview | None = None,
        error: EventError | None = None,
    ) -> None:
        self.sequence = sequence
        """Number of the record in its source, from 0."""
        self.position = position
        """Where the source goes on after this record; what `Source.open` takes to resume."""
        self.origin = origin
        """Where it was read, for people: file and place."""
        self.nbytes = nbytes
        """Size in memory, for the bounds of the queues."""
        self.event = event
        self.original = original
        """The bytes as they came; None if the source has no bytes of its own (an array's row)."""
        self.error = error
        """Why there is no usable event."""
        self.answer: Answer | None = None
        """The answer that was committed for it before a restart."""
        self.prepared: npt.NDArray[Any] | None = None
        """An image decoded for the encoder, until it is encoded."""
        self.features: npt.NDArray[Any] | None = None
        """The encoder's output, for an image."""
        self.received = 0.0
        """When it entered the pipeline, on the monotonic clock."""


class Seat:
    """The place of one task: which part of a shared input it has, and what its stages hold in common.

    A pipeline whose source is not shared has one task, which sits at number 0 of 1.
    """

    def __init__(self, number: int = 0, count: int = 1) -> None:
        self.number = number
        """Number of the task's partition, from 0."""
        self.count = count
        """Number of tasks there are, here and elsewhere; 1 for a task that has the whole input."""
        self.common: dict[Any, Any] = {}
        """What stages of the same seat share, by keys they agree on: a connection, a transaction."""


class Progress(NamedTuple):
    """How far a source is: `total` is None where the end is not known."""

    done: int
    total: int | None
    unit: str


class Source(Protocol):
    """Yields records in order. Numbers them from 0 and can go on behind any record it has yielded."""

    replayable: bool
    """True if `open` can go back to any earlier position; False for a pipe."""
    waited: float
    """Seconds spent waiting for input that was not there yet: what tells an idle source from a busy one."""

    async def open(self, position: Position | None, sequence: int) -> Position | None:
        """Get ready to yield record number `sequence`, which follows `position` (None: the first).

        Gives back where it stands now: `position`, or what its options made of None. That is kept, so that a start
        that depends on the moment ("latest") is made only once.
        """

    def expect(self, origins: Sequence[str]) -> None:
        """The records after those announced so far were answered before, in the order of these `Record.origin`s.

        A source that merges several logs must yield them so; one that has a single order need not listen.
        """

    async def read(self, max_events: int) -> Sequence[Record]:
        """The next records, at least one and at most `max_events`; waits for the first. Empty at the end."""

    def stop(self) -> None:
        """Nothing more is wanted: a `read` under way returns what it has, and the next one is empty.

        It may come before `open`, or during it: then there is nothing left to wait for there.
        """

    def progress(self) -> Progress:
        """How much has been read, and of how much."""

    async def close(self) -> None:
        """Let go of everything; may be called more than once."""


class Encoder(Protocol):
    """Turns images into feature vectors in two steps, both pure: each image by itself, then a batch at once."""

    @property
    def dimension(self) -> int:
        """Length of a feature vector; known after `load`."""

    def load(self) -> None:
        """Load what is heavy, such as weights; called before all else, off the event loop. Once is enough."""

    def prepare(self, image: ImageEvent) -> npt.NDArray[Any]:
        """Decode an image to what `encode` takes; called from several threads. Raises `EventError` if it cannot."""

    def encode(self, prepared: Sequence[npt.NDArray[Any]]) -> npt.NDArray[Any]:
        """One vector an image, as the rows of a matrix, in order; one call at a time."""


class Picturing(Encoder, Protocol):
    """An encoder that can also show its images to people."""

    def picture(self, image: ImageEvent, pixels: int) -> bytes:
        """A small JPEG of an image, upright, its longer side at most so many pixels. Pure; from several threads."""


def is_picturing(encoder: Encoder) -> TypeGuard[Picturing]:
    """Whether there are pictures of its images."""
    return hasattr(encoder, "picture")


Watch = Callable[[int, int, str], None]
"""Told how much is done, of how much, and a word on it."""


class Trainer(Protocol):
    """Trains an encoder on labelled images; what it has done is kept in a folder, so that it can be gone on with."""

    @property
    def options(self) -> Strict:
        """The encoder's, with what was left open and shows in its features settled: a head fits those alone."""

    @property
    def observed(self) -> int:
        """How many images are taken in, by earlier attempts too."""

    def prepare(self, image: ImageEvent) -> npt.NDArray[Any]:
        """As `Encoder.prepare`."""

    def observe(self, prepared: Sequence[npt.NDArray[Any]]) -> None:
        """Take in more images, in order: compute and keep whatever training does not change."""

    def train(self, classes: npt.NDArray[np.int64], watch: Watch) -> TrainingReport:
        """Train on everything taken in; an image's class is at its place. Tells how many epochs are done."""

    def frozen_features(self) -> npt.NDArray[Any]:
        """One vector for each image taken in, by the encoder as it was before training."""

    def features(self) -> npt.NDArray[Any]:
        """One vector for each image taken in, by the trained encoder."""

    def save(self, folder: Path) -> dict[str, str]:
        """Write what was trained into a folder: the encoder's options that name files, with the names."""


class DensityState(NamedTuple):
    """A density's arrays: what all categories share, and what each has of its own, in order."""

    shared: dict[str, Array]
    categories: list[dict[str, Array]]


class Screening(Protocol):
    """The log densities of a batch of points under every category, current while the batch is being learnt.

    They may be off by `blur`, and their last bits may depend on the batch: they tell which categories are worth
    scoring exactly, and the decision rests on those scores.
    """

    blur: float
    """Bound on the error, in nats; 0 if they are the bits of `score`."""

    def row(self, place: int) -> Vector:
        """Log densities of the point at `place` under every category there is now; the caller may write to it."""

    def refresh(self, place: int, category: int) -> None:
        """The point at `place` was just absorbed by, or founded, this category: what comes behind it must see that."""


class Density(Protocol):
    """Knows geometry, not decisions. Categories are numbered 0 … K-1 by position.

    The law that makes batches safe: `embed`, `score` and `score_birth` give the same bits for an event whatever its
    neighbours in the batch are.
    """

    counts: npt.NDArray[np.int64]
    """Events absorbed by each category, shape (K,)."""

    @property
    def dimension(self) -> int:
        """Length of a feature vector."""

    @property
    def nbytes(self) -> int:
        """Memory held by the categories."""

    def fit(self, features: Matrix, classes: npt.NDArray[np.int64]) -> None:
        """Calibrate on labelled support and found one category a class, in class order 0 … K-1."""

    def embed(self, batch: Matrix) -> Matrix:
        """The events as points in the density's own coordinates, which everything below takes."""

    def screen(self, points: Matrix) -> Screening:
        """Score a batch of points under all categories."""

    def score(self, point: Vector, categories: Sequence[int]) -> Vector:
        """Log predictive density of a point under some categories, in the coordinates of the features."""

    def score_birth(self, points: Matrix) -> Vector:
        """Log predictive density of each point under a category not seen yet, shape (B,)."""

    def absorb(self, category: int, point: Vector) -> float:
        """Learn that the point belongs to the category; how far its mean moved, in the density's own measure."""

    def found(self, point: Vector) -> None:
        """Append a category that holds just this point."""

    def merge(self, keep: int, absorb: int) -> None:
        """Fold one category into another and remove it."""

    def remove(self, category: int) -> None:
        """Remove a category; those behind it move up."""

    def verify(self) -> Vector:
        """For each category, what rounding shows to have done to its log scores, in nats; a sign of it, no bound."""

    def export_state(self) -> DensityState:
        """Everything needed to go on, as arrays that later learning does not change."""

    def import_state(self, state: DensityState) -> None:
        """Become what `export_state` described, bit for bit."""


class Mergeable(Density, Protocol):
    """A density whose state tells whether two categories are rather one. Neither question changes anything."""

    def merge_gain(self, pairs: Sequence[tuple[int, int]]) -> Vector:
        """Of each pair the log Bayes factor, in nats: the events of both as one category's against as two's.

        log p(D_i ∪ D_j) - log p(D_i) - log p(D_j) with the marginal likelihoods of the density's own model, exact up to
        rounding. A density that has none, because its scores depend on the order of the events, is not mergeable.
        """

    def neighbours(self, most: int, of: Sequence[int] | None = None) -> Sequence[tuple[int, int]]:
        """For each category, or each of some, the `most` others nearest to it, by a cheap measure of the density's own.

        As pairs (i, j) with i < j, each once, in order.
        """


def is_mergeable(density: Density) -> TypeGuard[Mergeable]:
    """Whether the density can tell what a merge would be worth."""
    return hasattr(density, "merge_gain")


class Extent(NamedTuple):
    """Where a category expects its next event, along some axes: a Student t distribution, or a normal one."""

    centre: Vector
    """Along each axis, shape (m,)."""
    scale: Matrix
    """The scale matrix, shape (m, m); of a normal distribution its covariance."""
    freedom: float
    """Degrees of freedom; infinite for a normal distribution."""


class Drawable(Density, Protocol):
    """A density whose categories can be drawn: each has a place and an extent. No question changes anything."""

    def centre(self, category: int) -> Vector:
        """Where the category lies, in the coordinates of the features, shape (d,)."""

    def spread(self, category: int) -> float:
        """How wide it is, in the density's own measure: to compare categories by. O(d) or little more."""

    def extent(self, category: int, axes: Matrix) -> Extent:
        """Its predictive distribution along orthonormal axes: rows in the coordinates of the features, shape (m, d)."""

    def extent_of_birth(self, axes: Matrix) -> Extent:
        """The same of a category that has learnt nothing yet."""


def is_drawable(density: Density) -> TypeGuard[Drawable]:
    """Whether its categories have a place and an extent."""
    return hasattr(density, "extent")


BIRTH = -1
"""The index a policy chooses for a new category."""


class Choice(NamedTuple):
    """What a policy decided, and how clearly."""

    category: int
    log_evidence: float
    margin: float | None
    probability: float


class Policy(Protocol):
    """Knows decisions, not geometry: densities and counts in, a choice out. Pure."""

    def weigh(self, log_density: Vector, counts: npt.NDArray[np.int64], log_birth: float) -> tuple[Vector, float]:
        """The evidence of each category, growing with its own log density alone, and that of a birth."""

    def choose(self, evidence: Vector, birth: float) -> Choice:
        """Choose a category by its place, or `BIRTH`. There may be no category yet.

        Hypotheses that are hopelessly behind the best, and are not its runner-up, may have been left out.
        """


class Sink(Protocol):
    """Takes answers in order. A durable one can be cut back to a position and read again."""

    durable: bool
    """True if `open` can cut back and `read_back` can read; False for a pipe or a terminal."""
    transactional: bool
    """True if it is a `TransactionalSink`."""

    async def open(self, position: Position | None, *, fresh: bool = False) -> None:
        """Get ready to write behind `position` and remove whatever lies there.

        Without a position the output must be absent or empty, or `fresh` must say to discard it. Raises
        `StateMismatchError` if there is less than `position` says, or something where nothing should be.
        """

    async def write(self, items: Sequence[Output]) -> None:
        """Write, in order; need not survive a crash before `flush`."""

    async def flush(self) -> Position:
        """Make everything written survive a crash; where it ends."""

    def read_back(self, start: Position, end: Position) -> AsyncIterator[Sequence[Answer]]:
        """What was written between two positions, in order, in pieces. Durable sinks only."""

    def describe(self) -> str:
        """For people: where it is."""

    def locate(self, sequence: int) -> str:
        """For people and programs: where the item for this input is to be found."""

    async def close(self) -> None:
        """Let go of everything; may be called more than once."""


class Ending(NamedTuple):
    """Where a transactional sink's committed answers end, and what of the input they answer."""

    sequence: int
    """Number of the first input that is not answered."""
    source: Position | None
    """Where the source goes on; None if nothing was ever committed."""
    first: Position
    """Where the oldest answer begins that is still kept."""
    end: Position
    """Where the next answer will be written."""
    expired: bool = False
    """True if there were outputs and none of them is kept: `sequence` says nothing then, and `source` only what others
    remember of it, if they do."""


class TransactionalSink(Sink, Protocol):
    """A sink that makes its outputs and the source's position visible in one transaction: the output is the truth.

    It is not opened with a position but taken over with `recover`, and `commit` stands in for `flush`. Sinks of one
    seat share one transaction, which the sink of the answers commits.
    """

    async def recover(self) -> Ending:
        """Become the only writer: whoever wrote before is shut out, and what it left open is void."""

    async def peek(self) -> Ending:
        """Where the committed answers end, without disturbing whoever writes them."""

    async def commit(self, sequence: int, source: Position | None) -> Position:
        """Make everything written by the seat's sinks visible at once; where the answers now end.

        Every input before number `sequence` is answered by then, and the source goes on at `source`. Raises
        `FencedError` if another writer has taken over, `AwayError` if it is not known whether it worked: either way
        the next `recover` tells.
        """

    def ended_at(self, position: Position) -> bool:
        """After `recover` found no answer at all: whether the last one there ever was lay right before `position`.

        Answers expire; a state that was saved behind the last of them can be gone on with all the same.
        """

    def follow(self, start: Position) -> AsyncIterator[Sequence[Answer]]:
        """What was committed from `start` on, and whatever is from now on, without end; for one who only watches."""


def is_transactional(sink: Sink) -> TypeGuard[TransactionalSink]:
    """Whether the sink commits by itself."""
    return sink.transactional


class Share(Protocol):
    """The input of a source, split into tasks that the workers of one group share: each has one owner at a time."""

    async def join(self) -> int:
        """Become a member of the group; how many tasks there are in all."""

    async def changed(self) -> frozenset[int]:
        """Wait until our share is known or has changed; the numbers of our tasks.

        Raises what makes it impossible to go on, such as another number of tasks than at `join`.
        """

    def keep_ready(self, numbers: frozenset[int]) -> None:
        """Say which tasks' states are at hand here, so that they are rather given to us than to others."""

    async def rejoin(self) -> None:
        """Become a new member: what we believed to be our share was somebody else's. `changed` tells the new one."""

    async def leave(self) -> None:
        """Give up our share, so that others get it at once; may be called more than once."""


class StateStore(Protocol):
    """Keeps one commit and several snapshots. Each method blocks and is called off the event loop.

    What only reads works without `open`, and while another process has the store open.
    """

    def open(self, *, fresh: bool) -> None:
        """Lock the store for this process; `fresh` empties it. Raises `StateLockedError` if it is taken."""

    def load_commit(self) -> Commit | None:
        """The last commit; None if there is none or it is damaged (a snapshot holds one too)."""

    def save_commit(self, commit: Commit) -> None:
        """Replace the commit atomically; on return it survives a crash."""

    def snapshots(self) -> list[int]:
        """Sequences of the snapshots kept, oldest first."""

    def load_snapshot(self, sequence: int) -> bytes:
        """A snapshot's bytes, as they are. Raises `StateDamagedError` if they are gone or cannot be read."""

    def save_snapshot(self, sequence: int, data: bytes) -> None:
        """Add a snapshot; on return it survives a crash, before that it is not there at all."""

    def remove_snapshot(self, sequence: int) -> None:
        """Remove a snapshot; not there is fine."""

    def describe(self) -> str:
        """For people: where it is."""

    def close(self) -> None:
        """Unlock; may be called more than once."""


class Steerable(StateStore, Protocol):
    """A store that also keeps control events, for a pipeline whose source takes none from outside.

    They are numbered from 0 in the order they were sent. Each gets its place among the inputs by whoever runs the
    pipeline, before it is handed on: so every reading of the two together gives the same records.
    """

    def send(self, data: bytes) -> int:
        """Add a control event; its number. On return it survives a crash.

        By any process, without `open`, and while another has the store open. What a killed sender left half-written
        is no event.
        """

    def sent(self, start: int) -> list[bytes]:
        """The control events from number `start` on, as they were sent; whatever is given out survives a crash.

        Without `open`. Asked several times a second, so it must be cheap where there is nothing new.
        """

    def save_places(self, places: Sequence[int]) -> None:
        """Replace the places of the first control events, one a number, atomically; on return they survive a crash."""

    def load_places(self) -> list[int]:
        """The places saved last; none if there are none. Raises `StateDamagedError` if they are damaged."""


def is_steerable(store: StateStore) -> TypeGuard[Steerable]:
    """Whether the store keeps control events."""
    return hasattr(store, "save_places")
