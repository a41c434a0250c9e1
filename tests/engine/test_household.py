"""The household: the head is fitted once, and every task begins with it and then goes its own way."""

import asyncio
from contextlib import nullcontext
from dataclasses import replace

import pytest
from worlds import CENTRES, bits, feature, make_head, make_tree, record, write_images

from speciate.config import parse, resolve
from speciate.errors import BundleError, SupportError
from speciate.fitting import fit
from speciate.household import Household
from speciate.plugins import installed
from speciate_schemas import FitConfig, Tally


def locate(sequence):
    return f"dead#{sequence}"


def resolved(tree):
    return resolve(parse(tree), installed())


def counted(resolution, section):
    """How often a section's stage is made."""
    made = []
    chosen = resolution.sections[section]

    def create(options):
        made.append(options)
        return chosen.provider.create(options)

    resolution.sections[section] = replace(chosen, provider=replace(chosen.provider, create=create, create_at=None))
    return made


async def test_the_head_is_fitted_once_however_many_tasks_begin_at_once(tmp_path):
    resolution = resolved(make_tree(tmp_path))
    read = counted(resolution, "support")
    home = Household(resolution, installed())
    tasks = await asyncio.gather(*[home.new_task(locate) for _ in range(5)])
    assert len(read) == 1
    fitted = bits(make_head().state())
    assert all(bits(task.universe.head.state()) == fitted for task in tasks)
    assert bits(await home.fitted()) == fitted


async def test_tasks_go_their_own_ways(tmp_path):
    home = Household(resolved(make_tree(tmp_path)), installed())
    one, other = await home.new_task(locate), await home.new_task(locate)
    before = bits(other.state())
    one.fold([record(n, feature(n, CENTRES[n])) for n in range(5)])
    assert bits(other.state()) == before
    assert bits((await home.new_task(locate)).state()) == before


@pytest.mark.parametrize("universe", ["partition", "stream", "shared"])
async def test_a_restored_task_is_the_one_whose_state_it_was(tmp_path, universe):
    home = Household(resolved(make_tree(tmp_path, run={"universe": universe})), installed())
    task = await home.new_task(locate)
    task.fold([record(n, feature(n, CENTRES[n], stream=f"s{n % 2}")) for n in range(5)])
    assert len(task.state().streams) == (2 if universe == "stream" else 0)
    again = await home.restored_task(task.state(), task.tally, locate)
    assert bits(again.state()) == bits(task.state())
    assert again.tally == task.tally == Tally(assigned=5, births=task.tally.births)
    more = [record(5 + n, feature(5 + n, CENTRES[n], stream=f"s{n}")) for n in range(3)]
    assert [bits(one.answer) for one in again.fold(more)] == [bits(one.answer) for one in task.fold(more)]


async def test_a_failure_to_fit_is_not_kept(tmp_path):
    """Whoever comes next may find the support set mended."""
    tree = make_tree(tmp_path)
    support = tmp_path / "support.npz"
    whole = support.read_bytes()
    home = Household(resolved(tree), installed())
    import numpy as np

    np.savez(support, features=np.zeros((0, 3)), labels=np.zeros(0, dtype=str))
    with pytest.raises(SupportError):
        await home.new_task(locate)
    support.write_bytes(whole)
    assert (await home.new_task(locate)).universe.size == 2


async def test_one_encoder_serves_the_support_set_and_all_tasks(tmp_path):
    write_images(tmp_path / "known", 8)
    support = {"plugin": "images", "paths": [str(tmp_path / "known")]}
    resolution = resolved(make_tree(tmp_path, support=support, encoder={"plugin": "thumbnail", "size": 3}))
    made = counted(resolution, "encoder")
    home = Household(resolution, installed())
    task = await home.new_task(locate)
    assert len(made) == 1
    assert task.universe.head.dimension == home.encoder.dimension


async def with_model(tmp_path, encoder):
    """A configuration with a model of images, and what the model was fitted from."""
    write_images(tmp_path / "known", 8)
    tree = make_tree(
        tmp_path, support={"plugin": "images", "paths": [str(tmp_path / "known")]}, encoder={"plugin": encoder}
    )
    sections = {name: tree.pop(name) for name in ("support", "encoder", "density", "policy")}
    await fit(FitConfig(**sections), tmp_path / "model", installed(), lambda _: nullcontext(lambda *_: None))
    return {**tree, "model": {"path": str(tmp_path / "model")}}, {**tree, **sections}


async def test_a_model_has_the_head_and_the_encoder_that_would_be_fitted(tmp_path):
    model, sections = await with_model(tmp_path, "thumbnail")
    home, other = Household(resolved(model), installed()), Household(resolved(sections), installed())
    assert bits(await home.fitted()) == bits(await other.fitted())
    one, two = await home.new_task(locate), await other.new_task(locate)
    assert bits(one.state()) == bits(two.state())
    assert home.encoder.dimension == one.universe.head.dimension == 256


async def test_an_encoder_that_does_not_fit_its_model_is_told_before_anything_is_read(tmp_path):
    """Whatever the manifest says, an encoder may have changed since: another version, another file."""
    model, _ = await with_model(tmp_path, "thumbnail")
    home = Household(resolved(model), installed())
    home.encoder._encoder.dimension = 255
    for begin in (home.load_encoder(), home.new_task(locate)):
        with pytest.raises(BundleError, match="gives 255 features, its head takes 256"):
            await begin


def test_nothing_is_encoded_without_an_encoder(tmp_path):
    assert Household(resolved(make_tree(tmp_path)), installed()).encoder is None
