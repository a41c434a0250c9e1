"""A model cut in two in front of its last blocks: a trunk that stays as it is, and a tail that can be trained.

Of a family of models nothing needs to be known but where its blocks are. The trunk is the model itself, left when the
first block of the tail is reached. The tail is the model itself, too: what comes before that block answers with what
it once made of a blank image, and the block is handed the trunk's activations instead.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, cast

import torch
from torch import Tensor, nn

from speciate.errors import ConfigError
from speciate_plugins.vision.models import FeatureModel

TOLERANCE = 1e-3
"""How far trunk and tail may be off the whole model, as a share of the largest feature."""

DIGITS = 16
"""The same in last digits: of half a precision a thousandth is less than one."""

CONTAINERS = ("blocks", "stages", "layers")
"""What timm calls the list of a model's blocks, or of its stages, each with blocks of its own."""

NUMBERED = ("layer1", "layer2", "layer3", "layer4")
"""The stages of a ResNet, which has no list of them."""

MAPS = 4
"""Dimensions of activations that are maps, as those of a convolution: only they can have their channels last."""

Replay = dict[nn.Module, list[Any]]
"""What modules answered, call by call."""


class SplitModel:
    """A model as trunk and tail."""

    def __init__(self, model: FeatureModel, blocks: int) -> None:
        self._model = model
        self._first = _first_of_last(model.backbone, blocks)
        height, width = model.view.size
        self._blank = torch.zeros((1, 3, height, width), dtype=torch.uint8, device=model.device)
        trace = _Trace(model.backbone, self._first)
        with torch.no_grad(), trace:
            self._model(self._blank)
        self._replay = trace.replay()
        self._memory_format, self._dtype = trace.memory_format, trace.dtype
        self.parameters = trace.trained()
        """What trains, by its names in the backbone."""
        model.backbone.requires_grad_(False)  # noqa: FBT003 - torch has it so
        for parameter in self.parameters.values():
            parameter.requires_grad_(True)  # noqa: FBT003
        self._check()

    def trunk(self, images: Tensor) -> Tensor:
        """The activations that the tail begins with, of images uint8 (B, 3, H, W)."""

        def leave(_: nn.Module, inputs: tuple[Any, ...]) -> None:
            raise _ReachedError(inputs[0])

        try:
            with torch.inference_mode(), _hooked(self._first, leave):
                return cast("Tensor", self._model(images))
        except _ReachedError as reached:
            return reached.activations

    def tail(self, activations: Tensor) -> Tensor:
        """The features (B, d) of the images whose activations these are."""
        # As the block would get them from the trunk: they were kept in full precision, whatever that computes in.
        begin = activations.to(self._dtype).contiguous(memory_format=self._memory_format)

        def enter(_: nn.Module, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
            return (begin, *inputs[1:])

        with _hooked(self._first, enter), _replaying(self._replay):
            return cast("Tensor", self._model(self._blank))

    def weights(self) -> dict[str, Tensor]:
        """A copy of what trains."""
        return {name: parameter.detach().clone() for name, parameter in self.parameters.items()}

    def load(self, weights: dict[str, Tensor]) -> None:
        """Take on what `weights` gave."""
        with torch.no_grad():
            for name, parameter in self.parameters.items():
                parameter.copy_(weights[name])

    def _check(self) -> None:
        """Refuse a model with another path across the cut, or to which the number of images matters."""
        random = torch.Generator().manual_seed(0)
        images = torch.randint(0, 256, (2, *self._blank.shape[1:]), dtype=torch.uint8, generator=random)
        images = images.to(self._blank.device)
        with torch.inference_mode():
            whole = self._model(images)
            try:
                parts = self.tail(self.trunk(images))
            except (RuntimeError, TypeError, ValueError):
                parts = torch.full_like(whole, torch.nan)
        tolerance = max(TOLERANCE, DIGITS * torch.finfo(self._model.precision).eps)
        if parts.shape != whole.shape or not bool(((parts - whole).abs() <= tolerance * whole.abs().max()).all()):
            raise _unknown(self._model.backbone, "what its last blocks do depends on more than the block before them")


class WholeModel:
    """A model that is all trunk: nothing of it is trained, and its features are what is kept."""

    def __init__(self, model: FeatureModel) -> None:
        self._model = model
        self.parameters: dict[str, nn.Parameter] = {}

    @torch.inference_mode()
    def trunk(self, images: Tensor) -> Tensor:
        """The features of images."""
        return cast("Tensor", self._model(images))

    def tail(self, activations: Tensor) -> Tensor:
        """The features again."""
        return activations

    def weights(self) -> dict[str, Tensor]:
        """Nothing: nothing trains."""
        return {}

    def load(self, weights: dict[str, Tensor]) -> None:
        """There is nothing to take on."""


class _ReachedError(Exception):
    """The tail is about to begin, with these activations."""

    def __init__(self, activations: Tensor) -> None:
        super().__init__()
        self.activations = activations


class _Trace:
    """Watches an image pass through the backbone: what is done before the tail begins, and what from then on."""

    def __init__(self, backbone: nn.Module, first: nn.Module) -> None:
        self._backbone = backbone
        self._first = first
        self._before: Replay = {}
        self._after: set[nn.Module] = set()
        self._handles: list[Any] = []
        self.memory_format = torch.contiguous_format
        self.dtype = torch.float32

    def __enter__(self) -> None:
        for module in self._backbone.modules():
            self._handles.append(module.register_forward_pre_hook(self._begin))
            self._handles.append(module.register_forward_hook(self._end))

    def __exit__(self, *_: object) -> None:
        for handle in self._handles:
            handle.remove()

    def replay(self) -> Replay:
        """The answers of all that was done before, short of what is asked again later."""
        return {module: answers for module, answers in self._before.items() if module not in self._after}

    def trained(self) -> dict[str, nn.Parameter]:
        """The parameters of all that began with the tail, short of those that were needed before, too."""
        if not self._after:
            raise _unknown(self._backbone, "its last blocks are not called one by one")
        before = {parameter for module in self._before for parameter in module.parameters()}
        after = {parameter for module in self._after for parameter in module.parameters()}
        named = self._backbone.named_parameters()
        return {name: parameter for name, parameter in named if parameter in after - before}

    def _begin(self, module: nn.Module, inputs: tuple[Any, ...]) -> None:
        if module is self._first:
            activations = inputs[0] if inputs else None
            if not isinstance(activations, Tensor):
                raise _unknown(self._backbone, "its last blocks begin with something else than one tensor")
            self.dtype = activations.dtype
            if activations.dim() == MAPS and not activations.is_contiguous():
                self.memory_format = torch.channels_last
        if self._after or module is self._first:
            self._after.add(module)

    def _end(self, module: nn.Module, _: tuple[Any, ...], answer: Any) -> None:
        if self._after:
            return
        for part in list(module.modules())[1:]:  # never asked when the whole answers for them
            self._before.pop(part, None)
        self._before.setdefault(module, []).append(answer)


@contextmanager
def _hooked(module: nn.Module, hook: Callable[[nn.Module, tuple[Any, ...]], Any]) -> Iterator[None]:
    handle = module.register_forward_pre_hook(hook)
    try:
        yield
    finally:
        handle.remove()


@contextmanager
def _replaying(replay: Replay) -> Iterator[None]:
    """Have modules answer as they did, whatever they are asked, without computing anything."""
    for module, answers in replay.items():
        module.forward = _answering(answers)
    try:
        yield
    finally:
        for module in replay:
            del module.forward


def _answering(answers: list[Any]) -> Callable[..., Any]:
    following = iter(answers)
    return lambda *_, **__: next(following)


def _first_of_last(backbone: nn.Module, count: int) -> nn.Module:
    blocks = _blocks_of(backbone)
    if not blocks:
        raise _unknown(backbone, f"it has no list of blocks called {', '.join(CONTAINERS)} or {NUMBERED[0]} …")
    if count > len(blocks):
        raise ConfigError(
            f"training.blocks = {count}, but {type(backbone).__name__} has {len(blocks)} blocks: write that or less"
        )
    return blocks[-count]


def _blocks_of(module: nn.Module) -> list[nn.Module]:
    """The blocks that a model or a stage consists of, in order; none if it is not known where they are."""
    lists = [getattr(module, name, None) for name in CONTAINERS]
    numbered = [getattr(module, name, None) for name in NUMBERED]
    parts = [part for part in lists if isinstance(part, nn.Sequential | nn.ModuleList)][:1]
    parts = parts or [part for part in numbered if isinstance(part, nn.Sequential)]
    return [block for part in parts for block in _flattened(part)]


def _flattened(part: nn.Module) -> list[nn.Module]:
    if isinstance(part, nn.Sequential | nn.ModuleList):
        return [block for inner in part for block in _flattened(inner)]
    return _blocks_of(part) or [part]


def _unknown(backbone: nn.Module, reason: str) -> ConfigError:
    return ConfigError(
        f"a model of the kind {type(backbone).__name__} cannot be trained in part: {reason}; "
        "take another model, or leave out [training] and use it as it is"
    )
