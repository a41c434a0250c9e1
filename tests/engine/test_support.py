"""The support set: any labelled source, read whole, or one sentence about what is wrong with it."""

import asyncio

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from worlds import json_lines, stream, write_images

from speciate.errors import SourceError, SupportError
from speciate.plugins import installed
from speciate.support import check_support, read_support
from speciate_schemas import FeatureEvent, ForgetCategory, ImageEvent


def make(stage, name, **options):
    provider = installed().provider(stage, name)
    return provider.create(provider.options(**options))


def lines(path, events):
    path.write_bytes(json_lines(events))
    return make("source", "jsonl", paths=[str(path)])


rows = st.lists(st.tuples(st.lists(st.floats(-1e9, 1e9), min_size=2, max_size=2), st.sampled_from("abc")), min_size=1)


@settings(deadline=None, max_examples=30)
@given(rows, st.integers(0, 300))
def test_what_is_labelled_is_read_in_order(tmp_path_factory, drawn, more):
    drawn = drawn + [([0.0, 1.0], "z")] * more
    path = tmp_path_factory.getbasetemp() / "support.jsonl"
    events = [FeatureEvent(id=str(n), features=vector, label=label) for n, (vector, label) in enumerate(drawn)]
    features, labels = asyncio.run(read_support(lines(path, events), None))
    assert features.tolist() == [vector for vector, _ in drawn]
    assert labels == [label for _, label in drawn]


GOOD = stream(3)
IMAGE = ImageEvent(id="i", image=memoryview(b"no image"), label="a")


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (FeatureEvent(id="x", features=[0.0, 0.0, 0.0]), "has no label"),
        (FeatureEvent(id="x", features=[0.0, 0.0], label="a"), r"has \(2,\) features, those before \(3,\)"),
        (ForgetCategory(id="x", category=0), "is a control event"),
        (b"no JSON", "cannot be used: "),
        (IMAGE, r"no \[encoder\]"),
    ],
    ids=["unlabelled", "dimension", "control", "damaged", "image"],
)
async def test_one_bad_event_is_named_with_its_place(tmp_path, bad, message):
    source = lines(tmp_path / "support.jsonl", [*GOOD, bad])
    with pytest.raises(SupportError, match=message) as caught:
        await read_support(source, None)
    place = len(json_lines(GOOD))
    assert f"support.jsonl@{place} " in str(caught.value)


async def test_an_empty_set_and_a_missing_one_are_told(tmp_path):
    with pytest.raises(SupportError, match="is empty"):
        await read_support(lines(tmp_path / "support.jsonl", []), None)
    with pytest.raises(SourceError, match="no file matches"):
        await read_support(make("source", "jsonl", paths=[str(tmp_path / "nothing")]), None)


async def test_images_are_encoded_and_a_bad_one_is_named(tmp_path):
    write_images(tmp_path / "known", 6)
    source, encoder = make("source", "images", paths=[str(tmp_path)]), make("encoder", "thumbnail", size=2)
    features, labels = await read_support(source, encoder)
    assert features.shape == (6, 4)
    assert labels == ["dark"] * 3 + ["light"] * 3
    assert np.all(features[:3] < 0.5)
    with pytest.raises(SupportError, match="cannot be decoded"):
        await read_support(lines(tmp_path / "support.jsonl", [IMAGE]), encoder)


@settings(deadline=None)
@given(st.lists(st.text(max_size=3), min_size=1) | st.lists(st.integers(-99, 99), min_size=1))
@example(["a", "a\0"])
def test_every_row_has_the_class_of_its_label_and_classes_are_sorted(labels):
    matrix, names, classes = check_support(np.zeros((len(labels), 2), dtype=np.float32), labels)
    assert matrix.dtype == np.float64
    assert names == [str(label) for label in sorted(set(labels))]
    assert [names[number] for number in classes] == [str(label) for label in labels]


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_the_row_that_is_no_numbers_is_named(bad):
    features = np.zeros((4, 3))
    features[2:, 1] = bad
    with pytest.raises(SupportError, match="support row 2 holds NaN or infinity: clean or drop it"):
        check_support(features, list("aabb"))
