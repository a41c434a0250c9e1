"""The support set: labelled events from any source, as the matrix and labels a head is fitted to."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from speciate.admission import features_of
from speciate.encoding import encode_records, importing
from speciate.errors import EventError, SupportError
from speciate.stages import Encoder, Matrix, Record, Source
from speciate.threads import in_thread
from speciate_schemas import FeatureEvent, ImageEvent, Observation

READ_EVENTS = 256
SMALLEST, LARGEST = 1e-60, 1e60
"""Of the largest feature: fourth powers of it, summed up, must still be numbers."""


async def read_support(source: Source, encoder: Encoder | None) -> tuple[npt.NDArray[Any], list[str]]:
    """Read a whole labelled source. One unusable event makes the set unusable: a prior must not rest on a guess."""
    vectors: list[npt.NDArray[Any]] = []
    labels: list[str] = []
    if encoder is not None:
        with importing():
            await in_thread(None, encoder.load)
    await source.open(None, 0)
    try:
        while records := await source.read(READ_EVENTS):
            for record in await in_thread(None, encode_records, records, encoder):
                _, label = labelled(record)
                add_vector(vectors, record)
                labels.append(label)
    finally:
        await source.close()
    if not vectors:
        raise SupportError("the support set is empty: [support] must yield at least one labelled event")
    return np.stack(vectors), labels


def labelled(record: Record) -> tuple[Observation, str]:
    """The event of a record and its label; a record without them cannot be part of a support set."""
    event = record.event
    if record.error is not None:
        raise SupportError(f"{record.origin} of the support set cannot be used: {record.error}") from record.error
    if not isinstance(event, FeatureEvent | ImageEvent):
        raise SupportError(f"{record.origin} is a control event: a support set holds observations only")
    if event.label is None:
        raise SupportError(f"{record.origin} of the support set has no label: every support event needs one")
    return event, event.label


def add_vector(vectors: list[npt.NDArray[Any]], record: Record) -> None:
    """Append the feature vector of a record to those before, which it must be as long as."""
    try:
        vector = features_of(record)
    except EventError as error:
        raise SupportError(f"{record.origin} of the support set cannot be used: {error}") from error
    if vectors and vector.shape != vectors[0].shape:
        raise SupportError(f"{record.origin} has {vector.shape} features, those before {vectors[0].shape}")
    vectors.append(vector)


def check_support(
    features: npt.ArrayLike, labels: Sequence[Any] | npt.NDArray[Any]
) -> tuple[Matrix, list[str], npt.NDArray[np.int64]]:
    """Check a support set: the matrix, the names of its classes in sorted order, and each row's class."""
    try:
        matrix = np.ascontiguousarray(features, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise SupportError(f"support features are not a matrix of numbers: {error}") from error
    if matrix.ndim != 2 or matrix.size == 0:  # noqa: PLR2004  # a matrix has two axes
        raise SupportError(f"support features have shape {matrix.shape}: give a matrix (N, d) with N, d ≥ 1")
    if len(labels) != len(matrix):
        raise SupportError(f"{len(matrix)} support features but {len(labels)} labels: give one label a row")
    if not np.isfinite(matrix).all():
        row = int(np.argwhere(~np.isfinite(matrix).all(axis=1))[0, 0])
        raise SupportError(f"support row {row} holds NaN or infinity: clean or drop it")
    peak = float(np.abs(matrix).max())
    if peak and not SMALLEST <= peak <= LARGEST:
        raise SupportError(
            f"the largest support feature is {peak:g}: scale features to between {SMALLEST:g} and {LARGEST:g}, so that "
            "their squares are numbers"
        )
    given = labels.tolist() if isinstance(labels, np.ndarray) else list(labels)
    if not isinstance(labels, str) and all(isinstance(label, str) for label in given):
        # Not by an array of text, which loses what ends with a null character: two classes would be one.
        texts = sorted(set(given))
        places = {text: place for place, text in enumerate(texts)}
        return matrix, texts, np.array([places[label] for label in given], dtype=np.int64)
    names = np.asarray(labels)
    if names.ndim != 1 or names.dtype.kind not in "USbiuf":
        raise SupportError(f"support labels are {names.dtype} of shape {names.shape}: give one text or number a row")
    values, classes = np.unique(names, return_inverse=True)
    return matrix, [str(value) for value in values], classes.astype(np.int64).reshape(-1)
