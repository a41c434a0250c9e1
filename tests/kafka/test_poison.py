"""Messages that cannot be used: each is rejected once and kept as it came, and all around it is answered in order."""

import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pytest
from broker import Broker
from pipelines import (
    DECIDE,
    DIMENSION,
    HEAD,
    KEEPING,
    SINK,
    SIZE,
    SOURCE,
    Bench,
    assignments,
    check_exactly_once,
    events,
    messages,
    picture,
    produce_in_transaction,
    produce_raw,
    rejections,
    speciate,
    write_picture_support,
    write_support,
)

from speciate_schemas import Array, Assignment, FeatureEvent, encode

NAME = b"ba\xffd"
GOOD = 3
"""Good events before the first poison, and behind the last."""


class Poison(NamedTuple):
    """A message that cannot be used, and what is to be said about it."""

    value: bytes | None
    stage: str
    error: str
    says: str
    key: bytes | None = b"door"
    headers: tuple[tuple[str, bytes], ...] = ()
    header_name: bytes | None = None
    """Bytes that a header is called by; takes the place of all but the value."""


def png(width: int, height: int) -> bytes:
    """A few bytes that claim to be a picture so large."""
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    parts = [(b"IHDR", head), (b"IDAT", zlib.compress(bytes(100))), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data)) for name, data in parts
    )


def gif(width: int, height: int) -> bytes:
    """As `png`."""
    palette, picture_at = bytes(6), b","
    screen = struct.pack("<HHBBB", width, height, 0x80, 0, 0)
    frame = struct.pack("<HHHHB", 0, 0, width, height, 0)
    return b"GIF89a" + screen + palette + picture_at + frame + b"\x02\x02\x44\x01\x00;"


JPEG = picture(np.random.default_rng(3), 0)
IMAGES = {
    "no-image": Poison(b"this is no image", "encoder", "EncodeError", "the whole header of any of BMP, GIF, JPEG"),
    "truncated": Poison(JPEG[:-40], "encoder", "EncodeError", "truncated"),
    "bomb-png": Poison(png(50_000, 50_000), "encoder", "EncodeError", "more than max_pixels"),
    "bomb-gif": Poison(gif(50_000, 50_000), "encoder", "EncodeError", "more than max_pixels"),
    "empty": Poison(b"", "source", "DecodeError", "empty"),
    "null": Poison(None, "source", "DecodeError", "null"),
    "noise": Poison(np.random.default_rng(4).bytes(10 << 20), "encoder", "EncodeError", "cannot be decoded"),
    "long-key": Poison(JPEG, "source", "DecodeError", "10000 characters", key=b"k" * 10_000),
}

VECTOR, NAN = np.arange(DIMENSION, dtype=np.float32), np.float32(np.nan)
EVENT = FeatureEvent(id="poison", features=Array.of(VECTOR))
JSON, MSGPACK = ((("content-type", f"application/{form}".encode()),) for form in ("json", "msgpack"))
EVENTS = {
    "dimension": Poison(
        encode(FeatureEvent(id="short", features=Array.of(VECTOR[:5]))), "admission", "FeatureError", "5"
    ),
    "unknown-type": Poison(b'{"type": "feature.v9", "id": "new"}', "source", "DecodeError", "feature.v9", headers=JSON),
    "unknown-field": Poison(
        msgspec.msgpack.encode({"type": "feature.v1", "id": "new", "colour": 1}), "source", "DecodeError", "colour"
    ),
    "broken-json": Poison(encode(EVENT, "json")[:-20], "source", "DecodeError", "truncated", headers=JSON),
    "broken-msgpack": Poison(encode(EVENT)[:-9], "source", "DecodeError", "truncated", headers=MSGPACK),
    "content-type": Poison(
        encode(EVENT), "source", "DecodeError", "'text/plain'", headers=(("content-type", b"text/plain"),)
    ),
    "nan": Poison(
        encode(FeatureEvent(id="nan", features=Array.of(VECTOR * NAN))), "admission", "FeatureError", "is nan"
    ),
    "header-name": Poison(encode(EVENT), "source", "DecodeError", "ba\\\\xffd", header_name=NAME),
    "header-name-again": Poison(encode(EVENT), "source", "DecodeError", "is no UTF-8", header_name=b"\xff\xfe"),
}


class Poisoned(NamedTuple):
    """A run over good events with poisons between them."""

    bench: Bench
    places: dict[str, int]
    """Offset of each poison, which in a log of one partition is its number, too."""
    count: int
    answers: list[Any]
    letters: list[Any]


def poisoned(bench: Bench, poisons: dict[str, Poison], good: list[Any]) -> Poisoned:
    """Feed good, poison, good, poison … good, and wait for all to be answered."""
    places = {}
    bench.feed(good[:GOOD])
    offset, left = GOOD, iter(good[GOOD:])
    for name, poison in poisons.items():
        places[name] = offset
        if poison.header_name is None:
            bench.feed([(0, poison.key, poison.value, poison.headers)])
        else:
            produce_raw(bench.broker, f"{bench.topic}-in", [(poison.value, poison.header_name)])
        bench.feed([next(left)])
        offset += 2
    rest = list(left)
    bench.feed(rest)
    count = offset + len(rest)
    answers = bench.until_answered(count)
    return Poisoned(bench, places, count, answers[0], bench.dead_letters()[0])


