"""Admission: which events may reach the head. Every reason to refuse one is an `EventError`."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from speciate.errors import EncodeError, EventError, FeatureError, TooLargeError
from speciate.stages import Matrix, Record
from speciate_schemas import Array, Event, FeatureEvent


class Admission:
    """Checks feature vectors against the head's dimension, a batch at a time."""

    def __init__(self, dimension: int) -> None:
        self._dimension = dimension

    def admit(self, records: Sequence[Record]) -> tuple[Matrix, list[EventError | None]]:
        """The observations as rows, and for each why it is refused; the rows of refused ones mean nothing."""
        batch = np.zeros((len(records), self._dimension))
        refusals: list[EventError | None] = []
        for row, record in zip(batch, records, strict=True):
            try:
                row[:] = self._vector(record)
                refusals.append(None)
            except EventError as error:
                refusals.append(error)
        finite = np.isfinite(batch).all(axis=1)
        for place in np.flatnonzero(~finite).tolist():
            refusals[place] = refusals[place] or _not_finite(batch[place])
        return batch, refusals

    def _vector(self, record: Record) -> npt.NDArray[Any]:
        vector = features_of(record)
        if len(vector) != self._dimension:
            raise FeatureError(f"features have dimension {len(vector)}, this head takes {self._dimension}")
        return vector


def limit_size(record: Record, limit: int) -> None:
    """Refuse an input of more bytes than `run.max_event_bytes`, if nothing else is wrong with it."""
    # What came is limited, not what it takes in memory; a row of an array has no bytes of its own.
    size = record.nbytes if record.original is None else len(record.original)
    if size > limit and record.error is None:
        record.error = TooLargeError(
            f"{size} bytes are more than run.max_event_bytes = {limit}: send less or raise the limit"
        )


def features_of(record: Record) -> npt.NDArray[Any]:
    """The record's feature vector, from the encoder or from the event itself; any dimension."""
    if record.error is not None:
        raise record.error
    vector = record.features if record.features is not None else _given(record.event)
    if vector.ndim != 1 or vector.dtype.kind not in "fiu":
        raise FeatureError(f"features are {vector.dtype} of shape {vector.shape}: send one vector of numbers")
    return vector


def _given(event: Event | None) -> npt.NDArray[Any]:
    if not isinstance(event, FeatureEvent):
        raise EncodeError("an image, but the pipeline has no [encoder]: configure one")
    if isinstance(event.features, Array):
        return event.features.numpy()
    return np.asarray(event.features, dtype=np.float64)


def _not_finite(vector: npt.NDArray[np.float64]) -> FeatureError:
    place = int(np.flatnonzero(~np.isfinite(vector))[0])
    return FeatureError(f"features[{place}] is {vector[place]}: only finite numbers can be decided on")
