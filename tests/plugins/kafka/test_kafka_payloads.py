"""A message in, an event or the error of that one message out, whatever the bytes are."""

from types import SimpleNamespace

import msgspec
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from speciate.errors import DecodeError, EventError
from speciate_plugins.kafka import headers as names
from speciate_plugins.kafka.headers import content_type
from speciate_plugins.kafka.payloads import KafkaMessage, Payload, decode_message, sniff
from speciate_schemas import DeadLetter, Event, FeatureEvent, ImageEvent, RenameCategory, decode, encode
from strategies import STRATEGIES

PAYLOADS: tuple[Payload, ...] = ("event", "image", "float32")
JPEG = b"\xff\xd8\xff\xe0rest of the file"
CLOUD = {"ce_specversion": b"1.0", "ce_id": b"e-1", "ce_source": b"/robots/7", "ce_type": b"photo"}
LETTER = DeadLetter(
    id="e",
    stream="s",
    sequence=3,
    stage="encoder",
    error="EncodeError",
    message="no",
    origin="o",
    original=memoryview(b"x"),
)


def message(value: bytes | None = b"x", key: bytes | None = b"cam-7", at: int | None = 1500, **headers: bytes | None):
    """A message; `content_type` and the like become headers."""
    spelt = [(name.replace("content_type", "content-type"), one) for name, one in headers.items()]
    return KafkaMessage("frames", 3, 42, key, value, spelt, at)


def test_a_record_of_aiokafka_becomes_a_message():
    record = SimpleNamespace(
        topic="t", partition=1, offset=2, key=b"k", value=b"v", headers=(("h", b"x"),), timestamp=1500, checksum=None
    )
    assert KafkaMessage.of(record) == ("t", 1, 2, b"k", b"v", (("h", b"x"),), 1500)
    assert KafkaMessage.of(record).place == "t/1/2"
    for absent in (-1, None):
        record.timestamp = absent
        assert KafkaMessage.of(record).timestamp_ms is None


@pytest.mark.parametrize("payload", PAYLOADS)
@pytest.mark.parametrize(("value", "said"), [(None, "null"), (b"", "empty")])
def test_nothing_is_no_event(payload, value, said):
    with pytest.raises(DecodeError, match=f"the value is {said}"):
        decode_message(message(value), payload)


@pytest.mark.parametrize("form", ["msgpack", "json"])
@given(event=st.one_of(*(STRATEGIES[kind] for kind in Event.__args__)))
def test_our_own_events_come_back_with_and_without_a_content_type(form, event):
    for headers in ({}, {"content_type": content_type(form)}):
        found = decode_message(message(encode(event, form), **headers), "event")
        assert encode(found) == encode(event)


@pytest.mark.parametrize("form", ["msgpack", "json"])
@pytest.mark.parametrize("payload", PAYLOADS)
def test_a_content_type_of_ours_outweighs_the_payload(form, payload):
    rename = RenameCategory(id="r", category=1, label="cat")
    assert decode_message(message(encode(rename, form), content_type=content_type(form)), payload) == rename


@pytest.mark.parametrize(
    ("said", "form"),
    [
        (b"application/msgpack", "msgpack"),
        (b"application/x-msgpack", "msgpack"),
        (b"application/vnd.msgpack", "msgpack"),
        (b"application/json", "json"),
        (b" Application/JSON ; charset=utf-8", "json"),
    ],
)
def test_content_types_of_events(said, form):
    rename = RenameCategory(id="r", category=1, label="cat")
    assert decode_message(message(encode(rename, form), content_type=said), "event") == rename
    with pytest.raises(DecodeError):
        decode_message(message(encode(rename, "json" if form == "msgpack" else "msgpack"), content_type=said), "event")


def test_a_header_counts_whatever_its_case_and_the_last_of_a_name():
    value = encode(RenameCategory(id="r", category=1, label="cat"), "json")
    found = KafkaMessage(
        "t", 0, 0, None, value, [("content-type", b"text/html"), ("Content-Type", b"application/json")]
    )
    assert isinstance(decode_message(found, "event"), RenameCategory)


