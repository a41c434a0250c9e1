"""What the tests of sources and sinks have in common: events, and answers of every kind."""

from collections.abc import Awaitable, Callable

import numpy as np
import pytest

from speciate.stages import Record, Source
from speciate_schemas import (
    Answer,
    Array,
    Assignment,
    ControlApplied,
    DeadLetter,
    Event,
    FeatureEvent,
    ForgetCategory,
    ImageEvent,
    MergeCategories,
    Rejection,
    RenameCategory,
)

ReadAll = Callable[[Source], Awaitable[list[Record]]]


@pytest.fixture
def read_all() -> ReadAll:
    """Open a source at its start and read it to the end."""

    async def read(source: Source) -> list[Record]:
        await source.open(None, 0)
        records: list[Record] = []
        while got := await source.read(3):
            records.extend(got)
        await source.close()
        return records

    return read


@pytest.fixture
def events() -> list[Event]:
    rng = np.random.default_rng(1)
    features = [
        FeatureEvent(id=f"e{n}", features=Array.of(rng.normal(size=5).astype(np.float32)), stream="cam", time=float(n))
        for n in range(20)
    ]
    image = ImageEvent(id="i", image=memoryview(b"\x89PNG"), media_type="image/png")
    return [*features, image, RenameCategory(id="r", category=1, label="cat"), ForgetCategory(id="f", category=2)]


@pytest.fixture
def answers() -> list[Answer]:
    controls = [
        RenameCategory(id="r", category=0, label="Katze 🐈"),
        MergeCategories(id="m", keep=0, absorb=1, time=1.5),
        ForgetCategory(id="f", category=2),
    ]
    assignments = [
        Assignment(
            id=f"e{n}",
            stream="cam",
            sequence=n,
            category=n % 3,
            label="a" if n % 2 else None,
            birth=n < 3,
            log_evidence=-1.5 * n,
            margin=None if n == 0 else 0.1 * n,
            probability=0.5,
            drift=None,
            head_version=n,
        )
        for n in range(3000)
    ]
    applied = [
        ControlApplied(id=one.id, stream="", sequence=3000 + n, control=one, head_version=n)
        for n, one in enumerate(controls)
    ]
    common = {"stage": "source", "error": "DecodeError", "message": "bad\nline"}
    rejections = [
        Rejection(id=None, stream=None, sequence=3003, dead_letter="dead.jsonl#3003", **common),
        Rejection(id="x", stream="cam", sequence=3004, dead_letter="dead.jsonl#3004", **common),
    ]
    return [*assignments, *applied, *rejections]


@pytest.fixture
def dead_letter() -> DeadLetter:
    return DeadLetter(
        id=None,
        stream=None,
        sequence=7,
        stage="source",
        error="DecodeError",
        message="bad",
        origin="in.jsonl@3",
        original=memoryview(b"\x00\xff\n{"),
    )
