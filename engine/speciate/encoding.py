"""Encoding: images become features; what cannot be decoded or encoded carries its error onward."""

import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt

from speciate.errors import DeviceError, EncodeError, EventError, PluginError, SpeciateError, first_line
from speciate.stages import Encoder, Record, is_picturing
from speciate_schemas import ImageEvent

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
        self._proven: npt.NDArray[Any] | None = None

    @property
    def dimension(self) -> int:
        """See `Encoder`."""
        return self._encoder.dimension

    def load(self) -> None:
        """See `Encoder`."""
        with self._free, importing():
            self._encoder.load()

    def prepare(self, image: ImageEvent) -> npt.NDArray[Any]:
        """See `Encoder`."""
        return self._encoder.prepare(image)

    def encode(self, prepared: Sequence[npt.NDArray[Any]]) -> npt.NDArray[Any]:
        """See `Encoder`."""
        with self._free:
            features = self._encoder.encode(prepared)
            self._proven = prepared[0]
            return features

    @property
    def picture(self) -> Callable[[ImageEvent, int], bytes]:
        """See `Picturing`; missing where the encoder has none, so that `is_picturing` tells the truth."""
        if not is_picturing(self._encoder):
            raise AttributeError(f"there are no pictures from a {type(self._encoder).__name__}")
        return self._encoder.picture

    def works(self) -> bool:
        """Whether it can still encode what it could before: tells a bad image from an encoder that is gone."""
        if self._proven is None:
            return False
        try:
            self.encode([self._proven])
        except Exception:  # noqa: BLE001  # however it fails, it does not work
            return False
        return True


def picturer(encoder: Encoder | None, pixels: int) -> Callable[[ImageEvent], bytes] | None:
    """What makes a small JPEG of an image, or raises `EventError`; None where there are no pictures."""
    if encoder is None or not is_picturing(encoder):
        return None
    make = encoder.picture

    def picture(image: ImageEvent) -> bytes:
        try:
            return make(image, pixels)
        except EventError:
            raise
        except Exception as error:
            raise image_fault(error) from error

    return picture


def image_fault(error: Exception) -> EventError:
    """What is wrong with an image that an encoder has failed on, in any way; raises what is no fault of any image."""
    if isinstance(error, EventError):
        return error
    if isinstance(error, MemoryError | SpeciateError):
        raise error
    if isinstance(error, ImportError):
        raise _broken(error) from error
    return EncodeError(f"{type(error).__name__}: {error}")


@contextmanager
def importing() -> Iterator[None]:
    """An encoder is made ready in the block: a library of its own that cannot be imported is told as such."""
    try:
        yield
    except ImportError as error:
        raise _broken(error) from error


def _broken(error: ImportError) -> PluginError:
    reason = f"{type(error).__name__}: {first_line(error)}"
    return PluginError(f"the encoder uses a library that cannot be imported ({reason}): install it again")


def is_image(record: Record) -> bool:
    """Whether there is something to encode."""
    return record.error is None and isinstance(record.event, ImageEvent)


def prepare_record(record: Record, encoder: Encoder) -> float:
    """Decode a record's image, or find out why it cannot be used; how many seconds it took."""
    start = time.perf_counter()
    try:
        assert isinstance(record.event, ImageEvent)  # noqa: S101  # is_image was asked
        record.prepared = encoder.prepare(record.event)
    except Exception as error:  # noqa: BLE001  # a plugin may fail in any way
        record.error = image_fault(error)
    return time.perf_counter() - start


def encode_prepared(records: Sequence[Record], encoder: OneAtATime) -> float:
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
    shared = encoder if isinstance(encoder, OneAtATime) else OneAtATime(encoder)
    with decoders() as pool:
        for start in range(0, len(images), BATCH_IMAGES):
            part = images[start : start + BATCH_IMAGES]
            list(pool.map(lambda record: prepare_record(record, shared), part))
            encode_prepared(part, shared)
    return records


def _encode(records: Sequence[Record], encoder: OneAtATime) -> None:
    prepared = [record.prepared for record in records if record.prepared is not None]
    try:
        features = np.asarray(encoder.encode(prepared))
    except Exception as error:
        if len(records) > 1:
            # The image at fault must be found.
            for record in records:
                _encode([record], encoder)
            return
        fault = image_fault(error)
        if not isinstance(error, EventError) and not encoder.works():
            raise DeviceError(
                f"the encoder fails, whatever the image ({type(error).__name__}: {error}): mend it or its device and "
                "run again"
            ) from error
        records[0].error, records[0].prepared = fault, None
        return
    if features.ndim != 2 or len(features) != len(records):  # noqa: PLR2004  # a matrix has two axes
        raise PluginError(f"the encoder answered {len(records)} images with features of shape {features.shape}")
    for record, row in zip(records, features, strict=True):
        # Decoded images are many times larger than all else about a record.
        record.features, record.prepared = row, None
