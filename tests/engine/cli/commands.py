"""The command line as real processes, on the stream of the crash tests."""

import fcntl
import importlib.util
import os
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

COMMAND = (sys.executable, "-m", "speciate.cli")
TESTS = Path(__file__).parents[2]
PATIENCE = 60.0


def environment(**more: str) -> dict[str, str]:
    """What a user's shell would hand on, without what this test run is set to."""
    own = {name: value for name, value in os.environ.items() if name not in ("SPECIATE_DEBUG", "COLUMNS", "NO_COLOR")}
    return own | more


def speciate(*args, cwd=None, stdin=None, **more):
    """Run a command to its end."""
    arguments = [*COMMAND, *map(str, args)]
    done = subprocess.run(
        arguments, cwd=cwd, input=stdin, capture_output=True, check=False, env=environment(**more), timeout=PATIENCE
    )
    return subprocess.CompletedProcess(arguments, done.returncode, done.stdout.decode(), done.stderr.decode())


def must(*args, **more):
    """Run a command that must succeed."""
    done = speciate(*args, **more)
    assert done.returncode == 0, done.stderr
    return done


def refusal(code, *args, **more):
    """Run a command that must fail; what it says, which is one line and nothing on standard output."""
    done = speciate(*args, **more)
    assert done.returncode == code, done.stderr
    assert done.stdout == ""
    assert done.stderr.startswith("speciate: error: ")
    assert done.stderr.count("\n") == 1, done.stderr
    assert "Traceback" not in done.stderr
    return done.stderr.removeprefix("speciate: error: ")


def is_notice(line: bytes) -> bool:
    """Whether a line is about one input, or tells of progress, as it does where a run takes more than ten seconds.

    The stream of the crash tests has bad inputs, and control events.
    """
    return any(word in line for word in (b'"an input was rejected"', b'"changed by hand"', b'"running"'))


def beside_notices(said: bytes | str) -> bytes:
    """What was said of anything but single inputs and progress."""
    said = said.encode() if isinstance(said, str) else said
    return b"".join(line for line in said.splitlines(keepends=True) if not is_notice(line))


@contextmanager
def started(*args, command=COMMAND, env=None, **more) -> Iterator[subprocess.Popen[bytes]]:
    """A command under way; killed at the end of the block if it still runs."""
    more = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **more}
    with subprocess.Popen([*command, *map(str, args)], env=environment(**(env or {})), **more) as process:
        try:
            yield process
        finally:
            process.kill()


def until(condition: Callable[[], object], process: subprocess.Popen[bytes] | None = None) -> None:
    """Wait for something that a process under way brings about."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        if process is not None and process.poll() is not None and not condition():
            raise AssertionError(f"ended early with {process.returncode}: {process.stderr and process.stderr.read()}")
        time.sleep(0.01)


def waiting_in(pipe: IO[bytes]) -> int:
    """How many bytes nobody has taken from a pipe yet."""
    return struct.unpack("i", fcntl.ioctl(pipe.fileno(), termios.FIONREAD, bytes(4)))[0]


def lines(path: Path) -> int:
    """How many lines a file has; none if there is no file yet."""
    return path.read_bytes().count(b"\n") if path.exists() else 0


def write_stream(directory: Path, *, events: int, seed: int = 1) -> Path:
    """Support set, stream and configuration of the crash tests; the path of the configuration."""
    spec = importlib.util.spec_from_file_location("crash_stream", TESTS / "crash" / "stream.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.write_stream(directory, events=events, seed=seed)


def left_behind(directory: Path) -> dict[str, bytes]:
    """Every byte that must not depend on how often a run was stopped."""
    out = directory / "out"
    newest = max((out / "state" / "snapshots").glob("*.snapshot"))
    files = (out / "answers.jsonl", out / "dead-letters.log", out / "state" / "commit.json", newest)
    return {path.name: path.read_bytes() for path in files}
