"""A fitted model in the hands of a program: images or features in, decisions out."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from speciate.bundle import Bundle
from speciate.config import of_model
from speciate.encoding import BATCH_IMAGES, decoders, importing
from speciate.errors import ConfigError, EncodeError, EventError
from speciate.head import Decision, Head
from speciate.plugins import Plugins, installed
from speciate.stages import Encoder
from speciate_schemas import ImageEvent


class Model:
    """The encoder and the head of a bundle.

    >>> model = Model.load("my.model")  # doctest: +SKIP
    >>> model.decide([Path("frame.jpg").read_bytes()])[0].label  # doctest: +SKIP
    """

    def __init__(self, encoder: Encoder | None, head: Head) -> None:
        self._encoder = encoder
        self.head = head
        """Decides, and learns from what it decides; `save` keeps what it has learnt."""

    @classmethod
    def load(cls, path: str | Path, plugins: Plugins | None = None) -> Self:
        """Open and verify a bundle that `speciate fit` wrote."""
        plugins, bundle = plugins or installed(), Bundle.load(path)
        chosen = of_model(bundle, plugins)
        encoder: Encoder | None = None
        if "encoder" in chosen:
            encoder = chosen["encoder"].create()
            with importing():
                encoder.load()
            bundle.check_encoder(encoder)
        return cls(encoder, Head.from_state(bundle.head_state(), plugins))

    def features(self, images: Sequence[bytes]) -> npt.NDArray[Any]:
        """One vector an image, given as the bytes of its file; raises `EncodeError` for the first that is unusable."""
        if self._encoder is None:
            raise ConfigError("this model has no encoder, it was fitted to features: give them to `head`")
        rows = [np.empty((0, self._encoder.dimension), dtype=np.float32)]
        with decoders() as pool:
            for start in range(0, len(images), BATCH_IMAGES):
                part = enumerate(images[start : start + BATCH_IMAGES], start)
                rows.append(self._encoder.encode(list(pool.map(self._prepare, part))))
        return np.concatenate(rows)

    def decide(self, images: Sequence[bytes]) -> list[Decision]:
        """Decide many images in order, and learn from them."""
        return self.head.process(self.features(images))

    def _prepare(self, numbered: tuple[int, bytes]) -> npt.NDArray[Any]:
        place, data = numbered
        assert self._encoder is not None  # noqa: S101  # features() asks
        try:
            return self._encoder.prepare(ImageEvent(id=str(place), image=memoryview(data)))
        except EventError as error:
            raise EncodeError(f"image {place}: {error}") from error
