"""Every command and every program of the README works as it stands."""

import re
import shlex
import shutil
from pathlib import Path

import pytest

from fresh import NOT_COPIED, REPOSITORY, FreshEnvironment

README = (REPOSITORY / "README.md").read_text()
INSTALL, TEST = "pip install -e . && speciate demo", "pip install -e '.[dev]' && pytest"


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.MULTILINE | re.DOTALL)


def commands() -> list[str]:
    return [line for block in blocks("sh") for line in block.splitlines()]


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the repository, as a new user has it."""
    copy = tmp_path_factory.mktemp("readme") / "speciate"
    shutil.copytree(REPOSITORY, copy, ignore=NOT_COPIED)
    return copy


def test_the_two_commands_come_first():
    assert commands()[:2] == [INSTALL, TEST]


def test_ci_runs_exactly_the_test_command():
    """The script finds the command in the README by this very text, and stops if it is not there."""
    script = (REPOSITORY / ".ci" / "run").read_text()
    assert "grep -x \"pip install -e '.\\[dev\\]' && pytest\" README.md" in script
    assert "set -euo pipefail" in script


@pytest.mark.fresh
def test_every_other_command_runs(fresh_environment: FreshEnvironment, tree: Path):
    """In the order of the README, in one folder, as a reader would type them; all but the running test suite itself."""
    for command in commands():
        if command != TEST:
            done = fresh_environment.run(["bash", "-c", command], cwd=tree)
            assert done.stdout or done.stderr, f"{command} said nothing"
    demo = (tree / "speciate-demo" / "assignments.jsonl").read_text()
    assert demo.count("\n") == 1797, "the last run was over the whole recording"


@pytest.mark.fresh
def test_programs_run(fresh_environment: FreshEnvironment, tmp_path: Path):
    for program in blocks("python"):
        done = fresh_environment.run(["python", "-W", "error", "-c", program], cwd=tmp_path)
        first, birth = done.stdout.splitlines()
        assert "label='cat'" in first
        assert birth == "True"


def test_links_lead_somewhere():
    for target in re.findall(r"\]\((?!https?://)([^)#]+)", README):
        assert (REPOSITORY / target).exists(), target


def test_commands_are_ones_a_shell_understands():
    assert all(shlex.split(command) for command in commands())
