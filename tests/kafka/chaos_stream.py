"""What the chaos test feeds the workers: clusters of vectors, damage, duplicates and control events, from one seed.

What is in the input logs at the end is the truth, not what was sent: a message that was sent twice while the broker was
away is two inputs, and both must be answered.
"""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, Self

import numpy as np
from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError
from aiokafka.structs import RecordMetadata

from speciate_schemas import Array, FeatureEvent, ForgetCategory, MergeCategories, RenameCategory, encode

EVENTS, CONTROL, ANSWERS, BIRTHS, DEAD_LETTERS, STATE = (
    "events",
    "control",
    "answers",
    "births",
    "dead-letters",
    "state",
)
GROUP = "chaos"
DIMENSION = 16
KNOWN, CLASSES = 4, 12
CHUNK = 500
"""Messages sent before their acknowledgements are waited for."""
CONTROL_SHARE = 0.005
"""Control events in a topic of their own, for each event."""
TOPICS: dict[str, Mapping[str, str]] = {
    EVENTS: {},
    CONTROL: {},
    ANSWERS: {},
    BIRTHS: {},
    DEAD_LETTERS: {"max.message.bytes": str(18 << 20)},
    STATE: {
        # Small messages make a snapshot of several chunks; small segments are compacted while the test runs.
        "cleanup.policy": "compact",
        "max.message.bytes": str(96 << 10),
        "segment.bytes": str(1 << 20),
        "min.cleanable.dirty.ratio": "0.01",
    },
}
"""Every topic with its settings; all have as many partitions."""

CONFIG = """
[source]
plugin = "kafka"
servers = ["{servers}"]
topics = ["{EVENTS}"]
control = "{CONTROL}"
group = "{GROUP}"
session_timeout_ms = {session_ms}

[support]
plugin = "npz"
paths = ["{directory}/support.npz"]

[density]
plugin = "nearest-mean"

[policy]
plugin = "dp"
alpha = 1e-3

[sink]
plugin = "kafka"
servers = ["{servers}"]
topic = "{ANSWERS}"
births = "{BIRTHS}"
group = "{GROUP}"

[dead_letters]
plugin = "kafka"
servers = ["{servers}"]
topic = "{DEAD_LETTERS}"

[store]
plugin = "kafka"
servers = ["{servers}"]
topic = "{STATE}"

[run]
batch_events = 64
standby = {standby}

[commit]
interval_ms = 200
snapshot_events = {snapshot_events}
"""


class Message(NamedTuple):
    """One message to be sent."""

    topic: str
    partition: int
    value: bytes | None


def write_pipeline(directory: Path, *, servers: str, seed: int, session_ms: int, standby: int, snapshot: int) -> Path:
    """Write the support set and the configuration that all workers have in common; the configuration's path."""
    rng = np.random.default_rng(seed)
    labels = np.repeat(np.arange(KNOWN), 30)
    np.savez(directory / "support.npz", features=_around(rng, _centres(seed)[labels]), labels=labels)
    named = {name: value for name, value in globals().items() if isinstance(value, str) and name.isupper()}
    named |= {"servers": servers, "directory": str(directory)}
    config = directory / "pipeline.toml"
    config.write_text(CONFIG.format(**named, session_ms=session_ms, standby=standby, snapshot_events=snapshot))
    return config


def messages(seed: int, partitions: int) -> Iterator[Message]:
    """Events to every partition in turn, and now and then a control event; without end."""
    centres = _centres(seed)
    generators = [np.random.default_rng([seed, partition]) for partition in range(partitions)]
    number = 0
    while True:
        for partition, rng in enumerate(generators):
            yield Message(EVENTS, partition, _payload(rng, f"event-{number}", number, centres))
            if rng.random() < CONTROL_SHARE:
                yield Message(CONTROL, partition, _instruction(rng, f"control-{number}", centres))
        number += 1


def _centres(seed: int) -> np.ndarray:
    return np.random.default_rng([seed, CLASSES]).normal(size=(CLASSES, DIMENSION)) * 3.0


def _around(rng: np.random.Generator, centres: np.ndarray) -> np.ndarray:
    return (centres + rng.normal(size=centres.shape)).astype(np.float32)


def _payload(rng: np.random.Generator, name: str, number: int, centres: np.ndarray) -> bytes | None:
    """Mostly observations; one in forty is damaged, a duplicate, or a control event that may not apply."""
    vector = _around(rng, centres[rng.integers(CLASSES)][None])[0]
    good = FeatureEvent(id=name, stream="crash", features=Array.of(vector), time=float(number))
    match int(rng.integers(320)):
        case 0:
            return encode(good)[: int(rng.integers(40))]
        case 1:
            return encode(FeatureEvent(id=name, features=Array.of(vector[:5])))
        case 2 | 3:
            return encode(FeatureEvent(id=f"event-{max(0, number - 7)}", stream="crash", features=Array.of(vector)))
        case 4:
            return None
        case 5 | 6 | 7:
            return _instruction(rng, name, centres)
        case _:
            return encode(good)


def _instruction(rng: np.random.Generator, name: str, centres: np.ndarray) -> bytes:
    """A control event, which may name a category that is not there; or an observation, which is none."""
    match int(rng.integers(8)):
        case 0 | 1 | 2:
            return encode(RenameCategory(id=name, category=int(rng.integers(CLASSES)), label=f"label of {name}"))
        case 3 | 4:
            return encode(MergeCategories(id=name, keep=int(rng.integers(20)), absorb=int(rng.integers(20))))
        case 5 | 6:
            return encode(ForgetCategory(id=name, category=int(rng.integers(40))))
        case _:
            return encode(FeatureEvent(id=name, features=Array.of(_around(rng, centres[:1])[0])))


class Feeder:
    """Sends messages for as long as it takes: a broker that is away costs time."""

    def __init__(self, servers: str, source: Iterator[Message]) -> None:
        self._producer = AIOKafkaProducer(bootstrap_servers=servers, acks="all", request_timeout_ms=10_000)
        self._source = source

    async def __aenter__(self) -> Self:
        await self._producer.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._producer.stop()

    async def feed(self, count: int) -> None:
        """Send the next so many messages; returns once all of them are in the log."""
        for start in range(0, count, CHUNK):
            left = [next(self._source) for _ in range(min(CHUNK, count - start))]
            while left:
                left = await self._attempt(left)

    async def _attempt(self, wanted: Sequence[Message]) -> list[Message]:
        """Those that may not have got through."""
        sent = [await self._send(message) for message in wanted]
        outcomes = await asyncio.gather(*sent, return_exceptions=True)
        failed = [message for message, outcome in zip(wanted, outcomes, strict=True) if isinstance(outcome, Exception)]
        if failed:
            await asyncio.sleep(0.5)
        return failed

    async def _send(self, message: Message) -> asyncio.Future[RecordMetadata]:
        try:
            return await self._producer.send(message.topic, message.value, b"crash", partition=message.partition)
        except KafkaError as error:
            failed = asyncio.get_running_loop().create_future()
            failed.set_exception(error)
            return failed
