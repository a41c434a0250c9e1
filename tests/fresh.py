"""An environment as fresh as a new user's, for the tests that install things."""

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[1]
NOT_COPIED = shutil.ignore_patterns(".git", ".*_cache", "__pycache__", ".hypothesis", ".venv", "build", "dist", "out")


@dataclass(frozen=True)
class FreshEnvironment:
    """A virtual environment with Speciate's core installed from this tree, and nothing else."""

    path: Path
    install_seconds: float
    """What `pip install .` took, downloads of the dependencies included."""

    @property
    def python(self) -> Path:
        """The interpreter of the environment."""
        return self.path / "bin" / "python"

    def run(self, command: Sequence[str | Path], *, cwd: Path, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run a command the environment has, or one of the system, with the environment first on the path."""
        own = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}
        own["PATH"] = f"{self.path / 'bin'}{os.pathsep}{own.get('PATH', os.defpath)}"
        arguments = [str(part) for part in command]
        done = subprocess.run(arguments, check=False, cwd=cwd, env=own, capture_output=True, text=True)
        if check and done.returncode:
            pytest.fail(f"{command} gave {done.returncode}\n{done.stdout}\n{done.stderr}")
        return done

    def install(self, *what: str | Path) -> None:
        """Let the environment's own pip install something."""
        self.run([self.python, "-m", "pip", "install", "--quiet", *what], cwd=self.path)

    def copy(self, name: str) -> "FreshEnvironment":
        """Another one with the same content, for a test that installs more."""
        target = self.path.with_name(name)
        shutil.copytree(self.path, target, symlinks=True)
        for script in (target / "bin").iterdir():
            if not script.is_symlink():  # scripts name the interpreter they are for
                script.write_text(script.read_text().replace(str(self.path), str(target)))
        return FreshEnvironment(target, self.install_seconds)


def make_environment(path: Path) -> None:
    """An empty virtual environment with pip."""
    subprocess.run([sys.executable, "-m", "venv", path], check=True, capture_output=True)
