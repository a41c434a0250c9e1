"""An encoder that can be trained, made up for the tests: quick, exact, and it loses its power where a test says.

Its images are files of a few bytes, and its features those bytes times a scale, which is all that training changes.
"""

import json
from collections.abc import Callable
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Annotated

import msgspec
import numpy as np

from speciate.errors import EncodeError
from speciate.hooks import Provider, hookimpl
from speciate.plugins import Plugins, _discover
from speciate_schemas import Epoch, Strict, TrainingReport

SIZE = 3
KNOWN = ("dark", "light")


class TraineeOptions(Strict, frozen=True):
    gain: Annotated[float, msgspec.Meta(description="All features are multiplied by it.")] = 1.0
    scale: Annotated[str | None, msgspec.Meta(description="A file with the scale.")] = None
    offset: Annotated[str | None, msgspec.Meta(description="A file with an offset.")] = None


class LessonOptions(Strict, frozen=True):
    epochs: Annotated[int, msgspec.Meta(description="Passes.")] = 3


class Trainee:
    """The encoder."""

    def __init__(self, options: TraineeOptions) -> None:
        self._options = options
        self.dimension = 0

    def load(self) -> None:
        named = {name: getattr(self._options, name) for name in ("scale", "offset")}
        found = {name: json.loads(Path(path).read_text()) for name, path in named.items() if path}
        self.scale, self.offset = found.get("scale", 1.0), found.get("offset", 0.0)
        self.dimension = SIZE

    def prepare(self, image):
        if len(image.image) != SIZE:
            raise EncodeError(f"an image has {SIZE} bytes, not {len(image.image)}")
        return np.frombuffer(image.image, dtype=np.uint8)

    def encode(self, prepared):
        return (np.stack(prepared).astype(np.float32) + self.offset) * np.float32(self._options.gain * self.scale)


class Power:
    """What trainers do, told before and behind; a test may cut it off there."""

    def __init__(self) -> None:
        self.restore()

    def restore(self) -> None:
        self.told: list[str] = []
        self.cut: Callable[[str], None] = lambda name: None

    def use(self, name: str) -> None:
        self.told.append(name)
        self.cut(name)


POWER = Power()


class Lessons:
    """The trainer. An image taken in is three bytes of a file; an epoch done is in another."""

    def __init__(self, encoder: TraineeOptions, training: LessonOptions, folder: Path) -> None:
        self.options = encoder
        self._encoder = Trainee(encoder)
        self._encoder.load()
        self._before = self._encoder.scale
        self._training = training
        self._images = folder / "images"
        self._images.touch()
        self._epochs = folder / "epochs.json"

    @property
    def observed(self) -> int:
        return self._images.stat().st_size // SIZE

    def prepare(self, image):
        return self._encoder.prepare(image)

    def observe(self, prepared) -> None:
        POWER.use(f"observe {len(prepared)}")
        with self._images.open("r+b") as file:
            file.truncate(self.observed * SIZE)
            file.seek(0, 2)
            file.write(b"".join(one.tobytes() for one in prepared))
        POWER.use("observed")

    def train(self, classes, watch):
        assert len(classes) == self.observed
        done = json.loads(self._epochs.read_text()) if self._epochs.exists() else []
        while len(done) < self._training.epochs:
            POWER.use("epoch")
            # Of everything that a training may depend on, so that whatever is mixed up shows.
            done.append(1.0 + len(done) / 7.0 + float(self._all().mean()) + float(np.mean(classes)))
            self._epochs.write_text(json.dumps(done))
            watch(len(done), self._training.epochs, "trained")
            POWER.use("trained")
        self._encoder.scale = done[-1]
        return TrainingReport(
            options=msgspec.to_builtins(self._training),
            epochs=[
                Epoch(number=n + 1, learning_rate=0.1, loss=one, held_loss=None, held_accuracy=0.5)
                for n, one in enumerate(done)
            ],
            kept_epoch=len(done),
            stopped_early=False,
            images=len(classes),
            held_out=0,
            classes=len(set(classes.tolist())),
            parameters=1,
            trunk_seconds=0.0,
            training_seconds=0.0,
        )

    def frozen_features(self):
        now, self._encoder.scale = self._encoder.scale, self._before
        found = self.features()
        self._encoder.scale = now
        return found

    def features(self):
        return self._encoder.encode(self._all())

    def save(self, folder: Path) -> dict[str, str]:
        POWER.use("save")
        (folder / "any name.json").write_text(json.dumps(self._encoder.scale))
        return {"scale": "any name.json"}

    def _all(self):
        return np.frombuffer(self._images.read_bytes(), dtype=np.uint8).reshape(-1, SIZE)


@hookimpl
def speciate_encoder():
    return Provider(
        options=TraineeOptions, create=Trainee, files=("scale", "offset"), training=LessonOptions, trainer=Lessons
    )


def with_trainee() -> Plugins:
    """The plugins installed here, and the encoder `trainee`."""
    return Plugins([*_discover(), EntryPoint("encoder.trainee", __name__, "speciate")])


def write_photos(folder: Path, count: int) -> Path:
    """Images for the trainee, a folder per class."""
    rng = np.random.default_rng(0)
    for number in range(count):
        path = folder / KNOWN[number % 2] / f"{number:03d}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(rng.integers(*((0, 40), (90, 130))[number % 2], size=SIZE, dtype=np.uint8).tobytes())
    return folder
