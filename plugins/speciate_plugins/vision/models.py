"""A timm model as a function from images to feature vectors."""

import copy
import difflib
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
import timm
import torch
from timm.data.config import resolve_model_data_config
from torch import Tensor

from speciate.errors import ConfigError, first_line
from speciate.files import write_atomically
from speciate_plugins.vision import weights
from speciate_plugins.vision.options import Pooling, Precision, TimmOptions
from speciate_plugins.vision.viewing import View

RANDOM_SEED = 0
"""Of the weights of a model that is not pretrained."""


PRECISIONS: dict[Precision, torch.dtype] = {
    "float32": torch.float32,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
}


class FeatureModel(torch.nn.Module):
    """Images as they are cut, uint8 (B, 3, H, W), to features, float32 (B, d)."""

    mean: Tensor
    std: Tensor

    def __init__(
        self,
        backbone: torch.nn.Module,
        *,
        pooling: Pooling = "auto",
        normalise: bool = False,
        projection: torch.nn.Linear | None = None,
        precision: torch.dtype = torch.float32,
    ) -> None:
        super().__init__()
        config = resolve_model_data_config(backbone)  # type: ignore[no-untyped-call]
        self.backbone: Any = backbone
        self.view = View.of(config)
        self.pooling = pooling
        self.normalise = normalise
        self.precision = precision
        self.projection = projection
        self.origin = ""
        """For people: where the weights came from."""
        self.register_buffer("mean", torch.tensor(config["mean"]).reshape(1, 3, 1, 1), persistent=False)
        self.register_buffer("std", torch.tensor(config["std"]).reshape(1, 3, 1, 1), persistent=False)
        self.dimension = 0
        """Length of a feature vector."""

    @property
    def device(self) -> torch.device:
        """Where it computes."""
        return self.mean.device

    def forward(self, images: Tensor) -> Tensor:
        """The features of a batch."""
        normalised = self.normalised(images)
        with self.autocast():
            pooled = self.pool(self.backbone.forward_features(normalised))
        # What follows is cheap, and the features should be no coarser than they must be.
        return self.finish(pooled.float())

    def autocast(self) -> AbstractContextManager[Any]:
        """The precision of the backbone."""
        if self.precision is torch.float32:
            return nullcontext()
        return torch.autocast(self.device.type, self.precision)

    def normalised(self, images: Tensor) -> Tensor:
        """Pixels 0 … 255 as what the model was trained on."""
        # Convolutions on a CPU are 1.5 to 2 times faster when the channels of a pixel lie side by side.
        pixels = images.to(torch.float32, memory_format=torch.channels_last)
        return (pixels / 255 - self.mean) / self.std

    def pool(self, tokens: Tensor) -> Tensor:
        """One vector an image, (B, num_features), of what `forward_features` gives."""
        if self.pooling == "auto":
            return self.backbone.forward_head(tokens, pre_logits=True)  # type: ignore[no-any-return]
        # Some transformers have their last norm behind the pooling.
        norm = getattr(self.backbone, "fc_norm", None) or torch.nn.Identity()
        if self.pooling == "token":
            return norm(tokens[:, 0])  # type: ignore[no-any-return]
        if tokens.ndim == 3:  # noqa: PLR2004 - images, tokens, features
            return norm(tokens[:, self.prefix :].mean(1))  # type: ignore[no-any-return]
        channels_last = getattr(self.backbone, "output_fmt", "NCHW") == "NHWC"
        return tokens.mean((1, 2) if channels_last else (2, 3))

    @property
    def prefix(self) -> int:
        """Tokens in front that are of no patch; some models count them by another name, or have one and do not."""
        has_token = getattr(self.backbone, "cls_token", None) is not None
        uncounted = getattr(self.backbone, "num_tokens", 1) if has_token else 0
        return int(getattr(self.backbone, "num_prefix_tokens", uncounted))

    def finish(self, pooled: Tensor) -> Tensor:
        """Features of pooled vectors: projected and scaled to length 1, if so asked."""
        projected = pooled if self.projection is None else self.projection(pooled)
        return torch.nn.functional.normalize(projected, dim=1) if self.normalise else projected


def build(options: TimmOptions) -> FeatureModel:
    """The model of these options, with its weights, frozen, on its device."""
    device = find_device(options.device)
    backbone, origin = _backbone(options)
    model = FeatureModel(
        backbone,
        pooling=options.pooling,
        normalise=options.normalise,
        projection=None if options.projection is None else _projection(Path(options.projection)),
        precision=find_precision(options.precision, device),
    )
    model.origin = origin
    model.eval().requires_grad_(requires_grad=False)
    model.to(device)
    model.backbone.to(memory_format=torch.channels_last)
    _check(model, options)
    return model


