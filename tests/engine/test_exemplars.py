"""Exemplars are a uniform sample that depends on the events alone; pictures are made beside the fold."""

import threading
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from worlds import bits

from speciate import exemplars
from speciate.errors import EncodeError, PluginError
from speciate.exemplars import Kept, Pictures, Sample, priority, vector_of
from speciate.logs import MOST_AT_ONCE, Lines
from speciate_schemas import Array, ImageEvent

sets_of_records = st.sets(st.integers(0, 2**40), max_size=60)


def kept(sequence, picture=None, seed=0):
    return Kept(priority(sequence, seed), sequence, f"e{sequence}", "", None, np.zeros(2, np.float32), picture)


def sampled(sequences, capacity=8, pictures=3):
    sample = Sample()
    for sequence in sequences:
        if sample.wants(priority(sequence), capacity):
            sample.add(kept(sequence, b"jpeg"), capacity, pictures)
    return sample


def told(sample):
    return [(one.sequence, one.thumbnail) for one in sample.kept]


@settings(deadline=None)
@given(sets_of_records, st.randoms(use_true_random=False), st.integers(0, 9))
def test_the_order_of_the_events_does_not_matter(sequences, random, capacity):
    shuffled = sorted(sequences)
    random.shuffle(shuffled)
    sample = sampled(shuffled, capacity)
    assert told(sample) == told(sampled(sorted(sequences), capacity))
    assert [one.sequence for one in sample.kept] == sorted(sequences, key=priority)[:capacity]


@settings(deadline=None)
@given(sets_of_records, sets_of_records, st.integers(0, 9), st.integers(0, 9))
def test_the_sample_of_a_union_is_made_of_those_of_its_parts(one, other, capacity, pictures):
    joined = sampled(one - other, capacity, pictures).joined(sampled(other, capacity, pictures), capacity, pictures)
    assert told(joined) == told(sampled(one | other, capacity, pictures))


def test_only_the_first_few_keep_their_pictures():
    sample = sampled(range(100), capacity=8, pictures=3)
    assert [one.thumbnail for one in sample.kept] == [b"jpeg"] * 3 + [None] * 5


def test_every_event_is_as_likely_as_another():
    """Of many streams of 40 events, how often each is among the 4 kept: the seeds stand for the streams."""
    kept_times = np.zeros(40)
    for seed in range(2000):
        order = sorted(range(40), key=lambda number, seed=seed: priority(number, seed * 1000))
        kept_times[order[:4]] += 1
    # 2000 draws of 1 in 10: the standard deviation is about 13.4; five of them is beyond chance for forty.
    assert np.abs(kept_times - 200).max() < 5 * 13.5


def test_no_two_records_have_the_same_priority():
    found = {priority(number) for number in range(20_000)}
    assert len(found) == 20_000
    assert 0 <= min(found) <= max(found) < 2**64


@pytest.mark.parametrize("sequences", [[], range(30)])
def test_a_sample_survives_saving(sequences):
    sample = sampled(sequences)
    again = Sample.from_state(sample.state(), seed=0)
    assert bits(again.state()) == bits(sample.state())
    assert [one.priority for one in again.kept] == [one.priority for one in sample.kept]


def test_another_seed_puts_what_was_kept_into_another_order():
    sample = Sample.from_state(Sample(kept(number) for number in range(20)).state(), seed=5)
    assert [one.sequence for one in sample.kept] == sorted(range(20), key=lambda number: priority(number, 5))


@pytest.mark.parametrize("features", [[1.0, 2.0], Array.of(np.array([1.0, 2.0])), np.array([1, 2], np.float16)])
def test_features_are_kept_as_a_copy_in_single_precision(features):
    found = vector_of(features)
    assert found.dtype == np.float32
    assert found.tolist() == [1.0, 2.0]
    assert found.base is None


def test_features_beyond_single_precision_are_no_error():
    assert np.isinf(vector_of([1e300])).all()


def image(number):
    return ImageEvent(id=str(number), image=memoryview(b"image"))


def test_pictures_are_made_beside_and_waited_for():
    go = threading.Event()

    def picture(event):
        assert go.wait(10)
        return event.id.encode()

    made = Pictures(picture).make(image(3))
    one = kept(3, made)
    assert not made.done()
    go.set()
    assert one.thumbnail == b"3"
    assert Sample([one]).state().thumbnails == [b"3"]


@pytest.mark.parametrize(("limit", "most"), [("MOST_WAITING", 4), ("MOST_WAITING_BYTES", 4 * len(b"image"))])
def test_few_images_wait_for_their_pictures(monkeypatch, limit, most):
    monkeypatch.setattr(exemplars, limit, most)
    under_way, waiting = set(), []

    def picture(event):
        waiting.append(len(under_way))
        under_way.discard(event.id)
        return b""

    pictures = Pictures(picture)
    for number in range(50):
        under_way.add(str(number))
        last = pictures.make(image(number))
    last.result()
    assert max(waiting) <= 5
    assert len(waiting) == 50


def test_images_without_a_picture_are_no_error_and_a_flood_of_them_has_few_lines(caplog, monkeypatch):
    caplog.set_level("INFO", "speciate")
    monkeypatch.setattr(exemplars, "Lines", partial(Lines, clock=lambda: 7.0))

    def picture(event):
        raise EncodeError("no picture of this")

    pictures = Pictures(picture)
    assert [pictures.make(image(number)).result() for number in range(40)] == [None] * 40
    pictures.close()
    *told, last = caplog.records
    assert [(one.levelname, one.id, one.reason) for one in told] == [
        ("INFO", str(number), "no picture of this") for number in range(int(MOST_AT_ONCE))
    ]
    assert (last.message, last.others) == ("an image has no picture", 40 - MOST_AT_ONCE)


@pytest.mark.parametrize("raised", [MemoryError(), PluginError("a library is broken")])
def test_what_is_no_fault_of_an_image_reaches_whoever_wants_its_picture_or_another(raised):
    def picture(event):
        raise raised

    pictures = Pictures(picture)
    one = kept(1, pictures.make(image(1)))
    with pytest.raises(type(raised)):
        Sample([one]).state()
    with pytest.raises(type(raised)):
        pictures.make(image(2))


def test_pictures_that_are_being_made_are_made_before_the_end():
    go, made = threading.Event(), []

    def picture(event):
        assert go.wait(10)
        made.append(event.id)
        return b""

    pictures = Pictures(picture)
    for number in range(3):
        pictures.make(image(number))
    threading.Timer(0.05, go.set).start()
    pictures.close()
    assert made == ["0", "1", "2"]
