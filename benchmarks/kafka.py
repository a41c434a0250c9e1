"""Throughput over Kafka with the exact head, beside the head alone and beside a bare consume-produce loop, in one run.

    python benchmarks/kafka.py                      d = 768, K = 200, 6 000 events
    python benchmarks/kafka.py --events 20000 --rounds 3

The head alone decides the same vectors from memory, one thread, no log. The bare loop consumes the same messages and
produces answers of the same size in transactions of the same length, without looking at them: what the broker and its
client allow. A worker cannot be faster than the slower of the two; how near it comes is the ratio. One worker has one
partition; two workers have one each, on two cores, each with one BLAS thread, and the broker has to live on those
cores, too. One worker with two partitions runs their heads on two threads, which is another way to use two cores.
Rates of workers are those of the answers' timestamps, from the first answer to the last. Best of the rounds, taken in
turn, since other work on the machine only ever adds time.
"""

import argparse
import asyncio
import os
from concurrent.futures import ProcessPoolExecutor

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import tempfile
import time
from pathlib import Path

import numpy as np

from kafka_setup import Clusters, answer_times, bench, messages, wait_for, workers
from speciate.head import Head

BATCH = 256
INTERVAL_MS = 500
ANSWER = b"x" * 330
"""As large as an assignment in JSON."""


def heads_at_once(clusters: Clusters, events: np.ndarray, count: int) -> float:
    """Events per second of so many heads together, each in a process of its own: what the machine has for them."""
    with ProcessPoolExecutor(count) as pool:
        return sum(pool.map(head_alone, [clusters] * count, [events] * count))


def head_alone(clusters: Clusters, events: np.ndarray) -> float:
    """Events per second of the head, from memory."""
    head = Head.fit(*clusters.support(), density="full", policy="dp", alpha=1e-9)
    list(head.deciding(events[:BATCH].astype(np.float64)))
    began = time.perf_counter()
    for start in range(0, len(events), BATCH):
        list(head.deciding(events[start : start + BATCH].astype(np.float64)))
    return len(events) / (time.perf_counter() - began)


async def bare_loop(servers: str, count: int, partitions: int) -> float:
    """Messages per second through a consumer and a transactional producer that look at nothing."""
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition  # noqa: PLC0415

    consumer = AIOKafkaConsumer(
        bootstrap_servers=servers, isolation_level="read_committed", auto_offset_reset="earliest"
    )
    producer = AIOKafkaProducer(
        bootstrap_servers=servers, transactional_id="bare", acks="all", max_batch_size=256 << 10, retry_backoff_ms=10
    )
    await consumer.start()
    await producer.start()
    try:
        places = [TopicPartition("events", number) for number in range(partitions)]
        consumer.assign(places)
        await consumer.seek_to_beginning(*places)
        seen, began = 0, time.perf_counter()
        while seen < count:
            commits = time.perf_counter() + INTERVAL_MS / 1e3
            async with producer.transaction():
                while seen < count and time.perf_counter() < commits:
                    for place, records in (await consumer.getmany(timeout_ms=100, max_records=BATCH)).items():
                        for record in records:
                            await producer.send("bare", ANSWER, key=record.key, partition=place.partition)
                        seen += len(records)
        return seen / (time.perf_counter() - began)
    finally:
        await producer.stop()
        await consumer.stop()


def with_workers(
    clusters: Clusters, events: np.ndarray, directory: Path, *, count: int, partitions: int
) -> tuple[float, float]:
    """Answers per second of so many workers; and of the bare loop over the same messages, right after."""
    with bench(directory, clusters, partitions=partitions, interval_ms=INTERVAL_MS, snapshot_events=10**9) as (
        broker,
        config,
    ):
        broker.create_topic("bare", partitions)
        with workers(config, count) as running:
            # Each has fitted its head and taken its tasks over before there is anything to do.
            warm = messages(events[: 50 * partitions], partitions)
            broker.produce("events", warm)
            wait_for(broker, len(warm), running, "warming up")
            time.sleep(2.0)
            broker.produce("events", messages(events, partitions, first=len(warm)))
            wait_for(broker, len(warm) + len(events), running, f"{count} worker(s)")
            times = answer_times(broker)
        kept = np.sort(np.concatenate([np.array(one[len(warm) // partitions :]) for one in times.values()]))
        bare = asyncio.run(bare_loop(broker.servers, len(warm) + len(events), partitions))
    return (len(kept) - 1) / (kept[-1] - kept[0]), bare


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dimension", type=int, default=768)
    parser.add_argument("--categories", type=int, default=200)
    parser.add_argument("--events", type=int, default=6000)
    parser.add_argument("--rounds", type=int, default=2)
    options = parser.parse_args()
    alone, both, bare, rates = [], [], [], {(1, 1): [], (2, 2): [], (1, 2): []}
    for number in range(options.rounds):
        clusters = Clusters(dimension=options.dimension, classes=options.categories, each=30, seed=number)
        events = clusters.events(options.events)
        with tempfile.TemporaryDirectory() as directory:
            alone.append(head_alone(clusters, events))
            both.append(heads_at_once(clusters, events, 2))
            for (count, partitions), found in rates.items():
                place = Path(directory) / f"{count}-{partitions}"
                rate, loop = with_workers(clusters, events, place, count=count, partitions=partitions)
                found.append(rate)
                bare.append(loop)
    limit = min(max(alone), max(bare))
    one, two, threads = (max(rates[case]) for case in ((1, 1), (2, 2), (1, 2)))
    print(f"d = {options.dimension}, K = {options.categories}, {options.events:,} events, best of {options.rounds}")
    print(f"head alone                   {max(alone):9,.0f} events/s")
    print(f"two heads alone at once      {max(both):9,.0f} events/s    {max(both) / max(alone):.2f} × one")
    print(f"bare consume-produce         {max(bare):9,.0f} messages/s")
    print(f"one worker, one partition    {one:9,.0f} answers/s   {one / limit:.0%} of the slower (aim 70 %)")
    print(f"two workers, one each        {two:9,.0f} answers/s   {two / one:.2f} × one (aim 1.6)")
    print(f"one worker, two partitions   {threads:9,.0f} answers/s   {threads / one:.2f} × one")


if __name__ == "__main__":
    main()
