"""A library that is installed and cannot be imported is told once, before there is any image to blame for it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from speciate.errors import PluginError
from speciate_plugins.encoders.onnx import OnnxEncoder, OnnxOptions
from speciate_plugins.encoders.thumbnail import ThumbnailEncoder, ThumbnailOptions
from speciate_plugins.encoders.timm import TimmEncoder, TimmOptions, speciate_encoder
from speciate_plugins.vision.decoding import import_decoders

ENCODERS = {
    "onnx": lambda: OnnxEncoder(OnnxOptions(path="none.onnx")).load(),
    "timm": lambda: TimmEncoder(TimmOptions(model="none")).load(),
    "trainer of timm": lambda: speciate_encoder().trainer(TimmOptions(model="none"), None, Path("none")),
    "thumbnail": lambda: ThumbnailEncoder(ThumbnailOptions()).load(),
}
CONFIG = """
[source]
plugin = "images"
paths = ["images"]
[encoder]
plugin = "onnx"
path = "none.onnx"
[sink]
plugin = "eventlog"
path = "features.log"
[store]
plugin = "directory"
path = "state"
"""


@pytest.mark.parametrize("name", ENCODERS)
@pytest.mark.parametrize(("module", "package"), [("simplejpeg", "simplejpeg"), ("PIL.Image", "Pillow")])
def test_it_is_told_when_the_encoder_is_loaded(name, module, package, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    if (name, package) == ("thumbnail", "simplejpeg"):
        ENCODERS[name]()  # which does without
        return
    words = rf"decoded by {package}, which cannot be imported \(.*\): pip install --force-reinstall {package}"
    with pytest.raises(PluginError, match=words):
        ENCODERS[name]()


def test_the_user_is_told_in_one_line_and_nothing_is_read(tmp_path) -> None:
    (tmp_path / "pipeline.toml").write_text(CONFIG)
    (tmp_path / "simplejpeg.py").write_text("raise ImportError('libjpeg.so.62: no such file\\nand much advice')")
    (tmp_path / "images").mkdir()
    (tmp_path / "images" / "one.jpg").write_bytes(b"an image, perhaps")
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, "-m", "speciate.cli", "run", "pipeline.toml"]
    environment = {**os.environ, "PYTHONPATH": path}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 2, done.stderr
    (line,) = done.stderr.splitlines()
    assert line == (
        "speciate: error: images are decoded by simplejpeg, which cannot be imported (ImportError: "
        "libjpeg.so.62: no such file): pip install --force-reinstall simplejpeg"
    )
    assert not (tmp_path / "features.log").exists()


@pytest.mark.parametrize("command", [["fit", "images", "--out", "model"], ["export", "timm.toml", "--out", "x.onnx"]])
def test_a_broken_torch_is_told_in_one_line(command, tmp_path) -> None:
    (tmp_path / "timm.toml").write_text('[encoder]\nplugin = "timm"\nmodel = "tf_efficientnet_lite0"\n')
    (tmp_path / "torch.py").write_text("raise ImportError('libtorch.so: no such file')")
    (tmp_path / "images" / "cat").mkdir(parents=True)
    (tmp_path / "images" / "cat" / "one.jpg").write_bytes(b"an image, perhaps")
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    whole = [sys.executable, "-m", "speciate.cli", *command]
    environment = {**os.environ, "PYTHONPATH": path}
    done = subprocess.run(whole, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 2, done.stderr
    assert done.stderr.splitlines()[-1] == (
        "speciate: error: the encoder uses a library that cannot be imported (ImportError: libtorch.so: no such file): "
        "install it again"
    )
    assert "Traceback" not in done.stderr


def test_a_library_that_does_not_fit_is_told_like_one_that_is_missing(tmp_path, monkeypatch) -> None:
    (tmp_path / "simplejpeg.py").write_text("raise ValueError('numpy.dtype size changed')")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "simplejpeg", raising=False)
    with pytest.raises(PluginError, match=r"which cannot be imported \(ValueError: numpy.dtype size changed\)"):
        import_decoders()
