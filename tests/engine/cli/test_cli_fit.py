"""`speciate fit`: from a folder to a model, on to answers, and every way it can be refused."""

import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from commands import must, refusal, started, until
from commands import speciate as speciate_process

from fabricate import distribution
from speciate.bundle import Bundle
from speciate_schemas import Answer, Assignment, BundleManifest, decode

IMAGES = 40
THUMBNAIL = ("-s", "encoder.plugin=thumbnail", "-s", "encoder.size=3")
QUICK = ("-s", "density.plugin=nearest-mean", "-s", "policy.alpha=0.01")


def write_images(folder: Path, count: int) -> Path:
    from PIL import Image

    rng = np.random.default_rng(0)
    for number in range(count):
        name, shade = (("dark", 40), ("light", 200))[number % 2]
        (folder / name).mkdir(parents=True, exist_ok=True)
        pixels = np.clip(shade + rng.normal(scale=9, size=(6, 6)), 0, 255).astype(np.uint8)
        Image.fromarray(pixels).save(folder / name / f"{number:03d}.png")
    return folder


@pytest.fixture
def images(tmp_path):
    return write_images(tmp_path / "images", IMAGES)


@pytest.fixture
def features(tmp_path):
    rng = np.random.default_rng(0)
    labels = np.repeat(["a", "b"], 10)
    np.savez(
        tmp_path / "f.npz", features=rng.normal(size=(20, 3)) + 9.0 * (labels == "b")[:, np.newaxis], labels=labels
    )
    return tmp_path / "f.npz"


@pytest.fixture
def trainee(tmp_path, monkeypatch):
    """The encoder of the engine's tests, as a package that processes find installed."""
    source = Path(__file__).parents[1] / "trainees.py"
    distribution(tmp_path / "packages", "trainees", {"encoder.trainee": ("trainees", source.read_text())})
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "packages"))
    folder = tmp_path / "photos"
    for number in range(IMAGES):
        path = folder / ("dark", "light")[number % 2] / f"{number:03d}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(bytes([number + 90 * (number % 2), number * 7 % 30, number * 11 % 30]))
    return folder


def answers_in(path):
    return [decode(line, Answer, "json") for line in path.read_bytes().splitlines()]


def test_from_a_folder_to_answers_for_every_image(tmp_path, images):
    done = must("fit", images, "--out", "m", *THUMBNAIL, cwd=tmp_path)
    assert done.stdout.startswith("support set       40 events of 2 classes\nencoder           thumbnail, 9 features\n")
    assert done.stdout.endswith("wrote m; try: speciate run m INPUT\n")
    assert "taking in" in done.stderr
    assert "taking in" not in done.stdout
    ran = must("run", "m", images, cwd=tmp_path)
    assert f"done: {IMAGES} events answered" in ran.stderr
    found = answers_in(tmp_path / "out" / "assignments.jsonl")
    assert sorted(one.id for one in found) == sorted(str(path.relative_to(images)) for path in images.rglob("*.png"))
    assert all(isinstance(one, Assignment) and one.label == one.id.partition("/")[0] for one in found)


def test_the_manifest_for_programs(tmp_path, features):
    done = must("fit", features, "--out", tmp_path / "m", "--json", *QUICK)
    manifest = decode(done.stdout.encode(), BundleManifest, "json")
    assert manifest == Bundle.load(tmp_path / "m").manifest
    assert (manifest.encoder, manifest.dimension) == (None, 3)


def test_features_need_nothing_that_images_need(tmp_path, features):
    """Not even the default encoder's libraries are imported."""
    script = "import sys; sys.argv = ['speciate', *sys.argv[1:]]\n"
    script += "for name in ('torch', 'timm', 'PIL'): sys.modules[name] = None\n"
    script += "from speciate.cli import main; main()"
    command = [sys.executable, "-c", script, "fit", features, "--out", tmp_path / "m", *QUICK]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    assert Bundle.load(tmp_path / "m").manifest.encoder is None


def test_a_training_is_told_with_what_it_changed(tmp_path, trainee):
    encoder = ("-s", "encoder.plugin=trainee", "-s", "training.epochs=2", "-s", "policy.alpha=0.01")
    done = must("fit", trainee, "--out", tmp_path / "m", *encoder)
    assert "training          2 epochs, epoch 2 kept, 50.0% of those held out right\n" in done.stdout
    assert "(before training " in done.stdout
    assert Bundle.load(tmp_path / "m").manifest.card.training.options == {"epochs": 2}


def test_frozen_leaves_the_encoder_as_it_is(tmp_path, trainee):
    encoder = ("-s", "encoder.plugin=trainee", "-s", "training.epochs=2", "-s", "policy.alpha=0.01")
    done = must("fit", trainee, "--out", tmp_path / "m", "--frozen", *encoder)
    assert "training" not in done.stdout
    assert Bundle.load(tmp_path / "m").manifest.card.training is None


TOML = """
[encoder]
plugin = "trainee"
gain = 3.0

[density]
plugin = "nearest-mean"

[policy]
plugin = "dp"
alpha = 0.01
"""


def test_a_file_says_how_and_perhaps_to_what(tmp_path, trainee):
    (tmp_path / "fit.toml").write_text(TOML)
    must("fit", trainee, "--out", tmp_path / "m", "--config", tmp_path / "fit.toml")
    manifest = Bundle.load(tmp_path / "m").manifest
    assert (manifest.encoder["gain"], manifest.card.training) == (3.0, None)
    (tmp_path / "fit.toml").write_text(f'{TOML}\n[support]\nplugin = "images"\npaths = ["{trainee}"]\n')
    must("fit", "--out", tmp_path / "n", "--config", tmp_path / "fit.toml", "-s", "encoder.gain=4.0")
    manifest = Bundle.load(tmp_path / "n").manifest
    assert (manifest.encoder["gain"], manifest.card.support.events) == (4.0, IMAGES)


