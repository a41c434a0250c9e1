"""The one writer of a task: what it sends becomes visible in transactions, or (at-least-once) as it is acknowledged.

Records go out in batches that are built here and not in `AIOKafkaProducer.send`: a quarter of the processor time for
small answers. aiokafka commits a transaction even if one of its batches was refused, so a commit first waits for every
batch. A writer that failed is not mended but made anew, by `init`: aiokafka can stick on a sequence number.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Literal, NamedTuple

from speciate.errors import AwayError, ConfigError, OutputError
from speciate_plugins.kafka.connection import KafkaConnection, client_arguments
from speciate_plugins.kafka.failures import telling
from speciate_plugins.kafka.lag import LagMarker
from speciate_plugins.kafka.positions import Log
from speciate_plugins.kafka.stopping import looked_at, stop_client

Delivery = Literal["exactly-once", "at-least-once"]
Compression = Literal["none", "gzip", "snappy", "lz4", "zstd"]
Headers = Sequence[tuple[str, bytes]]

BATCH_BYTES = 256 << 10
"""Around a thousand answers; far below the mebibyte that a topic takes unless told otherwise."""
CLOSE_SECONDS = 10.0
CLOSE_FAILED_SECONDS = 2.0
RETRY_MS = 10
"""Brokers refuse the first batch of a transaction while they verify it: a longer pause makes small commits slow."""
TRANSACTION_TIMEOUT_MS = 60_000


class Sent(NamedTuple):
    """A batch on its way."""

    log: Log
    records: int
    nbytes: int
    delivered: "asyncio.Future[Any]"


class Transaction:
    """Writes to any partitions as one; `identity` names the writer, of which Kafka lets only the newest live."""

    def __init__(
        self,
        options: KafkaConnection,
        identity: str,
        *,
        delivery: Delivery = "exactly-once",
        compression: Compression = "none",
        timeout_ms: int = TRANSACTION_TIMEOUT_MS,
    ) -> None:
        self.identity = identity
        self.exact = delivery == "exactly-once"
        self._options = options
        self._compression = compression
        self._timeout_ms = timeout_ms
        self._patience = options.request_timeout_ms / 1000
        self._producer: Any = None
        self._failed = False
        self.limits: dict[str, int] = {}
        """The largest message that topics take, in bytes, where known."""
        self._lag = None if self.exact else LagMarker(Transaction(options, f"{identity}-lag"))
        self._clear()

    def _clear(self) -> None:
        self._begun = False
        self._beginning = asyncio.Lock()
        self._batches: dict[Log, Any] = {}
        self._sent: deque[Sent] = deque()
        self._ends: dict[Log, int] = {}

    async def init(self) -> None:
        """Become the only writer of this identity; whoever was it before is shut out and its transaction void.

        Batches keep to the smallest of the `limits` known by now.
        """
        await self.close()
        async with self._telling("start writing"):
            self._producer = self._make(min([BATCH_BYTES, *self.limits.values()]))
            await self._producer.start()
        self._failed = False

    async def begin(self) -> None:
        """Begin a transaction, if none is."""
        if self._producer is None or self._failed:
            raise AwayError(f"{self.identity} has stopped writing: it must start anew")
        if not self._begun:
            # Two sinks may write at the same time, and both be the first.
            async with self._beginning, self._telling("begin a transaction"):
                if self.exact and not self._begun:
                    await self._producer.begin_transaction()
                self._begun = True

    async def send(self, log: Log, key: bytes | None, value: bytes | None, headers: Headers) -> None:
        """Add a record to the transaction, which this may begin."""
        batch = self._batches.get(log)
        if batch is None:
            batch = await self._batch(log)
        if batch.append(timestamp=None, key=key, value=value, headers=headers) is None:
            await self._submit([log])
            batch = await self._batch(log)
            batch.append(timestamp=None, key=key, value=value, headers=headers)

    async def push(self) -> None:
        """Send the first records of a transaction now: it takes brokers some time to take partitions into it."""
        if self.exact and self._batches:
            begun = {sent.log for sent in self._sent} | self._ends.keys()
            await self._submit([log for log in self._batches if log not in begun])

    async def deliver(self) -> dict[Log, int]:
        """Wait until all that was sent is in its log, if not visible yet; the offset behind the last record, by log."""
        await self._submit(list(self._batches))
        async with self._telling("write"):
            while self._sent:
                await self._account()
        return dict(self._ends)

    async def commit(self, offsets: Mapping[Log, int], group: str | None) -> dict[Log, int]:
        """Make all that was sent visible, and `offsets` those of `group`; the offset behind the last record, by log.

        Raises:
            FencedError: another writer has our identity.
            AwayError: it is not known whether it worked, or it did not.
        """
        if not self._begun:
            return {}
        await self._submit(list(self._batches))
        async with self._telling("commit"):
            marking = asyncio.ensure_future(self._mark(offsets, group))
            try:
                while self._sent:
                    await self._account()
                await marking
            finally:
                await _let_go(marking)
            if self.exact:
                await self._producer.commit_transaction()
        if self._lag is not None and group is not None and offsets:
            self._lag.move(offsets, group)
        ends = self._ends
        self._clear()
        return ends

    async def close(self) -> None:
        """Abort what is open and let go; may be called more than once, and does not wait for an absent broker."""
        if self._lag is not None:
            await self._lag.close()
        producer, self._producer = self._producer, None
        open_transaction = self._begun and self.exact
        self._clear()
        if producer is not None:
            seconds = CLOSE_FAILED_SECONDS if self._failed else CLOSE_SECONDS
            await stop_client(producer, seconds, before=producer.abort_transaction if open_transaction else None)

    def _make(self, batch_bytes: int) -> Any:
        from aiokafka import AIOKafkaProducer  # noqa: PLC0415

        compression = None if self._compression == "none" else self._compression
        try:
            return AIOKafkaProducer(
                **client_arguments(self._options),
                acks="all",
                # Brokers that know no transactions know no idempotent writers either, and repeats are allowed then.
                enable_idempotence=self.exact,
                transactional_id=self.identity if self.exact else None,
                transaction_timeout_ms=self._timeout_ms,
                compression_type=compression,
                max_batch_size=batch_bytes,
                retry_backoff_ms=RETRY_MS,
            )
        except RuntimeError as error:
            raise ConfigError(
                f"compression = {compression!r} needs the module cramjam: pip install 'aiokafka[all]', or choose gzip"
            ) from error

    async def _batch(self, log: Log) -> Any:
        """The batch for a log, in a transaction."""
        await self.begin()
        return self._batches.setdefault(log, self._producer.create_batch())

    async def _submit(self, logs: Sequence[Log]) -> None:
        """Hand batches to aiokafka, which holds one of each log and waits if there is one already."""
        for log in logs:
            batch = self._batches.pop(log)
            batch.close()
            async with self._telling("write"):
                delivered = await self._producer.send_batch(batch, log.topic, partition=log.partition)
                # Someone always looks at it, so that a batch given up by `close` is no noise in the log.
                delivered.add_done_callback(looked_at)
                self._sent.append(Sent(log, batch.record_count(), batch.size(), delivered))
                while self._sent and self._sent[0].delivered.done():
                    await self._account()

    async def _account(self) -> None:
        """Wait for the oldest batch that is on its way."""
        from aiokafka.errors import InvalidTxnState, MessageSizeTooLargeError, RecordListTooLargeError  # noqa: PLC0415

        sent = self._sent[0]
        try:
            offset = (await sent.delivered).offset
        except InvalidTxnState:
            # The transaction was ended by others. A partition that learns so while it takes a batch in cannot say by
            # whom; the coordinator can, and tells whoever was shut out when it is asked for anything. Unless it has
            # told us why already: an abort would overwrite that.
            if self._death() is None:
                await self._producer.abort_transaction()
            raise
        except (MessageSizeTooLargeError, RecordListTooLargeError) as error:
            raise self._too_large(sent) from error
        if offset < 0:
            raise AwayError(f"{sent.log} has the records, but the broker forgot where")
        self._ends[sent.log] = offset + sent.records
        self._sent.popleft()

    async def _mark(self, offsets: Mapping[Log, int], group: str | None) -> None:
        """Move the offsets of a group along. They are for those who watch the lag, not for us."""
        from aiokafka import TopicPartition  # noqa: PLC0415

        if self.exact and group is not None and offsets:
            named = {TopicPartition(*log): offset for log, offset in offsets.items()}
            await self._producer.send_offsets_to_transaction(named, group)

    @asynccontextmanager
    async def _telling(self, doing: str) -> AsyncIterator[None]:
        """Bounded, and what aiokafka raises becomes an error of ours; after any of them this writer is done for."""
        doing = f"{doing} as {self.identity}"
        try:
            with telling(doing, self._options):
                try:
                    async with asyncio.timeout(self._patience):
                        yield
                except TimeoutError:
                    raise AwayError(f"cannot {doing}: it took more than {self._patience:g} s") from None
                except Exception:
                    if (reason := self._death()) is not None:
                        raise reason from None
                    raise
        except BaseException:
            self._failed = True
            raise

    def _death(self) -> BaseException | None:
        """What ended the producer or its transaction, if something did: later errors only say that it is no more."""
        if self._producer is None:
            return None
        manager = self._producer._txn_manager  # noqa: SLF001 - who may not write to a topic is told nowhere else
        waiters = [self._producer._sender.sender_task, manager and manager.wait_for_transaction_end()]  # noqa: SLF001
        over = [one for one in waiters if one is not None and one.done() and not one.cancelled()]
        return next((reason for one in over if (reason := one.exception()) is not None), None)

    def _too_large(self, sent: Sent) -> OutputError:
        topic, partition = sent.log
        limit = self.limits.get(topic)
        known = f"its max.message.bytes is {limit}" if limit else "more than its max.message.bytes"
        return OutputError(
            f"topic {topic}, partition {partition}, refused {sent.records} record(s) of {sent.nbytes} bytes: {known}; "
            f"raise it with `kafka-configs --alter --topic {topic} --add-config max.message.bytes={sent.nbytes * 2}`"
        )


async def _let_go(task: "asyncio.Future[None]") -> None:
    task.cancel()
    await asyncio.wait([task])
    looked_at(task)
