"""What the Kafka benchmarks share: a real broker, a stream of the size of interest, workers, and their answers.

Rates and pauses are read from the answers' own timestamps by an independent reader: what a consumer would have seen.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "kafka"))

from broker import Broker

from speciate_schemas import Array, FeatureEvent, encode

TOPICS = ("events", "answers", "dead-letters")
SPECIATE = (sys.executable, "-m", "speciate.cli")
PATIENCE = 600.0

CONFIG = """
[source]
plugin = "kafka"
servers = ["{servers}"]
topics = ["events"]
group = "bench"
session_timeout_ms = 6000

[support]
plugin = "npz"
paths = ["{directory}/support.npz"]

[density]
plugin = "full"

[policy]
plugin = "dp"
alpha = 1e-9

[sink]
plugin = "kafka"
servers = ["{servers}"]
topic = "answers"
group = "bench"

[dead_letters]
plugin = "kafka"
servers = ["{servers}"]
topic = "dead-letters"

[store]
plugin = "kafka"
servers = ["{servers}"]
topic = "state"

[commit]
interval_ms = {interval_ms}
snapshot_events = {snapshot_events}
"""


class Clusters:
    """Events of known classes: none of them gives birth, so the head keeps its size."""

    def __init__(self, *, dimension: int, classes: int, each: int, seed: int = 0) -> None:
        self._rng = np.random.default_rng(seed)
        self._centres = 3.0 * self._rng.normal(size=(classes, dimension))
        self._classes = np.repeat(np.arange(classes), each)

    def around(self, classes: np.ndarray) -> np.ndarray:
        """One event of each of these classes."""
        centres = self._centres[classes]
        return (centres + self._rng.normal(size=centres.shape)).astype(np.float32)

    def support(self) -> tuple[np.ndarray, np.ndarray]:
        """Labelled features; the labels sort as the numbers do."""
        return self.around(self._classes), np.array([f"{number:06d}" for number in self._classes])

    def events(self, count: int) -> np.ndarray:
        """A stream."""
        return self.around(self._rng.integers(len(self._centres), size=count))


def messages(features: np.ndarray, partitions: int, first: int = 0) -> list[tuple[int, bytes, bytes, Any]]:
    """The events as messages, dealt to the partitions in turn; one camera a partition."""
    return [
        (
            number % partitions,
            b"camera-%d" % (number % partitions),
            encode(
                FeatureEvent(id=f"e{first + number}", stream=f"camera-{number % partitions}", features=Array.of(vector))
            ),
            [],
        )
        for number, vector in enumerate(features)
    ]


@contextlib.contextmanager
def bench(directory: Path, clusters: Clusters, *, partitions: int, **commit: float) -> Iterator[tuple[Broker, Path]]:
    """A broker with empty topics, and the configuration of a worker."""
    features, labels = clusters.support()
    directory.mkdir(parents=True, exist_ok=True)
    np.savez(directory / "support.npz", features=features, labels=labels)
    with Broker(directory / "broker") as broker:
        for topic in TOPICS:
            broker.create_topic(topic, partitions)
        broker.create_topic("state", partitions, {"cleanup.policy": "compact", "max.message.bytes": str(2 << 20)})
        config = directory / "worker.toml"
        config.write_text(CONFIG.format(servers=broker.servers, directory=directory, **commit))
        yield broker, config


class Worker:
    """One process of `speciate run`, with one BLAS thread."""

    def __init__(self, config: Path, name: str) -> None:
        self.log = config.parent / f"{name}.log"
        environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
        with self.log.open("wb") as log:
            self._process = subprocess.Popen([*SPECIATE, "run", str(config)], stderr=log, env=environment)

    def end(self, number: int = signal.SIGTERM) -> None:
        """Send it a signal and wait for its end; a worker that was asked politely must end well."""
        self._process.send_signal(number)
        code = self._process.wait(120)
        if number == signal.SIGTERM and code != 0:
            raise SystemExit(f"a worker ended with {code}: {self.log.read_text()[-2000:]}")

    def check(self) -> None:
        """Nobody may end by itself."""
        if self._process.poll() is not None:
            raise SystemExit(f"a worker ended by itself: {self.log.read_text()[-2000:]}")

    def lines(self) -> list[dict[str, Any]]:
        """What it has logged."""
        return [json.loads(line) for line in self.log.read_text().splitlines() if line.startswith("{")]


@contextlib.contextmanager
def workers(config: Path, count: int) -> Iterator[list[Worker]]:
    """Workers that have their share of the tasks, and are ended whatever happens."""
    started = [Worker(config, f"worker-{number}") for number in range(count)]
    try:
        yield started
    finally:
        for worker in started:
            with contextlib.suppress(ProcessLookupError):
                worker.end()


def answered(broker: Broker) -> int:
    """How many answers can be seen; markers of transactions are not among them."""
    return sum(len(records) for records in broker.read_so_far("answers").values())


def wait_for(broker: Broker, count: int, running: Sequence[Worker], what: str) -> None:
    """Wait until so many answers can be seen, and tell how it goes."""
    until = time.monotonic() + PATIENCE
    # Offsets count markers of transactions, too, and cost nothing: what is under measure needs both cores.
    while sum(broker.end_offsets("answers", "read_committed").values()) < count or (now := answered(broker)) < count:
        now = sum(broker.end_offsets("answers", "read_committed").values())
        for worker in running:
            worker.check()
        if time.monotonic() > until:
            raise SystemExit(f"{what}: only {now} of {count} answers after {PATIENCE:.0f} s")
        print(f"\r{what}: about {now:,} of {count:,} answers", end="", file=sys.stderr, flush=True)
        time.sleep(2.0)
    print("\r" + " " * 70 + "\r", end="", file=sys.stderr, flush=True)


def answer_times(broker: Broker) -> dict[int, list[float]]:
    """When each answer was written, in seconds, by partition, in order."""
    return {
        number: [record.timestamp / 1e3 for record in records] for number, records in broker.read_all("answers").items()
    }
