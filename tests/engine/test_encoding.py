"""Encoding: each image gets its features or its error, whatever the others of its batch do."""

import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from worlds import feature, record

from speciate.encoding import BATCH_IMAGES, OneAtATime, encode_records, picturer
from speciate.errors import DecodeError, DeviceError, EncodeError, FeatureError, PluginError
from speciate.stages import is_picturing
from speciate_schemas import ForgetCategory, ImageEvent


class Encoder:
    """Fails in every way an encoder can: on an image alone, or by raising for the batch it is in."""

    dimension = 1

    def __init__(self):
        self.batches = []

    def load(self):
        self.loaded = True

    def prepare(self, image):
        kind = bytes(image.image).decode()
        if kind == "error":
            raise EncodeError("told")
        if kind == "stumble":
            raise KeyError("orientation")
        return np.frombuffer(kind.encode(), np.uint8)

    def encode(self, prepared):
        kinds = [one.tobytes().decode() for one in prepared]
        self.batches.append(kinds)
        if "memory" in kinds:
            raise MemoryError
        for kind, error in {"raise": ZeroDivisionError("odd"), "ours": FeatureError("ours")}.items():
            if kind in kinds:
                raise error
        return np.array([[len(kind)] for kind in kinds if kind != "lose"])


def proven(encoder=None):
    """An encoder that has encoded something before."""
    shared = OneAtATime(encoder or Encoder())
    encode_records([image(99, "good")], shared)
    return shared


def image(sequence, kind, **more):
    return record(sequence, ImageEvent(id=str(sequence), image=memoryview(kind.encode())), **more)


ERRORS = {"raise": EncodeError, "ours": FeatureError, "error": EncodeError, "stumble": EncodeError}
kinds = st.sampled_from(["good", "fine", "raise", "ours", "error", "stumble", "feature", "control", "damaged"])


def made(sequence, kind):
    if kind == "feature":
        return record(sequence, feature(sequence))
    if kind == "control":
        return record(sequence, ForgetCategory(id="f", category=0))
    if kind == "damaged":
        return image(sequence, "raise", error=DecodeError("before"))
    return image(sequence, kind)


@settings(deadline=None)
@given(st.lists(kinds, max_size=15))
def test_the_image_at_fault_carries_its_error_and_no_other(drawn):
    records = [made(place, kind) for place, kind in enumerate(drawn)]
    encoded = encode_records(records, proven())
    assert list(encoded) == records
    for kind, one in zip(drawn, encoded, strict=True):
        if kind in ERRORS:
            assert type(one.error) is ERRORS[kind]
            assert one.features is None
        elif kind in {"good", "fine"}:
            assert one.error is None
            assert one.features.tolist() == [4]
        else:
            assert one.features is None
            assert isinstance(one.error, DecodeError) == (kind == "damaged")
        assert one.prepared is None


def test_a_good_batch_is_encoded_at_once_and_a_batch_without_images_not_at_all():
    encoder = Encoder()
    encode_records([image(0, "a"), record(1), image(2, "b")], encoder)
    encode_records([record(3)], encoder)
    encode_records([], encoder)
    assert encoder.batches == [["a", "b"]]


def test_what_was_raised_is_in_the_error_which_alone_tells_it(caplog):
    """A line an image would be a flood of them; of rejections few are told."""
    (one,) = encode_records([image(7, "raise")], proven())
    assert str(one.error) == "ZeroDivisionError: odd"
    assert caplog.records == []


def test_without_an_encoder_images_pass_as_they_are():
    records = [image(0, "a")]
    assert encode_records(records, None) is records
    assert records[0].features is None


def test_an_encoder_that_loses_images_is_at_fault_itself():
    with pytest.raises(PluginError, match=r"answered 2 images with features of shape \(1, 1\)"):
        encode_records([image(0, "lose"), image(1, "good")], Encoder())


def test_an_encoder_that_is_gone_is_no_fault_of_the_images():
    """Nobody wants a night's images among the dead letters because a device fell off its bus."""
    encoder = Encoder()
    shared = proven(encoder)
    encoder.encode = lambda _: 1 / 0
    for images in ([image(0, "good")], [image(0, "good"), image(1, "fine")]):
        with pytest.raises(DeviceError, match=r"whatever the image \(ZeroDivisionError: division by zero\): mend it"):
            encode_records(images, shared)
        assert all(one.error is None for one in images)