def default_sections(*overrides):
    from speciate.cli.fit import _config

    return _config(("f.npz",), None, None, overrides, frozen=False)


@pytest.mark.parametrize(
    "overrides", [["encoder.plugin=thumbnail"], ['encoder={plugin="thumbnail"}'], ['encoder.plugin = "thumbnail"']]
)
def test_another_encoder_does_not_inherit_what_the_default_one_has(overrides):
    config = default_sections(*overrides)
    assert (config.encoder, config.training) == ({"plugin": "thumbnail"}, None)
    assert default_sections(*overrides, "training.epochs=3").training == {"epochs": 3}


def test_the_default_encoder_named_again_is_the_default_encoder():
    assert default_sections("encoder.plugin=timm") == default_sections()
    assert default_sections("encoder.model=resnet18").encoder == {"plugin": "timm", "model": "resnet18"}
    assert default_sections().training == {}


def test_another_policy_does_not_inherit_alpha():
    config = default_sections("policy.plugin=distance-threshold")
    assert config.policy == {"plugin": "distance-threshold"}
    assert config.encoder == default_sections().encoder


def test_what_is_there_is_never_written_over(tmp_path, features):
    must("fit", features, "--out", tmp_path / "m", *QUICK)
    before = Bundle.load(tmp_path / "m").manifest
    assert "exists: choose another path" in refusal(2, "fit", features, "--out", tmp_path / "m", *QUICK)
    assert Bundle.load(tmp_path / "m").manifest == before


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        ((), 2, "there is nothing to read"),
        (("nowhere.npz",), 4, "nowhere.npz"),
        (("f.npz", "-s", "density.plugin=fulll"), 2, "did you mean 'full'?"),
        (("f.npz", "-s", "densty.plugin=full"), 2, "did you mean 'density'?"),
        (("f.npz", "-s", "density=7"), 2, "`density`"),
        (("f.npz", "--config", "none.toml"), 2, "No such file"),
        (("f.what",), 2, "no source plugin is known for 'f.what'"),
        (("--plugin", "stdin"), 2, "can be read only once"),
        (("images", "-s", "encoder.plugin=thumbnail", "-s", "training.epochs=1"), 2, "cannot be trained"),
        (("images", "-s", "encoder.plugin=thumbnail", "-s", "encoder.model=x"), 2, "'model'"),
    ],
)
def test_mistakes_are_one_line_and_an_exit_code(*, tmp_path, images, features, options, code, message):
    assert message in refusal(code, "fit", *options, "--out", "m", cwd=tmp_path)
    assert not (tmp_path / "m").exists()
    assert not (tmp_path / "m.part").exists()


def failure(done, code):
    """The last line of a command that failed under way; log lines may stand before it."""
    assert done.returncode == code, done.stderr
    assert done.stdout == ""
    return done.stderr.splitlines()[-1]


def test_a_corrupt_image_is_named(tmp_path, images):
    (images / "dark" / "002.png").write_bytes(b"no image")
    done = speciate_process("fit", images, "--out", tmp_path / "m", *THUMBNAIL)
    line = failure(done, 2)
    assert line.startswith(f"speciate: error: {images}/dark/002.png of the support set cannot be used: ")


def test_an_output_that_cannot_be_is_the_worlds_fault(features):
    assert "/dev/null/m" in failure(speciate_process("fit", features, "--out", "/dev/null/m", *QUICK), 4)


def test_usage_errors_come_with_the_usage(speciate):
    done = speciate("fit", "x")
    assert done.exit_code == 2
    assert "Missing option '--out'" in done.stderr


SLOW = """
import sys, time
import trainees

def slowly(name):
    if name == "trained":
        print("trained", flush=True)
        time.sleep(60)

trainees.POWER.cut = slowly
from speciate.cli import main
main()
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_stopped_it_leaves_at_once_and_goes_on_when_called_again(tmp_path, trainee, number):
    options = ("fit", trainee, "-s", "encoder.plugin=trainee", "-s", "training.epochs=3", *QUICK, "--out")
    with started(*options, tmp_path / "m", command=(sys.executable, "-c", SLOW)) as process:
        assert process.stdout.readline() == b"trained\n"
        assert failure(speciate_process(*options, tmp_path / "m"), 3).endswith(
            f"{tmp_path}/m.part is in use by another process: wait for it, or choose another output"
        )
        process.send_signal(number)
        until(lambda: process.poll() is not None)
        assert process.returncode == (130 if number == signal.SIGINT else -number)
        if number == signal.SIGINT:
            assert process.stderr.read().endswith(b"speciate: interrupted; the same command goes on from here\n")
    assert not (tmp_path / "m").exists()
    images = tmp_path / "m.part" / "trainer" / "images"
    assert images.stat().st_size == 3 * IMAGES
    must(*options, tmp_path / "m")
    assert not images.exists()
    must(*options, tmp_path / "n")
    found = [Bundle.load(tmp_path / name).manifest for name in "mn"]
    assert found[0].fingerprint == found[1].fingerprint
    assert found[0].card.training == found[1].card.training


def test_the_help_names_every_way_to_say_what(speciate):
    done = speciate("fit", "--help")
    assert done.exit_code == 0
    for word in ("[INPUT]...", "--out", "--plugin", "--config", "--frozen", "--set", "--json"):
        assert word in done.stdout
