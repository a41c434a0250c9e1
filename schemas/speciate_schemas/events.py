"""What travels: input events, control events, the answers to them, dead letters, and word of a new beginning.

Every type carries its name and version in `type` (`"feature.v1"`), so a later version is a new member of the
union and old data stays readable. A field added within a version has a default; no field's type ever changes.
"""

from typing import Annotated, Any

import msgspec

from speciate_schemas.arrays import Array

Identifier = Annotated[
    str,
    msgspec.Meta(min_length=1, max_length=512, description="Unique within a stream; names the event in every answer."),
]
Stream = Annotated[
    str, msgspec.Meta(max_length=512, description="The stream (camera, robot, recording) it belongs to.")
]
Sequence = Annotated[int, msgspec.Meta(ge=0, description="Record number in the source, from 0.")]
CategoryId = Annotated[int, msgspec.Meta(ge=0, description="Category number; never reused.")]
Label = Annotated[str, msgspec.Meta(min_length=1, max_length=512)]
Origin = Annotated[
    str, msgspec.Meta(description="Where the input was read: file and place, or topic/partition@offset.")
]
Time = Annotated[float | None, msgspec.Meta(description="Seconds since the Unix epoch, UTC, when it was observed.")]
Truth = Annotated[Label | None, msgspec.Meta(description="The true class where known: support sets, evaluation.")]


class Wire(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="type"):
    """What all events have in common: immutable, strict, tagged by `type`."""


class FeatureEvent(Wire, frozen=True, tag="feature.v1"):
    """One observation as a feature vector."""

    id: Identifier
    features: Annotated[
        Array | list[float], msgspec.Meta(description="The vector: an array, or in hand-written JSON a list.")
    ]
    stream: Stream = ""
    time: Time = None
    label: Truth = None


class ImageEvent(Wire, frozen=True, tag="image.v1"):
    """One observation as an encoded image, exactly as the camera or the file had it."""

    id: Identifier
    image: Annotated[memoryview, msgspec.Meta(description="The encoded file: JPEG, PNG, …")]
    media_type: Annotated[str, msgspec.Meta(max_length=128, description="Such as image/jpeg.")] = ""
    stream: Stream = ""
    time: Time = None
    label: Truth = None


class RenameCategory(Wire, frozen=True, tag="rename.v1"):
    """Give a category a label."""

    id: Identifier
    category: CategoryId
    label: Label
    stream: Stream = ""
    time: Time = None


class MergeCategories(Wire, frozen=True, tag="merge.v1"):
    """Fold one category into another; the absorbed number is never used again."""

    id: Identifier
    keep: CategoryId
    absorb: CategoryId
    stream: Stream = ""
    time: Time = None


class ForgetCategory(Wire, frozen=True, tag="forget.v1"):
    """Remove a category; its number is never used again."""

    id: Identifier
    category: CategoryId
    stream: Stream = ""
    time: Time = None


class UndoLast(Wire, frozen=True, tag="undo.v1"):
    """Take back the last rename, merge or forget: once, and only the last."""

    id: Identifier
    stream: Stream = ""
    time: Time = None


class Relabel(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a category is from here on; what was answered with its number before means this now."""

    category: CategoryId
    becomes: Annotated[
        CategoryId | None, msgspec.Meta(description="The category it is now: itself, or another; null if it is gone.")
    ]
    label: Annotated[Label | None, msgspec.Meta(description="The label of that category, if it has one.")] = None


class Assignment(Wire, frozen=True, tag="assignment.v1", gc=False):
    """The answer to an observation: the category it was given, and how sure that was."""

    id: Identifier
    stream: Stream
    sequence: Sequence
    category: CategoryId
    label: Annotated[Label | None, msgspec.Meta(description="The category's label, if it has one.")]
    birth: Annotated[bool, msgspec.Meta(description="True if this event founded the category.")]
    log_evidence: Annotated[float, msgspec.Meta(description="Log of prior times predictive density of the choice.")]
    margin: Annotated[
        float | None, msgspec.Meta(description="Log evidence over the runner-up; null if there was none.")
    ]
    probability: Annotated[float, msgspec.Meta(ge=0, le=1, description="Posterior probability of the choice.")]
    drift: Annotated[
        float | None,
        msgspec.Meta(description="How far the category's mean moved, as its density measures it; null at a birth."),
    ]
    head_version: Annotated[int, msgspec.Meta(ge=0, description="Changes the head had seen before it decided.")]
    origin: Origin = ""


class ControlApplied(Wire, frozen=True, tag="control.v1"):
    """The answer to a control event: it took effect here, between the answers around it."""

    id: Identifier
    stream: Stream
    sequence: Sequence
    control: RenameCategory | MergeCategories | ForgetCategory | UndoLast
    head_version: Annotated[int, msgspec.Meta(ge=0, description="Changes the head had seen before this one.")]
    origin: Origin = ""
    relabels: Annotated[list[Relabel], msgspec.Meta(description="What it means for answers given before.")] = (
        msgspec.field(default_factory=list)
    )


class Rejection(Wire, frozen=True, tag="rejection.v1", gc=False):
    """The answer to an input that could not be used; the stream went on without it."""

    id: Annotated[Identifier | None, msgspec.Meta(description="Null if the input was too damaged to have one.")]
    stream: Annotated[Stream | None, msgspec.Meta(description="Null if the input was too damaged to have one.")]
    sequence: Sequence
    stage: Annotated[str, msgspec.Meta(description="Where it failed: source, encoder, admission, head or control.")]
    error: Annotated[str, msgspec.Meta(description="The error's class.")]
    message: Annotated[str, msgspec.Meta(description="What was wrong and what to do.")]
    dead_letter: Annotated[str, msgspec.Meta(description="Where the original bytes are kept.")]
    origin: Origin = ""


class DeadLetter(Wire, frozen=True, tag="dead-letter.v1"):
    """A rejected input with its original bytes."""

    id: Identifier | None
    stream: Stream | None
    sequence: Sequence
    stage: str
    error: str
    message: str
    origin: Origin
    original: Annotated[memoryview, msgspec.Meta(description="The input, byte for byte as it came.")]


class Refolded(Wire, frozen=True, tag="refolded.v1"):
    """The categories were made anew: from here on their numbers mean something else than before.

    It takes a number of its own among the answers. There are two at least: one where the old categories end, and
    another where the new ones begin.
    """

    sequence: Sequence
    universe: Annotated[str, msgspec.Meta(description="Who shares categories from here on: run.universe.")]
    tasks: Annotated[int, msgspec.Meta(ge=1, description="Number of tasks the input is split into from here on.")]
    categories: Annotated[int, msgspec.Meta(ge=0, description="Number of categories there are now.")]
    done: Annotated[
        bool,
        msgspec.Meta(
            description="False where the old categories end: nothing is answered until one with true follows."
        ),
    ] = True


Observation = FeatureEvent | ImageEvent
Control = RenameCategory | MergeCategories | ForgetCategory | UndoLast
Event = FeatureEvent | ImageEvent | RenameCategory | MergeCategories | ForgetCategory | UndoLast
Answer = Assignment | Rejection | ControlApplied
Message = (
    FeatureEvent
    | ImageEvent
    | RenameCategory
    | MergeCategories
    | ForgetCategory
    | UndoLast
    | Assignment
    | Rejection
    | ControlApplied
    | DeadLetter
    | Refolded
)


def tag_of(kind: type[msgspec.Struct]) -> Any:
    """The value of `type` that announces this struct."""
    return kind.__struct_config__.tag
