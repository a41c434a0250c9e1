"""The encoder's stage: images are decoded on several threads while a batch of those before them is encoded.

Batches form by themselves: whatever was decoded while the encoder was busy is the next one. When nothing else is on
its way nobody is waited for, so that a single image takes no longer than its own decoding and encoding. Order is kept.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from speciate.channel import Channel
from speciate.encoding import OneAtATime, decoders, encode_prepared, is_image, prepare_record
from speciate.instruments import Histogram
from speciate.stages import Encoder, Record
from speciate.threads import in_thread
from speciate.timing import StageTimes
from speciate.tracing import span
from speciate_schemas import RunOptions

Waiting = tuple[Record, asyncio.Future[float] | None]
"""A record, and the decoding of its image, if it has one."""


class EncoderStage:
    """Moves records from one channel to the next; images get their features on the way."""

    def __init__(self, encoder: Encoder, run: RunOptions, arrived: Channel, ready: Channel, sizes: Histogram) -> None:
        self._encoder = encoder if isinstance(encoder, OneAtATime) else OneAtATime(encoder)
        self._arrived = arrived
        self._ready = ready
        self._batch = run.encode_events
        self._linger = run.linger_ms / 1000.0
        self._decoders = decoders(run.decode_workers)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="encoder")
        self._waiting: deque[Waiting] = deque()
        # Beside the batch being encoded two may wait for it, and every decoder has one image in hand.
        self._most = 2 * self._batch + self._workers
        self._changed = asyncio.Event()
        self._closed = False
        self._sizes = sizes
        self.decoding = StageTimes()
        self.encoding = StageTimes()

    async def run(self) -> None:
        """Run until the channel before is closed and drained."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._decode())
            group.create_task(self._encode())

    def shutdown(self) -> None:
        """Wait for whatever is under way."""
        self._decoders.shutdown(cancel_futures=True)
        self._thread.shutdown()

    @property
    def _workers(self) -> int:
        return self._decoders._max_workers  # noqa: SLF001  # there is no other way to ask

    async def _decode(self) -> None:
        """Channel → decoders, several images at once."""
        while True:
            with self.decoding.measure("idle"):
                records = await self._arrived.get(self._batch, linger=0.0)
            if not records:
                break
            for record in records:
                with self.decoding.measure("backpressured"):
                    await self._wait_until(lambda: len(self._waiting) < self._most)
                self._waiting.append((record, self._start(record)))
                self._changed.set()
        self._closed = True
        self._changed.set()

    def _start(self, record: Record) -> asyncio.Future[float] | None:
        if not is_image(record):
            return None
        future = in_thread(self._decoders, prepare_record, record, self._encoder)
        future.add_done_callback(self._decoded)
        return future

    def _decoded(self, future: asyncio.Future[float]) -> None:
        # Looked at here too: when another stage has failed nobody awaits it any more.
        if not future.cancelled() and future.exception() is None:
            self.decoding.busy += future.result() / self._workers
        self._changed.set()

    async def _encode(self) -> None:
        """Decoders → encoder → channel, a batch at a time."""
        while True:
            with self.encoding.measure("idle"):
                records = await self._gather()
            if not records:
                break
            self._sizes.observe(len(records))
            with span("encoder", events=len(records)):
                self.encoding.busy += await in_thread(self._thread, encode_prepared, records, self._encoder)
            with self.encoding.measure("backpressured"):
                await self._ready.put(records)
        self._ready.close()

    async def _gather(self) -> list[Record]:
        """The next records whose images are decoded; empty at the end.

        Waits for the first, and then for those on their way, at most the linger time.
        """
        await self._wait_until(lambda: self._decoded_count > 0 or self._finished)
        if self._on_their_way:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._linger):
                    await self._wait_until(lambda: not self._on_their_way)
        taken = [self._waiting.popleft() for _ in range(self._decoded_count)]
        self._changed.set()
        for _, future in taken:
            if future is not None:
                future.result()  # raises what is no fault of the image
        return [record for record, _ in taken]

    @property
    def _decoded_count(self) -> int:
        """How many of the first records are decoded: at most a batch."""
        count = 0
        for _, future in self._waiting:
            if count == self._batch or (future is not None and not future.done()):
                break
            count += 1
        return count

    @property
    def _on_their_way(self) -> bool:
        """Whether the batch could still grow by what was read already."""
        return self._decoded_count < min(self._batch, len(self._waiting) + len(self._arrived))

    @property
    def _finished(self) -> bool:
        return self._closed and not self._waiting

    async def _wait_until(self, holds: Callable[[], bool]) -> None:
        while not holds():
            self._changed.clear()
            await self._changed.wait()
