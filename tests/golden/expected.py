"""What each golden file says, spelt out: one fully populated value for every tagged type.

The files beside this one were written once. They stand for the data people already have, so a value here changes
only when a new type is added.
"""

import numpy as np

from speciate_schemas import (
    Array,
    Assignment,
    CategoryState,
    ChangedTraces,
    ChronicleState,
    Commit,
    ControlApplied,
    DeadLetter,
    ExemplarsState,
    FeatureEvent,
    ForgetCategory,
    HeadState,
    ImageEvent,
    LastChange,
    MergeCategories,
    RecentState,
    Refolded,
    Rejection,
    RenameCategory,
    SnapshotManifest,
    Tally,
    TaskState,
    TimelineState,
    TraceState,
    UndoLast,
)
from speciate_schemas.events import tag_of

_RENAME = RenameCategory(id="rename-1", category=7, label="bicycle", stream="camera-north", time=1_700_000_001.5)
_CATEGORY = CategoryState(
    id=7,
    label="bicycle",
    known=False,
    count=3,
    arrays={
        "mean": Array.of(np.array([0.25, -1.5, 1e300])),
        "count": Array.of(np.array(3, dtype=np.int64)),
        "none": Array.of(np.zeros((0, 4), dtype=np.float16)),
    },
)
_HEAD = HeadState(
    density="nearest-mean",
    policy="dp",
    density_options={"variance": "auto", "shrink": 0.5, "limits": [1, 2], "nested": {"on": True, "off": None}},
    policy_options={"alpha": 1.0},
    dimension=3,
    version=12,
    next_category=9,
    shared={"scale": Array.of(np.array([[1.0, 2.0, 3.0]], dtype=np.float32))},
    categories=[_CATEGORY],
)
_TALLY = Tally(assigned=100, births=9, rejected=4, controls=2, dropped=1)
_COMMIT = Commit(
    sequence=106,
    source=("events.log", 4096),
    answers=("answers.jsonl", 2**40),
    dead_letters=(0,),
    tally=_TALLY,
)

_RECENT = RecentState(
    streams=["camera-north", "camera-south"],
    ids=["event-1", "event-1"],
    sequences=Array.of(np.array([41, 105], dtype=np.int64)),
)

_EXEMPLARS = ExemplarsState(
    sequences=[41, 104],
    ids=["event-2", "event-9"],
    streams=["camera-north", ""],
    times=[1700000000.25, None],
    features=Array.of(np.array([[0.5, -1.25, 3.0], [0.25, -1.5, 2.0]], dtype=np.float32)),
    thumbnails=[b"\xff\xd8\xff\xd9", None],
)
_TRACE = TraceState(
    id=7,
    born=41,
    born_time=1700000000.25,
    seen=3,
    last_sequence=105,
    last_time=1700000003.5,
    activity=[(20, 1), (52, 2)],
    exemplars=_EXEMPLARS,
    trail_sequences=[41],
    trail=Array.of(np.array([[0.5, -1.25, 3.0]], dtype=np.float32)),
)
_TIMELINE = TimelineState(
    width=2,
    parts=Array.of(np.array([20, 52])),
    counts=Array.of(np.array([[2, 1, 3, 0, 2], [1, 0, 3, 1, 0]])),
    times=Array.of(np.array([1700000003.5, np.inf])),
)
_CHANGED = ChangedTraces(before=[_TRACE], since=_EXEMPLARS)

_VALUES = (
    FeatureEvent(
        id="event-1",
        features=Array.of(np.array([[1.5, -2.0], [0.0, 3.25]], dtype=np.float32)),
        stream="camera-north",
        time=1_700_000_000.25,
        label="vélo 🚲",
    ),
    ImageEvent(
        id="event-2",
        image=memoryview(b"\xff\xd8\xff\xe0\x00\x10JFIF"),
        media_type="image/jpeg",
        stream="camera-north",
        time=1_700_000_000.5,
        label="bicycle",
    ),
    _RENAME,
    MergeCategories(id="merge-1", keep=3, absorb=7, stream="camera-north", time=1_700_000_002.0),
    ForgetCategory(id="forget-1", category=4, stream="camera-north", time=1_700_000_003.0),
    UndoLast(id="undo-1", stream="camera-north", time=1_700_000_004.0),
    Assignment(
        id="event-1",
        stream="camera-north",
        sequence=41,
        category=7,
        label="bicycle",
        birth=True,
        log_evidence=-12.5,
        margin=0.75,
        probability=0.875,
        drift=0.03125,
        head_version=11,
    ),
    ControlApplied(id="rename-1", stream="camera-north", sequence=42, control=_RENAME, head_version=12),
    Rejection(
        id="event-3",
        stream="camera-north",
        sequence=43,
        stage="admission",
        error="FeatureError",
        message="features have dimension 2, the head expects 3",
        dead_letter="dead.jsonl#43",
    ),
    DeadLetter(
        id="event-3",
        stream="camera-north",
        sequence=43,
        stage="admission",
        error="FeatureError",
        message="features have dimension 2, the head expects 3",
        origin="events.jsonl:44",
        original=memoryview(b'{"type":"feature.v1","id":"event-3","features":[1,2]}\x00\xff'),
    ),
    Refolded(sequence=44, universe="stream", tasks=4, categories=17, done=False),
    _CATEGORY,
    LastChange(kind="merge", before=[_CATEGORY], since=[Array.of(np.array([0.5, 2.0, -1.0]))]),
    _HEAD,
    _TALLY,
    _RECENT,
    _EXEMPLARS,
    _TRACE,
    _TIMELINE,
    _CHANGED,
    ChronicleState(capacity=32, seed=7, timeline=_TIMELINE, traces=[_TRACE], changed=_CHANGED),
    TaskState(sequence=106, head=_HEAD, recent=_RECENT),
    _COMMIT,
    SnapshotManifest(
        commit=_COMMIT,
        config={"density": {"plugin": "nearest-mean", "variance": "auto"}, "run": {"duplicate_window": 65536}},
        plugins={"density.nearest-mean": "0.1.0", "policy.dp": "0.1.0"},
        state_bytes=12345,
        state_sha256="9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    ),
)

EXPECTED = {tag_of(type(value)): value for value in _VALUES}
