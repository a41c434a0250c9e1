"""What Speciate says: on the wire, on disk and in configurations."""

from speciate_schemas.arrays import Array
from speciate_schemas.codec import decode, encode
from speciate_schemas.config import CommitOptions, PipelineConfig, RunOptions, Strict
from speciate_schemas.events import (
    Answer,
    Assignment,
    Control,
    ControlApplied,
    DeadLetter,
    Event,
    FeatureEvent,
    ForgetCategory,
    ImageEvent,
    MergeCategories,
    Message,
    Observation,
    Rejection,
    RenameCategory,
)
from speciate_schemas.state import (
    CategoryState,
    Commit,
    HeadState,
    Position,
    SnapshotManifest,
    StoredRecord,
    Tally,
    TaskState,
)

__all__ = [
    "Answer",
    "Array",
    "Assignment",
    "CategoryState",
    "Commit",
    "CommitOptions",
    "Control",
    "ControlApplied",
    "DeadLetter",
    "Event",
    "FeatureEvent",
    "ForgetCategory",
    "HeadState",
    "ImageEvent",
    "MergeCategories",
    "Message",
    "Observation",
    "PipelineConfig",
    "Position",
    "Rejection",
    "RenameCategory",
    "RunOptions",
    "SnapshotManifest",
    "StoredRecord",
    "Strict",
    "Tally",
    "TaskState",
    "decode",
    "encode",
]