def test_an_encoder_that_never_worked_is_not_blamed_on_the_first_image():
    with pytest.raises(DeviceError):
        encode_records([image(0, "raise")], Encoder())


@pytest.mark.parametrize("step", ["prepare", "encode"])
def test_an_error_of_ours_that_is_of_no_event_is_raised_as_it_is(step):
    encoder = Encoder()

    def unloaded(_):
        raise PluginError("used before it is loaded")

    setattr(encoder, step, unloaded)
    with pytest.raises(PluginError, match="before it is loaded"):
        encode_records([image(0, "good")], encoder)


@pytest.mark.parametrize("step", ["prepare", "encode"])
def test_a_library_that_cannot_be_imported_is_no_fault_of_the_image(step):
    encoder = Encoder()
    shared = proven(encoder)

    def broken(_):
        raise ImportError("libjpeg.so.62: cannot open shared object file")

    setattr(encoder, step, broken)
    one = image(0, "good")
    with pytest.raises(PluginError, match=r"cannot be imported \(ImportError: libjpeg.so.62: .*\): install it again"):
        encode_records([one], shared)
    assert one.error is None


def test_a_library_that_cannot_be_imported_is_told_in_one_line_when_loading():
    class Broken(Encoder):
        def load(self):
            raise ImportError("libtorch.so: no such file\nand much advice")

    with pytest.raises(PluginError) as told:
        OneAtATime(Broken()).load()
    assert str(told.value) == (
        "the encoder uses a library that cannot be imported (ImportError: libtorch.so: no such file): install it again"
    )


def test_more_images_than_a_batch_are_encoded_in_parts_and_in_order():
    encoder = Encoder()
    records = [image(place, "x" * (place % 7 + 1)) for place in range(2 * BATCH_IMAGES + 3)]
    encode_records(records, encoder)
    assert [len(batch) for batch in encoder.batches] == [BATCH_IMAGES, BATCH_IMAGES, 3]
    assert [int(one.features[0]) for one in records] == [place % 7 + 1 for place in range(len(records))]


def test_an_encoder_that_tasks_share_has_one_batch_at_a_time():
    class Watched(Encoder):
        inside = most = 0

        def encode(self, prepared):
            self.inside += 1
            self.most = max(self.most, self.inside)
            time.sleep(0.002)
            self.inside -= 1
            return super().encode(prepared)

    shared = OneAtATime(watched := Watched())
    with ThreadPoolExecutor(4) as pool:
        done = list(pool.map(lambda place: encode_records([image(place, "good")], shared)[0], range(20)))
    assert all(one.features.tolist() == [4] for one in done)
    assert watched.most == 1
    shared.load()
    assert watched.loaded
    assert shared.dimension == 1


def test_a_machine_without_memory_is_no_fault_of_the_image():
    with pytest.raises(MemoryError):
        encode_records([image(0, "memory")], Encoder())


class Picturing(Encoder):
    """Shows the bytes of an image, and fails as it does with `prepare`."""

    def picture(self, image, pixels):
        return self.prepare(image).tobytes()[:pixels]


@pytest.mark.parametrize(
    "shared", [lambda encoder: encoder, OneAtATime, lambda encoder: OneAtATime(OneAtATime(encoder))]
)
def test_a_shared_encoder_has_pictures_if_the_encoder_has(shared):
    assert is_picturing(shared(Picturing()))
    assert picturer(shared(Picturing()), 3)(image(0, "good").event) == b"goo"
    assert not is_picturing(shared(Encoder()))
    assert picturer(shared(Encoder()), 3) is None


def test_without_an_encoder_there_are_no_pictures():
    assert picturer(None, 96) is None


def test_an_encoder_that_stumbles_over_a_picture_refuses_it():
    picture = picturer(Picturing(), 3)
    with pytest.raises(EncodeError, match="KeyError: 'orientation'"):
        picture(image(0, "stumble").event)
    with pytest.raises(EncodeError, match="told") as caught:
        picture(image(0, "error").event)
    assert caught.value.__cause__ is None


@pytest.mark.parametrize(
    ("raised", "expected"),
    [(MemoryError(), MemoryError), (PluginError("ours"), PluginError), (ImportError("theirs"), PluginError)],
)
def test_what_is_no_fault_of_an_image_is_not_blamed_on_its_picture(raised, expected):
    class Failing(Picturing):
        def picture(self, image, pixels):
            raise raised

    with pytest.raises(expected):
        picturer(Failing(), 3)(image(0, "good").event)
