"""Features of an image do not depend on the route it came by, nor do answers, kill -9 or not."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

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
    rejections,
    speciate,
)

from speciate.fitting import fit
from speciate.pipeline import run
from speciate.plugins import installed
from speciate_plugins.kafka.payloads import EVENTS
from speciate_schemas import Answer, DeadLetter, FeatureEvent, FitConfig, ImageEvent, encode
from speciate_schemas.codec import decoder
from speciate_schemas.framing import next_frame

torch = pytest.importorskip("torch")
pytest.importorskip("timm")
pytest.importorskip("simplejpeg")

PHOTOGRAPHS = Path(__file__).parents[3] / "shared" / "data" / "pets-images"
MODEL = {"plugin": "timm", "model": "test_efficientnet", "pretrained": False, "device": "cpu"}
ENCODER = """
[encoder]
plugin = "timm"
model = "test_efficientnet"
pretrained = false
device = "cpu"
"""
FOLDER = """
[source]
plugin = "images"
paths = ["{folder}/images"]
"""
RECORDED = """
[source]
plugin = "eventlog"
paths = ["{folder}/images.log"]
"""
SLOW = "run.pace=30"
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
    deep = Image.fromarray((np.asarray(made().convert("L")).astype(np.uint16) * 257))
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


class Seen(NamedTuple):
    """What left a stage of encoders, in order, whichever way it left."""

    features: dict[int, np.ndarray]
    letters: dict[int, tuple[str, str, str]]

    @classmethod
    def of(cls, outputs: Sequence[Output]) -> "Seen":
        features = {place: one.features.numpy() for place, one in enumerate(outputs) if isinstance(one, FeatureEvent)}
        letters = {
            place: (one.stage, one.error, one.message)
            for place, one in enumerate(outputs)
            if isinstance(one, DeadLetter)
        }
        return cls(features, letters)


def from_files(bench: Bench, source: str, batch: int) -> Seen:
    """Through a stage of encoders whose features go to a file."""
    out = bench.folder / f"features-{batch}.log"
    config = bench.write(f'{source}{ENCODER}[sink]\nplugin = "eventlog"\npath = "{out}"\n')
    run(config, overrides=[f"run.encode_events={batch}"])
    data, place, outputs = out.read_bytes(), 0, []
    while place < len(data):
        frame = next_frame(data, place, final=True)
        outputs.append(EVENTS["msgpack"](frame.payload))
        place = frame.end
    return Seen.of(outputs)


def from_kafka(bench: Bench, payload: str, values: Sequence[bytes], batch: int) -> Seen:
    """Through a stage of encoders between two topics."""
    bench.topic = f"{bench.topic}-{payload}"
    config = bench.make(SOURCE + f'payload = "{payload}"\n' + SINK + ENCODER)
    bench.feed([(0, b"camera", value, ()) for value in values])
    run(config, overrides=[f"run.encode_events={batch}", "source.follow=false"])
    return Seen.of([EVENTS["json"](one.value) for one in bench.broker.read_all(f"{bench.topic}-answers")[0]])


def four_routes(bench: Bench, images: Sequence[bytes], batches: Sequence[int]) -> dict[str, Seen]:
    """All images by every route, each with a batch size of its own."""
    told = [ImageEvent(id=f"{place}", image=memoryview(image)) for place, image in enumerate(images)]
    values = [encode(one, ("msgpack", "json")[place % 2]) for place, one in enumerate(told)]
    speciate("record", bench.folder / "images", "--to", bench.folder / "images.log")
    return {
        "folder": from_files(bench, FOLDER, batches[0]),
        "event log": from_files(bench, RECORDED, batches[1]),
        "Kafka, images": from_kafka(bench, "image", images, batches[2]),
        "Kafka, events": from_kafka(bench, "event", values, batches[3]),
    }
