"""Bytes to structs and back: the identity for what we wrote, one kind of error for everything else."""

import random
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import speciate_schemas as schemas
from speciate_schemas import Array, Message, StoredRecord, Strict, decode, encode
from speciate_schemas.events import Wire, tag_of
from speciate_schemas.state import Stored
from strategies import STRATEGIES, WIRE

FORMATS = ["msgpack", "json"]
every_struct = pytest.mark.parametrize("kind", STRATEGIES, ids=lambda kind: kind.__name__)
every_format = pytest.mark.parametrize("form", FORMATS)
UNIONS = {kind: Message if issubclass(kind, Wire) else StoredRecord for kind in WIRE}

RAW = {"msgpack": msgspec.msgpack, "json": msgspec.json}


def tree_of(value: Any, form: str) -> dict[str, Any]:
    """A valid encoding as plain dictionaries, to be spoilt and encoded again."""
    return RAW[form].decode(encode(value, form))


def shuffled(value: Any, order: random.Random) -> Any:
    """The same value with the entries of all dictionaries inserted in another order."""
    if isinstance(value, dict):
        items = [(key, shuffled(inner, order)) for key, inner in value.items()]
        order.shuffle(items)
        return dict(items)
    if isinstance(value, list):
        return [shuffled(inner, order) for inner in value]
    if isinstance(value, msgspec.Struct) and not isinstance(value, Array):
        fields = {name: shuffled(getattr(value, name), order) for name in value.__struct_fields__}
        return msgspec.structs.replace(value, **fields)
    return value


def test_every_struct_has_a_strategy() -> None:
    """The laws below are about all types, so a new one cannot be left out."""
    bases = {Wire, Stored, Strict}
    public = {kind for kind in vars(schemas).values() if isinstance(kind, type) and issubclass(kind, msgspec.Struct)}
    ours = {kind for base in bases for kind in base.__subclasses__() if kind.__module__.startswith("speciate_schemas")}
    # What the page says is said and forgotten: nobody keeps it, and the page's tests decode each of its answers.
    ours = {kind for kind in ours if kind.__module__ != "speciate_schemas.page"}
    assert set(STRATEGIES) == public - bases
    assert ours <= set(STRATEGIES)


@every_format
@every_struct
@settings(max_examples=40)
@given(data=st.data())
def test_encode_then_decode_is_the_identity(kind: type, form: Any, data: st.DataObject) -> None:
    value = data.draw(STRATEGIES[kind])
    encoded = encode(value, form)
    decoded = decode(encoded, kind, form)
    assert decoded == value
    assert encode(decoded, form) == encoded
    if kind in UNIONS:
        assert decode(encoded, UNIONS[kind], form) == value


@every_format
@every_struct
@settings(max_examples=20)
@given(data=st.data())
def test_equal_values_give_equal_bytes(kind: type, form: Any, data: st.DataObject) -> None:
    value = data.draw(STRATEGIES[kind])
    other = shuffled(value, data.draw(st.randoms(use_true_random=False)))
    assert other == value
    assert encode(other, form) == encode(value, form)


@every_format
@every_struct
@settings(max_examples=10)
@given(data=st.data())
def test_unknown_field_is_named(kind: type, form: Any, data: st.DataObject) -> None:
    tree = tree_of(data.draw(STRATEGIES[kind]), form)
    with pytest.raises(msgspec.DecodeError, match="`surprise_7`"):
        decode(encode({**tree, "surprise_7": 1}, form), kind, form)


def required(kind: type[msgspec.Struct]) -> list[str]:
    return [field.encode_name for field in msgspec.structs.fields(kind) if field.required]


@every_format
@every_struct
@settings(max_examples=5)
@given(data=st.data())
def test_missing_field_is_named(kind: type, form: Any, data: st.DataObject) -> None:
    tree = tree_of(data.draw(STRATEGIES[kind]), form)
    for name in required(kind):
        without = {key: value for key, value in tree.items() if key != name}
        with pytest.raises(msgspec.DecodeError, match=f"missing required field `{name}`"):
            decode(encode(without, form), kind, form)


@every_format
@every_struct
@settings(max_examples=5)
@given(data=st.data())
def test_mistyped_field_is_named(kind: type, form: Any, data: st.DataObject) -> None:
    tree = tree_of(data.draw(STRATEGIES[kind]), form)
    for name in kind.__struct_fields__:
        # No field of ours takes both; each refuses at least one of the two.
        wrong = [value for value in ([[None]], True) if not _accepts(kind, {**tree, name: value}, form)]
        assert wrong, name
        with pytest.raises(msgspec.DecodeError, match=rf"`\$\.{name}\b"):
            decode(encode({**tree, name: wrong[0]}, form), kind, form)


def _accepts(kind: type, tree: dict[str, Any], form: Any) -> bool:
    try:
        decode(encode(tree, form), kind, form)
    except msgspec.DecodeError:
        return False
    return True


@every_format
@pytest.mark.parametrize("union", [Message, StoredRecord], ids=["message", "stored"])
def test_unknown_tag_is_named(union: Any, form: Any) -> None:
    with pytest.raises(msgspec.DecodeError, match=r"'feature\.v99' - at `\$\.type`"):
        decode(encode({"type": "feature.v99", "id": "a"}, form), union, form)
    with pytest.raises(msgspec.DecodeError, match="missing required field `type`"):
        decode(encode({"id": "a"}, form), union, form)


