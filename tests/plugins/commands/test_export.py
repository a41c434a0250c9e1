"""`speciate export`, from a configuration or a bundle to something that runs without torch."""

import importlib.util
import json
import os
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result
from PIL import Image

from speciate import cli
from speciate.bundle import Bundle, write_bundle
from speciate.config import choose
from speciate.plugins import installed
from speciate_plugins.commands import export as exporting
from speciate_plugins.vision.exporting import Agreement
from speciate_schemas import Card, HeadState, ImageEvent, SupportCard

ENCODER = {"plugin": "timm", "model": "test_efficientnet", "pretrained": False, "max_pixels": 1_000_000}
DIMENSION = 256
TOML = "\n".join(["[encoder]", *(f"{key} = {json.dumps(value)}" for key, value in ENCODER.items())])

HEAD = HeadState(
    density="nearest-mean",
    policy="dp",
    density_options={},
    policy_options={},
    dimension=DIMENSION,
    version=0,
    next_category=0,
    shared={},
    categories=[],
)
CARD = Card(
    support=SupportCard(source={"plugin": "images"}, events=2, classes={"cat": 2}, sha256="0" * 64),
    training=None,
    estimated={"kappa0": 0.1},
    estimated_frozen={},
    policy={"plugin": "dp"},
    versions={"speciate": "0.1.0"},
    hardware={},
    created="2026-01-01T00:00:00Z",
    seconds=1.0,
)


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(cli.group, ["export", *map(str, arguments)])


def refusal(*arguments: str | Path) -> str:
    """What the operator is told: an error of ours, in one line."""
    result = run(*arguments)
    assert result.exit_code == 2, result.output
    (line,) = [line for line in result.stderr.splitlines() if line.startswith("speciate: error: ")]
    return line.removeprefix("speciate: error: ")


def encoder(section: dict[str, Any]) -> Any:
    made = choose(installed(), "encoder", section, "encoder").create()
    made.load()
    return made


@pytest.fixture
def config(tmp_path: Path) -> Path:
    (tmp_path / "encoder.toml").write_text(TOML)
    return tmp_path / "encoder.toml"


