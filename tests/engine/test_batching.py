"""The encoder's stage: order, batches that form by themselves, and nobody who waits without need."""

import asyncio
import threading
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from worlds import feature, record

from speciate.batching import EncoderStage
from speciate.channel import Channel
from speciate.errors import EncodeError
from speciate.instruments import Histogram
from speciate.metrics import SIZES
from speciate_schemas import ImageEvent, RunOptions

LONG = 30.0
"""Seconds that no test may come near."""


class Encoder:
    """Decodes and encodes as fast as it is told to; an image's one feature is its number."""

    dimension = 1

    def __init__(self, *, decoding=None, encoding=None):
        self.batches = []
        self.decoding, self.encoding = decoding or (lambda _: None), encoding or (lambda _: None)
        self.inside = self.most = 0
        self._lock = threading.Lock()

    def load(self):
        pass

    def prepare(self, image):
        with self._lock:
            self.inside += 1
            self.most = max(self.most, self.inside)
        try:
            self.decoding(int(image.id))
        finally:
            with self._lock:
                self.inside -= 1
        return np.array([int(image.id)])

    def encode(self, prepared):
        self.batches.append(len(prepared))
        self.encoding(len(self.batches))
        return np.stack(prepared).astype(np.float32)


def image(number):
    return record(number, ImageEvent(id=str(number), image=memoryview(b"x")))


async def until(true):
    async with asyncio.timeout(LONG):
        while not true():  # noqa: ASYNC110 - a thread sets no event
            await asyncio.sleep(0.001)


class Stage:
    """A stage between two channels, driven by hand."""

    def __init__(self, encoder, *, room=1000, **run):
        self.arrived = Channel(max_events=1000, max_bytes=1 << 30)
        self.ready = Channel(max_events=room, max_bytes=1 << 30)
        self.sizes = Histogram(SIZES)
        self.stage = EncoderStage(encoder, RunOptions(**run), self.arrived, self.ready, self.sizes)

    async def __aenter__(self):
        self.running = asyncio.create_task(self.stage.run())
        return self

    async def __aexit__(self, *_):
        self.running.cancel()
        await asyncio.gather(self.running, return_exceptions=True)
        self.stage.shutdown()

    @property
    def decoded(self):
        """Images that wait for nothing but the encoder."""
        return sum(future.done() for _, future in self.stage._waiting)

    async def take(self, count):
        taken = []
        async with asyncio.timeout(LONG):
            while len(taken) < count:
                taken += await self.ready.get(count - len(taken), linger=0.0)
        return taken

    async def end(self):
        self.arrived.close()
        async with asyncio.timeout(LONG):
            await self.running


@settings(deadline=None, max_examples=40)
@given(
    st.lists(st.sampled_from(["image", "feature", "bad"]), max_size=60),
    st.integers(1, 9),
    st.integers(1, 4),
    st.randoms(use_true_random=False),
)
def test_order_is_kept_and_every_image_gets_what_is_its_own(kinds, batch, workers, chance):
    def dawdle(number):
        time.sleep(chance.random() * 0.001)
        if kinds[number] == "bad":
            raise EncodeError("bad")

    async def run():
        encoder = Encoder(decoding=dawdle)
        async with Stage(encoder, encode_events=batch, decode_workers=workers, linger_ms=1.0) as stage:
            records = [record(n, feature(n)) if kind == "feature" else image(n) for n, kind in enumerate(kinds)]
            for start in range(0, len(records), 7):
                await stage.arrived.put(records[start : start + 7])
                await asyncio.sleep(0)
            await stage.end()
            out = await stage.take(len(records))
            assert stage.ready.drained
        assert [one.sequence for one in out] == list(range(len(kinds)))
        for kind, one in zip(kinds, out, strict=True):
            assert isinstance(one.error, EncodeError) == (kind == "bad")
            assert (one.features is not None) == (kind == "image")
            assert one.features is None or one.features.tolist() == [one.sequence]
        assert all(size <= batch for size in encoder.batches)
        assert encoder.most <= workers

    asyncio.run(run())


async def test_a_lone_image_never_waits_for_company():
    # If it waited, `take` would give up long before.
    async with Stage(Encoder(), linger_ms=10 * LONG * 1000) as stage:
        for number in range(5):
            await stage.arrived.put([image(number)])
            (one,) = await stage.take(1)
            assert one.features.tolist() == [number]