def test_tags_are_versioned_and_unique() -> None:
    tags = [tag_of(kind) for kind in WIRE]
    assert len(set(tags)) == len(tags)
    assert all(name and version.isdigit() for name, _, version in (tag.rpartition(".v") for tag in tags))


def told(data: bytes, union: Any, form: Any) -> str:
    """What `msgspec.DecodeError` says of the bytes, or that they are sound; any other exception fails the test."""
    try:
        decode(data, union, form)
    except msgspec.DecodeError as error:
        return str(error)
    return "sound"


@given(st.binary(max_size=200), st.sampled_from([Message, StoredRecord, Any]), st.sampled_from(FORMATS))
def test_arbitrary_bytes_raise_one_kind_of_error(data: bytes, union: Any, form: Any) -> None:
    assert told(data, union, form)


@every_format
@pytest.mark.parametrize("kind", WIRE, ids=lambda kind: kind.__name__)
@settings(max_examples=30)
@given(data=st.data())
def test_damaged_encodings_raise_one_kind_of_error(kind: type, form: Any, data: st.DataObject) -> None:
    damaged = bytearray(encode(data.draw(STRATEGIES[kind]), form))
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, max(len(damaged) - 1, 0)))
        damaged[place : place + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=3))
    assert told(bytes(damaged), UNIONS[kind], form)
    assert told(bytes(damaged[: data.draw(st.integers(0, len(damaged)))]), UNIONS[kind], form)


DEEP = 200_000
HEAD_JSON = b'{"type":"snapshot.v1","config":{"a":'
HOSTILE = {
    "json nested lists": (b"[" * DEEP, "json"),
    "json nested objects": (b'{"a":' * DEEP, "json"),
    "json nested options": (HEAD_JSON + b"[" * DEEP, "json"),
    "json nested unknown field": (b'{"type":"merge.v1","x":' + b"[" * DEEP, "json"),
    "json nested before the tag": (b'{"x":' + b"[" * DEEP, "json"),
    "json huge integer": (b'{"type":"merge.v1","id":"a","absorb":1,"keep":' + b"9" * 10_000 + b"}", "json"),
    "json huge integer in options": (HEAD_JSON + b"9" * 10_000 + b"}}", "json"),
    "json huge exponent": (HEAD_JSON + b"1e999999999}}", "json"),
    "json not UTF-8": (b'{"type":"merge.v1","id":"\xff\xfe"}', "json"),
    "json not UTF-8 in a key": (b'{"\xff":1}', "json"),
    "json lone surrogate": (b'{"type":"merge.v1","id":"\\ud800"}', "json"),
    "json empty": (b"", "json"),
    "json two values": (b"{}{}", "json"),
    "msgpack nested lists": (b"\x91" * DEEP, "msgpack"),
    "msgpack nested maps": (b"\x81\xa1a" * DEEP, "msgpack"),
    "msgpack nested options": (b"\x82\xa4type\xabsnapshot.v1\xa6config\x81\xa1a" + b"\x91" * DEEP, "msgpack"),
    "msgpack nested keys": (b"\x81" * DEEP, "msgpack"),
    "msgpack promised list": (b"\xdd\xff\xff\xff\xff", "msgpack"),
    "msgpack promised map": (b"\xdf\xff\xff\xff\xff", "msgpack"),
    "msgpack promised text": (b"\xdb\xff\xff\xff\xff", "msgpack"),
    "msgpack promised bytes": (b"\xc6\xff\xff\xff\xff", "msgpack"),
    "msgpack not UTF-8": (b"\x82\xa4type\xa8merge.v1\xa2id\xa2\xff\xfe", "msgpack"),
    "msgpack not UTF-8 in a key": (b"\x81\xa2\xff\xfe\x01", "msgpack"),
    "msgpack bad timestamp": (b"\xd7\xff" + b"\xff" * 8, "msgpack"),
    "msgpack reserved byte": (b"\xc1", "msgpack"),
    "msgpack unhashable key": (b"\x81\x81\x01\x01\x01", "msgpack"),
    "msgpack empty": (b"", "msgpack"),
}


@pytest.mark.parametrize("union", [Message, StoredRecord, dict[str, Any]], ids=["message", "stored", "plain"])
@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_input_raises_one_kind_of_error(name: str, union: Any) -> None:
    data, form = HOSTILE[name]
    with pytest.raises(msgspec.DecodeError):
        decode(data, union, form)


def test_base64_that_is_none_is_named() -> None:
    with pytest.raises(msgspec.DecodeError, match=r"base64.*`\$\.image`"):
        decode(b'{"type":"image.v1","id":"a","image":"!"}', Message, "json")


def test_a_view_of_a_larger_buffer_can_be_decoded() -> None:
    """Frames of an event log are views; nobody should have to copy them first."""
    event = schemas.ForgetCategory(id="a", category=1)
    encoded = encode(event)
    assert decode(memoryview(b"--" + encoded + b"--")[2:-2], Message) == event
