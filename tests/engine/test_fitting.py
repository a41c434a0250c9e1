"""Fitting: what comes out does not depend on how often it was stopped, and whatever cannot be fitted is named."""

import asyncio
import contextlib
import itertools
import json
import shutil
from pathlib import Path

import msgspec
import numpy as np
import pytest
from trainees import KNOWN, POWER, SIZE, with_trainee, write_photos
from worlds import PowerError, bits, event_log, json_lines, make_head, support, write_images, write_support

from speciate import bundle as bundles
from speciate import fitting, workplace
from speciate.bundle import Bundle
from speciate.errors import ConfigError, PluginError, StateLockedError, SupportError
from speciate.head import Head
from speciate.plugins import Plugins, _discover
from speciate_schemas import Array, FeatureEvent, FitConfig, ImageEvent

PHOTOS = 70
"""More than two batches."""
TRAINEE = {"plugin": "trainee", "gain": 2.0}
PLUGINS = with_trainee()


class Shown:
    """Remembers what a fit said of itself."""

    def __init__(self):
        self.told = []

    @contextlib.contextmanager
    def __call__(self, name):
        yield lambda *one: self.told.append((name, *one))


@pytest.fixture(autouse=True)
def power():
    yield POWER
    POWER.restore()


@pytest.fixture
def photos(tmp_path):
    return write_photos(tmp_path / "photos", PHOTOS)


def config(paths, plugin="images", **sections):
    return FitConfig(
        support={"plugin": plugin, "paths": [str(paths)]},
        density={"plugin": "nearest-mean"},
        policy={"plugin": "dp", "alpha": 1e-2},
        **sections,
    )


async def fit(what, out, plugins=PLUGINS, phase=None):
    return await fitting.fit(what, out, plugins, phase or Shown())


def text_of(path):
    return Path(path).read_text()


async def test_features_become_the_head_that_a_pipeline_would_fit(tmp_path):
    written = await fit(config(write_support(tmp_path), "npz"), tmp_path / "m")
    bundle = Bundle.load(tmp_path / "m")
    assert bundle.manifest == written
    assert bits(bundle.head_state()) == bits(make_head().state())
    assert (written.encoder, written.encoder_files, written.dimension) == (None, {}, 3)
    card = written.card
    assert (card.support.events, card.support.classes) == (8, {"a": 4, "b": 4})
    assert (card.training, card.estimated_frozen) == (None, {})
    assert card.support.source["plugin"] == "npz"
    assert set(written.plugins) == {"density.nearest-mean", "policy.dp"}
    assert {"python", "numpy", "scipy", "speciate"} <= set(card.versions)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m", "support.npz"]


async def test_features_in_any_form_are_one_model(tmp_path):
    features, labels = support()
    events = [
        FeatureEvent(id=str(n), features=Array.of(vector), label=label)
        for n, (vector, label) in enumerate(zip(features, labels, strict=True))
    ]
    (tmp_path / "f.jsonl").write_bytes(json_lines(events))
    (tmp_path / "f.log").write_bytes(event_log(events))
    paths = {"npz": write_support(tmp_path), "jsonl": tmp_path / "f.jsonl", "eventlog": tmp_path / "f.log"}
    made = [await fit(config(path, plugin), tmp_path / f"m-{plugin}") for plugin, path in paths.items()]
    assert len({one.fingerprint for one in made}) == 1
    assert made[1].card.support.sha256 == made[2].card.support.sha256


async def test_whoever_has_features_needs_no_encoder_even_a_missing_one(tmp_path):
    path = write_support(tmp_path)
    without = Plugins([entry for entry in _discover() if not entry.name.startswith("encoder.")])
    sections = {"encoder": {"plugin": "timm", "model": "x"}, "training": {"epochs": 3}}
    written = await fit(config(path, "npz", **sections), tmp_path / "m", without)
    assert written.encoder is None
    write_photos(tmp_path / "photos", 4)
    with pytest.raises(PluginError, match="unknown encoder 'timm'"):
        await fit(config(tmp_path / "photos", **sections), tmp_path / "n", without)