def test_white_space_before_json_is_json():
    value = b" \r\n\t" + encode(RenameCategory(id="r", category=1, label="cat"), "json")
    assert isinstance(decode_message(message(value), "event"), RenameCategory)


@pytest.mark.parametrize("said", [b"text/html", b"image/png", b"\xff", b"x" * 10_000])
def test_an_unknown_content_type_is_told_and_not_at_length(said):
    with pytest.raises(DecodeError, match=r"content type '.*' is not known for an event: use one of app") as raised:
        decode_message(message(b"{}", content_type=said), "event")
    assert len(str(raised.value)) < 300


@pytest.mark.parametrize("payload", PAYLOADS)
def test_dead_letters_of_a_stage_before_come_through(payload):
    assert decode_message(message(encode(LETTER), content_type=content_type("msgpack")), payload) == LETTER
    assert decode_message(message(encode(LETTER)), "event") == LETTER
    cloud = message(encode(LETTER), content_type=content_type("msgpack"), **CLOUD)
    assert decode_message(cloud, payload) == LETTER


def test_an_image_is_named_by_its_place_and_its_key():
    found = decode_message(message(JPEG), "image")
    assert found == ImageEvent(
        id="frames/3/42", image=memoryview(JPEG), media_type="image/jpeg", stream="cam-7", time=1.5
    )
    assert found.image.obj is not None
    bare = decode_message(message(JPEG, key=None, at=None), "image")
    assert (bare.stream, bare.time) == ("", None)


@pytest.mark.parametrize(
    ("start", "media_type"),
    [
        (b"\xff\xd8\xff", "image/jpeg"),
        (b"\x89PNG\r\n\x1a\n", "image/png"),
        (b"GIF89a", "image/gif"),
        (b"RIFF\x00\x00\x00\x00WEBPVP8 ", "image/webp"),
        (b"II*\x00", "image/tiff"),
        (b"MM\x00*", "image/tiff"),
        (b"BM", "image/bmp"),
        (b"\x00\x00\x00 ftypavif", "image/avif"),
        (b"RIFF\x00\x00\x00\x00WAVE", ""),
        (b"", ""),
    ],
)
def test_images_are_known_by_their_first_bytes(start, media_type):
    assert sniff(start) == media_type


@pytest.mark.parametrize(
    ("said", "media_type"),
    [
        (b"image/x-raw; width=2", "image/x-raw"),
        (b"text/html", ""),
        (b"image/" + b"x" * 200, ""),
        (None, ""),
    ],
)
def test_what_shows_no_kind_is_what_its_header_says_and_handed_on(said, media_type):
    found = decode_message(message(b"no image", content_type=said), "image")
    assert (found.media_type, bytes(found.image)) == (media_type, b"no image")


def test_keys_that_are_no_text_are_spelt_out_and_long_ones_refused():
    assert decode_message(message(JPEG, key=b"cam-\xff"), "image").stream == r"cam-\xff"
    assert decode_message(message(JPEG, key=b"x" * 512), "image").stream == "x" * 512
    for key in (b"x" * 513, b"\xff" * 129):
        with pytest.raises(DecodeError, match=r"the key has \d+ characters, more than the 512"):
            decode_message(message(JPEG, key=key), "image")


@pytest.mark.parametrize("said", [{}, {"content_type": b"application/octet-stream"}])
def test_a_vector_is_taken_without_a_copy(said):
    vector = np.array([1.5, -2, 3e38], "<f4")
    value = vector.tobytes()
    found = decode_message(message(value, **said), "float32")
    assert (found.id, found.stream, found.time) == ("frames/3/42", "cam-7", 1.5)
    assert np.array_equal(found.features.numpy(), vector)
    assert found.features.data.obj is value


