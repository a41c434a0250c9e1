"""The configuration of a pipeline: one TOML file, a section a stage, plus how to run and when to commit."""

from typing import Annotated, Any, Literal

import msgspec

MEBI = 1 << 20

Section = dict[str, Any]
"""`plugin = "name"` and that plugin's own options, which its own struct checks."""

Count = Annotated[int, msgspec.Meta(ge=1)]
Milliseconds = Annotated[float, msgspec.Meta(ge=0)]
Rate = Annotated[float, msgspec.Meta(gt=0)]


class Strict(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What all sections and plugin options have in common: immutable, strict, by keyword."""


class RunOptions(Strict, frozen=True):
    """Section `[run]`: batches, queues, pace."""

    batch_events: Annotated[Count, msgspec.Meta(description="Most events in a micro-batch.")] = 256
    linger_ms: Annotated[
        Milliseconds, msgspec.Meta(description="Longest a micro-batch waits for company, in milliseconds.")
    ] = 5.0
    queue_events: Annotated[Count, msgspec.Meta(description="Most events waiting between two stages.")] = 1024
    queue_bytes: Annotated[Count, msgspec.Meta(description="Most bytes waiting between two stages.")] = 64 * MEBI
    overflow: Annotated[
        Literal["block", "drop-oldest", "drop-newest"],
        msgspec.Meta(
            description="When the queue behind the source is full: make the source wait, or drop and count. "
            "Dropping is for live sources that cannot wait."
        ),
    ] = "block"
    pace: Annotated[
        Literal["max", "original"] | Rate,
        msgspec.Meta(description="As fast as possible, in the events' own time, or so many events per second."),
    ] = "max"
    decode_workers: Annotated[
        Count | None,
        msgspec.Meta(description="Threads that decode images beside the encoder; left out: as many as processors."),
    ] = None
    encode_events: Annotated[Count, msgspec.Meta(description="Most images encoded at once.")] = 16
    max_event_bytes: Annotated[
        int, msgspec.Meta(ge=1, le=64 * MEBI, description="A larger input is rejected; 64 MiB at most.")
    ] = 16 * MEBI
    universe: Annotated[
        Literal["partition", "stream", "shared"],
        msgspec.Meta(
            description="Who shares categories: the events of a partition, those of a stream, or all events in one "
            "task. A file source is one partition."
        ),
    ] = "partition"
    standby: Annotated[
        int,
        msgspec.Meta(
            ge=0,
            description="Tasks of other workers of the group whose state is followed here, ready to be taken over.",
        ),
    ] = 0
    duplicate_window: Annotated[
        int,
        msgspec.Meta(ge=0, description="An id seen among so many newest accepted events is rejected; 0 for never."),
    ] = 65_536


class CommitOptions(Strict, frozen=True):
    """Section `[commit]`: when outputs and position become visible together, and when state is saved."""

    events: Annotated[Count, msgspec.Meta(description="Commit at the latest after so many events.")] = 10_000
    interval_ms: Annotated[
        Milliseconds, msgspec.Meta(description="Commit at the latest after so many milliseconds.")
    ] = 1000.0
    snapshot_events: Annotated[Count, msgspec.Meta(description="Save the state after so many events.")] = 50_000
    snapshot_interval_ms: Annotated[
        Milliseconds,
        msgspec.Meta(description="Save the state at the latest after so many milliseconds, if there is something new."),
    ] = 60_000.0
    snapshots_kept: Annotated[
        int, msgspec.Meta(ge=2, description="Snapshots kept; at least two, so that a damaged one costs nothing.")
    ] = 2


class AlbumOptions(Strict, frozen=True):
    """Section `[album]`: what is kept of each category for people to see."""

    exemplars: Annotated[
        int,
        msgspec.Meta(
            ge=0,
            le=1024,
            description="Events kept of each category, a uniform sample. More only counts for a state that is new.",
        ),
    ] = 32
    pictures: Annotated[
        int, msgspec.Meta(ge=0, le=64, description="How many of them with a picture, where images come.")
    ] = 8
    pixels: Annotated[int, msgspec.Meta(ge=16, le=512, description="Longer side of a picture.")] = 160
    bytes: Annotated[
        Count,
        msgspec.Meta(
            description="About what a set of categories may keep; where they are many, each keeps fewer events."
        ),
    ] = 32 * MEBI
    seed: Annotated[
        int, msgspec.Meta(ge=0, le=2**32, description="Of the draw. It only counts for a state that is new.")
    ] = 0


class ModelOptions(Strict, frozen=True):
    """Section `[model]`: encoder, density and policy, fitted before."""

    path: Annotated[str, msgspec.Meta(min_length=1, description="A bundle that `speciate fit` wrote.")]
    encoder: Annotated[
        Section,
        msgspec.Meta(description="Options of its encoder that are others here, such as the device."),
    ] = msgspec.field(default_factory=dict)


class PipelineConfig(Strict, frozen=True):
    """One pipeline: where events come from, how they are decided, where the answers go."""

    source: Annotated[Section, msgspec.Meta(description="Where events come from.")]
    sink: Annotated[Section, msgspec.Meta(description="Where answers go.")]
    support: Annotated[
        Section | None, msgspec.Meta(description="A source of labelled events: the known categories.")
    ] = None
    density: Annotated[
        Section | None,
        msgspec.Meta(
            description="How likely an event is under each category. Left out, with [support], [policy] and "
            "[dead_letters]: nothing is decided, and events go to the sink, images as features."
        ),
    ] = None
    policy: Annotated[Section | None, msgspec.Meta(description="Which category is chosen, or a birth.")] = None
    dead_letters: Annotated[Section | None, msgspec.Meta(description="A sink for the inputs that were rejected.")] = (
        None
    )
    store: Annotated[Section | None, msgspec.Meta(description="Where commits and snapshots are kept.")] = None
    encoder: Annotated[Section | None, msgspec.Meta(description="Images to features, if images come.")] = None
    model: Annotated[
        ModelOptions | None,
        msgspec.Meta(description="A fitted model, in place of [support], [encoder], [density] and [policy]."),
    ] = None
    run: RunOptions = msgspec.field(default_factory=RunOptions)
    commit: CommitOptions = msgspec.field(default_factory=CommitOptions)
    album: AlbumOptions = msgspec.field(default_factory=AlbumOptions)


class FitConfig(Strict, frozen=True):
    """What `speciate fit` makes a model of."""

    support: Annotated[Section, msgspec.Meta(description="A source of labelled events: the known categories.")]
    density: Annotated[Section, msgspec.Meta(description="How likely an event is under each category.")]
    policy: Annotated[Section, msgspec.Meta(description="Which category is chosen, or a birth.")]
    encoder: Annotated[
        Section | None, msgspec.Meta(description="Images to features; of no use to a support set of features.")
    ] = None
    training: Annotated[
        Section | None,
        msgspec.Meta(description="How the encoder is trained on the support set first; left out: it is used as it is."),
    ] = None