async def test_images_go_through_an_encoder_that_cannot_be_trained(tmp_path):
    write_images(tmp_path / "images", 40)
    shown = Shown()
    encoder = {"plugin": "thumbnail", "size": 3}
    written = await fit(config(tmp_path / "images", encoder=encoder), tmp_path / "m", phase=shown)
    assert written.encoder["plugin"] == "thumbnail"
    assert (written.dimension, written.encoder["size"], written.encoder_files) == (9, 3, {})
    assert written.card.support.classes == {"dark": 20, "light": 20}
    assert [one[:3] for one in shown.told if one[0] == "taking in"] == [("taking in", 32, 40), ("taking in", 40, 40)]
    assert ("calibrating", 1, 1, "dp") in shown.told


async def test_a_training_goes_into_the_bundle_with_what_it_changed(tmp_path, photos):
    shown = Shown()
    written = await fit(config(photos, encoder=TRAINEE, training={"epochs": 2}), tmp_path / "m", phase=shown)
    report = written.card.training
    assert (len(report.epochs), report.options) == (2, {"epochs": 2})
    assert [one[1:] for one in shown.told if one[0] == "training"] == [(1, 2, "trained"), (2, 2, "trained")]
    section = Bundle.load(tmp_path / "m").encoder_section()
    scale = json.loads(text_of(section["scale"]))
    assert scale == report.epochs[-1].loss
    # The head is fitted to what the encoder of the bundle gives.
    images = np.stack(
        [np.frombuffer(path.read_bytes(), np.uint8) for name in KNOWN for path in sorted((photos / name).iterdir())]
    )
    trained = images.astype(np.float32) * np.float32(2.0 * scale)
    labels = [name for name in KNOWN for _ in range(PHOTOS // 2)]
    head = Head.fit(trained, labels, density="nearest-mean", policy="dp", alpha=1e-2)
    assert bits(Bundle.load(tmp_path / "m").head_state()) == bits(head.state())


async def test_the_estimates_of_before_are_those_of_an_untrained_encoder(tmp_path, photos):
    full = {"density": {"plugin": "full"}}
    trained = msgspec.structs.replace(config(photos, encoder=TRAINEE, training={}), **full)
    frozen = msgspec.structs.replace(config(photos, encoder=TRAINEE), **full)
    one, other = await fit(trained, tmp_path / "m"), await fit(frozen, tmp_path / "n")
    assert one.card.estimated_frozen == other.card.estimated
    assert one.card.estimated != other.card.estimated
    assert (other.card.estimated_frozen, other.card.training) == ({}, None)
    assert other.encoder_files.keys() == {"scale"}, "a trainer saves what it did not train, too"


async def test_the_encoders_own_files_come_along(tmp_path, photos):
    (tmp_path / "offset.txt").write_text("5.0")
    encoder = {**TRAINEE, "offset": str(tmp_path / "offset.txt")}
    written = await fit(config(photos, encoder=encoder, training={}), tmp_path / "m")
    assert written.encoder_files.keys() == {"scale", "offset"}
    assert written.encoder == TRAINEE
    (tmp_path / "offset.txt").unlink()
    assert text_of(Bundle.load(tmp_path / "m").encoder_section()["offset"]) == "5.0"


def files_of(path):
    """All of a bundle that its fingerprint speaks for."""
    return {name: (path / name).read_bytes() for name in Bundle.load(path).manifest.files}


class Blown:
    """Cuts the power off at one of all the things that a fit makes last, before it or behind it."""

    def __init__(self, monkeypatch, at, *, behind):
        self.calls = 0
        self._at, self._behind = at, behind
        for module, name in (
            (workplace, "write_atomically"),
            (workplace, "sync_file"),
            (workplace, "make_directory"),
            (bundles, "make_directory"),
            (bundles, "sync_file"),
            (bundles, "fsync_directory"),
        ):
            monkeypatch.setattr(module, name, self._around(getattr(module, name)))
        POWER.cut = lambda _: self._around(lambda: None)()

    def _around(self, real):
        def call(*args):
            number, self.calls = self.calls, self.calls + 1
            if number == self._at and not self._behind:
                raise PowerError
            real(*args)
            if number == self._at:
                raise PowerError

        return call


async def crash(what, out, monkeypatch, at, *, behind):
    """Fit until the power is cut off; False if it came to its end before."""
    with monkeypatch.context() as patch:
        Blown(patch, at, behind=behind)
        try:
            await fit(what, out)
        except PowerError:
            return True
        finally:
            POWER.restore()
    return False


@pytest.mark.parametrize("behind", [False, True], ids=["before", "behind"])
async def test_cut_off_at_any_point_it_ends_as_if_nothing_had_happened(tmp_path, photos, monkeypatch, behind):
    what = config(photos, encoder=TRAINEE, training={})
    expected = await fit(what, tmp_path / "undisturbed")
    for at in itertools.count():
        out = tmp_path / f"m{at}"
        if not await crash(what, out, monkeypatch, at, behind=behind):
            break
        if not out.exists():
            await fit(what, out)
            assert not (tmp_path / f"m{at}.part").exists()
        assert Bundle.load(out).manifest.fingerprint == expected.fingerprint, f"cut off at {at}"
        assert files_of(out) == files_of(tmp_path / "undisturbed")
        shutil.rmtree(out)
    assert at >= 25


async def test_what_was_done_is_not_done_again(tmp_path, photos):
    what = config(photos, encoder=TRAINEE, training={})

    def cut(name):
        if name == "trained":
            raise PowerError

    for attempt, doing in enumerate((["observe 32", "observed"] * 2 + ["observe 6", "observed"], [], [])):
        POWER.restore()
        POWER.cut = cut
        with pytest.raises(PowerError):
            await fit(what, tmp_path / "m")
        assert POWER.told == [*doing, "epoch", "trained"], attempt
    POWER.restore()
    written = await fit(what, tmp_path / "m")
    assert POWER.told == ["save"]
    assert len(written.card.training.epochs) == 3


async def stopped_after(what, out, name):
    """A fit that was cut off right behind something."""

    def cut(told):
        if told == name:
            raise PowerError

    POWER.cut = cut
    with pytest.raises(PowerError):
        await fit(what, out)
    POWER.restore()


CHANGES = {
    "image": lambda photos: (photos / "light" / "033.png").write_bytes(b"abc"),
    "label": lambda photos: (photos / "dark" / "000.png").rename(photos / "light" / "000.png"),
    "image removed": lambda photos: (photos / "dark" / "000.png").unlink(),
    "last image removed": lambda photos: (photos / "light" / f"{PHOTOS - 1:03d}.png").unlink(),
}


@pytest.mark.parametrize("change", CHANGES)
async def test_other_images_start_over(tmp_path, photos, change):
    what = config(photos, encoder=TRAINEE, training={})
    await stopped_after(what, tmp_path / "m", "trained")
    CHANGES[change](photos)
    written = await fit(what, tmp_path / "m")
    assert POWER.told[0] == "observe 32"
    assert written.fingerprint == (await fit(what, tmp_path / "n")).fingerprint


OPTIONS = {
    "encoder": {"encoder": {**TRAINEE, "gain": 3.0}, "training": {}},
    "training": {"encoder": TRAINEE, "training": {"epochs": 4}},
    "frozen": {"encoder": TRAINEE},
}


@pytest.mark.parametrize("change", OPTIONS)
async def test_other_options_start_over(tmp_path, photos, change):
    await stopped_after(config(photos, encoder=TRAINEE, training={}), tmp_path / "m", "trained")
    what = config(photos, **OPTIONS[change])
    written = await fit(what, tmp_path / "m")
    assert POWER.told[0] == "observe 32"
    assert written.fingerprint == (await fit(what, tmp_path / "n")).fingerprint


async def test_another_head_needs_no_other_features(tmp_path, photos):
    what = config(photos, encoder=TRAINEE, training={})
    await stopped_after(what, tmp_path / "m", "trained")
    await fit(msgspec.structs.replace(what, policy={"plugin": "dp", "alpha": 0.5}), tmp_path / "m")
    assert POWER.told == ["epoch", "trained"] * 2 + ["save"]


async def test_more_images_are_added_to_those_there_are(tmp_path, photos):
    what = config(photos, encoder=TRAINEE, training={})
    await stopped_after(what, tmp_path / "m", "observed")
    for number in range(3):
        (photos / "light" / f"z{number}.png").write_bytes(bytes([99, number, 0]))
    written = await fit(what, tmp_path / "m")
    assert POWER.told[0] != "observed"
    assert sum(int(told.split()[1]) for told in POWER.told if told.startswith("observe ")) == PHOTOS + 3 - 32
    assert written.fingerprint == (await fit(what, tmp_path / "n")).fingerprint


async def test_two_at_once_are_refused_and_the_first_is_not_disturbed(tmp_path, photos):
    what = config(photos, encoder=TRAINEE, training={})
    loop, refused = asyncio.get_running_loop(), []

    def meanwhile(name):
        if name == "save":
            refused.append(asyncio.run_coroutine_threadsafe(fit(what, tmp_path / "m"), loop).exception(60))

    POWER.cut = meanwhile
    written = await fit(what, tmp_path / "m")
    assert [type(error) for error in refused] == [StateLockedError]
    assert str(tmp_path / "m.part") in str(refused[0])
    assert Bundle.load(tmp_path / "m").manifest == written


async def test_nothing_is_written_over_and_nothing_done_in_vain(tmp_path, photos):
    (tmp_path / "m").mkdir()
    with pytest.raises(ConfigError, match="exists: choose another path"):
        await fit(config(photos, encoder=TRAINEE), tmp_path / "m")
    assert POWER.told == []
    assert not (tmp_path / "m.part").exists()


async def test_a_corrupt_image_is_named_and_the_rest_is_kept(tmp_path, photos):
    what = config(photos, encoder=TRAINEE, training={})
    broken = photos / "light" / "069.png"
    whole = broken.read_bytes()
    broken.write_bytes(b"no image")
    with pytest.raises(SupportError, match=f"{broken} of the support set cannot be used: .* {SIZE} bytes, not 8"):
        await fit(what, tmp_path / "m")
    assert not (tmp_path / "m").exists()
    broken.write_bytes(whole)
    POWER.restore()
    await fit(what, tmp_path / "m")
    assert POWER.told[0] == "observe 6"


@pytest.mark.parametrize("first", [True, False], ids=["first", "later"])
@pytest.mark.parametrize("kind", ["no JSON", "no label", "image"])
async def test_an_event_that_cannot_be_used_is_named_wherever_it_is(tmp_path, first, kind):
    events = [FeatureEvent(id=str(n), features=[float(n), 0.0], label="ab"[n % 2]) for n in range(6)]
    bad = {
        "no JSON": b"{ nothing",
        "no label": FeatureEvent(id="x", features=[1.0, 2.0]),
        "image": ImageEvent(id="x", image=memoryview(b"abc"), label="a"),
    }[kind]
    path = tmp_path / "f.jsonl"
    path.write_bytes(json_lines([bad, *events] if first else [*events, bad]))
    with pytest.raises(SupportError) as caught:
        await fit(config(path, "jsonl", encoder=TRAINEE), tmp_path / "m")
    place = path.read_bytes().index(b"nothing" if kind == "no JSON" else b'"x"')
    line = path.read_bytes().count(b"\n", 0, place)
    odd = line + 1 if kind == "image" and first else line
    start = sum(len(one) + 1 for one in path.read_bytes().split(b"\n")[:odd])
    assert str(caught.value).startswith(f"f.jsonl@{start}"), "the first that does not fit"


async def test_an_empty_support_set_is_told_without_any_encoder(tmp_path):
    (tmp_path / "f.jsonl").write_bytes(b"")
    with pytest.raises(SupportError, match="the support set is empty"):
        await fit(config(tmp_path / "f.jsonl", "jsonl", encoder={"plugin": "nothing"}), tmp_path / "m")


async def test_images_without_an_encoder_are_told(tmp_path, photos):
    with pytest.raises(SupportError, match=r"is an image: \[encoder\] must say how to read it"):
        await fit(config(photos), tmp_path / "m")


@pytest.mark.parametrize(
    ("sections", "message"),
    [
        ({"encoder": {"plugin": "thumbnail"}, "training": {}}, "encoder 'thumbnail' cannot be trained: leave out"),
        ({"training": {}}, r"there is \[training\] but no \[encoder\]"),
        ({"encoder": TRAINEE, "training": {"epoch": 3}}, r"\[training\] .*'epoch': did you mean 'epochs'"),
        ({"encoder": {**TRAINEE, "gian": 1}}, r"\[encoder\] .*'gian': did you mean 'gain'"),
    ],
)
async def test_mistakes_are_told_before_anything_is_done(tmp_path, photos, sections, message):
    with pytest.raises(ConfigError, match=message):
        await fit(config(photos, **sections), tmp_path / "m")
    assert POWER.told == []
    assert not (tmp_path / "m.part").exists()


async def test_what_can_be_read_only_once_is_refused(tmp_path):
    what = msgspec.structs.replace(config(tmp_path), support={"plugin": "stdin"})
    with pytest.raises(ConfigError, match="record it with `speciate record`"):
        await fit(what, tmp_path / "m")
