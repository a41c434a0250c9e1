"""One run: what it leaves, and that it can be done again."""

import json

import numpy as np
import pytest

from benches import METHOD, NEAREST, bench, recipe, write_bench
from speciate.errors import ConfigError, StateDamagedError
from speciate.head import Head
from speciate.plugins import installed
from speciate.replay.recorded import load_recorded
from speciate.replay.running import load_recipe, load_run, load_runs, replay
from speciate.replay.streams import make_stream
from speciate_schemas import DataOptions


def run(folder, one, out="run", moved=lambda _done, _total: None):
    recorded = load_recorded("made", one.benchmark_config, folder, installed())
    return replay(one, recorded, folder / out, installed(), moved), recorded


def test_a_run_decides_as_the_head_does(tmp_path):
    found, recorded = run(write_bench(tmp_path), recipe())
    stream = make_stream(recorded, bench().support, "random", 10, 0)
    names = np.array(recorded.names)
    head = Head.fit(
        recorded.features[stream.support],
        names[recorded.classes[stream.support]],
        density="full",
        policy="dp",
        alpha=1e-3,
    )
    expected = head.process(recorded.features[stream.stream])
    kept = np.load(tmp_path / "run" / "assignments.npy")
    assert kept["category"].tolist() == [one.category for one in expected]
    assert kept["birth"].tolist() == [one.birth for one in expected]
    assert kept["probability"].tolist() == [one.probability for one in expected]
    assert kept["event"].tolist() == stream.stream.tolist()
    assert np.isnan(kept["drift"]).tolist() == [one.drift is None for one in expected]
    assert found.metrics.births == sum(one.birth for one in expected)
    assert found.metrics.held == head.size
    assert found.metrics.strict.all > 0.9, "well separated classes"
    assert found.info.estimated["n0"] > 0


@pytest.mark.parametrize("order", ["recorded", "class-sorted", "random", "bursty"])
def test_the_same_recipe_decides_the_same_whatever_the_batch(tmp_path, order):
    write_bench(tmp_path)
    first, _ = run(tmp_path, recipe(order=order))
    second, _ = run(tmp_path, recipe(order=order, batch=5), out="again")
    assert first.info.decisions_sha256 == second.info.decisions_sha256
    assert first.info.data_sha256 == second.info.data_sha256
    assert first.metrics.strict == second.metrics.strict


def test_other_seeds_have_other_decisions(tmp_path):
    write_bench(tmp_path)
    first, _ = run(tmp_path, recipe())
    second, _ = run(tmp_path, recipe(seed=1))
    assert first.info.decisions_sha256 != second.info.decisions_sha256


def test_a_run_is_read_back_as_it_was(tmp_path):
    found, _ = run(write_bench(tmp_path), recipe())
    assert load_run(tmp_path / "run") == found
    assert load_recipe(tmp_path / "run") == recipe()
    assert load_runs(tmp_path) == [found]


def test_progress_ends_at_the_end(tmp_path):
    seen = []
    run(write_bench(tmp_path), recipe(), moved=lambda done, total: seen.append((done, total)))
    assert seen[-1][0] == seen[-1][1] == 42
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)


def test_groups_are_reported_by_the_one_match(tmp_path):
    data = DataOptions(features="made-*.npz", group_key="domain")
    found, _ = run(write_bench(tmp_path), recipe(benchmark_config=bench(data=data)))
    assert set(found.metrics.groups) == {"real", "sketch"}


def test_a_run_that_did_not_finish_is_no_run(tmp_path):
    write_bench(tmp_path)
    one = recipe()
    with np.load(tmp_path / "made-features.npz") as file:
        arrays = dict(file)
    arrays["features"][59] = 1e200
    np.savez(tmp_path / "made-features.npz", **arrays)
    with pytest.raises(ConfigError, match=r"an event between .* of the stream: event .* too far out"):
        run(tmp_path, one)
    with pytest.raises(ConfigError, match=r"holds no run: cannot read run.json"):
        load_run(tmp_path / "run")
    with pytest.raises(ConfigError, match="holds no run"):
        load_runs(tmp_path / "run")


def test_a_damaged_run_is_told(tmp_path):
    run(write_bench(tmp_path), recipe())
    text = json.loads((tmp_path / "run" / "run.json").read_text())
    del text["metrics"]
    (tmp_path / "run" / "run.json").write_text(json.dumps(text))
    with pytest.raises(StateDamagedError, match=r"run.json is not what this version writes"):
        load_run(tmp_path / "run")


def test_any_density_and_policy_can_be_replayed(tmp_path):
    found, _ = run(write_bench(tmp_path), recipe(method_config=NEAREST, method="nearest"))
    assert found.info.method_title == "Nearest"
    assert found.info.tuned == {"alpha": 1.0, "prior": "dp"}


def test_an_unknown_plugin_is_named(tmp_path):
    wrong = METHOD.__class__(title="x", density={"plugin": "ful"}, policy={"plugin": "dp"})
    with pytest.raises(Exception, match=r"\[method full: density\] unknown density 'ful': did you mean 'full'"):
        run(write_bench(tmp_path), recipe(method_config=wrong))
