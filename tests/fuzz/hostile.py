"""Inputs that must be rejected, of every kind we could think of, from one seed."""

import random
from collections.abc import Callable

import msgspec
import numpy as np

from speciate_schemas import Array, FeatureEvent, ForgetCategory, ImageEvent, MergeCategories, RenameCategory, encode

DIMENSION = 16
BLOB_BYTES = 50_000_000
NAME_BYTES = 1_000_000


def good_event(number: int, rng: np.random.Generator) -> FeatureEvent:
    """An event that must be assigned."""
    vector = rng.normal(size=DIMENSION) + 4.0 * (number % 5)
    return FeatureEvent(id=f"good-{number}", stream="fuzz", features=Array.of(vector.astype(np.float32)))


def tree_of(number: int) -> dict[str, object]:
    """A good event as plain data, to be bent."""
    return {"type": "feature.v1", "id": f"bad-{number}", "stream": "fuzz", "features": [0.5] * DIMENSION}


def features(number: int, values: object) -> bytes:
    """A well-formed event with an unusable vector."""
    return encode(FeatureEvent(id=f"bad-{number}", stream="fuzz", features=Array.of(values)))


def bent(number: int, **changes: object) -> bytes:
    """A good event with some fields changed."""
    return msgspec.msgpack.encode({**tree_of(number), **changes})


def without(number: int, field: str) -> bytes:
    """A good event that lacks a field."""
    return msgspec.msgpack.encode({key: value for key, value in tree_of(number).items() if key != field})


def truncated(number: int, dice: random.Random) -> bytes:
    """A good event cut off somewhere."""
    whole = features(number, np.zeros(DIMENSION, np.float32))
    return whole[: dice.randrange(1, len(whole))]


KINDS: dict[str, Callable[[int, random.Random], bytes]] = {
    "wrong dimension": lambda n, dice: features(n, np.zeros(dice.choice([0, 1, 15, 17, 4096]), np.float32)),
    "two axes": lambda n, dice: features(n, np.zeros((dice.randrange(1, 4), DIMENSION), np.float32)),
    "no axis": lambda n, _: features(n, np.float64(1.0)),
    "booleans": lambda n, _: features(n, np.zeros(DIMENSION, bool)),
    "NaN": lambda n, dice: features(n, np.where(np.arange(DIMENSION) == dice.randrange(DIMENSION), np.nan, 1.0)),
    "infinity": lambda n, dice: features(n, np.where(np.arange(DIMENSION) == dice.randrange(DIMENSION), -np.inf, 1.0)),
    "overflow": lambda n, _: features(n, np.full(DIMENSION, 1e300)),
    "features of a wrong type": lambda n, dice: bent(
        n, features=dice.choice(["text", 7, None, {"a": 1}, ["x"], [None]])
    ),
    "id of a wrong type": lambda n, dice: bent(n, id=dice.choice([7, None, b"x", [], {}])),
    "id too long": lambda n, _: bent(n, id="x" * 513),
    "empty id": lambda n, _: bent(n, id=""),
    "bytes that are too few": lambda n, _: bent(n, features={"dtype": "float32", "shape": [16], "data": b"abc"}),
    "negative shape": lambda n, _: bent(n, features={"dtype": "float32", "shape": [-16], "data": b""}),
    "unknown dtype": lambda n, _: bent(n, features={"dtype": "object", "shape": [1], "data": b"12345678"}),
    "unknown tag": lambda n, dice: bent(n, type=dice.choice(["feature.v9", "", "Feature", 3, None])),
    "no tag": lambda n, _: without(n, "type"),
    "no id": lambda n, _: without(n, "id"),
    "no features": lambda n, _: without(n, "features"),
    "unknown field": lambda n, _: bent(n, surprise=1),
    "truncated MessagePack": truncated,
    "two values": lambda n, _: features(n, np.zeros(DIMENSION, np.float32)) * 2,
    "random bytes": lambda _, dice: dice.randbytes(dice.randrange(1, 200)),
    "not UTF-8": lambda n, _: bent(n).replace(b"bad-", b"b\xff\xfe-"),
    "nested too deep": lambda _, dice: b"\x91" * dice.choice([100, 5_000, 100_000]) + b"\x00",
    "a map that lies about its size": lambda _, __: b"\xdf\xff\xff\xff\xff",
    "empty": lambda _, __: b"",
    "image without an encoder": lambda n, dice: encode(ImageEvent(id=f"bad-{n}", image=memoryview(dice.randbytes(99)))),
    "rename of a category that is not there": lambda n, _: encode(
        RenameCategory(id=f"bad-{n}", category=10**6, label="x")
    ),
    "merge with itself": lambda n, _: encode(MergeCategories(id=f"bad-{n}", keep=0, absorb=0)),
    "forget of a category that is not there": lambda n, _: encode(ForgetCategory(id=f"bad-{n}", category=10**6)),
    "an answer instead of an event": lambda _, __: msgspec.msgpack.encode({"type": "assignment.v1"}),
}


def blob(number: int, dice: random.Random) -> bytes:
    """A well-formed event far above the size limit."""
    return encode(ImageEvent(id=f"bad-{number}", image=memoryview(dice.randbytes(BLOB_BYTES))))


def long_name(number: int, dice: random.Random) -> bytes:
    """A field nobody knows, whose name is as large as an event; in JSON, where it is quoted, six times as large."""
    return bent(number, **{dice.choice(["\x01", "x", "é", "\U0001f408"]) * NAME_BYTES: 1})
