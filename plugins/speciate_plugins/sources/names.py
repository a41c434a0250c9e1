"""What a source that makes events itself must check, so that every answer it causes can be read back."""

import msgspec

from speciate.errors import DecodeError
from speciate_schemas.events import Identifier, Stream, Time, Truth


class Names(msgspec.Struct, kw_only=True):
    """The fields an event has beside its data, within the limits of the schema."""

    id: Identifier
    stream: Stream
    time: Time = None
    label: Truth = None


def check_names(*, id: object, stream: object, time: object = None, label: object = None) -> Names:  # noqa: A002 - the schema's name
    """The fields, checked.

    Raises:
        DecodeError: if one is missing, of the wrong type, too long, or not valid text.
    """
    try:
        names = msgspec.convert({"id": id, "stream": stream, "time": time, "label": label}, Names)
        "".join((names.id, names.stream, names.label or "")).encode()
    except (msgspec.ValidationError, UnicodeEncodeError) as error:
        raise DecodeError(str(error)) from None
    return names
