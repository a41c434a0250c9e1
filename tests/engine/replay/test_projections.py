"""Categories in planes of their own."""

import numpy as np

from benches import NEAREST, recipe, write_bench
from speciate.plugins import installed
from speciate.replay.projections import projections
from speciate.replay.recorded import load_recorded
from speciate.replay.running import replay
from speciate.replay.streams import make_stream


def drawn(folder, one):
    recorded = load_recorded("made", one.benchmark_config, folder, installed())
    run = replay(one, recorded, folder / "run", installed(), lambda _done, _total: None)
    return projections(one, run, recorded, folder / "run"), recorded, run


def test_the_largest_known_and_born_categories_are_drawn_with_all_their_events(tmp_path):
    one = recipe()
    found, recorded, run = drawn(write_bench(tmp_path), one)
    kept = np.load(tmp_path / "run" / "assignments.npy")
    stream = make_stream(recorded, one.benchmark_config.support, one.order, 10, one.seed)
    assert [category.title for category in found if category.support] == sorted(
        (category.title for category in found if category.support),
        key=lambda name: -np.count_nonzero(kept["category"] == recorded.names.index(name)),
    )
    for category in found:
        assert np.shape(category.within) == (2, 2)
        assert np.linalg.eigvalsh(category.within)[0] > 0
        assert np.allclose(np.mean(category.points, axis=0), 0.0), "the plane goes through the mean"
        assert category.kappa0 == run.info.estimated["kappa0"]
    known = found[0]
    number = recorded.names.index(known.title)
    assert known.support == np.count_nonzero(recorded.classes[stream.support] == number)
    assert len(known.points) == known.support + np.count_nonzero(kept["category"] == number)
    assert any(not category.support and "born" in category.title for category in found)


def test_the_plane_holds_the_most_variance(tmp_path):
    found, recorded, _ = drawn(write_bench(tmp_path), recipe())
    kept = np.load(tmp_path / "run" / "assignments.npy")
    born = next(category for category in found if not category.support)
    number = int(born.title.split(",")[0].removeprefix("category "))
    own = recorded.features[kept["event"][kept["category"] == number]]
    values = np.linalg.svd(own - own.mean(axis=0), compute_uv=False)
    np.testing.assert_allclose(np.linalg.svd(born.points, compute_uv=False), values[:2])


def test_a_method_without_a_prior_has_nothing_to_draw(tmp_path):
    found, _, _ = drawn(write_bench(tmp_path), recipe(method_config=NEAREST))
    assert found == []
