"""What a restart costs: the pause of every partition in a rolling restart under load, and the time to restore a task.

    python benchmarks/kafka_restart.py                 rolling restart of three workers, then a restore
    python benchmarks/kafka_restart.py --seconds 60

Rolling: three workers, six partitions, a steady stream; one worker after another is stopped with SIGTERM and replaced.
A pause is the time between two answers of a partition, seen by a reader, above what the stream itself leaves between
them. Restore: one partition of 50 000 events with a snapshot every 10 000; the worker is killed with SIGKILL before a
snapshot, and its successor tells when it began to take over; until then it is the broker that waits for the session of
the dead to end.
"""

import argparse
import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import signal
import tempfile
import threading
import time
from datetime import datetime
from pathlib import Path

import numpy as np

from kafka_setup import Clusters, Worker, answer_times, bench, messages, wait_for, workers

PARTITIONS = 6
RATE = 300
"""Events per second: well below what the workers can do, so that a pause is a pause and not a backlog."""


def rolling(directory: Path, seconds: float) -> None:
    """Restart three workers in turn while events come."""
    clusters = Clusters(dimension=64, classes=20, each=30)
    setup = bench(directory, clusters, partitions=PARTITIONS, interval_ms=100, snapshot_events=2000)
    with setup as (broker, config), workers(config, 3) as running:
        broker.produce("events", messages(clusters.events(PARTITIONS * 10), PARTITIONS))
        wait_for(broker, PARTITIONS * 10, running, "starting")
        count = int(RATE * seconds)
        feeding = threading.Thread(target=feed, args=(broker, messages(clusters.events(count), PARTITIONS, 1000)))
        feeding.start()
        for number in range(3):
            time.sleep(seconds / 4)
            running[number].end()
            running[number] = Worker(config, f"worker-{number}-again")
        feeding.join()
        wait_for(broker, count + PARTITIONS * 10, running, "rolling restart")
        times = answer_times(broker)
    steady = PARTITIONS / RATE
    gaps = np.concatenate([np.diff(np.sort(np.array(one)[10:])) for one in times.values()])
    pauses = np.maximum(gaps - steady, 0.0)
    longest = [float(np.diff(np.sort(np.array(one)[10:])).max()) for one in times.values()]
    print(f"rolling restart of 3 workers, {PARTITIONS} partitions, {RATE} events/s, {count:,} events, all answered")
    print(f"  pause between answers: p99 {np.quantile(pauses, 0.99) * 1e3:.0f} ms, longest {pauses.max():.2f} s")
    print(f"  longest pause of each partition: {', '.join(f'{one:.2f} s' for one in longest)}")


def feed(broker: object, events: list) -> None:
    """Produce at the rate, twenty times a second."""
    portion = RATE // 20
    for start in range(0, len(events), portion):
        due = time.monotonic() + 0.05
        broker.produce("events", events[start : start + portion])  # type: ignore[attr-defined]
        time.sleep(max(0.0, due - time.monotonic()))


def restore(directory: Path, events: int, dimension: int, categories: int) -> None:
    """Kill the owner of a long partition and look how its successor comes along."""
    clusters = Clusters(dimension=dimension, classes=categories, each=30)
    setup = bench(directory, clusters, partitions=1, interval_ms=200, snapshot_events=10_000)
    with setup as (broker, config):
        first = Worker(config, "first")
        # Nearly a whole interval behind its last snapshot: the worst moment to die.
        broker.produce("events", messages(clusters.events(events - 200), 1))
        wait_for(broker, events - 200, [first], "filling the partition")
        first.end(signal.SIGKILL)
        with workers(config, 1) as running:
            broker.produce("events", messages(clusters.events(200), 1, first=events))
            wait_for(broker, events, running, "taking over")
            told = next(line for line in running[0].lines() if line["message"] == "task taken over")
        first_new = answer_times(broker)[0][events - 200]
    opened = datetime.fromisoformat(told["timestamp"]).timestamp()
    print(f"restore of a partition of {events:,} events, d = {dimension}, K = {categories}, snapshot every 10 000")
    print(f"  {told['folded_again']:,} events folded again; {told['seconds']:.2f} s to open all and load the state,")
    print(f"  {first_new - opened + told['seconds']:.2f} s from its start to the first new answer (aim 2)")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=40.0, help="length of the rolling restart")
    parser.add_argument("--events", type=int, default=50_000, help="length of the partition that is restored")
    parser.add_argument("--dimension", type=int, default=64)
    parser.add_argument("--categories", type=int, default=20)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        rolling(Path(directory) / "rolling", options.seconds)
        restore(Path(directory) / "restore", options.events, options.dimension, options.categories)


if __name__ == "__main__":
    main()
