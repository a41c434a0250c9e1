"""Features of an image do not depend on the route it came by, nor do answers, kill -9 or not."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from broker import Broker
from PIL import Image
from pipelines import (
    KEEPING,
    SINK,
    SOURCE,
    Bench,
    assignments,
    check_exactly_once,
    kinds,
    picture,
    speciate,
)

from pets import PHOTOGRAPHS
from speciate.errors import EncodeError
from speciate.fitting import fit
from speciate.pipeline import run
from speciate.plugins import installed
from speciate_plugins.encoders.timm import TimmEncoder
from speciate_plugins.kafka.payloads import EVENTS
from speciate_plugins.vision.options import TimmOptions
from speciate_schemas import Answer, Assignment, DeadLetter, FeatureEvent, FitConfig, ImageEvent, encode
from speciate_schemas.codec import decoder
from speciate_schemas.framing import next_frame

torch = pytest.importorskip("torch")
pytest.importorskip("timm")
pytest.importorskip("simplejpeg")

MODEL = {"plugin": "timm", "model": "test_efficientnet", "pretrained": False, "device": "cpu"}
ENCODER = """
[encoder]
plugin = "timm"
model = "test_efficientnet"
pretrained = false
device = "cpu"
"""
FILES = {
    "folder": '[source]\nplugin = "images"\npaths = ["{folder}/images"]\n',
    "recorded": '[source]\nplugin = "eventlog"\npaths = ["{folder}/images.log"]\n',
}
LOG = """
[sink]
plugin = "eventlog"
path = "{place}/features.log"
[store]
plugin = "directory"
path = "{place}/state"
"""
MODEL_SECTION = """
[model]
path = "{folder}/model"
"""
KEPT = """
[sink]
plugin = "jsonl"
path = "{place}/answers.jsonl"
[dead_letters]
plugin = "eventlog"
path = "{place}/dead.log"
[store]
plugin = "directory"
path = "{place}/state"
"""
NO_VALUE = ("DecodeError", "the value is empty: there is no event in it")
SLOW = "run.pace=8"
"""Images a second, for a kill to fall between the first and the last."""
KNOWN, CLASSES = 2, 4

Output = FeatureEvent | DeadLetter


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """The bits of a sum may depend on the number of threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def bench(broker: Broker, topic: str, tmp_path: Path) -> Iterator[Bench]:
    with Bench(broker, tmp_path, topic) as one:
        yield one


def stored(image: Image.Image, form: str, **options: Any) -> bytes:
    file = BytesIO()
    image.save(file, form, **options)
    return file.getvalue()


def sound_images() -> dict[str, bytes]:
    """Files of all kinds; no two show the same."""
    rng = np.random.default_rng(3)

    def made(height: int = 90, width: int = 120) -> Image.Image:
        return Image.fromarray(rng.integers(0, 256, (6, 8, 3), dtype=np.uint8)).resize((width, height))

    turned = Image.Exif()
    turned[0x0112] = 6
    clear = made()
    clear.putalpha(Image.linear_gradient("L").resize(clear.size))
    deep = Image.fromarray(np.asarray(made().convert("L")).astype(np.uint16) * 257)
    found = {
        "animated.gif": stored(made(), "GIF", save_all=True, append_images=[made()]),
        "cmyk.jpg": stored(made().convert("CMYK"), "JPEG"),
        "deep.png": stored(deep, "PNG"),
        "grey.jpg": stored(made().convert("L"), "JPEG"),
        "huge.jpg": stored(made(1500, 2000), "JPEG"),
        "misnamed.jpg": stored(made(), "PNG"),
        "pages.tiff": stored(made(), "TIFF", save_all=True, append_images=[made()]),
        "palette.png": stored(made().convert("P"), "PNG"),
        "plain.bmp": stored(made(), "BMP"),
        "progressive.jpg": stored(made(), "JPEG", progressive=True),
        "single.png": stored(made(1, 1), "PNG"),
        "translucent.webp": stored(clear, "WEBP"),
        "turned.jpg": stored(made(), "JPEG", exif=turned),
    }
    real = sorted(PHOTOGRAPHS.glob("*/*.jpg"))[::200]
    return found | {f"{path.parent.name}.jpg": path.read_bytes() for path in real}


