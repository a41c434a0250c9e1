"""What is kept: the head's state, the commit that ties outputs to inputs, and snapshots of both."""

from typing import Annotated, Any, Literal

import msgspec

from speciate_schemas.arrays import Array

Position = tuple[int | str, ...]
"""A place in a source or a sink; opaque to everyone but the plugin that made it."""


class Stored(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="type"):
    """What all stored records have in common: immutable, strict, tagged by `type`."""


class CategoryState(Stored, frozen=True, tag="category.v1"):
    """One category: who it is, how much it has seen, and the density's arrays for it."""

    id: Annotated[int, msgspec.Meta(ge=0)]
    label: str | None
    known: Annotated[bool, msgspec.Meta(description="True if it came from the support set.")]
    count: Annotated[int, msgspec.Meta(ge=0)]
    arrays: dict[str, Array]


class LastChange(Stored, frozen=True, tag="last-change.v1"):
    """The last change by hand, and what it takes to undo it."""

    kind: Literal["rename", "merge", "forget"]
    before: Annotated[
        list[CategoryState],
        msgspec.Meta(description="The categories as they were; of a merge first the one that was kept."),
    ]
    since: Annotated[
        list[Array],
        msgspec.Meta(description="What the merged category has learnt since, in the density's own coordinates."),
    ] = msgspec.field(default_factory=list)


class HeadState(Stored, frozen=True, tag="head.v1"):
    """Everything a head needs to go on exactly where it was."""

    density: Annotated[str, msgspec.Meta(description="Name of the density plugin.")]
    policy: Annotated[str, msgspec.Meta(description="Name of the policy plugin.")]
    density_options: dict[str, Any]
    policy_options: dict[str, Any]
    dimension: Annotated[int, msgspec.Meta(ge=1)]
    version: Annotated[int, msgspec.Meta(ge=0, description="Changes since the head was fitted.")]
    next_category: Annotated[int, msgspec.Meta(ge=0)]
    shared: Annotated[dict[str, Array], msgspec.Meta(description="What was estimated from the support set.")]
    categories: list[CategoryState]
    last_change: Annotated[LastChange | None, msgspec.Meta(description="Null if nothing can be undone.")] = None


class Tally(Stored, frozen=True, tag="tally.v1"):
    """How many inputs met which fate since the beginning."""

    assigned: int = 0
    births: int = 0
    rejected: int = 0
    controls: int = 0
    dropped: int = 0
    forwarded: int = 0


class RecentState(Stored, frozen=True, tag="recent.v1"):
    """The newest accepted events, oldest first, as columns: tens of thousands of rows would be as many objects."""

    streams: list[str]
    ids: list[str]
    sequences: Annotated[Array, msgspec.Meta(description="Record numbers, int64.")]


class ExemplarsState(Stored, frozen=True, tag="exemplars.v1"):
    """Events that stand for a category, a uniform sample in the order of their draw, as columns."""

    sequences: Annotated[list[int], msgspec.Meta(description="Record numbers.")]
    ids: list[str]
    streams: list[str]
    times: list[float | None]
    features: Annotated[Array, msgspec.Meta(description="A row an event, float32.")]
    thumbnails: Annotated[
        list[bytes | None], msgspec.Meta(description="A small JPEG of each, for the first few if they were images.")
    ]


class TraceState(Stored, frozen=True, tag="trace.v1"):
    """What a category has left for people to see."""

    id: Annotated[int, msgspec.Meta(ge=0)]
    born: Annotated[int | None, msgspec.Meta(description="Record that founded it; null if it was known.")] = None
    born_time: float | None = None
    seen: Annotated[int, msgspec.Meta(ge=0, description="Events of the stream that were assigned to it.")] = 0
    last_sequence: int | None = None
    last_time: float | None = None
    activity: Annotated[
        list[tuple[int, int]],
        msgspec.Meta(description="Parts of the timeline in which it got events, in order, and how many."),
    ] = msgspec.field(default_factory=list)
    exemplars: Annotated[ExemplarsState | None, msgspec.Meta(description="Null if there are none.")] = None
    trail_sequences: Annotated[list[int], msgspec.Meta(description="Records behind which its centre was noted.")] = (
        msgspec.field(default_factory=list)
    )
    trail: Annotated[Array | None, msgspec.Meta(description="Its centre there, a row each, float32.")] = None


