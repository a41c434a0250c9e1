"""Trains the encoder `timm`: only its last blocks, so that the rest of it sees each image just once.

In its folder are the activations of everything observed, see `activations`, and `checkpoint.safetensors`: where a
training is, see `training`.
"""

import hashlib
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from speciate.errors import ConfigError, SupportError
from speciate.files import writing
from speciate.stages import Watch
from speciate_plugins.vision.activations import Activations
from speciate_plugins.vision.learning import Learner
from speciate_plugins.vision.models import FeatureModel, build, in_float32, precision_name, save_weights
from speciate_plugins.vision.options import TimmOptions
from speciate_plugins.vision.tail import SplitModel, WholeModel
from speciate_plugins.vision.training import Training
from speciate_plugins.vision.training_options import TrainingOptions
from speciate_schemas import ImageEvent, TrainingReport

WEIGHTS = "encoder.safetensors"

FEATURES_AT_ONCE = 64


class TimmTrainer:
    """See `Trainer`. Without training options it can do all but train, with any model."""

    def __init__(self, encoder: TimmOptions, training: TrainingOptions | None, folder: Path) -> None:
        self._encoder = encoder
        self._options = training
        # Compiling does not pay for what is called so few times. The precision counts: the head is fitted to features
        # that are those of the encoder when it runs.
        self._model = build(msgspec.structs.replace(encoder, compile=False))
        self.options = msgspec.structs.replace(encoder, precision=precision_name(self._model.precision))
        self._split = WholeModel(self._model) if training is None else SplitModel(self._model, training.blocks)
        self._frozen = self._split.weights()
        self._trained = self._frozen
        self._identity = _identity(self._model, encoder, training)
        self._activations = Activations(folder, self._identity)
        self._checkpoint = folder / "checkpoint.safetensors"
        if not self.observed:
            self._checkpoint.unlink(missing_ok=True)  # it was of images that are gone

    @property
    def observed(self) -> int:
        """See `Trainer`."""
        return self._activations.images

    def prepare(self, image: ImageEvent) -> npt.NDArray[np.uint8]:
        """See `Trainer`."""
        return self._model.view.prepare(image.image, self._encoder.max_pixels)

    def observe(self, prepared: Sequence[npt.NDArray[Any]]) -> None:
        """See `Trainer`."""
        if not prepared:
            return
        began = time.monotonic()
        images = torch.from_numpy(np.stack(prepared)).to(self._model.device)
        views = [images, images.flip(3)] if self._options and self._options.mirror else [images]
        activations = torch.stack([self._split.trunk(view) for view in views], dim=1)
        self._activations.append(activations, time.monotonic() - began)

    def train(self, classes: npt.NDArray[np.int64], watch: Watch) -> TrainingReport:
        """See `Trainer`."""
        if self._options is None:
            raise ConfigError("there is no section [training]: write one, or use the encoder as it is")
        names, numbers = np.unique(classes, return_inverse=True)
        if len(classes) != self.observed or len(names) < 2:  # noqa: PLR2004 - nothing to tell apart
            raise SupportError(
                f"{self.observed} images were taken in, and {len(classes)} labels of {len(names)} classes given: "
                "training needs as many labels as images, of two classes or more"
            )
        self._split.load(self._frozen)
        exact = SplitModel(in_float32(self._model), self._options.blocks)  # gradients vanish in half precision
        learner = Learner(exact, self._activations.tensor(), numbers, self._options)
        key = hashlib.sha256(self._identity.encode() + msgspec.json.encode(self._options) + numbers.tobytes())
        training = Training(learner, numbers, self._options, self._checkpoint, key.hexdigest())
        training.run(watch)
        self._trained = self._split.weights()
        return self._report(training, len(names))

    def frozen_features(self) -> npt.NDArray[np.float32]:
        """See `Trainer`."""
        return self._features(self._frozen)

    def features(self) -> npt.NDArray[np.float32]:
        """See `Trainer`."""
        return self._features(self._trained)

    def save(self, folder: Path) -> dict[str, str]:
        """See `Trainer`."""
        self._split.load(self._trained)
        with writing(folder / WEIGHTS):
            save_weights(self._model, folder / WEIGHTS)
        return {"weights": WEIGHTS}

    @torch.inference_mode()
    def _features(self, weights: dict[str, Tensor]) -> npt.NDArray[np.float32]:
        self._split.load(weights)
        features = np.empty((self.observed, self._model.dimension), dtype=np.float32)
        activations = self._activations.tensor()
        for start in range(0, self.observed, FEATURES_AT_ONCE):
            some = slice(start, start + FEATURES_AT_ONCE)
            features[some] = self._split.tail(activations[some, 0].to(self._model.device)).cpu().numpy()
        return features

    def _report(self, training: Training, classes: int) -> TrainingReport:
        course = training.course
        return TrainingReport(
            options=msgspec.to_builtins(self._options),
            epochs=course.epochs,
            kept_epoch=course.kept_epoch,
            stopped_early=training.stopped_early,
            images=len(training.trained_on),
            held_out=len(training.held_out),
            classes=classes,
            parameters=sum(parameter.numel() for parameter in self._split.parameters.values()),
            trunk_seconds=self._activations.seconds,
            training_seconds=course.seconds,
        )


def _identity(model: FeatureModel, encoder: TimmOptions, training: TrainingOptions | None) -> str:
    """Of all that activations and features depend on: what was kept for another encoder is of no use."""
    # The weights themselves stand for the file they were read from, which may have been replaced.
    named = msgspec.structs.replace(encoder, weights=None, projection=None, device="", precision="auto", compile=False)
    about = (named, str(model.precision), training and (training.blocks, training.mirror))
    digest = hashlib.sha256(msgspec.json.encode(about))
    for name, tensor in model.state_dict().items():
        digest.update(name.encode())
        digest.update(tensor.cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()