def bad_images(sound: dict[str, bytes]) -> dict[str, bytes]:
    return {
        "absent.jpg": b"",
        "cut.jpg": sound["huge.jpg"][:-5000],
        "cut.png": sound["deep.png"][:-40],
        "floats.tiff": stored(Image.fromarray(np.ones((4, 4), dtype=np.float32)), "TIFF"),
        "letter.jpg": b"Dear camera,\n",
    }


def from_files(bench: Bench, source: str, batch: int) -> list[Output]:
    """What leaves a stage of encoders that writes to a file."""
    (place := bench.folder / source).mkdir()
    config = bench.write(FILES[source] + ENCODER + LOG, f"{source}.toml", place=place)
    run(config, overrides=[f"run.encode_events={batch}"])
    data, start, outputs = (place / "features.log").read_bytes(), 0, []
    while start < len(data):
        frame = next_frame(data, start, final=True)
        outputs.append(EVENTS["msgpack"](frame.payload))
        start = frame.end
    return outputs


def from_kafka(bench: Bench, payload: str, values: Sequence[bytes], batch: int) -> list[Output]:
    """What leaves a stage of encoders between two topics."""
    text = (SOURCE + f'payload = "{payload}"\n' + SINK + ENCODER).replace("{topic}", f"{{topic}}-{payload}")
    config = bench.make(text, name=f"{payload}.toml")
    bench.feed([(0, b"camera", value, ()) for value in values], f"{payload}-in")
    run(config, overrides=[f"run.encode_events={batch}", "source.follow=false"])
    found = bench.broker.read_all(f"{bench.topic}-{payload}-answers")[0]
    return [EVENTS["msgpack"](one.value) for one in found]


def by_every_route(bench: Bench, images: dict[str, bytes], batches: Sequence[int]) -> dict[str, list[Output]]:
    """What becomes of the images on each route, each with a batch size of its own."""
    (bench.folder / "images").mkdir()
    for name, data in images.items():
        (bench.folder / "images" / name).write_bytes(data)
    speciate("record", bench.folder / "images", "--to", bench.folder / "images.log")
    ours = [ImageEvent(id=name, image=memoryview(data)) for name, data in images.items()]
    values = [encode(one, ("msgpack", "json")[place % 2]) for place, one in enumerate(ours)]
    return {
        "folder": from_files(bench, "folder", batches[0]),
        "event log": from_files(bench, "recorded", batches[1]),
        "images on Kafka": from_kafka(bench, "image", list(images.values()), batches[2]),
        "events on Kafka": from_kafka(bench, "event", values, batches[3]),
    }


def alone(images: dict[str, bytes]) -> tuple[dict[str, np.ndarray], dict[str, tuple[str, str]]]:
    """What the encoder makes of each image by itself: features, or the error and its message."""
    encoder = TimmEncoder(TimmOptions(model="test_efficientnet", pretrained=False, device="cpu"))
    encoder.load()
    features, errors = {}, {}
    for name, data in images.items():
        try:
            prepared = encoder.prepare(ImageEvent(id=name, image=memoryview(data)))
        except EncodeError as error:
            errors[name] = (type(error).__name__, str(error))
        else:
            features[name] = encoder.encode([prepared])[0]
    return features, errors


