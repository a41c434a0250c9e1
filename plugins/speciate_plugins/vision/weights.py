"""Weights of timm models: where they are found, and how a file's are fitted to a model.

Nothing is unpickled but tensors: a file is safetensors, or is read with `weights_only`.
"""

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import huggingface_hub
import safetensors.torch
import timm
import torch
from huggingface_hub.errors import EntryNotFoundError
from torch import Tensor

from speciate.errors import ConfigError, first_line
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
    if path.suffix not in (".safetensors", *PICKLED):
        raise ConfigError(
            f"the weights {str(path)!r} have the ending {path.suffix!r}; known are .safetensors, {', '.join(PICKLED)}"
        )
    try:
        if path.suffix == ".safetensors":
            return safetensors.torch.load_file(path)
        content = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # readers raise whatever a damaged file makes them stumble over
        raise ConfigError(
            f"the weights {str(path)!r} cannot be read ({_reason(error)}): files that hold more than tensors are "
            "refused; save the tensors alone, best as safetensors"
        ) from error
    return _unwrapped(content, path)


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
    # Some have further layers beside it, in a module that is not there without it.
    around = {f"{name.rpartition('.')[0]}." for name in classifiers if "." in name}
    beside = tuple(one for one in around if not any(name.startswith(one) for name in backbone.state_dict()))
    for prefix in PREFIXES:
        under = {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}
        if under:
            yield {
                name: tensor for name, tensor in under.items() if name not in dropped and not name.startswith(beside)
            }


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
    """What was published under this name, fetched now or earlier."""
    config = timm.get_pretrained_cfg(model)
    if config is None or not config.has_weights:
        raise ConfigError(
            f"no weights of {model} were published: give weights = …, or pretrained = false for random ones"
        )
    if not config.hf_hub_id:
        with _fetching(model):
            # Those of the few models that are not on the hub timm reads without unpickling; with the classifier, since
            # it does not look whether the rest is complete when it leaves that out.
            elsewhere: Any = timm.create_model(model, pretrained=True)
        elsewhere.reset_classifier(0)
        return elsewhere, str(config.url)
    with _fetching(model):
        path = _fetched(config)
    # Not by timm: whether it unpickles a file that is here already depends on its version.
    backbone = timm.create_model(model, pretrained=False, num_classes=0)
    _fit_published(backbone, read(Path(path)), path)
    return backbone, path


@contextmanager
def _fetching(model: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        raise ConfigError(
            f"weights of {model} cannot be fetched ({_reason(error)}): "
            "give weights = …, or pretrained = false for random ones"
        ) from error


def _fetched(config: Any) -> str:
    """The file of the hub. If it is here already the hub is not asked: its client would wait for it in vain."""
    names = (config.hf_hub_filename,) if config.hf_hub_filename else HUB_FILES
    for name in names:
        kept = huggingface_hub.try_to_load_from_cache(config.hf_hub_id, name)
        if isinstance(kept, str):
            return kept
    _look_for_hub()
    for name in names[:-1]:
        with suppress(EntryNotFoundError):
            return huggingface_hub.hf_hub_download(config.hf_hub_id, name)
    return huggingface_hub.hf_hub_download(config.hf_hub_id, names[-1])


def _fit_published(backbone: torch.nn.Module, tensors: Tensors, origin: str) -> None:
    """Fit what its authors published, which timm may have to rename first."""
    try:
        fit(backbone, tensors, origin)
    except ConfigError:
        rename = getattr(sys.modules[type(backbone).__module__], "checkpoint_filter_fn", None)
        if rename is None:
            raise
        try:
            renamed = rename(tensors, backbone)
        except Exception:  # noqa: BLE001 - it was not made for these: they do not fit, as was said
            renamed = None
        if renamed is None:
            raise
        fit(backbone, renamed, origin)


def _look_for_hub() -> None:
    """Raise what the client of the hub raises if the hub cannot be reached, soon."""
    huggingface_hub.get_session().head(huggingface_hub.constants.ENDPOINT, timeout=HUB_SECONDS)


def _reason(error: Exception) -> str:
    """In one line; the kind is named, since some say nothing else, or only a key."""
    words = first_line(error)
    return f"{type(error).__name__}: {words}" if words else type(error).__name__


def _some(names: list[str]) -> str:
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more
