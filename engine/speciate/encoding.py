"""Encoding: the images of a batch become features; what cannot be encoded carries its error onward."""

from collections.abc import Sequence
from typing import Any

import numpy.typing as npt

from speciate.errors import EncodeError, EventError, PluginError
from speciate.logs import get_logger
from speciate.stages import Encoder, Record
from speciate_schemas import ImageEvent

log = get_logger(__name__)


def encode_records(records: Sequence[Record], encoder: Encoder | None) -> Sequence[Record]:
    """Give every usable image its features or its error; everything else passes as it is."""
    if encoder is None:
        return records
    waiting = [(record, record.event) for record in records if isinstance(record.event, ImageEvent)]
    waiting = [(record, image) for record, image in waiting if record.error is None]
    if waiting:
        results = _encode(encoder, [image for _, image in waiting])
        for (record, _), result in zip(waiting, results, strict=True):
            if isinstance(result, EventError):
                record.error = result
            else:
                record.features = result
    return records


def _encode(encoder: Encoder, images: list[ImageEvent]) -> Sequence[npt.NDArray[Any] | EventError]:
    try:
        results = encoder.encode(images)
    except MemoryError:
        raise
    except Exception as error:  # noqa: BLE001  # a plugin may fail in any way; the event at fault must be found
        if len(images) > 1:
            return [_encode(encoder, [image])[0] for image in images]
        log.warning("the encoder failed on an image", id=images[0].id, error=repr(error))
        return [error if isinstance(error, EventError) else EncodeError(f"{type(error).__name__}: {error}")]
    if len(results) != len(images):
        raise PluginError(f"the encoder answered {len(images)} images with {len(results)} results")
    return results