# One image at a time it is the same work on every route, to the last bit. In a batch, of which there is any number of
# images, torch may add up in another order.
@pytest.mark.parametrize(
    ("batches", "tolerance"), [((1, 1, 1, 1), 0.0), ((2, 32, 5, 7), 1e-6)], ids=["one at a time", "in batches"]
)
def test_the_route_of_an_image_does_not_show(bench: Bench, batches: tuple[int, ...], tolerance: float) -> None:
    sound = sound_images()
    images = dict(sorted((sound | bad_images(sound)).items()))
    features, errors = alone(images)
    assert errors.keys() == bad_images(sound).keys()
    assert len({one.tobytes() for one in features.values()}) == len(sound)
    for route, outputs in by_every_route(bench, images, batches).items():
        there = dict(zip(images, outputs, strict=True))
        told = {name: (one.error, one.message) for name, one in there.items() if isinstance(one, DeadLetter)}
        # No value, no event: on Kafka that is known before anybody asks what it shows.
        nothing = {"absent.jpg": NO_VALUE} if route == "images on Kafka" else {}
        assert told == errors | nothing, route
        for name, expected in features.items():
            found = there[name].features.numpy()
            assert found.dtype == np.float32
            distance = np.linalg.norm(found - expected)
            assert distance <= tolerance * np.linalg.norm(expected), f"{name} from {route}"


@contextmanager
def unwatched(_: str) -> Iterator[Callable[..., None]]:
    yield lambda *_: None


def write_model(folder: Path) -> None:
    """A model of the known classes, its encoder trained a little."""
    rng = np.random.default_rng(7)
    for number in range(12 * KNOWN):
        kind = number % KNOWN
        (folder / "support" / f"kind-{kind}").mkdir(parents=True, exist_ok=True)
        (folder / "support" / f"kind-{kind}" / f"{number}.jpg").write_bytes(picture(rng, kind))
    config = FitConfig(
        support={"plugin": "images", "paths": [str(folder / "support")]},
        encoder=MODEL,
        training={"epochs": 2, "batch_images": 8},
        density={"plugin": "nearest-mean"},
        policy={"plugin": "dp", "alpha": 1e-3},
    )
    asyncio.run(fit(config, folder / "model", installed(), unwatched))


def undisturbed(bench: Bench, frames: Sequence[bytes]) -> list[Answer]:
    """The answers of a run over a folder that nobody stops."""
    (bench.folder / "images").mkdir()
    for number, frame in enumerate(frames):
        (bench.folder / "images" / f"{number:04}.jpg").write_bytes(frame)
    (place := bench.folder / "undisturbed").mkdir()
    run(bench.write(FILES["folder"] + MODEL_SECTION + KEPT, "undisturbed.toml", place=place))
    read = decoder(Answer, "json")
    return [read(line) for line in (place / "answers.jsonl").read_bytes().splitlines()]


def said(answers: Sequence[Answer]) -> list[tuple[Any, ...]]:
    """What answers say of an image, without its name, which depends on the route, and the last digits."""
    return [
        (one.sequence, one.category, one.label, one.birth)
        if isinstance(one, Assignment)
        else (one.sequence, one.stage, one.error, one.message)
        for one in answers
    ]


def test_a_model_on_kafka_that_is_killed_answers_each_image_once(bench: Bench) -> None:
    write_model(bench.folder)
    rng = np.random.default_rng(1)
    bad = {9: b"no picture", 70: picture(rng, 1)[:-60]}
    count = 120
    frames = [bad.get(number, picture(rng, int(rng.integers(CLASSES)))) for number in range(count)]
    config = bench.make(SOURCE + 'payload = "image"\n' + SINK + MODEL_SECTION + KEEPING)
    bench.feed([(0, b"camera", frame, ()) for frame in frames])
    for enough in (15, 50):
        worker = bench.start(config, "-s", SLOW)
        assert len(bench.until_answered(enough)[0]) < count, "it was done before it could be killed"
        worker.kill()
    bench.start(config)
    answers = bench.until_answered(count)
    check_exactly_once(answers, [count])
    assert [one.origin for one in answers[0]] == [f"{bench.topic}-in/0@{number}" for number in range(count)]
    assert kinds(answers[0]) == {"Assignment": count - len(bad), "Rejection": len(bad)}
    assert [bytes(one.original) for one in bench.dead_letters()[0]] == list(bad.values())
    decided = assignments(answers[0])
    assert {one.label for one in decided if one.category < KNOWN} == {f"kind-{kind}" for kind in range(KNOWN)}
    assert sum(one.birth for one in decided) >= CLASSES - KNOWN
    assert said(answers[0]) == said(undisturbed(bench, frames))
