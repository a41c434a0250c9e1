"""Arrays travel unchanged, whatever their layout was, and are not copied on arrival."""

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from speciate_schemas import Array, decode, encode
from strategies import DTYPES, ndarrays


def same(left: np.ndarray, right: np.ndarray) -> bool:
    """Equal element by element, shape and kind of number included; NaN equals itself, byte order does not count."""
    little = [array.astype(array.dtype.newbyteorder("<")) for array in (left, right)]
    return (
        little[0].dtype == little[1].dtype and left.shape == right.shape and little[0].tobytes() == little[1].tobytes()
    )


@given(ndarrays, st.sampled_from(["msgpack", "json"]))
def test_any_array_survives(array: np.ndarray, form) -> None:
    assert same(decode(encode(Array.of(array), form), Array, form).numpy(), array)


@given(ndarrays.filter(lambda array: array.ndim > 0), st.data())
def test_any_layout_survives(array: np.ndarray, data: st.DataObject) -> None:
    step = data.draw(st.sampled_from([-2, -1, 2]))
    for view in (array[::step], array.T, array[..., ::step], array.copy(order="F")):
        assert same(decode(encode(Array.of(view)), Array).numpy(), view)


@given(ndarrays)
def test_layout_does_not_show_in_the_bytes(array: np.ndarray) -> None:
    swapped = array.astype(array.dtype.newbyteorder())
    assert encode(Array.of(array)) == encode(Array.of(swapped)) == encode(Array.of(array.copy(order="F")))


@pytest.mark.parametrize("dtype", DTYPES)
def test_decoding_does_not_copy(dtype: str) -> None:
    encoded = encode(Array.of(np.arange(24).reshape(2, 3, 4).astype(dtype)))
    decoded = decode(encoded, Array).numpy()
    assert np.shares_memory(decoded, np.frombuffer(encoded, np.uint8))
    assert not decoded.flags.writeable


def test_wrapping_a_contiguous_array_does_not_copy() -> None:
    array = np.arange(6.0).reshape(2, 3)
    assert np.shares_memory(Array.of(array).numpy(), array)


def test_lists_and_scalars_are_arrays_too() -> None:
    assert Array.of([1.0, 2.0]).shape == (2,)
    assert Array.of(3.5).numpy() == np.float64(3.5)


@pytest.mark.parametrize(
    "values",
    [
        np.array([object()]),
        np.array(["text"]),
        np.array([1j]),
        np.zeros(2, dtype=[("a", "f8")]),
        np.array(["2024-01-01"], dtype="datetime64[D]"),
    ],
    ids=lambda values: values.dtype.name,
)
def test_a_dtype_that_cannot_travel_is_named(values: np.ndarray) -> None:
    with pytest.raises(ValueError, match=f"dtype {values.dtype.name}.*cannot travel".replace("[", r"\[")):
        Array.of(values)


@pytest.mark.parametrize("form", ["msgpack", "json"])
@pytest.mark.parametrize("nbytes", [0, 7, 9, 16])
def test_wrong_byte_count_names_both_numbers(form, nbytes: int) -> None:
    damaged = encode({"dtype": "float32", "shape": [2, 1], "data": bytes(nbytes)}, form)
    with pytest.raises(msgspec.DecodeError, match=f"float32 and shape .2, 1. needs 8 bytes of data, got {nbytes}"):
        decode(damaged, Array, form)


@pytest.mark.parametrize(
    ("shape", "reason"),
    [
        ([-1, 0], "shape"),
        ([1.5], "shape"),
        ([1] * 65, "length <= 64"),
        ([0, 2**62, 2**62], "larger than any machine"),
        ([0, 2**64 - 1], "larger than any machine"),
        ([2**40, 2**40], "larger than any machine"),
    ],
)
def test_impossible_shape_is_refused_on_arrival(shape: list, reason: str) -> None:
    """What is let in can be looked at: `numpy()` of a decoded array never fails."""
    with pytest.raises(msgspec.DecodeError, match=reason):
        decode(encode({"dtype": "int8", "shape": shape, "data": b"\0"[: 0 not in shape]}), Array)


@given(st.lists(st.integers(0, 2**64 - 1) | st.just(0), max_size=70), st.sampled_from(DTYPES), st.binary(max_size=16))
def test_what_is_let_in_can_be_looked_at(shape: list[int], dtype: str, data: bytes) -> None:
    encoded = encode({"dtype": dtype, "shape": shape, "data": data})
    try:
        array = decode(encoded, Array)
    except msgspec.DecodeError:
        return
    assert array.numpy().nbytes == len(data)
