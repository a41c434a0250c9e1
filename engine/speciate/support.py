"""The support set: labelled events from any source, as the matrix and labels a head is fitted to."""

from typing import Any

import numpy as np
import numpy.typing as npt

from speciate.admission import features_of
from speciate.encoding import encode_records
from speciate.errors import EventError, SupportError
from speciate.stages import Encoder, Record, Source
from speciate.threads import in_thread
from speciate_schemas import FeatureEvent, ImageEvent

READ_EVENTS = 256


async def read_support(source: Source, encoder: Encoder | None) -> tuple[npt.NDArray[Any], list[str]]:
    """Read a whole labelled source. One unusable event makes the set unusable: a prior must not rest on a guess."""
    vectors: list[npt.NDArray[Any]] = []
    labels: list[str] = []
    await source.open(None, 0)
    try:
        while records := await source.read(READ_EVENTS):
            for record in await in_thread(None, encode_records, records, encoder):
                vector, label = _labelled(record)
                if vectors and vector.shape != vectors[0].shape:
                    raise SupportError(f"{record.origin} has {vector.shape} features, those before {vectors[0].shape}")
                vectors.append(vector)
                labels.append(label)
    finally:
        await source.close()
    if not vectors:
        raise SupportError("the support set is empty: [support] must yield at least one labelled event")
    return np.stack(vectors), labels


def _labelled(record: Record) -> tuple[npt.NDArray[Any], str]:
    event = record.event
    if record.error is None and not isinstance(event, FeatureEvent | ImageEvent):
        raise SupportError(f"{record.origin} is a control event: a support set holds observations only")
    try:
        vector = features_of(record)
    except EventError as error:
        raise SupportError(f"{record.origin} of the support set cannot be used: {error}") from error
    label = event.label if isinstance(event, FeatureEvent | ImageEvent) else None
    if label is None:
        raise SupportError(f"{record.origin} of the support set has no label: every support event needs one")
    return vector, label
