"""The encoder `onnx` on small graphs made by hand: no torch is near."""

import subprocess
import sys
from io import BytesIO
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper
from PIL import Image

from speciate.errors import ConfigError, EncodeError, PluginError
from speciate_plugins.encoders.onnx import (
    CPU,
    CUDA,
    INPUT,
    OUTPUT,
    Described,
    OnnxEncoder,
    OnnxOptions,
    _providers,
)
from speciate_plugins.vision.viewing import View
from speciate_schemas import ImageEvent

VIEW = View(size=(6, 8), crop_pct=1.0)
COLOURS = Described(VIEW, 3)

WITHOUT_TORCH = """
import sys

for name in ("torch", "torchvision", "timm", "onnx"):
    sys.modules[name] = None  # importing it fails

import msgspec

from speciate.plugins import installed
from speciate_schemas import ImageEvent

provider = installed().provider("encoder", "onnx")
encoder = provider.create(msgspec.convert({"path": sys.argv[1]}, provider.options))
encoder.load()
image = ImageEvent(id="x", image=memoryview(open(sys.argv[2], "rb").read()))
print(*encoder.encode([encoder.prepare(image)])[0].tolist())
"""


def graph_file(path: Path, properties: dict[str, str], *, domain: str = "", dtype: int = TensorProto.UINT8) -> str:
    """A model whose features are the mean colours of an image."""
    nodes = [
        helper.make_node("Cast", [INPUT], ["pixels"], to=TensorProto.FLOAT),
        helper.make_node("GlobalAveragePool", ["pixels"], ["means"], domain=domain),
        helper.make_node("Flatten", ["means"], [OUTPUT]),
    ]
    taken = helper.make_tensor_value_info(INPUT, dtype, ["batch", 3, *VIEW.size])
    given_back = helper.make_tensor_value_info(OUTPUT, TensorProto.FLOAT, ["batch", 3])
    graph = helper.make_graph(nodes, "colours", [taken], [given_back])
    opsets = [helper.make_opsetid("", 20), *([helper.make_opsetid(domain, 1)] if domain else [])]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    helper.set_model_props(model, properties)
    onnx.save(model, path)
    return str(path)


def loaded(path: str, **options: Any) -> OnnxEncoder:
    encoder = OnnxEncoder(OnnxOptions(path=path, **options))
    encoder.load()
    return encoder


def refusal(path: str) -> str:
    """What the operator is told: one line."""
    with pytest.raises(ConfigError) as caught:
        loaded(path)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.fixture(scope="module")
def colours(tmp_path_factory: pytest.TempPathFactory) -> str:
    return graph_file(tmp_path_factory.mktemp("onnx") / "colours.onnx", COLOURS.properties())


@pytest.fixture(scope="module")
def encoder(colours: str) -> OnnxEncoder:
    return loaded(colours)


def plain(red: int, green: int, blue: int) -> bytes:
    buffer = BytesIO()
    Image.new("RGB", (40, 30), (red, green, blue)).save(buffer, "PNG")
    return buffer.getvalue()


def test_an_image_from_its_bytes_to_its_features(encoder: OnnxEncoder) -> None:
    events = [ImageEvent(id=str(n), image=memoryview(plain(n, 2 * n, 100))) for n in (10, 40)]
    prepared = [encoder.prepare(event) for event in events]
    features = encoder.encode(prepared)
    assert [one.shape for one in prepared] == [(3, *VIEW.size)] * 2
    assert encoder.dimension == 3
    assert features.dtype == np.float32
    np.testing.assert_allclose(features, [[10, 20, 100], [40, 80, 100]], rtol=1e-6)


@given(st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=9))
def test_neighbours_in_the_batch_do_not_matter(encoder: OnnxEncoder, seeds: list[int]) -> None:
    images = [np.random.default_rng(seed).integers(0, 256, (3, *VIEW.size), dtype=np.uint8) for seed in seeds]
    together = encoder.encode(images)
    np.testing.assert_allclose(together, np.concatenate([encoder.encode([image]) for image in images]), rtol=1e-6)
    np.testing.assert_allclose(together, np.stack(images).mean((2, 3)), rtol=1e-5)


def test_a_batch_of_none(encoder: OnnxEncoder) -> None:
    assert encoder.encode([]).shape == (0, 3)


def test_what_is_no_image_is_the_event_s_fault(encoder: OnnxEncoder) -> None:
    with pytest.raises(EncodeError):
        encoder.prepare(ImageEvent(id="x", image=memoryview(b"not an image")))


def test_max_pixels(colours: str) -> None:
    with pytest.raises(EncodeError, match="max_pixels"):
        loaded(colours, max_pixels=100).prepare(ImageEvent(id="x", image=memoryview(plain(1, 2, 3))))


def test_loading_again_does_nothing(tmp_path: Path) -> None:
    encoder = loaded(graph_file(tmp_path / "once.onnx", COLOURS.properties()))
    (tmp_path / "once.onnx").unlink()
    encoder.load()
    assert encoder.dimension == 3


