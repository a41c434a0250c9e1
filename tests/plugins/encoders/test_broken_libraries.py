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
        "speciate: error: images are decoded by simplejpeg, which cannot be imported (libjpeg.so.62: no such file): "
        "pip install --force-reinstall simplejpeg"
    )
    assert not (tmp_path / "features.log").exists()
