"""Many runs: planned, done in parallel, interrupted and gone on with."""

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections import Counter

import numpy as np
import psutil
import pytest

from benches import write_bench
from speciate.catalogue import load
from speciate.errors import ConfigError
from speciate.plugins import installed
from speciate.replay.comparing import compare, finished, plan
from speciate.replay.recorded import load_recorded
from speciate.trees import checked
from speciate_schemas import BenchmarkConfig, ComparisonConfig

OPTIONS = ("--data", "data", "--out", "out", "--jobs", "2")
BENCH = """
title = "Made"
[data]
features = "made-*.npz"
[known]
first = 3
"""
METHOD = """
title = "{title}"
[density]
plugin = "{density}"
[policy]
plugin = "dp"
alpha = 1.0
"""


@pytest.fixture
def folder(tmp_path):
    write_bench(tmp_path / "data")
    (tmp_path / "made.toml").write_text(BENCH)
    for name in ("full", "nearest-mean"):
        (tmp_path / f"{name}.toml").write_text(METHOD.format(title=name, density=name))
    return tmp_path


def comparison(**changes):
    given = {"benchmarks": ["made.toml"], "methods": ["full.toml", "nearest-mean.toml"], "seeds": [0, 1]}
    return checked(given | changes, ComparisonConfig, "test")


def test_every_method_meets_every_order_and_seed(folder):
    jobs = plan(comparison(orders=["random", "bursty"]), folder / "out", folder)
    assert len({job.folder for job in jobs}) == len(jobs) == 8
    assert {(job.recipe.method, job.recipe.order, job.recipe.seed) for job in jobs} == {
        (method, order, seed)
        for method in ("full", "nearest-mean")
        for order in ("random", "bursty")
        for seed in (0, 1)
    }


def test_a_sweep_goes_through_every_combination(folder):
    swept = {"policy.alpha": [1e-9, "auto"], "density.n_cap": [5, 50]}
    jobs = plan(comparison(methods=["full.toml"], seeds=[0], sweep=swept), folder / "out", folder)
    names = {job.recipe.method: job.recipe.method_config for job in jobs}
    assert set(names) == {
        "full[alpha=1e-09,n_cap=5]",
        "full[alpha=1e-09,n_cap=50]",
        "full[alpha=auto,n_cap=5]",
        "full[alpha=auto,n_cap=50]",
    }
    one = names["full[alpha=auto,n_cap=5]"]
    assert one.policy == {"plugin": "dp", "alpha": "auto"}
    assert one.density == {"plugin": "full", "n_cap": 5}
    assert one.title == "full, alpha=auto,n_cap=5"


def test_the_same_name_twice_is_refused(folder):
    with pytest.raises(ConfigError, match="method 'full' is there twice"):
        plan(comparison(methods=["full.toml", "./full.toml"]), folder / "out", folder)


def test_what_is_finished_is_not_done_again(folder):
    jobs = plan(comparison(), folder / "out", folder)
    first = list(compare(jobs[:3], folder / "data", 2))
    assert [outcome.problem for outcome in first] == [None] * 3
    stamps = {job.folder: (job.folder / "run.json").stat().st_mtime_ns for job in jobs[:3]}
    second = list(compare(jobs, folder / "data", 2))
    assert sum(outcome.done_before for outcome in second) == 3
    assert {outcome.job.folder for outcome in second} == {job.folder for job in jobs}
    assert {job.folder: (job.folder / "run.json").stat().st_mtime_ns for job in jobs[:3]} == stamps


def test_a_run_of_another_recipe_is_done_again(folder):
    (job,) = plan(comparison(methods=["full.toml"], seeds=[0]), folder / "out", folder)
    list(compare([job], folder / "data", 1))
    assert finished(job, fingerprint(folder)) is not None
    (folder / "full.toml").write_text(METHOD.format(title="full", density="full").replace("1.0", "2.0"))
    (changed,) = plan(comparison(methods=["full.toml"], seeds=[0]), folder / "out", folder)
    assert changed.folder == job.folder
    assert finished(changed, fingerprint(folder)) is None


def fingerprint(folder):
    config = load("benchmarks", str(folder / "made.toml"), BenchmarkConfig)[1]
    return load_recorded("made", config, folder / "data", installed()).fingerprint


def test_runs_on_other_data_or_without_their_assignments_are_done_again(folder):
    (job,) = plan(comparison(methods=["full.toml"], seeds=[0]), folder / "out", folder)
    (first,) = compare([job], folder / "data", 1)
    (again,) = compare([job], folder / "data", 1)
    assert again.done_before
    with np.load(folder / "data" / "made-features.npz") as file:
        arrays = dict(file)
    arrays["features"][0] += 0.5
    np.savez(folder / "data" / "made-features.npz", **arrays)
    (other,) = compare([job], folder / "data", 1)
    assert not other.done_before
    assert other.run.info.data_sha256 != first.run.info.data_sha256
    (job.folder / "assignments.npy").unlink()
    assert finished(job, fingerprint(folder)) is None


