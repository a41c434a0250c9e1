"""Encoding: images become features; what cannot be decoded or encoded carries its error onward."""

import os
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import numpy.typing as npt

from speciate.errors import EncodeError, EventError, PluginError
from speciate.logs import get_logger
from speciate.stages import Encoder, Record
from speciate_schemas import ImageEvent

log = get_logger(__name__)

BATCH_IMAGES = 32
"""Images encoded at once where nothing says otherwise."""


def decoders(workers: int | None = None) -> ThreadPoolExecutor:
    """Threads that decode images: decoders let go of the interpreter, so there is one a processor."""
    return ThreadPoolExecutor(workers or os.cpu_count() or 1, thread_name_prefix="decoder")


class OneAtATime:
    """An encoder that tasks share. One batch keeps all processors busy: two at once would slow each other down."""

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder
        self._free = threading.Lock()

    @property
    def dimension(self) -> int:
        """See `Encoder`."""
        return self._encoder.dimension

    def load(self) -> None:
        """See `Encoder`."""
        with self._free:
            self._encoder.load()

    def prepare(self, image: ImageEvent) -> npt.NDArray[Any]:
        """See `Encoder`."""
        return self._encoder.prepare(image)

    def encode(self, prepared: Sequence[npt.NDArray[Any]]) -> npt.NDArray[Any]:
        """See `Encoder`."""
        with self._free:
            return self._encoder.encode(prepared)


def is_image(record: Record) -> bool:
    """Whether there is something to encode."""
    return record.error is None and isinstance(record.event, ImageEvent)


def prepare_record(record: Record, encoder: Encoder) -> float:
    """Decode a record's image, or find out why it cannot be used; how many seconds it took."""
    start = time.perf_counter()
    try:
        assert isinstance(record.event, ImageEvent)  # noqa: S101  # is_image was asked
        record.prepared = encoder.prepare(record.event)
    except MemoryError:
        raise
    except Exception as error:  # noqa: BLE001  # a plugin may fail in any way: it is this image's fault alone
        record.error = _failed(record, error)
    return time.perf_counter() - start


def encode_prepared(records: Sequence[Record], encoder: Encoder) -> float:
    """Give every prepared image its features or its error; how many seconds it took."""
    start = time.perf_counter()
    waiting = [record for record in records if record.prepared is not None]
    if waiting:
        _encode(waiting, encoder)
    return time.perf_counter() - start


def encode_records(records: Sequence[Record], encoder: Encoder | None) -> Sequence[Record]:
    """Decode and encode all images of a batch, a part at a time; everything else passes as it is."""
    images = [record for record in records if is_image(record)]
    if encoder is None or not images:
        return records
    with decoders() as pool:
        for start in range(0, len(images), BATCH_IMAGES):
            part = images[start : start + BATCH_IMAGES]
            list(pool.map(lambda record: prepare_record(record, encoder), part))
            encode_prepared(part, encoder)
    return records


def _encode(records: Sequence[Record], encoder: Encoder) -> None:
    prepared = [record.prepared for record in records if record.prepared is not None]
    try:
        features = np.asarray(encoder.encode(prepared))
    except MemoryError:
        raise
    except Exception as error:  # noqa: BLE001  # the image at fault must be found
        if len(records) > 1:
            for record in records:
                _encode([record], encoder)
            return
        records[0].error = _failed(records[0], error)
        records[0].prepared = None
        return
    if features.ndim != 2 or len(features) != len(records):  # noqa: PLR2004  # a matrix has two axes
        raise PluginError(f"the encoder answered {len(records)} images with features of shape {features.shape}")
    for record, row in zip(records, features, strict=True):
        # Decoded images are many times larger than all else about a record.
        record.features, record.prepared = row, None


def _failed(record: Record, error: Exception) -> EventError:
    if isinstance(error, EventError):
        return error
    assert record.event is not None  # noqa: S101
    log.warning("the encoder failed on an image", id=record.event.id, error=repr(error))
    return EncodeError(f"{type(error).__name__}: {error}")
