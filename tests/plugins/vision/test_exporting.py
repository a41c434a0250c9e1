"""Models as ONNX files: the same features, and nothing in the file but the model."""

import logging
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import onnx
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from speciate.errors import ConfigError, OutputError
from speciate_plugins.encoders.onnx import OnnxEncoder, OnnxOptions
from speciate_plugins.vision import exporting
from speciate_plugins.vision.exporting import BATCHES, COSINE, DIFFERENCE, OPSET, Agreement, agreement, export, made_up
from speciate_plugins.vision.models import FeatureModel, build
from speciate_plugins.vision.options import TimmOptions
from speciate_plugins.vision.viewing import View

MODELS = {
    "convolutions": TimmOptions(model="test_efficientnet", pretrained=False, device="cpu", normalise=True),
    "transformer": TimmOptions(model="test_vit", pretrained=False, device="cpu", pooling="token"),
}

FEATURES = arrays(np.float32, (4, 7), elements=st.floats(-100, 100, width=32))


class Exported(NamedTuple):
    model: FeatureModel
    path: Path
    agreement: Agreement


@pytest.fixture(scope="module")
def export_once(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Exported]:
    """Exporting takes seconds: each model once."""

    @cache
    def once(name: str) -> Exported:
        model, path = build(MODELS[name]), tmp_path_factory.mktemp(name) / "model.onnx"
        return Exported(model, path, export(model, path))

    return once


@pytest.fixture(params=MODELS)
def exported(request: pytest.FixtureRequest, export_once: Callable[[str], Exported]) -> Exported:
    return export_once(request.param)


@pytest.fixture
def convolutions(export_once: Callable[[str], Exported]) -> Exported:
    return export_once("convolutions")


@pytest.fixture
def wrongly_exported(convolutions: Exported, monkeypatch: pytest.MonkeyPatch) -> FeatureModel:
    """A model whose export is the file of another one."""
    data = convolutions.path.read_bytes()
    monkeypatch.setattr(exporting, "_serialised", lambda model: data)
    model = build(MODELS["convolutions"])
    with torch.no_grad():
        next(model.backbone.parameters()).mul_(1.01)
    return model


@pytest.mark.parametrize("size", [1, 2, 7])
def test_batches_of_any_size_give_the_model_s_features(exported: Exported, size: int) -> None:
    encoder = OnnxEncoder(OnnxOptions(path=str(exported.path)))
    encoder.load()
    images = np.random.default_rng(size).integers(0, 256, (size, 3, *exported.model.view.size), dtype=np.uint8)
    with torch.inference_mode():
        expected = exported.model(torch.from_numpy(images)).numpy()
    assert agreement(expected, encoder.encode(list(images))).good
    assert encoder.dimension == exported.model.dimension
    assert encoder._loaded().view == exported.model.view


def test_how_well_they_agree_is_told(exported: Exported) -> None:
    assert exported.agreement.images == 2 * sum(BATCHES)
    assert 0 <= exported.agreement.difference < DIFFERENCE / 10
    assert 1 - exported.agreement.cosine < (1 - COSINE) / 10
    assert [path.name for path in exported.path.parent.iterdir()] == ["model.onnx"]


def test_the_file_holds_the_model_and_nothing_else(exported: Exported) -> None:
    data = exported.path.read_bytes()
    assert not [word for word in (b"speciate_plugins", b"site-packages", b"stack_trace") if word in data]
    model = onnx.load_from_string(data)
    onnx.checker.check_model(model, full_check=True)
    assert [(opset.domain, opset.version) for opset in model.opset_import] == [("", OPSET)]
    assert not [one.name for one in model.graph.initializer if one.data_location == onnx.TensorProto.EXTERNAL]
    assert {property_.key for property_ in model.metadata_props} == {
        "speciate.format",
        "speciate.view",
        "speciate.dimension",
    }


