"""A model in a program: the same decisions as a pipeline's, and clear words where it cannot."""

import asyncio
from contextlib import contextmanager

import numpy as np
import pytest
from worlds import write_images

import speciate
from speciate.errors import BundleError, ConfigError, EncodeError
from speciate.fitting import fit
from speciate.plugins import installed
from speciate_schemas import FitConfig


@contextmanager
def silent(_):
    yield lambda *_: None


def fitted(folder, **changes):
    given = {
        "support": {"plugin": "images", "paths": [str(folder / "known")]},
        "encoder": {"plugin": "thumbnail", "size": 3},
        "density": {"plugin": "full"},
        "policy": {"plugin": "dp", "alpha": 1e-3},
    } | changes
    asyncio.run(fit(FitConfig(**given), folder / "model", installed(), silent))
    return folder / "model"


@pytest.fixture
def photographs(tmp_path):
    write_images(tmp_path / "known", 8)
    write_images(tmp_path / "images", 70)
    return [path.read_bytes() for path in sorted((tmp_path / "images").rglob("*.png"))]


def test_it_decides_as_a_pipeline_does(tmp_path, photographs):
    path = fitted(tmp_path)
    decisions = speciate.Model.load(path).decide(photographs)
    tree = {
        "model": {"path": str(path)},
        "source": {"plugin": "images", "paths": [str(tmp_path / "images")]},
        "sink": {"plugin": "jsonl", "path": str(tmp_path / "out.jsonl")},
        "dead_letters": {"plugin": "eventlog", "path": str(tmp_path / "dead.log")},
        "store": {"plugin": "directory", "path": str(tmp_path / "state")},
    }
    report = speciate.run(tree)
    assert report.status.tally.assigned == 70
    answers = (tmp_path / "out.jsonl").read_text().splitlines()
    assert [f'"category":{one.category},' in line for one, line in zip(decisions, answers, strict=True)] == [True] * 70
    assert {one.label for one in decisions} >= {"dark", "light"}


def test_features_are_those_of_the_encoder_in_order_whatever_their_number(tmp_path, photographs):
    model = speciate.Model.load(fitted(tmp_path))
    features = model.features(photographs)
    assert features.shape == (70, 9)
    np.testing.assert_array_equal(features[33], model.features([photographs[33]])[0])
    assert model.features([]).shape == (0, 9)


def test_the_image_that_cannot_be_used_is_named(tmp_path, photographs):
    model = speciate.Model.load(fitted(tmp_path))
    before = model.head.version
    with pytest.raises(EncodeError, match="image 2: the image has no bytes"):
        model.decide([*photographs[:2], b"", *photographs[3:]])
    assert model.head.version == before, "nothing is learnt from a part"


def test_a_model_of_features_has_no_eyes(tmp_path):
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "f.npz", features=rng.normal(size=(20, 3)), labels=np.array(["a", "b"] * 10))
    model = speciate.Model.load(fitted(tmp_path, support={"plugin": "npz", "paths": [str(tmp_path / "f.npz")]}))
    with pytest.raises(ConfigError, match="has no encoder"):
        model.features([b"x"])
    assert model.head.step(np.zeros(3)).category >= 0


def test_a_damaged_model_is_refused(tmp_path, photographs):
    path = fitted(tmp_path)
    (path / "head.state").write_bytes(b"x")
    with pytest.raises(BundleError, match=r"head\.state"):
        speciate.Model.load(path)