class TimelineState(Stored, frozen=True, tag="timeline.v1"):
    """The stream in equal parts, those in which something happened; arrays have a row a part."""

    width: Annotated[int, msgspec.Meta(ge=1, description="Records in one part; part n begins with record n · width.")]
    parts: Annotated[Array, msgspec.Meta(description="Numbers of the parts, in order.")]
    counts: Annotated[
        Array,
        msgspec.Meta(
            description="Events, births, categories at the end of the part, and a histogram of margins by powers of 2."
        ),
    ]
    times: Annotated[Array, msgspec.Meta(description="Time of the last event that has one; else not a number.")]


class ChangedTraces(Stored, frozen=True, tag="changed-traces.v1"):
    """What it takes to undo the last merge or forget."""

    before: Annotated[list[TraceState], msgspec.Meta(description="As they were; of a merge first the one kept.")]
    since: Annotated[
        ExemplarsState | None,
        msgspec.Meta(description="Every event that the merged category got since, in order; null if there is none."),
    ] = None


class ChronicleState(Stored, frozen=True, tag="chronicle.v1"):
    """What a head's categories have left for people to see."""

    capacity: Annotated[int, msgspec.Meta(ge=0, description="Exemplars kept of each category.")]
    seed: Annotated[int, msgspec.Meta(ge=0, description="Of their draw.")]
    timeline: TimelineState
    traces: list[TraceState]
    changed: ChangedTraces | None = None


class TaskState(Stored, frozen=True, tag="task.v1"):
    """The fold of one partition's first `sequence` inputs."""

    sequence: Annotated[int, msgspec.Meta(ge=0, description="Number of the next input.")]
    head: HeadState
    recent: Annotated[RecentState, msgspec.Meta(description="What a duplicate is told by.")]
    streams: Annotated[
        dict[str, HeadState],
        msgspec.Meta(
            description="With a universe a stream: each stream's head, without `shared`, which is that of `head`. "
            "`head` is then what a new stream begins with."
        ),
    ] = msgspec.field(default_factory=dict)
    chronicles: Annotated[
        dict[str, ChronicleState],
        msgspec.Meta(description="By stream, with a universe a stream; else under the empty name."),
    ] = msgspec.field(default_factory=dict)


class Commit(Stored, frozen=True, tag="commit.v1"):
    """Outputs and the input position, made visible together."""

    sequence: Annotated[int, msgspec.Meta(ge=0, description="Every input before this one is answered.")]
    source: Annotated[Position | None, msgspec.Meta(description="Where the source goes on; null at its start.")]
    answers: Annotated[Position, msgspec.Meta(description="Where the committed answers end.")]
    dead_letters: Annotated[Position, msgspec.Meta(description="Where the committed dead letters end.")]
    tally: Tally


class SnapshotManifest(Stored, frozen=True, tag="snapshot.v1"):
    """What a snapshot holds and how to tell that it is whole."""

    commit: Commit
    config: Annotated[dict[str, Any], msgspec.Meta(description="The configuration the fold depends on.")]
    plugins: Annotated[dict[str, str], msgspec.Meta(description="Versions of the plugins that made the state.")]
    state_bytes: int
    state_sha256: str


StoredRecord = (
    CategoryState
    | LastChange
    | HeadState
    | Tally
    | RecentState
    | ExemplarsState
    | TraceState
    | TimelineState
    | ChangedTraces
    | ChronicleState
    | TaskState
    | Commit
    | SnapshotManifest
)