def test_what_is_no_vector_is_told():
    with pytest.raises(DecodeError, match="7 bytes are no float32 vector: 4 are needed for each number"):
        decode_message(message(b"1234567"), "float32")
    with pytest.raises(DecodeError, match="content type 'image/png' is not that of a float32 vector"):
        decode_message(message(b"1234", content_type=b"image/png"), "float32")


def test_a_cloudevent_names_the_event():
    cloud = CLOUD | {"ce_time": b"2026-01-31T12:00:00.250+01:00", "ce_subject": b"arm", "content_type": b"image/png"}
    found = decode_message(message(JPEG, **cloud), "event")
    assert found == ImageEvent(
        id="e-1", image=memoryview(JPEG), media_type="image/jpeg", stream="cam-7", time=1769857200.25
    )
    for key in (None, b""):
        assert decode_message(message(JPEG, key=key, **cloud), "event").stream == "arm"
    del cloud["ce_subject"], cloud["ce_time"]
    bare = decode_message(message(JPEG, key=None, **cloud), "event")
    assert (bare.stream, bare.time) == ("/robots/7", 1.5)


@pytest.mark.parametrize(
    ("payload", "said", "kind"),
    [
        ("event", b"image/jpeg", ImageEvent),
        ("float32", b"image/jpeg", ImageEvent),
        ("image", b"application/octet-stream", ImageEvent),
        ("image", None, ImageEvent),
        ("event", b"application/octet-stream", FeatureEvent),
        ("float32", b"application/octet-stream", FeatureEvent),
        ("float32", None, FeatureEvent),
    ],
)
def test_the_content_type_of_a_cloudevent_says_what_its_data_are(payload, said, kind):
    found = decode_message(message(b"12345678", content_type=said, **CLOUD), payload)
    assert type(found) is kind
    assert found.id == "e-1"


@pytest.mark.parametrize("form", ["msgpack", "json"])
@pytest.mark.parametrize("payload", PAYLOADS)
def test_the_data_of_a_cloudevent_can_be_numbers_or_an_event_of_ours(form, payload):
    said = content_type(form)
    numbers = decode_message(message(encode([1, 2.5], form), content_type=said, **CLOUD), payload)
    assert numbers == FeatureEvent(id="e-1", features=[1.0, 2.5], stream="cam-7", time=1.5)
    bare = RenameCategory(id="own", category=1, label="cat")
    found = decode_message(message(encode(bare, form), content_type=said, **CLOUD), payload)
    assert found == RenameCategory(id="own", category=1, label="cat", stream="cam-7", time=1.5)
    full = msgspec.structs.replace(bare, stream="own", time=0.0)
    assert decode_message(message(encode(full, form), content_type=said, **CLOUD), payload) == full


def test_a_cloudevent_without_a_content_type_shows_what_it_is():
    for form in ("msgpack", "json"):
        assert decode_message(message(encode([1, 2.5], form), **CLOUD), "event").features == [1.0, 2.5]


@pytest.mark.parametrize("absent", CLOUD)
@pytest.mark.parametrize("value", ["missing", None, b""])
def test_a_cloudevent_needs_its_attributes(absent, value):
    cloud = {name: one for name, one in CLOUD.items() if name != absent}
    if value != "missing":
        cloud[absent] = value
    with pytest.raises(DecodeError, match=f"a CloudEvent needs the header {absent}, which is missing or empty"):
        decode_message(message(JPEG, **cloud), "image")


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("ce_specversion", b"0.3", "ce_specversion is '0.3': only CloudEvents 1.0 are understood"),
        ("ce_id", b"\xff", "the header ce_id is no UTF-8"),
        ("ce_id", b"x" * 513, "ce_id has 513 characters"),
        ("ce_source", b"x" * 513, "ce_source has 513 characters"),
        ("ce_subject", b"\xff", "the header ce_subject is no UTF-8"),
        ("ce_time", b"yesterday", "ce_time is 'yesterday': it must be a time as RFC 3339"),
        ("ce_time", b"2026-01-31T12:00:00", "ce_time is .*: it must be"),
        ("ce_time", b"2026-02-30T12:00:00Z", "ce_time is .*: it must be"),
        ("content_type", b"text/plain", "content type 'text/plain' is not known"),
    ],
)
def test_a_malformed_cloudevent_is_told(name, value, said):
    with pytest.raises(DecodeError, match=said):
        decode_message(message(JPEG, key=None, **{**CLOUD, name: value}), "image")


