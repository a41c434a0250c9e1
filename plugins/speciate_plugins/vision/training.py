"""A training from beginning to end: what is held out, how fast it learns, when it stops, and what is kept of it.

After each epoch all that the next one depends on is written down, so that a training that was killed goes on as if
nothing had happened, bit for bit.
"""

import math
import time
from pathlib import Path

import msgspec
import numpy as np
import safetensors
import safetensors.torch
from torch import Tensor

from speciate.files import write_atomically, writing
from speciate.stages import Watch
from speciate_plugins.vision.learning import Learner, Places
from speciate_plugins.vision.training_options import TrainingOptions
from speciate_schemas import Epoch, Strict

COURSE = "course"
"""Where in a checkpoint the course of the training is, among the tensors."""


class Course(Strict, frozen=True):
    """How a training has gone so far."""

    fingerprint: str
    """Of all that it depends on."""
    epochs: list[Epoch] = msgspec.field(default_factory=list)
    kept_epoch: int = 0
    """The best one so far."""
    seconds: float = 0.0


def hold_out(classes: Places, share: float, seed: int) -> tuple[Places, Places]:
    """Places to train on and places held out: this share of each class, to the nearest whole image."""
    random = np.random.default_rng(seed)
    held = np.zeros(len(classes), dtype=bool)
    for one, count in zip(*np.unique(classes, return_counts=True), strict=True):
        # Half an image is none, so that half of a class is never more than half of it.
        held[random.permutation(np.flatnonzero(classes == one))[: math.ceil(share * count - 0.5)]] = True
    return np.flatnonzero(~held), np.flatnonzero(held)


def learning_rate(options: TrainingOptions, epoch: int) -> float:
    """Of an epoch, from 1: along half a cosine from the first one's to the last one's."""
    passed = (epoch - 1) / max(options.epochs - 1, 1)
    span = options.learning_rate - options.final_learning_rate
    return options.final_learning_rate + span * (1 + math.cos(math.pi * passed)) / 2


class Training:
    """Lets a learner learn, and remembers its best epoch.

    The best is the one with the least cross-entropy on what is held out. Before the first epoch the classifier can but
    guess, so the weights of before are kept only if no epoch got better than guessing. If nothing is held out, nothing
    tells when to stop, and the last epoch counts as the best.
    """

    def __init__(self, learner: Learner, classes: Places, options: TrainingOptions, checkpoint: Path, key: str) -> None:
        self._learner = learner
        self._options = options
        self._checkpoint = checkpoint
        self._guessing = math.log(classes.max() + 1)
        self.trained_on, self.held_out = hold_out(classes, options.held_out, options.seed)
        self.course = Course(fingerprint=key)
        self._best = learner.weights()

    @property
    def stopped_early(self) -> bool:
        """Whether what is held out got no better for as long as the patience allows, with epochs left."""
        waited = len(self.course.epochs) - self.course.kept_epoch >= self._options.patience
        return bool(len(self.held_out)) and waited and len(self.course.epochs) < self._options.epochs

    def run(self, watch: Watch) -> None:
        """Train to the end, from where an earlier attempt was, and leave the learner as it was after its best epoch."""
        self._resume()
        watch(len(self.course.epochs), self._options.epochs, self._told())
        while len(self.course.epochs) < self._options.epochs and not self.stopped_early:
            self._pass()
            self._save()
            watch(len(self.course.epochs), self._options.epochs, self._told())
        self._learner.load(self._best, {})

    def _pass(self) -> None:
        began = time.monotonic()
        number = len(self.course.epochs) + 1
        rate = learning_rate(self._options, number)
        loss = self._learner.learn(self.trained_on, number, rate)
        held = self._learner.judge(self.held_out, number, rate) if len(self.held_out) else None
        epoch = Epoch(
            number=number,
            learning_rate=rate,
            loss=loss,
            held_loss=held and held.loss,
            held_accuracy=held and held.accuracy,
        )
        better = held is None or held.loss < self._least()
        if better:
            self._best = self._learner.weights()
        self.course = msgspec.structs.replace(
            self.course,
            epochs=[*self.course.epochs, epoch],
            kept_epoch=number if better else self.course.kept_epoch,
            seconds=self.course.seconds + time.monotonic() - began,
        )

    def _least(self) -> float:
        losses = [epoch.held_loss for epoch in self.course.epochs if epoch.held_loss is not None]
        return min([self._guessing, *losses])

    def _told(self) -> str:
        if not self.course.epochs:
            return f"{len(self.held_out)} images held out" if len(self.held_out) else "nothing held out"
        last = self.course.epochs[-1]
        if last.held_loss is None or last.held_accuracy is None:
            return f"loss {last.loss:.3f}, nothing held out"
        return f"loss {last.loss:.3f}, held out {last.held_loss:.3f}, {last.held_accuracy:.0%} right"

    def _save(self) -> None:
        parts = {"now": self._learner.weights(), "momentum": self._learner.momentum(), "best": self._best}
        tensors = {
            f"{part}.{name}": tensor.cpu().contiguous()
            for part, those in parts.items()
            for name, tensor in those.items()
        }
        data = safetensors.torch.save(tensors, {COURSE: msgspec.json.encode(self.course).decode()})
        with writing(self._checkpoint):
            write_atomically(self._checkpoint, data)

    def _resume(self) -> None:
        try:
            with safetensors.safe_open(self._checkpoint, framework="pt") as file:
                course = msgspec.json.decode((file.metadata() or {})[COURSE], type=Course)
                parts: dict[str, dict[str, Tensor]] = {"now": {}, "momentum": {}, "best": {}}
                for key in file.keys():  # noqa: SIM118 - not a dictionary
                    part, _, name = key.partition(".")
                    parts[part][name] = file.get_tensor(key)
        except (OSError, safetensors.SafetensorError, msgspec.DecodeError, KeyError):
            return  # none, or one of no use: from the beginning
        if course.fingerprint != self.course.fingerprint:
            return
        self.course = course
        self._learner.load(parts["now"], parts["momentum"])
        self._best = parts["best"]
