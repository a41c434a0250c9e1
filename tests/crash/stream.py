"""A stream to crash on: clusters of vectors, with damaged inputs and control events between them, from one seed."""

from pathlib import Path

import numpy as np

from speciate_schemas import (
    Array,
    FeatureEvent,
    ForgetCategory,
    MergeCategories,
    RenameCategory,
    UndoLast,
    encode,
)
from speciate_schemas.framing import pack

DIMENSION = 16
KNOWN, CLASSES = 4, 12

CONFIG = """
[source]
plugin = "eventlog"
paths = ["{directory}/stream.log"]

[support]
plugin = "npz"
paths = ["{directory}/support.npz"]

[density]
plugin = "nearest-mean"

[policy]
plugin = "dp"
alpha = 1e-3

[sink]
plugin = "{sink}"
path = "{directory}/out/answers.{sink}"

[dead_letters]
plugin = "eventlog"
path = "{directory}/out/dead-letters.log"

[store]
plugin = "directory"
path = "{directory}/out/state"

[run]
batch_events = 32

[commit]
events = 64
interval_ms = 20
snapshot_events = 400
"""


def write_stream(directory: Path, *, events: int, seed: int, sink: str = "jsonl") -> Path:
    """Write support set, stream and configuration; the path of the configuration."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(CLASSES, DIMENSION)) * 3.0
    directory.mkdir(parents=True, exist_ok=True)
    labels = np.repeat(np.arange(KNOWN), 30)
    np.savez(directory / "support.npz", features=_around(rng, centres[labels]), labels=labels)
    with (directory / "stream.log").open("wb") as log:
        for number in range(events):
            log.write(pack(_payload(rng, number, centres)))
    config = directory / "pipeline.toml"
    config.write_text(CONFIG.format(directory=directory, sink=sink))
    return config


def _around(rng: np.random.Generator, centres: np.ndarray) -> np.ndarray:
    return (centres + rng.normal(size=centres.shape)).astype(np.float32)


def _payload(rng: np.random.Generator, number: int, centres: np.ndarray) -> bytes:  # noqa: PLR0911 - one a kind
    """Mostly observations; one in fifty is damaged, a duplicate, or a control event that may not apply."""
    name = f"event-{number}"
    vector = _around(rng, centres[rng.integers(CLASSES)][None])[0]
    good = FeatureEvent(id=name, stream="crash", features=Array.of(vector), time=float(number))
    match int(rng.integers(300)):
        case 0:
            return encode(good)[: int(rng.integers(40))]
        case 1:
            return encode(FeatureEvent(id=name, features=Array.of(vector[:5])))
        case 2:
            return encode(FeatureEvent(id=f"event-{max(0, number - 7)}", stream="crash", features=Array.of(vector)))
        case 3:
            return encode(RenameCategory(id=name, category=int(rng.integers(CLASSES)), label=f"name-{number}"))
        case 4:
            return encode(MergeCategories(id=name, keep=int(rng.integers(20)), absorb=int(rng.integers(20))))
        case 5:
            return encode(ForgetCategory(id=name, category=int(rng.integers(30))))
        case 6:
            return encode(UndoLast(id=name))
        case _:
            return encode(good)