def test_it_is_the_same_file_each_time_and_made_in_silence(
    convolutions: Exported, tmp_path: Path, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    told: list[tuple[int, int]] = []
    export(build(MODELS["convolutions"]), tmp_path / "again.onnx", watch=lambda done, of, _: told.append((done, of)))
    assert (tmp_path / "again.onnx").read_bytes() == convolutions.path.read_bytes()
    output = capfd.readouterr()
    assert "[torch.onnx]" not in output.out + output.err
    assert not [record for record in caplog.records if record.name.partition(".")[0] in {"torch", "onnxscript"}]
    assert told[0] == (1, 14)
    assert told[-1] == (14, 14)
    assert told == sorted(told)


def test_what_gives_other_features_is_not_written(wrongly_exported: FeatureModel, tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="gives other features"):
        export(wrongly_exported, tmp_path / "model.onnx")
    assert list(tmp_path.iterdir()) == []


def test_a_graph_for_one_image_only_is_found_out(
    convolutions: Exported, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = onnx.load(convolutions.path)
    graph.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 1
    monkeypatch.setattr(exporting, "_serialised", lambda model: graph.SerializeToString())
    with pytest.raises(OutputError, match="fails on a batch of 5") as caught:
        export(convolutions.model, tmp_path / "model.onnx")
    assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_the_images_given_are_those_compared(
    convolutions: Exported, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file differs from the model on one image alone: it is found out if that is among those given."""
    model = build(MODELS["convolutions"])
    *others, odd = np.random.default_rng(7).integers(0, 256, (4, 3, *model.view.size), dtype=np.uint8)
    right = model.forward

    def wrong(images: torch.Tensor) -> torch.Tensor:
        is_odd = (images == torch.from_numpy(odd)).flatten(1).all(1, keepdim=True)
        return torch.where(is_odd, -right(images), right(images))

    monkeypatch.setattr(exporting, "_serialised", lambda model: convolutions.path.read_bytes())
    model.forward = wrong
    assert export(model, tmp_path / "by-default.onnx").images == 2 * sum(BATCHES)
    assert export(model, tmp_path / "others.onnx", others).images == 3
    with pytest.raises(OutputError, match="gives other features"):
        export(model, tmp_path / "all.onnx", [*others, odd])


def test_a_model_that_is_no_graph(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    model = build(MODELS["convolutions"])
    # What it computes depends on what it is given: no graph can say that.
    model.pool = lambda tokens: tokens.mean((2, 3)) if float(tokens.sum()) > 0 else tokens.amax((2, 3))
    with pytest.raises(OutputError, match="cannot export the model") as caught:
        export(model, tmp_path / "model.onnx")
    assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []
    assert "[torch.onnx]" not in "".join(capfd.readouterr())


def test_a_model_that_is_too_large_for_one_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exporting, "LARGEST", 1000)
    with pytest.raises(ConfigError, match="no more than 2"):
        export(build(MODELS["convolutions"]), tmp_path / "model.onnx")


def test_a_folder_that_is_not_there(wrongly_exported: FeatureModel, tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="cannot write"):
        export(wrongly_exported, tmp_path / "none" / "model.onnx")


def test_what_the_exporter_says_is_kept_quiet_only_while_it_works() -> None:
    logger = logging.getLogger("onnxscript")
    before = logger.level
    with exporting._quiet():
        during = logger.level
    assert (during, logger.level) == (logging.ERROR, before)


@given(FEATURES)
def test_features_agree_with_themselves(features: np.ndarray) -> None:
    assert agreement(features, features) == Agreement(4, 0.0, 1.0)


@given(FEATURES, FEATURES, st.sampled_from([0.25, 2.0, 1024.0]))
def test_agreement_does_not_depend_on_the_scale(one: np.ndarray, other: np.ndarray, scale: float) -> None:
    # Of two all too short vectors the products are no longer exact.
    one, other = (np.where(np.abs(features) < 1e-10, 0, features) for features in (one, other))
    factor = np.float32(scale)
    np.testing.assert_allclose(agreement(one, other)[1:], agreement(one * factor, other * factor)[1:], rtol=1e-9)


@given(FEATURES, st.integers(0, 3), st.integers(0, 6), st.floats(1e-3, 10))
def test_one_number_that_is_off_is_found(features: np.ndarray, row: int, column: int, share: float) -> None:
    features = features + np.float32(1)  # no vector of zeros
    length = np.linalg.norm(features[row].astype(np.float64))
    other = features.copy()
    other[row, column] += np.float32(share * length)
    found = agreement(features, other)
    assert found.difference == pytest.approx(share, rel=1e-2)
    assert not found.good


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_what_is_not_finite_never_agrees(value: float) -> None:
    features = np.ones((2, 3), dtype=np.float32)
    features[1, 1] = value
    assert not agreement(features, features).good
    assert not agreement(np.ones_like(features), features).good


@given(st.integers(2, 40), st.integers(2, 40))
def test_made_up_images(height: int, width: int) -> None:
    images, again = made_up(View(size=(height, width))), made_up(View(size=(height, width)))
    assert {image.shape for image in images} == {(3, height, width)}
    assert all(image.dtype == np.uint8 for image in images)
    assert all(np.array_equal(one, other) for one, other in zip(images, again, strict=True))
    assert len({image.tobytes() for image in images}) == len(images)


@given(st.integers(0, 40))
def test_every_image_is_in_one_batch(count: int) -> None:
    images = [np.full((1,), number, dtype=np.uint8) for number in range(count)]
    batches = list(exporting._batches(images))
    assert [int(image[0]) for batch in batches for image in batch] == list(range(count))
    assert {len(batch) for batch in batches[:-1]} <= set(BATCHES)
