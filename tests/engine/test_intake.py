"""Taking in a support set: every event is checked, each image is taken in once, and what changed is noticed."""

import asyncio
import contextlib
import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from worlds import feature, record

from speciate.encoding import BATCH_IMAGES
from speciate.errors import DecodeError, EncodeError, PluginError, SupportError
from speciate.intake import ChangedError, Intake, Untrained
from speciate.stages import Progress
from speciate.workplace import Workplace
from speciate_schemas import ForgetCategory, ImageEvent


class Listed:
    """A source of given records, which says when it was closed."""

    replayable = True

    def __init__(self, records):
        self._records = list(records)
        self._next = 0
        self.closed = False

    async def open(self, position, sequence):
        assert (position, sequence) == (None, 0)

    async def read(self, most):
        start, self._next = self._next, min(self._next + most, len(self._records))
        return self._records[start : self._next] or None

    def progress(self):
        return Progress(self._next, len(self._records), "events")

    async def close(self):
        self.closed = True


class Basket:
    """Takes images in: an image is one byte, and a larger one is broken."""

    def __init__(self, taken=()):
        self.taken = list(taken)
        self.batches = []
        self.before = lambda: None

    @property
    def observed(self):
        return len(self.taken)

    def prepare(self, image):
        if len(image.image) != 1:
            raise EncodeError("it is no single byte")
        return np.frombuffer(image.image, dtype=np.uint8)

    def observe(self, prepared):
        self.before()
        self.batches.append(len(prepared))
        self.taken += [int(one[0]) for one in prepared]


def photo(number, label="a", data=None):
    data = bytes([number % 256]) if data is None else data
    return ImageEvent(id=str(number), image=memoryview(data), label=label)


def records(events):
    return [record(number, event) for number, event in enumerate(events)]


@pytest.fixture
def work(tmp_path):
    with Workplace(tmp_path / "m.part", {}) as place:
        yield place


def ignore(done, total, word):
    """Nobody watches."""


async def take_in(events, taker, work, watch=ignore):
    intake = Intake(taker, work)
    source = Listed(records(events))
    try:
        await intake.read(source, watch)
    finally:
        assert source.closed
    return intake


async def test_images_are_taken_in_in_order_a_batch_at_a_time(work):
    basket, count = Basket(), 2 * BATCH_IMAGES + 5
    told = []
    intake = await take_in([photo(n, f"c{n % 3}") for n in range(count)], basket, work, lambda *one: told.append(one))
    assert basket.taken == list(range(count))
    assert basket.batches == [BATCH_IMAGES, BATCH_IMAGES, 5]
    assert intake.labels == [f"c{n % 3}" for n in range(count)]
    assert intake.vectors == []
    assert told == [(BATCH_IMAGES, count, ""), (2 * BATCH_IMAGES, count, ""), (count, count, "")]


async def test_features_are_taken_as_they_are(work):
    intake = await take_in([feature(n, (n, 0, 0), label="a") for n in range(40)], None, work)
    assert np.array_equal(np.stack(intake.vectors)[:, 0], np.arange(40))
    assert intake.labels == ["a"] * 40


UNUSABLE = {
    "no label": (photo(7, label=None), "test@7 of the support set has no label"),
    "control": (ForgetCategory(id="f", category=1), "test@7 is a control event"),
    "corrupt": (photo(7, data=b"xx"), "test@7 of the support set cannot be used: it is no single byte"),
    "features among images": (feature(7, label="a"), "test@7: the support set has features and images"),
}


@pytest.mark.parametrize("case", UNUSABLE)
async def test_one_unusable_event_is_named(work, case):
    event, message = UNUSABLE[case]
    events = [photo(n) for n in range(40)]
    events[7] = event
    basket = Basket()
    with pytest.raises(SupportError, match=message):
        await take_in(events, basket, work)
    assert basket.taken == []


@pytest.mark.parametrize(
    ("raised", "expected"),
    [(MemoryError(), MemoryError), (ImportError("libjpeg"), PluginError), (PluginError("unloaded"), PluginError)],
)
async def test_what_is_no_fault_of_an_image_is_not_blamed_on_one(work, raised, expected):
    class Broken(Basket):
        def prepare(self, image):
            raise raised

    with pytest.raises(expected) as caught:
        await take_in([photo(0)], Broken(), work)
    assert "test@0" not in str(caught.value)


async def test_a_broken_record_is_named_with_its_error(work):
    intake, source = Intake(Basket(), work), Listed([record(0, photo(0)), record(1, error=DecodeError("cut short"))])
    with pytest.raises(SupportError, match="test@1 of the support set cannot be used: cut short"):
        await intake.read(source, ignore)


async def test_images_among_features_are_told(work):
    events = [feature(0, label="a"), photo(1), feature(2, label="a")]
    for taker in (Basket(), None):
        with pytest.raises(SupportError, match="test@1: the support set has features and images"):
            await take_in(events, taker, work)


