"""Pipelines with a model decide exactly as those that fit their head themselves, however often they are stopped."""

import contextlib
import shutil
from pathlib import Path

import pytest
from test_fitting import Shown
from worlds import Fuse, PowerError, fused_pipeline, make_pipeline, make_tree, outputs, with_trouble, write_images

from speciate.config import FOLD_SECTIONS
from speciate.errors import BundleError, StateMismatchError
from speciate.fitting import fit
from speciate.plugins import installed
from speciate_schemas import FitConfig

EVENTS = with_trouble(130)
THUMBNAIL = {"plugin": "thumbnail", "size": 3}


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """Relative paths, so that two runs in two folders can be compared byte for byte."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def of_features(**changes):
    return make_tree(Path(), EVENTS, **changes)


def of_images():
    for name, count in (("known", 12), ("live", 50)):
        write_images(Path(name), count)
    (Path("live") / "dark" / "020.png").write_bytes(b"no image")
    return make_tree(
        Path(),
        source={"plugin": "images", "paths": ["live"]},
        support={"plugin": "images", "paths": ["known"]},
        encoder=THUMBNAIL,
    )


async def with_model(tree, path="model"):
    """The same pipeline with a model in place of the sections it was fitted from."""
    sections = {name: tree[name] for name in FOLD_SECTIONS if name in tree}
    await fit(FitConfig(**sections), Path(path), installed(), Shown())
    rest = {name: section for name, section in tree.items() if name not in sections}
    return {**rest, "model": {"path": path}}


def answers(folder):
    return {name: data for name, data in outputs(folder).items() if not name.startswith("state/")}


@pytest.mark.parametrize("make", [of_features, of_images])
async def test_the_answers_are_the_same_byte_for_byte(folder, make):
    tree = make()
    await make_pipeline(tree).run()
    expected = answers(folder)
    shutil.rmtree("out")
    report = await make_pipeline(await with_model(tree)).run()
    assert answers(folder) == expected
    assert report.status.answered == len(expected["answers.jsonl"].splitlines()) >= 50


async def test_the_policy_may_be_tuned_when_the_model_is_fitted(folder):
    tree = of_features(policy={"plugin": "dp", "alpha": "auto"})
    await make_pipeline(tree).run()
    expected = answers(folder)
    shutil.rmtree("out")
    await make_pipeline(await with_model(tree)).run()
    assert answers(folder) == expected


@pytest.mark.parametrize("make", [of_features, of_images])
@pytest.mark.parametrize("behind", [False, True], ids=["before", "behind"])
async def test_stopped_anywhere_it_ends_as_if_nothing_had_happened(folder, make, behind):
    tree = await with_model(make())
    await make_pipeline(tree).run()
    expected = outputs(folder)
    fuse = Fuse()
    shutil.rmtree("out")
    await fused_pipeline(tree, fuse).run()
    blown = 0
    for at in range(0, len(fuse.calls), 4):
        shutil.rmtree("out")
        # Images make batches as they come: another run may be done in fewer calls than the one that was counted.
        with contextlib.suppress(PowerError):
            await fused_pipeline(tree, Fuse(at, behind=behind)).run()
            break
        blown += 1
        await make_pipeline(tree).run()
        assert outputs(folder) == expected, f"stopped at {at}"
    assert blown >= 2


async def stopped(tree):
    with pytest.raises(PowerError):
        await fused_pipeline(tree, Fuse(20)).run()


async def test_another_model_is_another_state(folder):
    tree = await with_model(of_features())
    other = await with_model(of_features(policy={"alpha": 0.5}), "other")
    await stopped(tree)
    before = outputs(folder)
    with pytest.raises(StateMismatchError, match=r"model\.fingerprint"):
        await make_pipeline(other).run()
    assert outputs(folder) == before


@pytest.mark.parametrize("first", ["sections", "model"])
async def test_a_model_and_sections_are_not_the_same_state(folder, first):
    plain = of_features()
    model = await with_model(plain)
    one, other = (plain, model) if first == "sections" else (model, plain)
    await stopped(one)
    with pytest.raises(StateMismatchError, match="the state was made with"):
        await make_pipeline(other).run()


async def test_a_model_that_was_moved_is_the_same_model(folder):
    tree = await with_model(of_images())
    await make_pipeline(tree).run()
    expected = outputs(folder)
    shutil.rmtree("out")
    await stopped(tree)
    shutil.move("model", "elsewhere")
    report = await make_pipeline({**tree, "model": {"path": str(folder / "elsewhere")}}).run()
    assert report.resumed_at > 0
    assert outputs(folder) == expected


async def test_a_model_that_was_damaged_since_is_refused_and_nothing_touched(folder):
    tree = await with_model(of_features())
    await stopped(tree)
    before = outputs(folder)
    (folder / "model" / "head.state").write_bytes(b"")
    with pytest.raises(BundleError, match=r"head\.state has 0 bytes"):
        make_pipeline(tree)
    assert outputs(folder) == before
