"""Pipelines as their users have them: a configuration, processes of `speciate run`, and a reader of their own.

A `Bench` belongs to one test. It writes configurations, starts workers and waits for what they answer, and whatever
does not come is told with the ends of the workers' logs.
"""

import gzip
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from io import BytesIO
from pathlib import Path
from typing import Any, Self, TypeVar

import numpy as np
from aiokafka import AIOKafkaProducer
from aiokafka.client import AIOKafkaClient
from aiokafka.errors import KafkaError, for_code
from aiokafka.protocol.produce import ProduceRequest
from aiokafka.record.default_records import DefaultRecordBase, DefaultRecordBatchBuilder
from aiokafka.record.util import calc_crc32c
from broker import Broker, _blocking, started
from PIL import Image

from speciate_plugins.encoders.thumbnail import ThumbnailEncoder, ThumbnailOptions
from speciate_schemas import (
    Answer,
    Array,
    Assignment,
    ControlApplied,
    DeadLetter,
    FeatureEvent,
    ImageEvent,
    Rejection,
    decode,
    encode,
)
from speciate_schemas.codec import decoder

PATIENCE = 150.0
"""Seconds anything may take: many times what it needs, for machines that do other things too."""
LOOK_SECONDS = 0.2
TAIL_LINES = 25
DIMENSION, KNOWN, CLASSES = 8, 2, 5
SIZE = 4
"""Width and height of the thumbnails: as features they have 16 numbers."""

# The parent of a worker's process. Its standard input ends when the process of the tests does, however that dies, and
# takes the worker with it.
KEEPER = """\
import subprocess, sys, threading
child = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
print(child.pid, flush=True)
threading.Thread(target=lambda: (sys.stdin.read(), child.kill()), daemon=True).start()
code = child.wait()
sys.exit(code if code >= 0 else 128 - code)
"""
SPECIATE = [sys.executable, "-m", "speciate.cli"]
AWAY = 4
"""What a command exits with when something that it needs is not there, such as a broker."""

T = TypeVar("T")
Answers = dict[int, list[Answer]]
"""Of each partition, in order."""
Message = tuple[int, bytes | None, bytes | None, Sequence[tuple[str, bytes]]]

SOURCE = """
[source]
plugin = "kafka"
servers = ["{servers}"]
topics = ["{topic}-in"]
group = "{topic}"
session_timeout_ms = 3000
"""
SINK = """
[sink]
plugin = "kafka"
servers = ["{servers}"]
topic = "{topic}-answers"
"""
HEAD = """
[support]
plugin = "npz"
paths = ["{folder}/support.npz"]
[density]
plugin = "nearest-mean"
[policy]
plugin = "dp"
alpha = 1e-3
"""
KEEPING = """
[dead_letters]
plugin = "kafka"
servers = ["{servers}"]
topic = "{topic}-dead"
[store]
plugin = "kafka"
servers = ["{servers}"]
topic = "{topic}-state"
[commit]
interval_ms = 100
snapshot_events = 100
"""
DECIDE = SOURCE + SINK + HEAD + KEEPING
"""A pipeline that decides on events, everything on Kafka."""


