"""Encoder `timm`: the features of any timm model, on a CPU or a CUDA device."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from speciate.errors import ConfigError, PluginError, first_line
from speciate.hooks import Provider, hookimpl
from speciate.logs import get_logger
from speciate.stages import Encoder, Trainer
from speciate_plugins.vision.decoding import import_decoders
from speciate_plugins.vision.options import TimmOptions
from speciate_plugins.vision.picturing import picture
from speciate_plugins.vision.training_options import TrainingOptions
from speciate_schemas import ImageEvent

if TYPE_CHECKING:
    from speciate_plugins.vision.models import FeatureModel  # imports torch and timm

log = get_logger(__name__)


class TimmEncoder:
    """Decodes and cuts as the model's own configuration says, and runs the model on batches."""

    def __init__(self, options: TimmOptions) -> None:
        self._options = options
        self._model: FeatureModel | None = None
        self._run: Any = None

    @property
    def dimension(self) -> int:
        """See `Encoder`."""
        return self._loaded().dimension

    def load(self) -> None:
        """See `Encoder`."""
        if self._model is not None:
            return
        import_decoders()
        from speciate_plugins.vision.models import build, precision_name  # noqa: PLC0415 - imports torch and timm

        started = time.monotonic()
        model = build(self._options)
        self._run = _compiled(model) if self._options.compile else model
        self._model = model
        log.info(
            "model loaded",
            model=self._options.model,
            weights=model.origin,
            device=str(model.device),
            precision=precision_name(model.precision),
            dimension=model.dimension,
            seconds=round(time.monotonic() - started, 2),
        )

    def prepare(self, image: ImageEvent) -> npt.NDArray[np.uint8]:
        """See `Encoder`."""
        return self._loaded().view.prepare(image.image, self._options.max_pixels)

    def encode(self, prepared: Sequence[npt.NDArray[Any]]) -> npt.NDArray[np.float32]:
        """See `Encoder`."""
        import torch  # noqa: PLC0415 - heavy, and an extra

        model = self._loaded()
        if not prepared:
            return np.empty((0, model.dimension), dtype=np.float32)
        images = torch.from_numpy(np.stack(prepared)).to(model.device)
        with torch.inference_mode():
            features: npt.NDArray[np.float32] = self._run(images).cpu().numpy()
        return features

    def picture(self, image: ImageEvent, pixels: int) -> bytes:
        """See `Picturing`."""
        return picture(image.image, pixels, max_pixels=self._options.max_pixels)

    def _loaded(self) -> "FeatureModel":
        if self._model is None:
            raise PluginError("the encoder timm is used before it is loaded: call load() first")
        return self._model


def _compiled(model: "FeatureModel") -> Any:
    """The model compiled for batches of any size, and tried: otherwise the first images would wait for the compiler."""
    import torch  # noqa: PLC0415

    run = torch.compile(model, dynamic=True)
    try:
        # A batch of one is a case of its own to the compiler.
        for count in (2, 1):
            # Made outside, as in `encode`: the compiler tells tensors of the inference mode from others.
            black = torch.zeros((count, 3, *model.view.size), dtype=torch.uint8, device=model.device)
            with torch.inference_mode():
                run(black)
    except Exception as error:
        raise ConfigError(
            f"compile = true: torch cannot compile the model here ({first_line(error)}): install a C++ compiler, "
            "or write compile = false"
        ) from error
    return run


def _trainer(encoder: TimmOptions, training: TrainingOptions | None, folder: Path) -> Trainer:
    import_decoders()
    from speciate_plugins.vision.trainer import TimmTrainer  # noqa: PLC0415 - imports torch and timm

    return TimmTrainer(encoder, training, folder)


@hookimpl
def speciate_encoder() -> Provider[Encoder]:
    """Provide the encoder."""
    return Provider(
        options=TimmOptions,
        create=TimmEncoder,
        files=("weights", "projection"),
        training=TrainingOptions,
        trainer=_trainer,
        requires=("torch", "timm", "PIL", "simplejpeg", "safetensors"),
        install="speciate[vision]",
    )