async def test_images_without_an_encoder_are_told(work):
    with pytest.raises(SupportError, match=r"test@0 of the support set is an image: \[encoder\] must say"):
        await take_in([photo(0)], None, work)


async def test_features_of_another_length_are_named(work):
    with pytest.raises(SupportError, match=r"test@1 has \(2,\) features, those before \(3,\)"):
        await take_in([feature(0, label="a"), feature(1, (1, 2), label="a")], None, work)


async def test_nothing_at_all_is_no_support_set(work):
    for taker in (Basket(), None):
        with pytest.raises(SupportError, match="the support set is empty"):
            await take_in([], taker, work)


photos = st.builds(photo, st.integers(0, 3), st.sampled_from("ab"), st.binary(min_size=1, max_size=1))
vectors = st.builds(feature, st.integers(0, 3), st.tuples(*[st.integers(0, 1)] * 3), label=st.sampled_from("ab"))
events_of = st.lists(photos, max_size=4) | st.lists(vectors, max_size=4)


def hashed(events, work):
    intake = Intake(Basket(), work)
    with contextlib.suppress(SupportError):
        asyncio.run(intake.read(Listed(records(events)), ignore))
    return intake.sha256


@settings(deadline=None, max_examples=40)
@given(events_of, events_of)
def test_the_hash_is_of_ids_labels_bytes_and_order(tmp_path_factory, one, other):
    with Workplace(tmp_path_factory.mktemp("hash"), {}) as work:
        assert (hashed(one, work) == hashed(other, work)) == (one == other)


async def resumed(events, before, work):
    """Take some in; of those before, as many as the basket says were taken in by an earlier attempt."""
    basket = Basket()
    await take_in(before, basket, work)
    again = Basket(basket.taken)
    await take_in(events, again, work)
    return again


@settings(deadline=None, max_examples=30)
@given(st.integers(1, 80), st.integers(1, 80))
def test_what_an_earlier_attempt_took_in_is_not_taken_in_again(tmp_path_factory, count, done):
    events = [photo(n) for n in range(count)]
    with Workplace(tmp_path_factory.mktemp("resumed"), {}) as work:
        again = asyncio.run(resumed(events, events[: min(done, count)], work))
    assert again.taken == list(range(count))
    assert sum(again.batches) == count - min(done, count)


async def test_an_attempt_that_noted_more_than_it_took_in_takes_the_rest_in(work):
    """The power may go right between the two."""
    events = [photo(n) for n in range(50)]
    await take_in(events, Basket(), work)
    again = Basket(range(33))
    await take_in(events, again, work)
    assert again.taken == list(range(50))
    assert sum(again.batches) == 17


CHANGES = {
    "bytes": lambda events: events.__setitem__(20, photo(20, data=b"\xff")),
    "label": lambda events: events.__setitem__(0, photo(0, "b")),
    "id": lambda events: events.__setitem__(39, photo(7, data=bytes([39]))),
    "order": lambda events: events.reverse(),
    "inserted": lambda events: events.insert(3, photo(99)),
    "removed": lambda events: events.pop(3),
    "last removed": lambda events: events.pop(),
}


@pytest.mark.parametrize("change", CHANGES)
async def test_whatever_changed_since_an_earlier_attempt_is_noticed(work, change):
    events = [photo(n) for n in range(40)]
    changed = list(events)
    CHANGES[change](changed)
    with pytest.raises(ChangedError):
        await resumed(changed, events, work)


async def test_notes_that_are_gone_are_a_change(work):
    events = [photo(n) for n in range(5)]
    with pytest.raises(ChangedError, match="nobody knows any more"):
        await Intake(Basket(range(5)), work).read(Listed(records(events)), ignore)


async def test_a_failure_waits_for_what_is_being_taken_in(work):
    """Nothing is written to the folder any more when somebody else may have it."""
    going_on, basket = threading.Event(), Basket()
    basket.before = lambda: going_on.wait(10)
    events = [*(photo(n) for n in range(BATCH_IMAGES)), photo(99, label=None)]
    asyncio.get_running_loop().call_later(0.2, going_on.set)
    with pytest.raises(SupportError, match="no label"):
        await take_in(events, basket, work)
    assert basket.batches == [BATCH_IMAGES]


async def test_an_encoder_used_as_it_is_is_loaded_first(work):
    class Doubling:
        dimension = 1
        loaded = 0

        def load(self):
            self.loaded += 1

        def prepare(self, image):
            assert self.loaded
            return np.frombuffer(image.image, dtype=np.uint8)

        def encode(self, prepared):
            return np.stack(prepared) * np.float32(2)

    taker = Untrained(Doubling())
    await take_in([photo(n) for n in range(70)], taker, work)
    assert taker.observed == 70
    assert np.array_equal(taker.frozen_features(), 2.0 * np.arange(70)[:, np.newaxis])