class Worker:
    """One process of `speciate run`."""

    def __init__(self, number: int, config: Path, options: Sequence[str] = ()) -> None:
        self.name = f"worker {number}"
        self.log = config.parent / f"worker-{number}.log"
        with self.log.open("wb") as log:
            self._keeper = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", KEEPER, *SPECIATE, "run", str(config), *options],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env=environment(),
                start_new_session=True,  # Ctrl-C is for the tests
            )
        self.pid = int(self._keeper.stdout.readline())

    @property
    def code(self) -> int | None:
        """What it exited with; None while it runs."""
        return self._keeper.poll()

    def send(self, number: signal.Signals) -> None:
        """Send a signal, unless it is gone."""
        if self.code is None:
            with suppress(ProcessLookupError):  # it may have ended, and the keeper not yet
                os.kill(self.pid, number)

    def wait(self, seconds: float = PATIENCE) -> int:
        """Its exit code, once it ends by itself."""
        try:
            return self._keeper.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{self.name} did not end within {seconds:g} s\n{self.tail()}") from None

    def stop(self, seconds: float = PATIENCE) -> int:
        """SIGTERM; its exit code."""
        self.send(signal.SIGTERM)
        return self.wait(seconds)

    def kill(self) -> None:
        """Kill -9, and wait until it is gone."""
        self.send(signal.SIGKILL)
        self.wait()

    def end(self) -> None:
        """Whatever it does, it is gone afterwards."""
        with suppress(BrokenPipeError):
            self._keeper.stdin.close()
        self._keeper.wait()
        self._keeper.stdout.close()

    def lines(self, message: str = "") -> list[dict[str, Any]]:
        """The lines of its log so far, of this message if one is given; those that are not JSON have only that."""
        found = []
        for line in self.log.read_text(errors="replace").splitlines():
            one = {"message": line}
            with suppress(ValueError):
                one = json.loads(line)
            if message in one["message"]:
                found.append(one)
        return found

    def tail(self) -> str:
        """The end of its log."""
        with self.log.open(errors="replace") as log:
            state = "runs" if self.code is None else f"exited with {self.code}"
            return f"--- {self.name} (pid {self.pid}) {state}, {self.log}:\n" + "".join(deque(log, TAIL_LINES))


class Bench:
    """Configurations, workers and answers of one test; a context manager that ends the workers."""

    def __init__(self, broker: Broker, folder: Path, topic: str) -> None:
        self.broker, self.folder, self.topic = broker, folder, topic
        self.workers: list[Worker] = []

    def __enter__(self) -> Self:
        self.folder.mkdir(parents=True, exist_ok=True)
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self.workers:
            worker.end()

    def write(self, text: str, name: str = "pipeline.toml", **more: Any) -> Path:
        """Write a configuration, with the broker, the topics and the folder of this test in it."""
        path = self.folder / name
        path.write_text(text.format(servers=self.broker.servers, topic=self.topic, folder=self.folder, **more))
        return path

    def make(self, text: str, partitions: int = 1, name: str = "pipeline.toml", **more: Any) -> Path:
        """Write a configuration and create its topics."""
        path = self.write(text, name, **more)
        deadline = time.monotonic() + PATIENCE
        # A broker that stood still may be left out for a moment.
        while (done := finished("topics", "create", path, "--partitions", partitions)).returncode == AWAY:
            if time.monotonic() > deadline:
                break
            time.sleep(LOOK_SECONDS)
        assert done.returncode == 0, f"exit {done.returncode}: {done.stdout}\n{done.stderr}"
        return path

    def start(self, config: Path, *options: str) -> Worker:
        """Start a worker; it ends with the test."""
        self.workers.append(Worker(len(self.workers), config, options))
        return self.workers[-1]

    def feed(self, messages: Sequence[Message], topic: str = "in") -> None:
        """Write to a topic of this test, messages of any size."""
        _blocking(_produce(self.broker.servers, f"{self.topic}-{topic}", messages))

    def until(self, found: Callable[[], T], what: str, *, seconds: float = PATIENCE) -> T:
        """Wait until something is there; no worker may exit meanwhile by itself."""
        before = {worker.name for worker in self.workers if worker.code is not None}
        deadline = time.monotonic() + seconds
        while not (there := _attempted(found)):
            fallen = [one for one in self.workers if one.code is not None and one.name not in before]
            if fallen or time.monotonic() > deadline:
                why = f"{fallen[0].name} exited" if fallen else f"it took more than {seconds:g} s"
                raise AssertionError("\n".join([f"waiting until {what}: {why}", *(w.tail() for w in self.workers)]))
            time.sleep(LOOK_SECONDS)
        return there

    def answers(self, topic: str = "answers") -> Answers:
        """The committed answers of each partition, in order."""
        return _answers(self.broker.read_all(f"{self.topic}-{topic}"))

    def until_answered(self, *counts: int, topic: str = "answers", seconds: float = PATIENCE) -> Answers:
        """Wait for at least so many answers in each partition."""

        def enough() -> Answers | None:
            found = _answers(self.broker.read_so_far(f"{self.topic}-{topic}"))
            return found if all(len(found[place]) >= count for place, count in enumerate(counts)) else None

        return self.until(enough, f"{counts} inputs are answered", seconds=seconds)

    def dead_letters(self, topic: str = "dead") -> dict[int, list[DeadLetter]]:
        """The committed dead letters of each partition, in order."""
        found = self.broker.read_all(f"{self.topic}-{topic}")
        return {
            partition: [decode(record.value, DeadLetter) for record in records] for partition, records in found.items()
        }

    def check_alive(self) -> None:
        """No worker exited."""
        assert all(worker.code is None for worker in self.workers), "\n".join(w.tail() for w in self.workers)


