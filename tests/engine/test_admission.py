"""Which events may reach the head."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from worlds import DIMENSION, as_records, inputs, record

from speciate.admission import Admission, features_of
from speciate.errors import DecodeError, EncodeError, FeatureError
from speciate_schemas import Array, FeatureEvent, ForgetCategory, ImageEvent


def holding(features):
    return record(0, FeatureEvent(id="x", features=features))


@settings(deadline=None)
@given(st.lists(inputs(), max_size=12))
def test_each_record_is_judged_alone_and_admitted_rows_are_what_was_sent(drawn):
    admission, records = Admission(DIMENSION), as_records(drawn)
    batch, refusals = admission.admit(records)
    assert batch.shape == (len(records), DIMENSION)
    for one, row, refusal in zip(records, batch, refusals, strict=True):
        ((alone,), (refused,)) = admission.admit([one])
        assert (type(refused), str(refused)) == (type(refusal), str(refusal))
        if refusal is None:
            assert row.tolist() == alone.tolist() == features_of(one).tolist()
            assert np.isfinite(row).all()


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int8", "uint64", ">f4"])
def test_any_type_of_number_is_taken_at_its_value(dtype):
    (row,), (refusal,) = Admission(2).admit([holding(Array.of(np.array([1, 3], dtype=dtype)))])
    assert refusal is None
    assert row.tolist() == [1.0, 3.0]


@pytest.mark.parametrize(
    ("features", "message"),
    [
        ([1.0], "dimension 1, this head takes 2"),
        ([], "dimension 0, this head takes 2"),
        ([0.0, float("nan")], r"features\[1\] is nan"),
        ([float("-inf"), 0.0], r"features\[0\] is -inf"),
        ([1e400, 0.0], r"features\[0\] is inf"),
        (Array.of(np.array([True, False])), r"bool of shape \(2,\)"),
        (Array.of(np.zeros((1, 2))), r"float64 of shape \(1, 2\)"),
        (Array.of(np.float64(1.0)), r"float64 of shape \(\)"),
    ],
)
def test_features_that_cannot_be_decided_on_are_told(features, message):
    (refusal,) = Admission(2).admit([holding(features)])[1]
    assert isinstance(refusal, FeatureError)
    with pytest.raises(FeatureError, match=message):
        raise refusal


def test_an_image_needs_the_features_an_encoder_gave_it():
    image = record(0, ImageEvent(id="x", image=memoryview(b"")))
    with pytest.raises(EncodeError, match=r"no \[encoder\]"):
        features_of(image)
    image.features = np.array([1.0, 2.0], dtype=np.float32)
    assert features_of(image).tolist() == [1.0, 2.0]
    image.features = np.array(["1", "2"])
    with pytest.raises(FeatureError, match="one vector of numbers"):
        features_of(image)


def test_an_error_a_record_came_with_is_its_refusal():
    error = DecodeError("broken")
    damaged = record(0, error=error)
    assert Admission(2).admit([damaged])[1] == [error]


def test_a_control_event_is_no_observation():
    (refusal,) = Admission(2).admit([record(0, ForgetCategory(id="f", category=0))])[1]
    assert refusal is not None