@pytest.fixture
def photographs(tmp_path: Path) -> Path:
    folder = tmp_path / "photographs"
    rng = np.random.default_rng(0)
    for name in ("cats/one.png", "cats/two.JPG", "dogs/one.webp"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(rng.integers(0, 256, (90, 70, 3), dtype=np.uint8)).save(folder / name)
    (folder / "broken.png").write_bytes(b"no image")
    (folder / "notes.txt").write_text("no image either")
    return folder


@pytest.fixture
def not_exporting(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file is written at once, of no use to anyone."""

    def export(model: Any, path: Path, images: Any, watch: Any) -> Agreement:
        path.write_bytes(b"onnx")
        return Agreement(len(images), 1e-7, 1.0)

    monkeypatch.setattr("speciate_plugins.vision.exporting.export", export)


def test_a_configuration_becomes_a_file_and_the_section_to_use_it(config: Path, photographs: Path) -> None:
    out = config.parent / "made" / "encoder.onnx"
    result = run(config, "--out", out, "--images", photographs)
    assert result.exit_code == 0, result.output
    assert "on 3 images" in result.stdout
    section = tomllib.loads(result.stdout[result.stdout.index("[encoder]") :])["encoder"]
    assert section == {"plugin": "onnx", "max_pixels": ENCODER["max_pixels"], "path": str(out)}
    ours, torch = encoder(section), encoder(ENCODER)
    image = ImageEvent(id="x", image=memoryview((photographs / "cats/two.JPG").read_bytes()))
    np.testing.assert_array_equal(ours.prepare(image), torch.prepare(image))
    np.testing.assert_allclose(
        ours.encode([ours.prepare(image)]), torch.encode([torch.prepare(image)]), rtol=1e-3, atol=1e-5
    )


def test_a_bundle_becomes_a_bundle_with_the_same_head(tmp_path: Path) -> None:
    versions = {"encoder.timm": "1", "density.nearest-mean": "1"}
    write_bundle(tmp_path / "model", encoder=ENCODER, files={}, head=HEAD, card=CARD, plugins=versions)
    result = run(tmp_path / "model", "--out", tmp_path / "exported", "--json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    bundle = Bundle.load(tmp_path / "exported")
    assert found["section"] == {"model": {"path": str(tmp_path / "exported")}}
    assert found["bytes"] == bundle.manifest.files[bundle.manifest.encoder_files["path"]].bytes
    assert found["agreement"]["difference"] < 1e-5
    assert (bundle.head_state(), bundle.manifest.card) == (HEAD, CARD)
    assert bundle.manifest.plugins.keys() == {"encoder.onnx", "density.nearest-mean"}
    section = bundle.encoder_section()
    assert section is not None
    assert section["max_pixels"] == ENCODER["max_pixels"]
    assert encoder(section).dimension == bundle.manifest.dimension == DIMENSION
    assert sorted(path.name for path in tmp_path.iterdir()) == ["exported", "model"]


def test_a_head_fitted_to_coarser_features_is_not_given_others(tmp_path: Path) -> None:
    coarse = {**ENCODER, "precision": "bfloat16"}
    write_bundle(tmp_path / "model", encoder=coarse, files={}, head=HEAD, card=CARD, plugins={"encoder.timm": "1"})
    result = run(tmp_path / "model", "--out", tmp_path / "exported")
    assert result.exit_code == 4
    told = result.stderr
    assert "gives other features" in told
    assert "computes in bfloat16, an exported one in float32: fit it with precision = 'float32'" in told
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model"]


@pytest.mark.usefixtures("not_exporting")
def test_figures_for_programs(config: Path) -> None:
    found = json.loads(run(config, "--out", config.parent / "x.onnx", "--json").stdout)
    assert found["dimension"] == DIMENSION
    assert found["compared"] == "made-up images"
    assert (found["bytes"], found["agreement"]) == (4, {"images": 0, "difference": 1e-7, "cosine": 1.0})


@pytest.mark.usefixtures("not_exporting")
def test_what_is_there_is_not_overwritten(config: Path) -> None:
    (config.parent / "x.onnx").write_bytes(b"precious")
    assert "exists: choose another path" in refusal(config, "--out", config.parent / "x.onnx")
    assert (config.parent / "x.onnx").read_bytes() == b"precious"


def test_a_missing_extra_is_named(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec
    absent = {"onnx", "onnxscript"}
    monkeypatch.setattr(
        exporting.importlib.util, "find_spec", lambda name, *more: None if name in absent else find(name, *more)
    )
    message = refusal(config, "--out", config.parent / "x.onnx")
    assert message == "speciate export needs onnx, onnxscript: pip install 'speciate[export]'"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "has no encoder"),
        ("encoder = 1", "has no encoder"),
        ('[encoder]\nplugin = "thumbnail"', "only those of plugin 'timm' can be exported"),
        ('[encoder]\nplugin = "timm"', "model"),
        ("[encoder", "is not valid TOML"),
    ],
)
def test_a_configuration_that_has_nothing_to_export(config: Path, text: str, words: str) -> None:
    config.write_text(text)
    assert words in refusal(config, "--out", config.parent / "x.onnx")


def test_models_that_cannot_be_exported(tmp_path: Path) -> None:
    write_bundle(tmp_path / "features", encoder=None, files={}, head=HEAD, card=CARD, plugins={})
    assert "has no encoder" in refusal(tmp_path / "features", "--out", tmp_path / "x")
    assert "cannot read" in refusal(tmp_path / "nothing", "--out", tmp_path / "x")


@pytest.mark.usefixtures("not_exporting")
def test_images_behind_links_count_and_what_is_no_file_is_not_waited_for(config: Path, photographs: Path) -> None:
    linked = config.parent / "linked"
    linked.mkdir()
    (linked / "cats").symlink_to(photographs / "cats")
    (linked / "again").symlink_to(linked)
    os.mkfifo(linked / "endless.png")
    found = json.loads(run(config, "--out", config.parent / "x.onnx", "--images", linked, "--json").stdout)
    assert found["agreement"]["images"] == 2


@pytest.mark.usefixtures("not_exporting")
def test_a_folder_that_cannot_be_read(config: Path, photographs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = Path.iterdir

    def locked(folder: Path) -> Any:
        if folder == photographs / "cats":
            raise PermissionError(13, "Permission denied")
        return real(folder)

    monkeypatch.setattr(Path, "iterdir", locked)
    message = refusal(config, "--out", config.parent / "x.onnx", "--images", photographs)
    assert f"--images {photographs}: cannot read the folder {photographs / 'cats'}: Permission denied" in message
    assert message.endswith(": make it readable, or name another folder")


@pytest.mark.usefixtures("not_exporting")
def test_a_folder_without_images(config: Path) -> None:
    message = refusal(config, "--out", config.parent / "x.onnx", "--images", config.parent)
    assert "none of its 0 image files" in message
    assert not (config.parent / "x.onnx").exists()
