"""`speciate demo`: what it prints is true, and what it leaves behind works by itself."""

import json
import re
import signal
import sys

import numpy as np
import pytest
from commands import lines, must, refusal, started, until
from scipy.optimize import linear_sum_assignment

PACED = """
import speciate.config
load = speciate.config.load
speciate.config.load = lambda path, overrides=(): load(path, [*overrides, "run.pace=40", "run.batch_events=16"])
from speciate.cli import main
main()
"""


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    """A demo as a new user runs it."""
    place = tmp_path_factory.mktemp("demo")
    return place / "speciate-demo", must("demo", cwd=place)


@pytest.fixture(scope="module")
def told(shown):
    """The same demo once more, for programs."""
    done = must("demo", "--json", cwd=shown[0].parent)
    # On a slow machine progress is told every ten seconds; nothing else may be.
    assert all(json.loads(line)["message"] == "running" for line in done.stderr.splitlines())
    return json.loads(done.stdout)


def truth_of(directory):
    """The class of every event of the stream, and the known classes."""
    with np.load(directory / "digits.npz") as file:
        names = np.array([str(name) for name in file["class_names"]])[file["labels"]] if "class_names" in file else None
        labels = file["labels"].astype(str) if names is None else names
        split = file["split"].astype(str)
    return labels[split == "stream"], set(labels[split == "support"])


def test_people_and_programs_are_told_the_same(shown, told):
    text = shown[1].stdout
    assert text.startswith("Handwritten digits: 0, 1, 2, 3, 4 are known, the others are to be discovered.\n")
    figures = dict(re.findall(r"^(.{16})  (.+)$", text, re.MULTILINE))
    figures = {name.strip(): value for name, value in figures.items()}
    assert figures["categories found"] == f"{told['categories']} ({told['births']} born; the truth has 10)"
    for name in ("all", "known", "novel"):
        assert figures[f"accuracy, {name}"] == f"{told[f'accuracy_{name}']:.1%}"
    assert figures["events"].startswith(f"{told['events']:,} at ")
    assert re.fullmatch(r"p50 [\d.]+ ms, p99 [\d.]+ ms, read to written", figures["latency"])
    assert figures["assignments"] == told["assignments"] == str(shown[0] / "assignments.jsonl")
    assert figures["snapshot"] == told["state"] == str(shown[0] / "state")
    assert "speciate inspect speciate-demo/demo.toml" in text


def test_the_accuracy_is_right(shown, told):
    directory, _ = shown
    truth, known = truth_of(directory)
    answers = [json.loads(line) for line in (directory / "assignments.jsonl").read_bytes().splitlines()]
    assert len(answers) == len(truth) == told["events"] == 1347
    found = np.array([answer["category"] for answer in answers])
    categories, classes = sorted(set(found)), sorted(set(truth))
    assert told["true_classes"] == len(classes) == 10
    assert set(categories) <= set(range(told["categories"]))
    assert sum(answer["birth"] for answer in answers) == told["births"] == told["categories"] - len(known)
    cost = np.array([[-np.sum((found == category) & (truth == one)) for one in classes] for category in categories])
    pairs = {categories[row]: classes[column] for row, column in zip(*linear_sum_assignment(cost), strict=True)}
    right = np.array([pairs.get(category) == one for category, one in zip(found, truth, strict=True)])
    of_known = np.isin(truth, sorted(known))
    assert told["accuracy_all"] == pytest.approx(right.mean())
    assert told["accuracy_known"] == pytest.approx(right[of_known].mean())
    assert told["accuracy_novel"] == pytest.approx(right[~of_known].mean())
    assert told["accuracy_all"] > 0.5, "it must have understood something"


def test_what_it_leaves_works_from_inside(shown, told):
    directory, _ = shown
    before = (directory / "assignments.jsonl").read_bytes()
    report = json.loads(must("run", "demo.toml", "--json", cwd=directory).stdout)
    assert (report["answered"], report["resumed_at"]) == (0, told["events"])
    again = json.loads(must("run", "demo.toml", "--fresh", "--json", cwd=directory).stdout)
    assert (again["answered"], again["categories"]) == (told["events"], told["categories"])
    assert (directory / "assignments.jsonl").read_bytes() == before
    found = json.loads(must("inspect", "demo.toml", "--json", cwd=directory).stdout)
    assert len(found["categories"]) == told["categories"]
    assert lines(directory / "assignments.jsonl") == told["events"]


def test_any_name_of_a_directory_will_do(tmp_path):
    name = 'a "strange\\ [place] é'
    done = must("demo", "--directory", name, cwd=tmp_path)
    assert f"speciate inspect '{name}/demo.toml'" in done.stdout
    assert lines(tmp_path / name / "assignments.jsonl") == 1347


def test_a_place_that_cannot_be_written_is_told(tmp_path):
    (tmp_path / "file").touch()
    assert refusal(4, "demo", "--directory", "file/x", cwd=tmp_path) == "cannot prepare file/x: Not a directory\n"


def test_a_demo_that_is_stopped_tells_what_it_has(tmp_path):
    with started("demo", "--json", command=(sys.executable, "-c", PACED), cwd=tmp_path) as demo:
        until(lambda: lines(tmp_path / "speciate-demo" / "assignments.jsonl") > 20, demo)
        demo.send_signal(signal.SIGINT)
        stdout, stderr = demo.communicate(timeout=60)
    assert demo.returncode == 0, stderr
    told = json.loads(stdout)
    assert 20 < told["events"] < 1347
    assert 0 < told["accuracy_all"] <= 1
