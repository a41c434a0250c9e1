"""A full disk: a clear error, nothing corrupted, and the next run goes on when there is room."""

import os
import resource
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from schedule import COMMAND, outputs, run_to_end
from stream import write_stream

EVENTS = 3000


def run(config: Path, before: Callable[[], None] | None = None) -> subprocess.CompletedProcess[str]:
    command = [*COMMAND, "run", str(config)]
    return subprocess.run(command, capture_output=True, text=True, check=False, preexec_fn=before)


@contextmanager
def small_disk(directory: Path, kilobytes: int) -> Iterator[None]:
    """A file system of its own, with so much room."""
    mounting = ["mount", "-t", "tmpfs", "-o", f"size={kilobytes}k", "tmpfs", str(directory)]
    if os.geteuid() != 0 or subprocess.run(mounting, check=False, capture_output=True).returncode != 0:
        pytest.skip("mounting a small file system needs the rights to mount; the limit on file size is tested instead")
    try:
        yield
    finally:
        subprocess.run(["umount", str(directory)], check=True)


def test_disk_that_fills_up_and_is_given_room(tmp_path: Path):
    config = write_stream(tmp_path, events=EVENTS, seed=5)
    run_to_end(config)
    expected = outputs(tmp_path)
    shutil.rmtree(tmp_path / "out")
    (tmp_path / "out").mkdir()
    with small_disk(tmp_path / "out", 64):
        failures = 0
        for kilobytes in (64, 128, 256, 512, 4096):
            resize = ["mount", "-o", f"remount,size={kilobytes}k", str(tmp_path / "out")]
            subprocess.run(resize, check=True)
            done = run(config)
            if done.returncode == 0:
                break
            failures += 1
            assert done.returncode == 4, done.stderr
            assert "No space left on device" in done.stderr
            assert "Traceback" not in done.stderr
            assert str(tmp_path / "out") in done.stderr, "the message must name the path"
        assert failures >= 2, "the disk was never full: the test proved nothing"
        assert done.returncode == 0, done.stderr
        assert outputs(tmp_path) == expected


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, bytes]]:
    """A pipeline, and what it leaves if nothing goes wrong."""
    folder = tmp_path_factory.mktemp("undisturbed")
    config = write_stream(folder, events=EVENTS, seed=6)
    run_to_end(config)
    return config, outputs(folder)


@pytest.mark.parametrize("first_limit", [1, 5_000, 60_000, 200_000])
def test_files_that_may_not_grow(undisturbed: tuple[Path, dict[str, bytes]], first_limit: int):
    """The kernel refuses in the middle of a write: any part of a batch, a commit or a snapshot may be on disk."""
    config, expected = undisturbed
    shutil.rmtree(config.parent / "out")
    limit, failures = first_limit, 0
    while True:
        done = run(config, lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)))  # noqa: B023
        if done.returncode == 0:
            break
        failures += 1
        assert done.returncode == 4, done.stderr
        assert "File too large" in done.stderr
        assert "Traceback" not in done.stderr
        limit = int(limit * 1.7) + 20_000
    assert failures >= 1
    assert outputs(config.parent) == expected