async def test_batches_form_while_the_encoder_is_busy():
    free = threading.Event()
    encoder = Encoder(encoding=lambda batch: free.wait(LONG) if batch == 1 else None)
    # As many as are decoded ahead: of more, the last might come too late for the last batch.
    async with Stage(encoder, encode_events=8, decode_workers=2, linger_ms=0.0) as stage:
        await stage.arrived.put([image(0)])
        await until(lambda: encoder.batches)
        await stage.arrived.put([image(number) for number in range(1, 19)])
        await until(lambda: stage.decoded == 18)
        free.set()
        assert len(await stage.take(19)) == 19
        assert encoder.batches == [1, 8, 8, 2]
        assert (stage.sizes.counts.sum(), stage.sizes.sum) == (4, 19)


async def test_an_image_that_is_being_decoded_is_waited_for_no_longer_than_the_linger_time():
    held = threading.Event()
    # That the first comes while this one is held shows that it did not wait for it.
    encoder = Encoder(decoding=lambda number: held.wait(2 * LONG) if number == 1 else None)
    async with Stage(encoder, decode_workers=2, linger_ms=50.0) as stage:
        began = time.perf_counter()
        await stage.arrived.put([image(0), image(1)])
        (first,) = await stage.take(1)
        waited = time.perf_counter() - began
        assert first.sequence == 0
        assert waited > 0.04
        held.set()
        assert [one.sequence for one in await stage.take(1)] == [1]
        assert encoder.batches == [1, 1]


async def test_an_image_that_is_decoded_within_the_linger_time_comes_along():
    encoder = Encoder(decoding=lambda number: time.sleep(0.05 * number))
    async with Stage(encoder, decode_workers=2, linger_ms=LONG * 1000) as stage:
        await stage.arrived.put([image(0), image(1)])
        await stage.take(2)
        assert encoder.batches == [2]


async def test_what_is_decoded_ahead_is_bounded():
    """A decoded image takes many times the memory of its file."""
    decoded, free = [], threading.Event()
    encoder = Encoder(decoding=decoded.append, encoding=lambda _: free.wait(LONG))
    async with Stage(encoder, encode_events=4, decode_workers=3) as stage:
        await stage.arrived.put([image(number) for number in range(200)])
        await until(lambda: encoder.batches and len(stage.stage._waiting) == 2 * 4 + 3)
        await asyncio.sleep(0.1)
        # One batch at the encoder, and behind it two and one for each decoder.
        assert len(decoded) <= 4 + 2 * 4 + 3
        free.set()
        await stage.take(200)
        assert stage.stage.decoding.backpressured > 0.05


async def test_a_slow_reader_holds_up_the_encoder():
    encoder = Encoder()
    async with Stage(encoder, room=4, encode_events=4) as stage:
        await stage.arrived.put([image(number) for number in range(100)])
        await until(lambda: sum(encoder.batches) > 4)
        await asyncio.sleep(0.2)
        assert sum(encoder.batches) <= 12
        await stage.take(100)
        assert stage.stage.encoding.backpressured > 0.05


async def test_decoding_and_encoding_go_on_at_the_same_time():
    """Each waits in the middle of its work for the other: one after the other, they would never meet."""
    encoding, decoding, met = threading.Event(), threading.Event(), []

    def decode(number):
        if number == 4:
            decoding.set()
            met.append(encoding.wait(LONG))

    def encode(batch):
        if batch == 1:
            encoding.set()
            met.append(decoding.wait(LONG))

    async with Stage(Encoder(decoding=decode, encoding=encode), encode_events=4, decode_workers=1) as stage:
        await stage.arrived.put([image(number) for number in range(40)])
        await stage.take(40)
    assert met == [True, True]


async def test_what_is_no_fault_of_an_image_ends_the_stage():
    def decode(number):
        if number == 5:
            raise MemoryError

    async with Stage(Encoder(decoding=decode)) as stage:
        await stage.arrived.put([image(number) for number in range(10)])
        with pytest.raises(ExceptionGroup) as caught:
            await stage.running
        assert caught.group_contains(MemoryError)