@pytest.fixture(scope="module")
def images(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Poisoned]:
    """Poisons among JPEG files."""
    with Bench(broker, tmp_path_factory.mktemp("images"), "poisoned-images") as bench:
        write_picture_support(bench.folder)
        encoder = f'payload = "image"\n[encoder]\nplugin = "thumbnail"\nsize = {SIZE}\n'
        config = bench.make(SOURCE + encoder + SINK + HEAD + KEEPING)
        bench.start(config)
        rng = np.random.default_rng(5)
        good = [(0, b"door", picture(rng, number % 4), ()) for number in range(2 * GOOD + len(IMAGES))]
        good[4] = (0, b"\xff door \xfe", good[4][2], ())
        yield poisoned(bench, IMAGES, good)


@pytest.fixture(scope="module")
def features(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Poisoned]:
    """Poisons among events."""
    with Bench(broker, tmp_path_factory.mktemp("features"), "poisoned-events") as bench:
        write_support(bench.folder)
        bench.start(bench.make(DECIDE))
        yield poisoned(bench, EVENTS, messages(events(1, 2 * GOOD + len(EVENTS))))


def check_poison(found: Poisoned, name: str, poison: Poison) -> None:
    """One rejection and one dead letter, with all that came; its neighbours are answered."""
    place = found.places[name]
    (rejection,) = [one for one in rejections(found.answers) if one.sequence == place]
    assert (rejection.stage, rejection.error) == (poison.stage, poison.error)
    assert poison.says in rejection.message
    assert rejection.origin == f"{found.bench.topic}-in/0@{place}"
    (letter,) = [one for one in found.letters if one.sequence == place]
    assert bytes(letter.original) == (poison.value or b"")
    assert (letter.stage, letter.error, letter.message) == (poison.stage, poison.error, rejection.message)
    assert isinstance(found.answers[place - 1], Assignment)
    assert isinstance(found.answers[place + 1], Assignment)


@pytest.mark.parametrize("name", IMAGES)
def test_an_image_that_cannot_be_used_is_one_rejection(images: Poisoned, name: str) -> None:
    check_poison(images, name, IMAGES[name])


@pytest.mark.parametrize("name", EVENTS)
def test_an_event_that_cannot_be_used_is_one_rejection(features: Poisoned, name: str) -> None:
    check_poison(features, name, EVENTS[name])


@pytest.mark.parametrize("which", ["images", "features"])
def test_all_others_are_answered_in_order(request: pytest.FixtureRequest, which: str) -> None:
    found: Poisoned = request.getfixturevalue(which)
    assert [one.sequence for one in found.answers] == list(range(found.count))
    assert sorted(found.places.values()) == [one.sequence for one in rejections(found.answers)]
    assert len(found.letters) == len(found.places)
    assert len(assignments(found.answers)) == found.count - len(found.places)
    found.bench.check_alive()
    (worker,) = found.bench.workers
    assert worker.stop() == 0, worker.tail()
    assert not worker.lines("Traceback")


def test_a_key_that_is_no_text_is_spelt_out(images: Poisoned) -> None:
    assert [one.stream for one in assignments(images.answers) if one.stream != "door"] == ["\\xff door \\xfe"]


@pytest.mark.parametrize("squeezed", [False, True], ids=["plain", "compressed"])
def test_a_name_of_a_header_costs_nothing_but_its_message(
    broker: Broker, topic: str, tmp_path: Path, squeezed: bool
) -> None:
    """Not the messages of its batch, nor those behind the marker of a transaction, nor those of other logs."""
    with Bench(broker, tmp_path, topic) as bench:
        write_support(bench.folder)
        config = bench.make(DECIDE + '[run]\nuniverse = "shared"\n', 3)
        others = [message for partition in (1, 2) for message in messages(events(partition, 300), partition)]
        bench.feed(others)
        produce_in_transaction(broker, f"{topic}-in", messages(events(5, 10)))
        named = zip(events(6, 9), [b"good", b"good", NAME] * 3, strict=True)
        produce_raw(broker, f"{topic}-in", [(encode(one), name) for one, name in named], squeezed=squeezed)
        bench.feed(messages(events(7, 10)))
        count = len(others) + 10 + 9 + 10
        speciate("run", config, "-s", "source.follow=false")
        answers = bench.answers()
    check_exactly_once(answers, [count])
    assert [one.origin for one in rejections(answers[0])] == [f"{topic}-in/0@{11 + place}" for place in (2, 5, 8)]
    for partition in range(3):
        offsets = [int(one.origin.rpartition("@")[2]) for one in answers[0] if f"/{partition}@" in one.origin]
        assert offsets == sorted(offsets)
