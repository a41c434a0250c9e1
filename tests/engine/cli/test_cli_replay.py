"""`speciate replay`, `compare` and `diff` as a researcher uses them."""

import csv
import json
import shutil

import numpy as np
import pytest
from commands import must, refusal, speciate

from benches import write_bench

BENCH = """
title = "Made"
about = "Made by the tests."
[data]
features = "made-*.npz"
[known]
first = 3
"""
METHOD = """
title = "{name}"
[density]
plugin = "{name}"
[policy]
plugin = "dp"
alpha = 1.0
"""
COMPARISON = """
title = "Two of them"
benchmarks = ["made.toml"]
methods = ["full.toml", "nearest-mean.toml"]
orders = ["random", "class-sorted"]
seeds = [0, 1]
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("replay")
    write_bench(folder / "data")
    (folder / "made.toml").write_text(BENCH)
    (folder / "two.toml").write_text(COMPARISON)
    for name in ("full", "nearest-mean"):
        (folder / f"{name}.toml").write_text(METHOD.format(name=name))
    must("compare", "two.toml", "--data", "data", "--out", "two", "--jobs", "1", cwd=folder)
    return folder


def test_one_run_is_told_and_kept(place):
    done = must("replay", "made.toml", "full.toml", "--data", "data", "--out", "one", cwd=place)
    kept = json.loads((place / "one" / "run.json").read_text())
    assert f"{100 * kept['metrics']['strict']['all']:.1f} %" in done.stdout
    assert "42 events in random order, seed 0; 3 classes known from 18 others" in done.stdout
    assert len(np.load(place / "one" / "assignments.npy")) == 42


def test_json_has_everything(place):
    done = must(
        "replay", "made.toml", "full.toml", "--data", "data", "--out", "js", "--json", "--order", "bursty", cwd=place
    )
    found = json.loads(done.stdout)
    kept = json.loads((place / "js" / "run.json").read_text())
    assert found["info"]["order"] == "bursty"
    assert found["metrics"] == kept["metrics"]


def test_the_data_folder_may_come_from_the_environment(place):
    must("replay", "made.toml", "full.toml", "--out", "env", cwd=place, SPECIATE_DATA="data")


def test_an_option_of_the_method_can_be_set(place):
    options = ("--data", "data", "--out", "set", "-s", "policy.alpha=auto", "-s", "density.n_cap=7")
    must("replay", "made.toml", "full.toml", *options, cwd=place)
    info = json.loads((place / "set" / "run.json").read_text())["info"]
    assert info["policy"] == {"plugin": "dp", "alpha": "auto"}
    assert info["density"] == {"plugin": "full", "n_cap": 7}
    assert isinstance(info["tuned"]["alpha"], float), "what auto came to is kept"


def test_a_kept_run_can_be_done_again(place):
    must("replay", "made.toml", "full.toml", "--data", "data", "--out", "kept", "--seed", "3", cwd=place)
    done = must("replay", "--from", "kept", "--data", "data", cwd=place)
    assert "the same decisions as kept" in done.stderr
    (again,) = (place / "replays").glob("*-again")
    assert must("diff", "kept", again, cwd=place).returncode == 0


def test_a_run_done_again_on_other_data_is_told(place, tmp_path):
    must("replay", "made.toml", "full.toml", "--data", "data", "--out", "was", cwd=place)
    write_bench(tmp_path / "other", features=np.random.default_rng(0).normal(size=(60, 4)))
    done = speciate("replay", "--from", "was", "--data", tmp_path / "other", "--out", tmp_path / "now", cwd=place)
    assert done.returncode == 3
    assert "decided otherwise than was, on other data" in done.stderr
    differing = speciate("diff", "was", tmp_path / "now", cwd=place)
    assert differing.returncode == 1
    assert "other data" in differing.stdout
    assert "other decisions" in differing.stdout


def test_a_kept_run_is_not_overwritten_by_its_repetition(place):
    must("replay", "made.toml", "full.toml", "--data", "data", "--out", "mine", cwd=place)
    before = (place / "mine" / "run.json").read_bytes()
    done = speciate("replay", "--from", "mine", "--data", "data", "--out", "./mine", cwd=place)
    assert done.returncode == 2
    assert "--out is the kept run itself" in done.stderr
    assert (place / "mine" / "run.json").read_bytes() == before


@pytest.mark.parametrize("option", [("--seed", "1"), ("--order", "random"), ("--batch", "3"), ("-s", "policy.alpha=1")])
def test_a_repetition_takes_no_options(place, option):
    done = speciate("replay", "--from", "two/runs/made/random/full/seed-0", "--data", "data", *option, cwd=place)
    assert done.returncode == 2
    assert "--from takes" in done.stderr


def test_runs_of_other_options_have_folders_of_their_own(place, tmp_path):
    for alpha in ("1.0", "2.0"):
        arguments = (place / "made.toml", place / "full.toml", "--data", place / "data", "-s", f"policy.alpha={alpha}")
        must("replay", *arguments, cwd=tmp_path)
    assert len(list((tmp_path / "replays").iterdir())) == 2


def test_the_report_does_not_depend_on_who_was_ready_first(place, tmp_path):
    options = ("--data", place / "data", "--out", tmp_path / "three", "--jobs", "3")
    must("compare", place / "two.toml", *options, cwd=place)
    names = []
    for out in (place / "two", tmp_path / "three"):  # the first was made by one job
        with (out / "runs.csv").open() as file:
            names.append([(row["order"], row["method"], row["seed"], row["all"]) for row in csv.DictReader(file)])
    assert names[0] == names[1]


def test_a_page_about_one_run(place):
    (place / "dp-boa.toml").write_text(METHOD.format(name="full"))
    must("replay", "made.toml", "dp-boa.toml", "--data", "data", "--out", "paged", "--page", "paged.html", cwd=place)
    page = (place / "paged.html").read_text()
    kept = json.loads((place / "paged" / "run.json").read_text())["metrics"]["strict"]["all"]
    assert f'data-value="{kept!r}"' in page
    assert "How evidence shapes categories" in page


def test_a_page_that_cannot_be_drawn_is_told_before_the_run(place, tmp_path):
    (tmp_path / "matplotlib.py").write_text("raise ImportError('not here')\n")
    arguments = ("replay", "made.toml", "full.toml", "--data", "data", "--out", tmp_path / "run", "--page", "p.html")
    assert "pip install 'speciate[report]'" in refusal(2, *arguments, cwd=place, PYTHONPATH=str(tmp_path))
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("replay", "pets", "dp-boa"), "there is no pets-*.npz"),
        (("replay", "pest", "dp-boa"), "did you mean 'pets'?"),
        (("replay", "made.toml", "dp-bao", "--data", "data"), "did you mean 'dp-boa'?"),
        (("replay", "--from", "nowhere"), "nowhere holds no run"),
        (("diff", "nowhere", "two"), "nowhere holds no run"),
        (("compare", "nothing"), "there is no comparison 'nothing'"),
        (("replay", "made.toml", "full.toml", "--data", "data", "-s", "density.rnk=3"), "has no key 'rnk'"),
    ],
)
def test_what_cannot_be_done_is_one_line(place, arguments, reason):
    assert reason in refusal(2, *arguments, cwd=place)


@pytest.mark.parametrize(
    "arguments", [("replay",), ("replay", "made.toml"), ("replay", "made.toml", "full.toml", "--from", "x")]
)
def test_arguments_that_do_not_go_together_are_refused(place, arguments):
    assert speciate(*arguments, cwd=place).returncode == 2


def test_a_comparison_leaves_tables_figures_and_a_page(place):
    out = place / "two"
    with (out / "runs.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 8
    for row in rows:
        kept = out / "runs" / row["benchmark"] / row["order"] / row["method"] / f"seed-{row['seed']}" / "run.json"
        metrics = json.loads(kept.read_text())["metrics"]
        assert float(row["all"]) == metrics["strict"]["all"]
    with (out / "table.csv").open() as file:
        assert {(row["method"], row["order"], row["runs"]) for row in csv.DictReader(file)} == {
            (method, order, "2") for method in ("full", "nearest-mean") for order in ("random", "class-sorted")
        }
    assert len(json.loads((out / "report.json").read_text())["runs"]) == 8
    assert "Two of them" in (out / "report.html").read_text()
    names = {path.name for path in (out / "figures").iterdir()}
    assert {"made-random-growth.svg", "made-random-growth.png", "made-orders.svg"} <= names


def test_a_finished_comparison_only_reads(place):
    before = {path: path.stat().st_mtime_ns for path in (place / "two").rglob("run.json")}
    done = must("compare", "two.toml", "--data", "data", "--out", "two", cwd=place)
    assert {path: path.stat().st_mtime_ns for path in (place / "two").rglob("run.json")} == before
    assert "nearest-mean" in done.stdout


def test_two_comparisons_differ_by_what_only_one_has(place, tmp_path):
    shutil.copytree(place / "two", tmp_path / "two")
    shutil.rmtree(tmp_path / "two" / "runs" / "made" / "random" / "full" / "seed-1")
    done = speciate("diff", "two", tmp_path / "two", "--json", cwd=place)
    assert done.returncode == 1
    (change,) = json.loads(done.stdout)
    assert (change["kind"], change["method"], change["seed"]) == ("only in the first", "full", 1)


def test_runs_that_cannot_be_done_are_told_and_the_others_reported(place):
    (place / "bad.toml").write_text(METHOD.format(name="nowhere"))
    (place / "mixed.toml").write_text(COMPARISON.replace('"full.toml"', '"bad.toml"'))
    done = speciate("compare", "mixed.toml", "--data", "data", "--out", "mixed", cwd=place)
    assert done.returncode == 2
    assert "4 of 8 runs could not be done" in done.stderr
    assert "unknown density 'nowhere'" in done.stderr
    assert "nearest-mean" in done.stdout