def in_float32(model: FeatureModel) -> FeatureModel:
    """The same model, not a copy of its weights, computing in full precision."""
    exact = copy.copy(model)
    exact.precision = torch.float32
    return exact


def save_weights(model: FeatureModel, path: Path) -> None:
    """Write the backbone's weights for `weights = path`; on return they survive a crash."""
    # Copies: two modules of a model may be one, and safetensors refuses tensors that share their memory.
    tensors = {
        name: tensor.detach().to("cpu", copy=True, memory_format=torch.contiguous_format)
        for name, tensor in model.backbone.state_dict().items()
    }
    write_atomically(path, safetensors.torch.save(tensors))


def find_device(name: str) -> torch.device:
    """The device of this name, if it is there."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.zeros(1, device=device).cpu()  # some names are of devices that compute nothing
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        raise ConfigError(f"device = {name!r} cannot be used here ({first_line(error)}): write auto or cpu") from error
    return device


def find_precision(name: Precision, device: torch.device) -> torch.dtype:
    """What the backbone computes in on this device."""
    if name != "auto":
        return PRECISIONS[name]
    if device.type != "cuda":
        return torch.float32
    with torch.cuda.device(device):
        return torch.bfloat16 if torch.cuda.is_bf16_supported() else torch.float16


def precision_name(precision: torch.dtype) -> Precision:
    """The option that stands for it."""
    return next(name for name, dtype in PRECISIONS.items() if dtype is precision)


def _backbone(options: TimmOptions) -> tuple[torch.nn.Module, str]:
    """The bare model with its weights, and where these came from."""
    _check_name(options.model)
    if options.weights is None and options.pretrained:
        return weights.pretrained(options.model)
    # Random numbers of a run are its own: the generator is put back as it was.
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(RANDOM_SEED)
        backbone = timm.create_model(options.model, pretrained=False, num_classes=0)
    if options.weights is None:
        return backbone, f"random, seed {RANDOM_SEED}"
    weights.fit(backbone, weights.read(Path(options.weights)), options.weights)
    return backbone, options.weights


def _check_name(name: str) -> None:
    try:
        timm.get_pretrained_cfg(name, allow_unregistered=False)
    except RuntimeError as error:
        architecture = name.partition(".")[0]
        known = timm.list_models(f"{architecture}.*", pretrained=True) or timm.list_models()
        near = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
        hint = f"did you mean {', '.join(near)}?" if near else "timm.list_models() has all names"
        raise ConfigError(f"model = {name!r} is unknown to timm {timm.__version__}: {hint}") from error


def _projection(path: Path) -> torch.nn.Linear:
    tensors = weights.read(path)
    weight, bias = tensors.get("weight"), tensors.get("bias")
    if weight is None or weight.ndim != 2 or not tensors.keys() <= {"weight", "bias"}:  # noqa: PLR2004 - a matrix
        held = ", ".join(f"{name} {tuple(tensor.shape)}" for name, tensor in list(tensors.items())[:4])
        raise ConfigError(
            f"projection = {str(path)!r} should hold weight (k, d) and perhaps bias (k), but holds {held}"
        )
    rows, columns = weight.shape
    if bias is not None and bias.shape != (rows,):
        raise ConfigError(
            f"projection = {str(path)!r}: bias has the shape {tuple(bias.shape)}, weight has {rows} rows: "
            "they must be as many"
        )
    linear = torch.nn.Linear(columns, rows, bias=bias is not None)
    linear.load_state_dict(tensors)
    return linear


def _check(model: FeatureModel, options: TimmOptions) -> None:
    """Try the model on a black image: what does not fit is found out here, and so is the dimension."""
    if options.pooling == "token" and getattr(model.backbone, "cls_token", None) is None:
        raise ConfigError(f"pooling = 'token': {options.model} has no CLS token; write auto or mean")
    black = torch.zeros((1, 3, *model.view.size), dtype=torch.uint8, device=model.device)
    with torch.inference_mode():
        with model.autocast():
            tokens = model.backbone.forward_features(model.normalised(black))
            if model.pooling != "auto" and not isinstance(tokens, Tensor):
                raise ConfigError(
                    f"pooling = {model.pooling!r}: {options.model} gives several maps of features; write auto"
                )
            if model.pooling == "mean" and tokens.ndim == 3 and tokens.shape[1] <= model.prefix:  # noqa: PLR2004
                raise ConfigError(f"pooling = 'mean': {options.model} gives no features of patches; write auto")
            pooled = model.pool(tokens)
        if model.projection is not None and model.projection.in_features != pooled.shape[1]:
            raise ConfigError(
                f"projection = {options.projection!r} takes {model.projection.in_features} features, "
                f"{options.model} gives {pooled.shape[1]}"
            )
        model.dimension = model.finish(pooled.float()).shape[1]
