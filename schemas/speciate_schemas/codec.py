"""Bytes to structs and back, MessagePack and JSON, with one kind of error."""

from collections.abc import Callable
from functools import cache
from typing import Any, Literal, cast

import msgspec

Format = Literal["msgpack", "json"]

_CODECS: dict[str, Any] = {"msgpack": msgspec.msgpack, "json": msgspec.json}


@cache
def decoder(kind: Any, form: Format = "msgpack") -> Callable[[bytes | memoryview], Any]:
    """What decodes values of `kind`: for loops, which then look it up once."""
    decode_value = _CODECS[form].Decoder(kind).decode

    def decode_one(data: bytes | memoryview) -> Any:
        try:
            return decode_value(data)
        except (RecursionError, UnicodeDecodeError, OverflowError) as error:
            # Hostile nesting, text that is not UTF-8, a number no machine holds: the sender's fault like any other.
            raise msgspec.DecodeError(f"{type(error).__name__}: {error}") from None

    return decode_one


@cache
def _encoder(form: Format) -> Any:
    # Sorted keys make equal values equal bytes, which the byte-for-byte laws of the engine rest on.
    return _CODECS[form].Encoder(order="deterministic")


def decode(data: bytes | memoryview, kind: Any, form: Format = "msgpack") -> Any:
    """Decode one value of `kind`.

    Raises:
        msgspec.DecodeError: for anything that is not exactly one well-formed value of that kind.
    """
    return decoder(kind, form)(data)


def encode(value: Any, form: Format = "msgpack") -> bytes:
    """Encode a value; equal values give equal bytes."""
    return cast(bytes, _encoder(form).encode(value))
