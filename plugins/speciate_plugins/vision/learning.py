"""The tail of a model and a linear classifier on top of it, as they learn: one epoch after the other."""

import math
from typing import NamedTuple, cast

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn import functional

from speciate.errors import ConfigError
from speciate_plugins.vision.losses import supervised_contrast
from speciate_plugins.vision.tail import SplitModel
from speciate_plugins.vision.training_options import TrainingOptions

MOMENTUM = 0.9

BUFFER = "momentum_buffer"
"""Where torch keeps the momentum of a parameter."""

Places = npt.NDArray[np.int64]


class Held(NamedTuple):
    """How the classifier does on images it was not trained on."""

    loss: float
    accuracy: float


class Learner:
    """Learns from activations (N, views, …), of each image as it is and perhaps mirrored, and classes 0 … K-1 (N,)."""

    def __init__(self, split: SplitModel, activations: Tensor, classes: Places, options: TrainingOptions) -> None:
        self._split = split
        self._activations = activations
        self._classes = torch.from_numpy(classes)
        self._options = options
        self._device = next(iter(split.parameters.values())).device
        with torch.inference_mode():
            dimension = self._features(self._activations[:1, 0]).shape[1]
        self._classifier = nn.Linear(dimension, int(classes.max()) + 1, device=self._device)
        # It begins by knowing nothing: no seed is needed, and its first loss is that of guessing.
        nn.init.zeros_(self._classifier.weight)
        nn.init.zeros_(self._classifier.bias)
        self._trained = {**split.parameters, "classifier.weight": self._classifier.weight}
        self._trained["classifier.bias"] = self._classifier.bias
        self._optimizer = torch.optim.SGD(
            [{"params": list(split.parameters.values())}, {"params": list(self._classifier.parameters())}],
            lr=0.0,
            momentum=MOMENTUM,
            weight_decay=options.weight_decay,
        )

    def learn(self, places: Places, epoch: int, learning_rate: float) -> float:
        """Pass once over these images; the mean loss. The order depends on nothing but the seed and the epoch."""
        encoder, classifier = self._optimizer.param_groups
        encoder["lr"], classifier["lr"] = learning_rate, learning_rate * self._options.classifier_factor
        random = np.random.default_rng((self._options.seed, epoch))
        order = torch.from_numpy(random.permutation(places))
        views = torch.from_numpy(random.integers(self._activations.shape[1], size=len(places)))
        total = 0.0
        for batch in self._batches(len(places)):
            some = order[batch]
            self._optimizer.zero_grad()
            features = self._features(self._activations[some, views[batch]])
            loss = self._loss(features, self._classes[some].to(self._device))
            loss.backward()  # type: ignore[no-untyped-call]
            self._optimizer.step()
            total += _finite(loss.item(), epoch, learning_rate) * len(some)
        return total / len(places)

    @torch.inference_mode()
    def judge(self, places: Places, epoch: int, learning_rate: float) -> Held:
        """How the classifier does on these images, none of them mirrored."""
        loss, right = 0.0, 0
        for batch in self._batches(len(places)):
            some = torch.from_numpy(places[batch])
            logits = self._logits(self._features(self._activations[some, 0]))
            classes = self._classes[some].to(self._device)
            loss += functional.cross_entropy(logits, classes, reduction="sum").item()
            right += int((logits.argmax(dim=1) == classes).sum())
        return Held(_finite(loss / len(places), epoch, learning_rate), right / len(places))

    def weights(self) -> dict[str, Tensor]:
        """A copy of what has been learnt."""
        return {name: parameter.detach().clone() for name, parameter in self._trained.items()}

    def momentum(self) -> dict[str, Tensor]:
        """What learning goes on from besides the weights; empty before the first step."""
        kept = {name: self._optimizer.state[parameter].get(BUFFER) for name, parameter in self._trained.items()}
        return {name: buffer for name, buffer in kept.items() if buffer is not None}

    @torch.no_grad()
    def load(self, weights: dict[str, Tensor], momentum: dict[str, Tensor]) -> None:
        """Take on what `weights` and `momentum` gave."""
        for name, parameter in self._trained.items():
            parameter.copy_(weights[name])
            if name in momentum:
                self._optimizer.state[parameter][BUFFER] = momentum[name].to(self._device)

    def _batches(self, count: int) -> list[slice]:
        size = self._options.batch_images
        return [slice(start, start + size) for start in range(0, count, size)]

    def _features(self, activations: Tensor) -> Tensor:
        return self._split.tail(activations.to(self._device))

    def _logits(self, features: Tensor) -> Tensor:
        # Encoders differ in the length of their features a thousandfold. On directions one learning rate suits all.
        directions = functional.normalize(features, dim=1)
        return cast("Tensor", self._classifier(self._options.feature_length * directions))

    def _loss(self, features: Tensor, classes: Tensor) -> Tensor:
        loss = functional.cross_entropy(self._logits(features), classes)
        if self._options.loss == "ce+supcon":
            contrast = supervised_contrast(features, classes, self._options.temperature)
            loss = loss + self._options.supcon_weight * contrast
        return loss


def _finite(loss: float, epoch: int, learning_rate: float) -> float:
    if math.isfinite(loss):
        return loss
    raise ConfigError(
        f"the loss is {loss} in epoch {epoch}, at a learning rate of {learning_rate:g}: "
        "training.learning_rate is too high for this model, try a tenth of it"
    )
