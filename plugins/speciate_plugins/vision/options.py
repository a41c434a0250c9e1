"""Options of the encoders. Nothing heavy is imported here."""

from typing import Annotated, Literal

import msgspec

from speciate_plugins.vision.decoding import PILLOW_PIXELS
from speciate_schemas import Strict

MaxPixels = Annotated[
    int,
    msgspec.Meta(ge=1, le=PILLOW_PIXELS, description="An image with more pixels is rejected before decoding."),
]

Pooling = Literal["auto", "token", "mean"]
Precision = Literal["auto", "float32", "bfloat16", "float16"]


class TimmOptions(Strict, frozen=True):
    """Options of the encoder `timm`."""

    model: Annotated[
        str, msgspec.Meta(min_length=1, description="Name of a timm model, such as vit_base_patch16_224.dino.")
    ]
    weights: Annotated[
        str | None,
        msgspec.Meta(
            description="File with its weights: .safetensors, or .pth, .pt or .bin with nothing but tensors. "
            "Without it they come from an installed package that has them, or else from timm's hub."
        ),
    ] = None
    pretrained: Annotated[
        bool,
        msgspec.Meta(
            description="False, where no weights are given: random weights, the same each time. Good for tests only."
        ),
    ] = True
    pooling: Annotated[
        Pooling,
        msgspec.Meta(
            description="auto: as the model itself does it; token: the CLS token; "
            "mean: of the patch tokens, or of the map."
        ),
    ] = "auto"
    normalise: Annotated[bool, msgspec.Meta(description="Scale each feature vector to length 1.")] = False
    projection: Annotated[
        str | None,
        msgspec.Meta(
            description="A .safetensors file with `weight` (k, d), and `bias` (k) if there is one, "
            "applied to the pooled features before they are scaled."
        ),
    ] = None
    device: Annotated[
        str, msgspec.Meta(description="cpu, cuda, cuda:1 …; auto: cuda if there is one, otherwise cpu.")
    ] = "auto"
    precision: Annotated[
        Precision,
        msgspec.Meta(
            description="What the network computes in. auto: float32 on a CPU, on CUDA bfloat16 where the device has "
            "it and float16 elsewhere. Features are float32 in any case."
        ),
    ] = "auto"
    compile: Annotated[
        bool,
        msgspec.Meta(description="Compile the model with torch.compile: a slower start, needs a C++ compiler."),
    ] = False
    max_pixels: MaxPixels = 50_000_000
