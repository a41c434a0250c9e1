"""Weights of timm models: where they are found, and how a file's are fitted to a model.

Nothing is unpickled but tensors: a file is safetensors, or is read with `weights_only`.
"""

import pickle
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import huggingface_hub
import safetensors
import safetensors.torch
import timm
import torch
from torch import Tensor

from speciate.errors import ConfigError
from speciate_plugins.vision import packages

Tensors = dict[str, Tensor]

PICKLED = (".pth", ".pt", ".bin")
WRAPPERS = ("state_dict", "model")
"""Keys under which training programs keep the tensors, beside other things."""
PREFIXES = ("", "module.", "backbone.", "module.backbone.")
"""What such programs put before a model's own names."""
COUNTERS = "num_batches_tracked"
"""Not in old files, and of no use to a model that is not trained."""
HUB_FILES = ("model.safetensors", "pytorch_model.bin")
HUB_SECONDS = 5.0
"""To find out whether the hub can be reached: its own client tries for most of a minute."""
SHOWN = 3
"""Names of tensors in a message."""


class Misfit(NamedTuple):
    """How a file's tensors differ from a model's."""

    missing: list[str]
    unexpected: list[str]
    shapes: list[str]

    @property
    def total(self) -> int:
        """Number of differences."""
        return len(self.missing) + len(self.unexpected) + len(self.shapes)

    def __str__(self) -> str:
        kinds = (("missing", self.missing), ("unexpected", self.unexpected), ("of another shape", self.shapes))
        return "; ".join(f"{kind}: {_some(names)}" for kind, names in kinds if names)


def pretrained(model: str) -> tuple[torch.nn.Module, str]:
    """A model by name with its published weights, and where they came from."""
    path = packages.installed(model)
    if path is not None:
        backbone: Any = timm.create_model(model, pretrained=False)
        backbone.load_state_dict(packages.renamed(read(path), backbone.state_dict(), str(path)))
        backbone.reset_classifier(0)
        return backbone, f"package {packages.PACKAGES[model.partition('.')[0]]}"
    return _published(model)


def read(path: Path) -> Tensors:
    """The tensors of a file by name, out of the wrapper that they may be in."""
    if not path.is_file():
        raise ConfigError(f"there is no file {str(path)!r} with weights")
    try:
        if path.suffix == ".safetensors":
            return safetensors.torch.load_file(path)
        if path.suffix in PICKLED:
            return _unwrapped(torch.load(path, map_location="cpu", weights_only=True), path)
    except (safetensors.SafetensorError, pickle.UnpicklingError, RuntimeError, EOFError, OSError, KeyError) as error:
        reason = str(error).strip().partition("\n")[0]
        raise ConfigError(
            f"the weights {str(path)!r} cannot be read: {reason}. "
            "Files that hold more than tensors are refused: save the tensors alone, best as safetensors"
        ) from error
    raise ConfigError(
        f"the weights {str(path)!r} have the ending {path.suffix!r}; known are .safetensors, {', '.join(PICKLED)}"
    )


def fit(backbone: torch.nn.Module, tensors: Tensors, origin: str) -> None:
    """Load a file's tensors into a model without classifier, if there is just one way in which they fit."""
    wanted = backbone.state_dict()
    candidates = list(_candidates(backbone, tensors))
    misfits = [_misfit(candidate, wanted) for candidate in candidates]
    fitting = [candidate for candidate, misfit in zip(candidates, misfits, strict=True) if not misfit.total]
    if not fitting:
        nearest = min(misfits, key=lambda misfit: misfit.total)
        raise ConfigError(f"the weights {origin!r} do not fit the model: {nearest}; is it the right model?")
    if len(fitting) > 1:
        raise ConfigError(f"the weights {origin!r} fit the model in several ways: save those of one model alone")
    # All keys were compared; what is left out are counters.
    backbone.load_state_dict(fitting[0], strict=False)


def _candidates(backbone: torch.nn.Module, tensors: Tensors) -> Iterator[Tensors]:
    """What the file may mean: the tensors under each prefix, without a classifier."""
    named = getattr(backbone, "pretrained_cfg", {}).get("classifier") or ()
    classifiers = (named,) if isinstance(named, str) else tuple(named)
    dropped = {f"{name}.{part}" for name in classifiers for part in ("weight", "bias")}
    for prefix in PREFIXES:
        under = {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}
        if under:
            yield {name: tensor for name, tensor in under.items() if name not in dropped}


def _misfit(tensors: Tensors, wanted: Mapping[str, Tensor]) -> Misfit:
    missing = [name for name in wanted if name not in tensors and not name.endswith(COUNTERS)]
    unexpected = [name for name in tensors if name not in wanted]
    shapes = [
        f"{name} {tuple(tensor.shape)} where {tuple(wanted[name].shape)} is wanted"
        for name, tensor in tensors.items()
        if name in wanted and tensor.shape != wanted[name].shape
    ]
    return Misfit(missing, unexpected, shapes)


def _unwrapped(content: Any, path: Path) -> Tensors:
    while isinstance(content, Mapping):
        inside = [content[key] for key in WRAPPERS if isinstance(content.get(key), Mapping)]
        if len(inside) > 1:
            raise ConfigError(f"the weights {str(path)!r} are there twice, as {' and as '.join(WRAPPERS)}: keep one")
        if not inside:
            break
        content = inside[0]
    if not isinstance(content, Mapping) or not all(isinstance(tensor, Tensor) for tensor in content.values()):
        raise ConfigError(f"the weights {str(path)!r} are no mapping of names to tensors: save a state_dict")
    return {str(name): tensor for name, tensor in content.items()}


def _published(model: str) -> tuple[torch.nn.Module, str]:
    """What timm fetches from its hub, or what it fetched earlier."""
    config = timm.get_pretrained_cfg(model)
    if config is None or not config.has_weights:
        raise ConfigError(
            f"no weights of {model} were published: give weights = …, or pretrained = false for random ones"
        )
    kept = _kept(config)
    overlay = {} if kept is None else {"file": kept}
    try:
        if config.hf_hub_id and kept is None:
            _look_for_hub()
        backbone = timm.create_model(model, pretrained=True, num_classes=0, pretrained_cfg_overlay=overlay)
    except Exception as error:
        reason = str(error).strip().partition("\n")[0] or type(error).__name__
        raise ConfigError(
            f"weights of {model} cannot be fetched ({reason}): give weights = …, or pretrained = false for random ones"
        ) from error
    return backbone, kept or str(config.hf_hub_id or config.url)


def _kept(config: Any) -> str | None:
    """The file of the hub that is here already: the hub's client would ask the hub first, and wait for it in vain."""
    if not config.hf_hub_id or config.custom_load:
        return None
    names = (config.hf_hub_filename,) if config.hf_hub_filename else HUB_FILES
    found = (huggingface_hub.try_to_load_from_cache(config.hf_hub_id, name) for name in names)
    return next((path for path in found if isinstance(path, str)), None)


def _look_for_hub() -> None:
    """Raise what the client of the hub raises if the hub cannot be reached, soon."""
    huggingface_hub.get_session().head(huggingface_hub.constants.ENDPOINT, timeout=HUB_SECONDS)


def _some(names: list[str]) -> str:
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more
