"""The headers of a message: what its bytes are, and the attributes of CloudEvents in binary mode."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, NamedTuple

import msgspec

from speciate.errors import DecodeError
from speciate_schemas.codec import Format

CONTENT_TYPE = "content-type"
CE_SPECVERSION = "ce_specversion"
CE_ID = "ce_id"
CE_SOURCE = "ce_source"
CE_TYPE = "ce_type"
CE_TIME = "ce_time"
CE_SUBJECT = "ce_subject"

SPECVERSION = "1.0"
REQUIRED = (CE_SPECVERSION, CE_ID, CE_SOURCE, CE_TYPE)
"""What a CloudEvent cannot be without; one of them makes a message a CloudEvent."""

OCTETS = "application/octet-stream"
CLOUDEVENTS = "application/cloudevents"
"""How the content type of a CloudEvent in structured mode, or of a batch of them, starts."""

FORMATS: dict[str, Format] = {
    "application/json": "json",
    "application/msgpack": "msgpack",
    "application/vnd.msgpack": "msgpack",
    "application/x-msgpack": "msgpack",
}
"""The content types our own events come in."""

SHOWN = 80
"""Most characters of a hostile header that a message quotes."""

Headers = dict[str, bytes | None]

Moment = Annotated[datetime, msgspec.Meta(tz=True)]


class CloudEvent(NamedTuple):
    """The attributes of a CloudEvent that say something about an event."""

    id: str
    source: str
    subject: str | None
    time: float | None


def content_type(form: Format) -> bytes:
    """The value of the header `content-type` for what we write."""
    return f"application/{form}".encode()


def read_headers(headers: Sequence[tuple[str, bytes | None]]) -> Headers:
    """The headers by name in lower case; of several of a name the last counts, as it does for Kafka's own clients.

    Raises:
        DecodeError: if a name is no text; who made the message does not keep to what Kafka asks for.
    """
    for name, _ in headers:
        if not is_text(name):
            raise DecodeError(f"the name of a header, {_spelt(name)}, is no UTF-8 text: send it with another name")
    return {name.lower(): value for name, value in headers}


def is_text(name: str) -> bool:
    """False for a name with bytes that are no UTF-8, for which lone surrogates stand: see `salvage`."""
    return name.isascii() or not any("\udc80" <= character <= "\udcff" for character in name)


def _spelt(name: str) -> str:
    return shown(name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace"))


def media_type(headers: Headers) -> str:
    """The content type in lower case, without parameters such as `charset`; empty if the message does not say."""
    value = headers.get(CONTENT_TYPE) or b""
    return value.decode("utf-8", "backslashreplace").partition(";")[0].strip().lower()


def read_cloudevent(headers: Headers) -> CloudEvent | None:
    """The attributes, if the message is a CloudEvent in binary mode.

    Raises:
        DecodeError: if one that is required is missing, or one is malformed.
    """
    if headers.keys().isdisjoint(REQUIRED):
        return None
    version, event_id, source, _ = (_required(headers, name) for name in REQUIRED)
    if version != SPECVERSION:
        raise DecodeError(f"{CE_SPECVERSION} is {shown(version)}: only CloudEvents {SPECVERSION} are understood")
    return CloudEvent(event_id, source, _text(headers, CE_SUBJECT) or None, _time(headers))


def shown(text: str) -> str:
    """Text from a stranger, quoted, and not at any length."""
    return repr(text if len(text) <= SHOWN else text[:SHOWN] + "…")


def _required(headers: Headers, name: str) -> str:
    value = _text(headers, name)
    if not value:
        raise DecodeError(f"a CloudEvent needs the header {name}, which is missing or empty")
    return value


def _text(headers: Headers, name: str) -> str:
    try:
        return (headers.get(name) or b"").decode()
    except UnicodeDecodeError:
        raise DecodeError(f"the header {name} is no UTF-8 text") from None


def _time(headers: Headers) -> float | None:
    text = _text(headers, CE_TIME)
    if not text:
        return None
    try:
        return msgspec.convert(text, Moment).timestamp()
    except msgspec.ValidationError:
        raise DecodeError(
            f"{CE_TIME} is {shown(text)}: it must be a time as RFC 3339 writes it, such as 2026-01-31T23:59:59Z"
        ) from None
