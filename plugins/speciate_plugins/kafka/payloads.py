"""One Kafka message to one event. Whatever the bytes are, the result is an event or the error of that one message."""

from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple, Self

import msgspec

from speciate.errors import DecodeError
from speciate_plugins.kafka.headers import (
    CE_ID,
    CLOUDEVENTS,
    FORMATS,
    OCTETS,
    CloudEvent,
    media_type,
    read_cloudevent,
    read_headers,
    shown,
)
from speciate_schemas import Array, DeadLetter, Event, FeatureEvent, ImageEvent
from speciate_schemas.codec import Format, decoder

Payload = Literal["event", "image", "float32"]
"""What the value of a message is, where its headers do not say: our own event, an image file, a bare vector."""

Decoder = Callable[[bytes | memoryview], Any]
FORMS: tuple[Format, ...] = ("msgpack", "json")
# Made once: to make, or even to look up, a decoder of a union takes many times what decoding takes.
EVENTS: dict[Format, Decoder] = {form: decoder(Event | DeadLetter, form) for form in FORMS}
CLOUD_DATA: dict[Format, Decoder] = {form: decoder(list[float] | Event | DeadLetter, form) for form in FORMS}

FLOAT_BYTES = 4
NAME_CHARACTERS = 512
"""The longest id or stream that the schemas allow."""

JSON_STARTS = b"{[ \t\r\n"
"""First bytes of JSON; as MessagePack they would be bare small numbers, which no event is."""

MAGIC = (
    (0, b"\xff\xd8\xff", "image/jpeg"),
    (0, b"\x89PNG\r\n\x1a\n", "image/png"),
    (0, b"GIF8", "image/gif"),
    (8, b"WEBP", "image/webp"),
    (0, b"II*\x00", "image/tiff"),
    (0, b"MM\x00*", "image/tiff"),
    (4, b"ftypavif", "image/avif"),
    (4, b"ftypheic", "image/heic"),
    (0, b"BM", "image/bmp"),
)
"""Where an image file says what it is, and how."""

MEDIA_TYPE_CHARACTERS = 128


class KafkaMessage(NamedTuple):
    """A message as it lies in a partition."""

    topic: str
    partition: int
    offset: int
    key: bytes | None = None
    value: bytes | None = None
    headers: Sequence[tuple[str, bytes | None]] = ()
    timestamp_ms: int | None = None

    @classmethod
    def of(cls, record: Any) -> Self:
        """The message in a record of aiokafka, where -1 is no timestamp."""
        timestamp = None if record.timestamp is None or record.timestamp < 0 else record.timestamp
        return cls(record.topic, record.partition, record.offset, record.key, record.value, record.headers, timestamp)

    @property
    def place(self) -> str:
        """Its name in answers and dead letters."""
        return f"{self.topic}/{self.partition}/{self.offset}"


class Identity(NamedTuple):
    """What an event has beside its data."""

    id: str
    stream: str
    time: float | None


def decode_message(message: KafkaMessage, payload: Payload) -> Event | DeadLetter:
    """The event in a message, or the dead letter of a stage before this one.

    Raises:
        DecodeError: if there is none.
    """
    value = message.value
    if not value:
        what = "null, as it is to delete a key" if value is None else "empty"
        raise DecodeError(f"the value is {what}: there is no event in it")
    headers = read_headers(message.headers)
    kind = media_type(headers)
    if kind.startswith(CLOUDEVENTS):
        raise DecodeError(f"content type {shown(kind)} is a CloudEvent in structured mode: send it in binary mode")
    cloudevent = read_cloudevent(headers)
    if cloudevent is not None:
        return _of_cloudevent(message, value, payload, kind, cloudevent)
    if payload == "event" or kind in FORMATS:
        found: Event | DeadLetter = _decoded(value, EVENTS[_format(kind, value)])
        return found
    identity = Identity(message.place, _key_text(message) or "", _seconds(message))
    return _image(value, kind, identity) if payload == "image" else _vector(value, kind, identity)


def sniff(image: bytes) -> str:
    """The media type an image file shows by its first bytes; empty if it shows none."""
    return next((name for start, magic, name in MAGIC if image.startswith(magic, start)), "")


def _of_cloudevent(
    message: KafkaMessage, value: bytes, payload: Payload, kind: str, cloudevent: CloudEvent
) -> Event | DeadLetter:
    identity = Identity(
        _fitting(cloudevent.id, CE_ID),
        _key_text(message) or _fitting(cloudevent.subject or cloudevent.source, "ce_subject or ce_source"),
        _seconds(message) if cloudevent.time is None else cloudevent.time,
    )
    if kind.startswith("image/") or (payload == "image" and kind in {"", OCTETS}):
        return _image(value, kind, identity)
    if kind == OCTETS or (payload == "float32" and not kind):
        return _vector(value, kind, identity)
    data = _decoded(value, CLOUD_DATA[_format(kind, value)])
    if isinstance(data, list):
        return FeatureEvent(id=identity.id, features=data, stream=identity.stream, time=identity.time)
    return data if isinstance(data, DeadLetter) else _completed(data, identity)


def _completed(event: Event, identity: Identity) -> Event:
    """Our own event inside a CloudEvent: what it says itself stands, the rest is filled in."""
    time = identity.time if event.time is None else event.time
    return msgspec.structs.replace(event, stream=event.stream or identity.stream, time=time)


def _format(kind: str, value: bytes) -> Format:
    """How an event is written: as the content type says, or without one as the first byte shows."""
    if kind in FORMATS:
        return FORMATS[kind]
    if kind:
        raise DecodeError(f"content type {shown(kind)} is not known for an event: use one of {', '.join(FORMATS)}")
    return "json" if value[0] in JSON_STARTS else "msgpack"


def _decoded(value: bytes, decode: Decoder) -> Any:
    try:
        return decode(value)
    except msgspec.DecodeError as error:
        raise DecodeError(str(error)) from None


def _image(value: bytes, kind: str, identity: Identity) -> ImageEvent:
    """An image, whatever it is: the encoder knows which it can read."""
    said = kind if kind.startswith("image/") and len(kind) <= MEDIA_TYPE_CHARACTERS else ""
    return ImageEvent(
        id=identity.id,
        image=memoryview(value),
        media_type=sniff(value) or said,
        stream=identity.stream,
        time=identity.time,
    )


def _vector(value: bytes, kind: str, identity: Identity) -> FeatureEvent:
    if kind not in {"", OCTETS}:
        raise DecodeError(f"content type {shown(kind)} is not that of a float32 vector: leave it out or use {OCTETS}")
    if len(value) % FLOAT_BYTES:
        raise DecodeError(f"{len(value)} bytes are no float32 vector: {FLOAT_BYTES} are needed for each number")
    features = Array(dtype="float32", shape=(len(value) // FLOAT_BYTES,), data=memoryview(value))
    return FeatureEvent(id=identity.id, features=features, stream=identity.stream, time=identity.time)


def _key_text(message: KafkaMessage) -> str | None:
    """The key as the name of a stream; bytes that are no UTF-8 are spelt out."""
    return _fitting(message.key.decode("utf-8", "backslashreplace"), "the key") if message.key else None


def _fitting(name: str, what: str) -> str:
    if len(name) > NAME_CHARACTERS:
        raise DecodeError(f"{what} has {len(name)} characters, more than the {NAME_CHARACTERS} a name may have")
    return name


def _seconds(message: KafkaMessage) -> float | None:
    return None if message.timestamp_ms is None else message.timestamp_ms / 1000