@pytest.mark.parametrize(
    "said", [b"application/cloudevents+json; charset=utf-8", b"application/cloudevents-batch+json"]
)
@pytest.mark.parametrize("payload", PAYLOADS)
def test_structured_mode_is_told_apart(said, payload):
    with pytest.raises(DecodeError, match="structured mode: send it in binary mode"):
        decode_message(message(b'{"specversion": "1.0"}', content_type=said), payload)


NAMES = [value for name, value in vars(names).items() if name.startswith(("CE_", "CONTENT"))]
TYPES = [*(f"{name}".encode() for name in names.FORMATS), b"application/octet-stream", b"image/png", b"", None]
hostile_headers = st.lists(
    st.tuples(
        st.sampled_from(NAMES) | st.text(max_size=20),
        st.none() | st.binary(max_size=40) | st.sampled_from([*TYPES, b"1.0", b"2026-01-31T12:00:00Z"]),
    ),
    max_size=8,
)
cloud_headers = st.fixed_dictionaries(
    {name: st.just(value) for name, value in CLOUD.items()},
    optional={
        "content-type": st.sampled_from(TYPES) | st.binary(max_size=20),
        "ce_time": st.datetimes(timezones=st.timezones()).map(lambda time: time.isoformat().encode())
        | st.from_regex(rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,12})?(Z|[+-]\d\d:\d\d)", fullmatch=True),
        "ce_subject": st.binary(max_size=600),
    },
).map(lambda headers: list(headers.items()))
values = (
    st.none()
    | st.binary(max_size=80)
    | st.builds(encode, st.one_of(*STRATEGIES.values()), st.sampled_from(["msgpack", "json"]))
    | st.builds(
        lambda tree, form: getattr(msgspec, form).encode(tree),
        st.recursive(
            st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats() | st.text(max_size=8),
            lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
        ),
        st.sampled_from(["msgpack", "json"]),
    )
)


@given(
    key=st.none() | st.binary(max_size=600),
    value=values,
    headers=hostile_headers | cloud_headers,
    at=st.none() | st.integers(-(2**63), 2**63 - 1),
    payload=st.sampled_from(PAYLOADS),
)
@example(key=None, value=b"[" * 100_000, headers=[], at=0, payload="event")
@example(key=None, value=b"\x91" * 100_000, headers=[], at=0, payload="event")
@example(key=None, value=b"[" * 100_000, headers=list(CLOUD.items()), at=0, payload="event")
@example(
    key=None, value=b'{"type":"rename.v1","id":"\\ud800","category":1,"label":"x"}', headers=[], at=0, payload="event"
)
@example(
    key=None, value=b"1e999", headers=[*CLOUD.items(), ("content-type", b"application/json")], at=0, payload="event"
)
@example(key=None, value=b"x", headers=[*CLOUD.items(), ("ce_time", b"0000-01-01T00:00:00Z")], at=0, payload="image")
@example(
    key=None, value=b"x", headers=[*CLOUD.items(), ("ce_time", b"0001-01-01T00:00:00+23:59")], at=0, payload="image"
)
def test_whatever_comes_is_an_event_or_the_error_of_one(key, value, headers, at, payload):
    try:
        found = decode_message(KafkaMessage("t", 0, 1, key, value, headers, at), payload)
    except EventError:
        return
    # What answers it must be able to name it: it can be written, and read back within the limits of the schema.
    assert encode(decode(encode(found), Event | DeadLetter)) == encode(found)