def _attempted(found: Callable[[], T]) -> T | None:
    """What is found; nothing while a broker has yet to find itself again."""
    try:
        return found()
    except (KafkaError, TimeoutError):
        return None


def environment() -> dict[str, str]:
    """For a process of `speciate`."""
    return {**os.environ, "OPENBLAS_NUM_THREADS": "1"}


def speciate(*args: Any, code: int = 0, seconds: float = PATIENCE) -> subprocess.CompletedProcess[str]:
    """Run a command to its end, in a process of its own."""
    done = finished(*args, seconds=seconds)
    assert done.returncode == code, f"exit {done.returncode}: {done.stdout}\n{done.stderr}"
    return done


def finished(*args: Any, seconds: float = PATIENCE) -> subprocess.CompletedProcess[str]:
    """As `speciate`, whatever it exits with."""
    command = [*SPECIATE, *map(str, args)]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=seconds, env=environment())
    except subprocess.TimeoutExpired as late:
        said = (late.stderr or b"").decode(errors="replace")
        raise AssertionError(f"{args} did not end within {seconds:g} s: {said}") from None


def _answers(found: dict[int, list[Any]]) -> Answers:
    return {partition: [answer_of(record) for record in records] for partition, records in found.items()}


def answer_of(record: Any) -> Answer:
    """The answer in a record, however it is written."""
    form = "json" if dict(record.headers)["content-type"] == b"application/json" else "msgpack"
    answer: Answer = decoder(Answer, form)(record.value)
    return answer


def check_exactly_once(answers: Answers, counts: Sequence[int]) -> None:
    """Every input of every partition is answered once, in order."""
    for partition, count in enumerate(counts):
        assert [one.sequence for one in answers[partition]] == list(range(count)), f"partition {partition}"


def kinds(answers: Sequence[Answer]) -> Counter[str]:
    """How many there are of each kind."""
    return Counter(type(one).__name__ for one in answers)


def assignments(answers: Sequence[Answer]) -> list[Assignment]:
    """Those that are assignments."""
    return [one for one in answers if isinstance(one, Assignment)]


def rejections(answers: Sequence[Answer]) -> list[Rejection]:
    """Those that are rejections."""
    return [one for one in answers if isinstance(one, Rejection)]


def controls(answers: Sequence[Answer]) -> list[ControlApplied]:
    """Those that are answers to control events."""
    return [one for one in answers if isinstance(one, ControlApplied)]


def vector(rng: np.random.Generator, kind: int, dimension: int = DIMENSION) -> np.ndarray:
    """A vector of a class; classes are far apart."""
    return (rng.normal(size=dimension) + 20.0 * kind).astype(np.float32)


def write_support(folder: Path, dimension: int = DIMENSION) -> None:
    """Some vectors of the known classes."""
    rng = np.random.default_rng(7)
    labels = np.repeat(np.arange(KNOWN), 20)
    np.savez(
        folder / "support.npz", features=np.stack([vector(rng, kind, dimension) for kind in labels]), labels=labels
    )


def events(seed: int, count: int, *, streams: int = 1, first: int = 0) -> list[FeatureEvent]:
    """Events of known and unknown classes."""
    rng = np.random.default_rng([seed, first])
    return [
        FeatureEvent(
            id=f"{seed}-{number}",
            stream=f"camera-{number % streams}",
            features=Array.of(vector(rng, int(rng.integers(CLASSES)))),
        )
        for number in range(first, first + count)
    ]


def messages(found: Sequence[FeatureEvent], partition: int = 0) -> list[Message]:
    """Events as messages."""
    return [(partition, one.stream.encode(), encode(one), ()) for one in found]