def test_missing_data_is_told_before_anything_runs(folder):
    jobs = plan(comparison(), folder / "out", folder)
    with pytest.raises(ConfigError, match="there is no data folder"):
        list(compare(jobs, folder / "nowhere", 2))
    assert not (folder / "out").exists()


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"seeds": [0, 1, 0]}, "seed 0 is there twice"),
        ({"orders": ["random", "random"]}, "order 'random' is there twice"),
        ({"sweep": {"policy.alpha": [1.0, 1.0]}}, r"method 'full\[alpha=1.0\]' is there twice"),
        ({"sweep": {"policyy.alpha": [1.0]}}, "sweep of full has no key 'policyy': did you mean 'policy'"),
        ({"sweep": {"policy.alpha": []}}, "Expected `array` of length >= 1"),
    ],
)
def test_comparisons_that_make_no_sense_are_refused(folder, changes, reason):
    with pytest.raises(ConfigError, match=reason):
        plan(comparison(**changes), folder / "out", folder)


def test_without_orders_a_benchmark_comes_in_its_own(folder):
    (folder / "made.toml").write_text('order = "bursty"\n' + BENCH)
    assert {job.recipe.order for job in plan(comparison(), folder / "out", folder)} == {"bursty"}


def test_swept_text_stays_inside_the_folder(folder):
    jobs = plan(comparison(methods=["full.toml"], seeds=[0], sweep={"density.dtype": ["../../a/b"]}), folder, folder)
    assert jobs[0].folder.parent.name == "full[dtype=.._.._a_b]"


def test_a_worker_that_is_killed_costs_its_own_runs_alone(folder):
    jobs = plan(comparison(seeds=list(range(6))), folder / "out", folder)
    outcomes = []
    for outcome in compare(jobs, folder / "data", 2):
        outcomes.append(outcome)
        # One that had nothing to do just then costs nobody a run: then another one is killed.
        if len(outcomes) >= 2 and all(one.run is not None for one in outcomes):
            for child in multiprocessing.active_children()[:1]:
                child.kill()
    assert {outcome.job.folder for outcome in outcomes} == {job.folder for job in jobs}
    failed = [outcome for outcome in outcomes if outcome.run is None]
    assert 1 <= len(failed) <= 2
    assert all("a worker was killed" in outcome.problem for outcome in failed)


def test_one_run_that_fails_leaves_the_others_alone(folder):
    (folder / "bad.toml").write_text(METHOD.format(title="bad", density="nowhere"))
    jobs = plan(comparison(methods=["bad.toml", "nearest-mean.toml"], seeds=[0]), folder / "out", folder)
    outcomes = {outcome.job.recipe.method: outcome for outcome in compare(jobs, folder / "data", 2)}
    assert outcomes["nearest-mean"].run is not None
    assert outcomes["bad"].run is None
    assert "unknown density 'nowhere'" in outcomes["bad"].problem


def test_runs_do_not_depend_on_how_many_are_done_at_a_time(folder):
    one, two = (plan(comparison(seeds=[0]), folder / name, folder) for name in ("one", "two"))
    alone = {o.job.recipe.method: o.run.info.decisions_sha256 for o in compare(one, folder / "data", 1)}
    together = {o.job.recipe.method: o.run.info.decisions_sha256 for o in compare(two, folder / "data", 2)}
    assert alone == together


def listen_to_interrupts() -> None:
    """A shell starts what runs in the background deaf to them, and so the tests and all they start."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def write_comparison(folder, methods, seeds):
    """A comparison; one of many seeds does not come to its end while the tests are held up."""
    (folder / "all.toml").write_text(f'benchmarks = ["made.toml"]\nmethods = {methods}\nseeds = {[*range(seeds)]}\n')


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_an_interrupted_comparison_goes_on_where_it_was(folder, number):
    write_comparison(folder, ["full.toml", "nearest-mean.toml"], 150)
    command = [sys.executable, "-m", "speciate.cli", "compare", "all.toml", *OPTIONS]
    how = {"cwd": folder, "start_new_session": True, "preexec_fn": listen_to_interrupts}
    process = subprocess.Popen(command, stderr=subprocess.PIPE, **how)
    deadline = time.monotonic() + 60
    while len(list(folder.rglob("run.json"))) < 2 and time.monotonic() < deadline:
        time.sleep(0.02)
    os.killpg(process.pid, number)
    process.communicate(timeout=60)
    done = {path: path.stat().st_mtime_ns for path in folder.rglob("run.json")}
    assert 2 <= len(done) < 300, "it was to be interrupted in the middle"
    # The first of them are enough to see that it goes on.
    write_comparison(folder, ["full.toml", "nearest-mean.toml"], 12)
    after = subprocess.run(command, cwd=folder, capture_output=True, timeout=300, check=False)
    assert after.returncode == 0, after.stderr
    found = Counter(path.parent.name for path in folder.rglob("run.json"))
    assert all(found[f"seed-{seed}"] == 2 for seed in range(12))
    assert {path: path.stat().st_mtime_ns for path in done} == done


def test_workers_do_not_outlive_a_killed_comparison(folder):
    write_comparison(folder, ["full.toml"], 500)
    command = [sys.executable, "-m", "speciate.cli", "compare", "all.toml", *OPTIONS]
    process = subprocess.Popen(command, cwd=folder, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while not list(folder.rglob("run.json")) and time.monotonic() < deadline:
        time.sleep(0.02)
    children = psutil.Process(process.pid).children(recursive=True)
    assert len(children) >= 2
    process.kill()
    process.wait()
    _, alive = psutil.wait_procs(children, timeout=30)
    assert not alive
