"""A stranger's package: installed by pip beside Speciate, it is found, it runs, and its own tests pass."""

import csv
import json
import shutil
from pathlib import Path

import pytest

from fresh import NOT_COPIED, REPOSITORY, FreshEnvironment

pytestmark = [pytest.mark.fresh, pytest.mark.timeout(900)]

PACKAGE = "speciate-example-plugin"


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the example, so that neither building nor running it leaves anything in the tree."""
    return shutil.copytree(
        REPOSITORY / "examples" / PACKAGE, tmp_path_factory.mktemp("example") / PACKAGE, ignore=NOT_COPIED
    )


@pytest.fixture(scope="module")
def environment(fresh_environment: FreshEnvironment, example: Path) -> FreshEnvironment:
    """An environment of its own with the example, so that the core's stays bare."""
    environment = fresh_environment.copy("with-example")
    environment.install(f"{example}[test]")
    return environment


def listed(environment: FreshEnvironment, cwd: Path) -> list[dict]:
    return json.loads(environment.run(["speciate", "plugins", "--json"], cwd=cwd).stdout)


def test_the_core_alone_does_not_know_it(fresh_environment: FreshEnvironment, tmp_path: Path) -> None:
    packages = {plugin["package"] for plugin in listed(fresh_environment, tmp_path)}
    assert packages == {"speciate"}


def test_installing_the_core_is_quick(fresh_environment: FreshEnvironment, record_property) -> None:
    """The bound is generous: most of the time is the download of NumPy and SciPy."""
    record_property("install_seconds", fresh_environment.install_seconds)
    assert fresh_environment.install_seconds < 300


def test_its_plugins_are_listed_as_usable(environment: FreshEnvironment, tmp_path: Path) -> None:
    theirs = [plugin for plugin in listed(environment, tmp_path) if plugin["package"] == PACKAGE]
    common = {"package": PACKAGE, "version": "0.3.0", "usable": True, "problem": None}
    assert theirs == [
        {"stage": "encoder", "name": "colour-histogram", **common},
        {"stage": "policy", "name": "cautious", **common},
        {"stage": "sink", "name": "csv", **common},
    ]


def test_its_pipeline_runs(environment: FreshEnvironment, example: Path) -> None:
    environment.run(["speciate", "run", "pipeline.toml"], cwd=example)
    with (example / "out" / "answers.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [row["id"] for row in rows if row["birth"] == "True"] == ["fruit-2"]
    assert [row["id"] for row in rows if row["other"]] == ["bruised"]
    assert len(rows) == len((example / "data" / "events.jsonl").read_text().splitlines())


def test_its_own_tests_pass(environment: FreshEnvironment, example: Path) -> None:
    done = environment.run([environment.python, "-m", "pytest", "-q", "-rs"], cwd=example)
    assert "passed" in done.stdout
    assert "skipped" not in done.stdout, done.stdout