def picture(rng: np.random.Generator, kind: int) -> bytes:
    """A JPEG of a class: the left part is dark and the rest bright, a bit more of it for each class."""
    pixels = np.full((32, 32), 230.0)
    pixels[:, : 8 * kind + 8] = 25.0
    file = BytesIO()
    Image.fromarray(np.clip(pixels + rng.normal(size=pixels.shape) * 4, 0, 255).astype(np.uint8)).save(file, "JPEG")
    return file.getvalue()


def write_picture_support(folder: Path) -> None:
    """Pictures of the known classes, as the encoder `thumbnail` sees them."""
    rng = np.random.default_rng(7)
    labels = np.repeat(np.arange(KNOWN), 20)
    images = [ImageEvent(id=str(number), image=memoryview(picture(rng, kind))) for number, kind in enumerate(labels)]
    encoder = ThumbnailEncoder(ThumbnailOptions(size=SIZE))
    features = encoder.encode([encoder.prepare(image) for image in images])
    np.savez(folder / "support.npz", features=features, labels=labels)


async def _produce(servers: str, topic: str, found: Sequence[Message]) -> None:
    async with started(AIOKafkaProducer(bootstrap_servers=servers, acks="all", max_request_size=64 << 20)) as producer:
        sent = [
            await producer.send(topic, value, key, partition=partition, headers=list(headers))
            for partition, key, value, headers in found
        ]
        for one in sent:
            await one


def produce_in_transaction(broker: Broker, topic: str, found: Sequence[Message]) -> None:
    """Write messages, and behind them the marker that they are committed, which has an offset, too."""
    _blocking(_produce_in_transaction(broker.servers, topic, found))
    # The writer is told before the marker is there: what is written next could come before it.
    broker.settle(topic)


async def _produce_in_transaction(servers: str, topic: str, found: Sequence[Message]) -> None:
    writer = AIOKafkaProducer(bootstrap_servers=servers, transactional_id=topic)
    async with started(writer) as producer, producer.transaction():
        for partition, key, value, headers in found:
            await producer.send(topic, value, key, partition=partition, headers=list(headers))


def produce_raw(broker: Broker, topic: str, values: Sequence[tuple[bytes, bytes]], *, squeezed: bool = False) -> None:
    """Write one batch to partition 0: values, each with a header whose name is any bytes, as no decent client would."""
    _blocking(_produce_raw(broker.servers, topic, _batch(values, squeezed=squeezed)))


def _batch(values: Sequence[tuple[bytes, bytes]], *, squeezed: bool) -> bytes:
    """The bytes of a batch, patched, perhaps compressed, and its length and checksum made to fit."""
    nobody = {"is_transactional": 0, "producer_id": -1, "producer_epoch": -1, "base_sequence": -1}
    builder = DefaultRecordBatchBuilder(magic=2, compression_type=0, batch_size=1 << 20, **nobody)
    for number, (value, header) in enumerate(values):
        builder.append(number, timestamp=None, key=None, value=value, headers=[("?" * len(header), b"")])
    batch = bytearray(builder.build())
    place = 0
    for value, header in values:
        place = batch.index(b"?" * len(header), batch.index(value, place) + len(value))
        batch[place : place + len(header)] = header
    head, crc, attributes = (
        getattr(DefaultRecordBase, name) for name in ("HEADER_STRUCT", "CRC_OFFSET", "ATTRIBUTES_OFFSET")
    )
    if squeezed:
        batch[head.size :] = gzip.compress(bytes(batch[head.size :]))
        batch[attributes + 1] |= DefaultRecordBase.CODEC_GZIP
        batch[8:12] = (len(batch) - DefaultRecordBase.AFTER_LEN_OFFSET).to_bytes(4, "big")
    batch[crc:attributes] = calc_crc32c(bytes(batch[attributes:])).to_bytes(4, "big")
    return bytes(batch)


async def _produce_raw(servers: str, topic: str, batch: bytes) -> None:
    client = AIOKafkaClient(bootstrap_servers=servers)
    try:
        await client.bootstrap()
        (node, *_) = client.cluster.brokers()
        answer = await client.send(node.nodeId, ProduceRequest(None, -1, 10_000, [(topic, [(0, batch)])]))
        ((_, ((_, code, *_),)),) = answer.topics
        if code:
            raise for_code(code)(topic)
    finally:
        await client.close()
