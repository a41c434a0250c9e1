"""Intake: a whole labelled source, checked event by event, as what a model is fitted to.

One unusable event makes the set unusable: a prior must not rest on a guess.
"""

import asyncio
import hashlib
from collections.abc import Sequence
from concurrent.futures import Executor, Future
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from speciate.encoding import BATCH_IMAGES, decoders, image_fault, importing
from speciate.errors import SupportError
from speciate.sealed import digest
from speciate.stages import Encoder, Record, Source, Watch
from speciate.support import add_vector, labelled
from speciate.threads import in_thread
from speciate.workplace import Workplace
from speciate_schemas import FeatureEvent, ImageEvent, encode


class Taker(Protocol):
    """What images are given to: a trainer, or an encoder that is used as it is."""

    @property
    def observed(self) -> int:
        """How many images are taken in, by earlier attempts too."""

    def prepare(self, image: ImageEvent) -> npt.NDArray[Any]:
        """As `Encoder.prepare`."""

    def observe(self, prepared: Sequence[npt.NDArray[Any]]) -> None:
        """Take in more images, in order."""


class Untrained:
    """Takes images to an encoder that cannot be trained."""

    def __init__(self, encoder: Encoder) -> None:
        with importing():
            encoder.load()
        self._encoder = encoder
        self._features: list[npt.NDArray[Any]] = []
        self.observed = 0

    def prepare(self, image: ImageEvent) -> npt.NDArray[Any]:
        """See `Taker`."""
        return self._encoder.prepare(image)

    def observe(self, prepared: Sequence[npt.NDArray[Any]]) -> None:
        """See `Taker`."""
        self._features.append(self._encoder.encode(prepared))
        self.observed += len(prepared)

    def frozen_features(self) -> npt.NDArray[Any]:
        """One vector an image."""
        return np.concatenate(self._features)


class ChangedError(Exception):
    """The images taken in before are not those that come now."""


class Waiting(NamedTuple):
    """An image on its way to whoever takes it in."""

    origin: str
    sha256: str
    decoding: Future[npt.NDArray[Any]]


class Intake:
    """Reads a labelled source to its end."""

    def __init__(self, taker: Taker | None, work: Workplace) -> None:
        self._taker = taker
        self._work = work
        self._seen = [] if taker is None else work.seen(taker.observed)
        self._hash = hashlib.sha256()
        self.labels: list[str] = []
        self.vectors: list[npt.NDArray[Any]] = []
        """The features of events that bring their own."""

    @property
    def sha256(self) -> str:
        """Of ids, labels and bytes, in order."""
        return self._hash.hexdigest()

    async def read(self, source: Source, watch: Watch) -> None:
        """Read everything; tells how far it is, in the source's own unit.

        Raises:
            ChangedError: if earlier attempts took in something else.
        """
        if self._taker is not None and len(self._seen) < self._taker.observed:
            raise ChangedError("nobody knows any more what was taken in")
        await source.open(None, 0)
        observing: asyncio.Future[None] | None = None
        try:
            with decoders() as pool:
                while records := await source.read(BATCH_IMAGES):
                    waiting = self._take(records, pool)
                    # Those just read are decoded while those before them are encoded.
                    if observing is not None:
                        await asyncio.shield(observing)
                    observing = in_thread(None, self._observe, waiting)
                    progress = source.progress()
                    watch(progress.done, progress.total or 0, "")
                if observing is not None:
                    await asyncio.shield(observing)
        finally:
            if observing is not None:
                # Not alone: what it takes in must be there, or not, before anybody else looks.
                await asyncio.gather(observing, return_exceptions=True)
            await source.close()
        if not self.labels:
            raise SupportError("the support set is empty: [support] must yield at least one labelled event")
        if len(self.labels) < len(self._seen):
            raise ChangedError("images that were taken in are gone")

    def _take(self, records: Sequence[Record], pool: Executor) -> list[Waiting]:
        """Note every event; images that are new begin to be decoded."""
        waiting: list[Waiting] = []
        for record in records:
            event, label = labelled(record)
            self.labels.append(label)
            sha256 = digest(encode((event.id, label, _content(event))))
            self._hash.update(sha256.encode())
            if isinstance(event, FeatureEvent):
                add_vector(self.vectors, record)
            if self.vectors and len(self.vectors) != len(self.labels):
                raise SupportError(
                    f"{record.origin}: the support set has features and images; fit a model to one or the other"
                )
            if isinstance(event, FeatureEvent):
                continue
            if self._taker is None:
                raise SupportError(f"{record.origin} of the support set is an image: [encoder] must say how to read it")
            if len(self.labels) > len(self._seen):
                waiting.append(Waiting(record.origin, sha256, pool.submit(self._taker.prepare, event)))
            elif self._seen[len(self.labels) - 1] != sha256:
                raise ChangedError(record.origin)
        return waiting

    def _observe(self, waiting: Sequence[Waiting]) -> None:
        if not waiting or self._taker is None:
            return
        prepared = []
        for one in waiting:
            try:
                prepared.append(one.decoding.result())
            except Exception as error:
                raise SupportError(f"{one.origin} of the support set cannot be used: {image_fault(error)}") from error
        if not isinstance(self._taker, Untrained):  # which keeps nothing
            self._work.note([one.sha256 for one in waiting])
        self._taker.observe(prepared)


def _content(event: FeatureEvent | ImageEvent) -> bytes:
    """The bytes that make an event what it is."""
    if isinstance(event, ImageEvent):
        return bytes(event.image)
    return encode(event.features)
