"""The tree passes its own checks: lint, format and types."""

import subprocess
import sys

import pytest

from fresh import REPOSITORY


@pytest.mark.parametrize("command", [["ruff", "check", "."], ["ruff", "format", "--check", "."], ["mypy"]])
def test_check_passes(command: list[str]):
    done = subprocess.run([sys.executable, "-m", *command], cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