def test_it_is_of_no_use_before_it_is_loaded(colours: str) -> None:
    with pytest.raises(PluginError, match=r"load\(\) first"):
        OnnxEncoder(OnnxOptions(path=colours)).encode([])


@pytest.mark.parametrize(("threads", "told"), [(None, 0), (1, 1), (3, 3)])
def test_threads(colours: str, threads: int | None, told: int) -> None:
    assert loaded(colours, threads=threads)._session.get_session_options().intra_op_num_threads == told


@pytest.mark.parametrize("wrong", [{"threads": 0}, {"device": "tpu"}, {"path": ""}, {"max_pixels": 0}])
def test_options_that_mean_nothing(wrong: dict[str, Any]) -> None:
    assert msgspec.convert({"path": "x.onnx", "threads": 2}, OnnxOptions).threads == 2
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"path": "x.onnx", **wrong}, OnnxOptions)


@pytest.mark.parametrize(
    ("device", "available", "expected"),
    [
        ("auto", [CPU], [CPU]),
        ("auto", ["TensorrtExecutionProvider", CUDA, CPU], [CUDA, CPU]),
        ("cpu", [CUDA, CPU], [CPU]),
        ("cuda", [CUDA, CPU], [CUDA, CPU]),
    ],
)
def test_what_a_graph_may_run_on(device: str, available: list[str], expected: list[str]) -> None:
    assert _providers(device, available) == expected


def test_cuda_that_is_not_there() -> None:
    with pytest.raises(ConfigError, match="onnxruntime-gpu"):
        _providers("cuda", [CPU])


@pytest.mark.parametrize(
    ("properties", "words"),
    [
        ({}, "no speciate.format in its metadata, 'encoder.v1' is expected"),
        ({"speciate.format": "encoder.v9"}, "speciate.format = 'encoder.v9'"),
        ({"speciate.format": "encoder.v1"}, "its metadata is damaged ('speciate.view')"),
        ({**COLOURS.properties(), "speciate.view": "{"}, "its metadata is damaged"),
        ({**COLOURS.properties(), "speciate.view": '{"size":[0,8]}'}, "its metadata is damaged"),
        ({**COLOURS.properties(), "speciate.dimension": "many"}, "its metadata is damaged"),
        (Described(VIEW, 4).properties(), "its metadata says"),
        (Described(View(size=(7, 7)), 3).properties(), "its metadata says"),
    ],
)
def test_a_file_that_is_not_ours(tmp_path: Path, properties: dict[str, str], words: str) -> None:
    message = refusal(graph_file(tmp_path / "foreign.onnx", properties))
    assert words in message
    assert "export" in message


def test_a_graph_of_other_types(tmp_path: Path) -> None:
    path = graph_file(tmp_path / "floats.onnx", COLOURS.properties(), dtype=TensorProto.FLOAT)
    assert "tensor(uint8)" in refusal(path)


def test_foreign_operators_are_not_looked_for(tmp_path: Path) -> None:
    path = graph_file(tmp_path / "custom.onnx", COLOURS.properties(), domain="com.example")
    assert "com.example" in refusal(path)


@pytest.mark.parametrize("data", [b"", b"\x89PNG\r\n", b"\x08\x0a" * 999])
def test_a_file_that_is_no_onnx(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "broken.onnx").write_bytes(data)
    assert "export the model again" in refusal(str(tmp_path / "broken.onnx"))


def test_a_file_that_was_cut_off(tmp_path: Path, colours: str) -> None:
    (tmp_path / "half.onnx").write_bytes(Path(colours).read_bytes()[:100])
    assert "half.onnx" in refusal(str(tmp_path / "half.onnx"))


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    assert "there is no such file" in refusal(str(tmp_path / "none.onnx"))
    assert "there is no such file" in refusal(str(tmp_path))


def test_torch_is_not_needed(tmp_path: Path, colours: str) -> None:
    (tmp_path / "image.png").write_bytes(plain(1, 2, 3))
    ran = subprocess.run(
        [sys.executable, "-c", WITHOUT_TORCH, colours, str(tmp_path / "image.png")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    np.testing.assert_allclose([float(word) for word in ran.stdout.split()[-3:]], [1, 2, 3], rtol=1e-6)


def test_weights_in_other_files_are_not_looked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bundle has the hash of the one file: what lies beside it, or where the process was started, may be anything."""
    monkeypatch.chdir(tmp_path)
    path = Path(graph_file(tmp_path / "colours.onnx", COLOURS.properties()))
    model = onnx.load(path)
    factors = numpy_helper.from_array(np.full((1, 3, 1, 1), 7, dtype=np.float32), "factors")
    model.graph.initializer.append(factors)
    model.graph.node[1].output[0] = "means-before"
    model.graph.node.insert(2, helper.make_node("Mul", ["means-before", "factors"], ["means"]))
    onnx.save(model, path)
    loaded(str(path))
    onnx.save(model, path, save_as_external_data=True, location="beside", size_threshold=0)
    assert (tmp_path / "beside").is_file()
    assert "cannot be used by onnxruntime" in refusal(str(path))
