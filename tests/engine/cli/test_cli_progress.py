"""Watching a run: a bar on a real terminal, JSON lines otherwise."""

import contextlib
import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time

import pytest
from commands import COMMAND, PATIENCE, beside_notices, started, write_stream

from speciate.cli import progress
from speciate.report import Status
from speciate.stages import Progress
from speciate_schemas import Tally

EVENTS = 400
CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
FIGURES = re.compile(r"([\d,]+) events · ([\d,]+)/s · (\d+) categories · (\d+) births · ([\d,]+) bytes behind")
AGAIN = re.compile(rf"(?:an input was rejected|changed by hand).*?{FIGURES.pattern}", re.DOTALL)
SHOW_CURSOR, HIDE_CURSOR = "\x1b[?25h", "\x1b[?25l"

OFTEN = """
import speciate.cli.progress
speciate.cli.progress.LINE_SECONDS = 0.2
from speciate.cli import main
main()
"""

SLOW = """
import time
from speciate_plugins.sinks.jsonl import JsonLinesSink
write_now = JsonLinesSink.write_now
JsonLinesSink.write_now = lambda self, items: (write_now(self, items), time.sleep(3))
from speciate.cli import main
main()
"""


class Terminal:
    """A pseudo-terminal and everything that was shown on it."""

    def __init__(self, columns):
        self._master, self.slave = pty.openpty()
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
        self.shown = ""

    def read_until(self, text):
        """Read until this is shown, or until nobody writes any more if it is None."""
        deadline = time.monotonic() + PATIENCE
        while text is None or text not in self.shown:
            assert time.monotonic() < deadline, self.shown
            if not select.select([self._master], [], [], 0.1)[0]:
                continue
            try:
                chunk = os.read(self._master, 1 << 16)
            except OSError:  # how Linux says that the other side is closed
                chunk = b""
            if not chunk:
                assert text is None, self.shown
                return
            self.shown += chunk.decode()

    def type(self, keys):
        os.write(self._master, keys)

    def let_go(self):
        """Close our copy of the other side, so that the end can be seen."""
        if self.slave is not None:
            os.close(self.slave)
            self.slave = None

    def close(self):
        self.let_go()
        os.close(self._master)


@pytest.fixture
def terminal():
    with contextlib.closing(Terminal(160)) as made:
        yield made


@pytest.fixture(scope="module")
def config(tmp_path_factory):
    return write_stream(tmp_path_factory.mktemp("progress"), events=EVENTS)


@contextlib.contextmanager
def on(terminal, *args, command=COMMAND):
    """A command whose keyboard and standard error are the terminal."""

    def control():
        fcntl.ioctl(terminal.slave, termios.TIOCSCTTY, 0)

    kept = {"stdin": terminal.slave, "stderr": terminal.slave, "stdout": subprocess.PIPE}
    kept |= {"start_new_session": True, "preexec_fn": control}
    with started(*args, command=command, env={"TERM": "xterm"}, **kept) as process:
        terminal.let_go()
        yield process


def frames(shown):
    """The figures of every frame of the bar's own, as numbers; a log line brings the last one once more."""
    found = FIGURES.findall(AGAIN.sub("", CONTROL.sub("", shown)))
    return [tuple(int(figure.replace(",", "")) for figure in figures) for figures in found]


def test_the_bar_shows_rate_categories_births_and_lag(config, terminal):
    with on(terminal, "run", config, "--fresh", "--pace", "80", "--json") as run:
        terminal.read_until(None)
        report = json.loads(run.stdout.read())
        assert run.wait(60) == 0
    seen = frames(terminal.shown)
    assert len({frame[0] for frame in seen}) >= 4, "it moves"
    counts, lags = [frame[0] for frame in seen], [frame[4] for frame in seen]
    assert counts == sorted(counts)
    assert lags == sorted(lags, reverse=True)
    assert lags[0] > 0
    events, rate, categories, births, lag = seen[-1]
    assert (events, lag) == (EVENTS, 0)
    assert (categories, births) == (report["categories"], report["tally"]["births"])
    assert 0 < rate <= 90
    assert f"{report['tally']['rejected']} rejected" in terminal.shown
    assert terminal.shown.rindex(SHOW_CURSOR) > terminal.shown.rindex(HIDE_CURSOR)


def test_a_narrow_terminal_still_shows_them(config):
    with contextlib.closing(Terminal(80)) as narrow, on(narrow, "run", config, "--fresh", "--pace", "10") as run:
        # Stopped then, it shows them once more at its end.
        narrow.read_until("bytes behind")
        narrow.type(b"\x03")
        narrow.read_until(None)
        assert run.wait(60) == 0
    assert len(frames(narrow.shown)) > 1


def test_the_answer_to_a_signal_has_a_line_of_its_own(config, terminal):
    with on(terminal, "run", config, "--fresh", "--pace", "10") as run:
        terminal.read_until("bytes behind")
        terminal.type(b"\x03")
        terminal.read_until(None)
        assert run.wait(60) == 0
    assert "\r\x1b[2Kspeciate: finishing what was read; once more to leave at once\r\n" in terminal.shown
    assert re.search(r"\nstopped: \d+ events answered in ", CONTROL.sub("", terminal.shown))


def test_leaving_at_once_brings_the_cursor_back(config, terminal):
    with on(terminal, "run", config, "--fresh", command=(sys.executable, "-c", SLOW)) as run:
        terminal.read_until("births")
        terminal.type(b"\x03")
        terminal.read_until("once more to leave at once")
        terminal.type(b"\x03")
        terminal.read_until(None)
        assert run.wait(60) == 128 + signal.SIGINT
    assert terminal.shown.rindex(SHOW_CURSOR) > terminal.shown.rindex(HIDE_CURSOR)


def test_warnings_stand_above_the_bar(config, terminal):
    with started("run", config, "--fresh") as run:
        assert run.wait(60) == 0
    newest = max((config.parent / "out" / "state" / "snapshots").iterdir())
    newest.write_bytes(newest.read_bytes()[:-1])
    with on(terminal, "run", config) as run:
        terminal.read_until(None)
        assert run.wait(60) == 0
    before, _, _ = terminal.shown.partition("snapshot is damaged, trying the one before it")
    line = CONTROL.sub("", before.rpartition("\r")[2])
    assert re.fullmatch(r"[\d:.T-]+Z \[warning  \] ", line), "nothing of the bar is in its line"


def test_without_a_terminal_every_interval_is_a_json_object(config):
    command = (sys.executable, "-c", OFTEN)
    with started("run", config, "--fresh", "--pace", "60", "--json", command=command) as run:
        stdout, stderr = run.communicate(timeout=60)
    assert run.returncode == 0
    report = json.loads(stdout)
    assert beside_notices(stderr) == b""
    lines = [json.loads(line) for line in stderr.splitlines() if b'"running"' in line]
    assert 4 <= len(lines) <= report["seconds"] / 0.2 + 1
    for line in lines:
        assert (line["message"], line["level"], line["lag_unit"]) == ("running", "info", "bytes")
        assert line.keys() >= {"timestamp", "answered", "rate", "categories", "births", "rejected", "dropped", "lag"}
    assert [line["answered"] for line in lines] == sorted(line["answered"] for line in lines)
    assert lines[0]["lag"] > lines[-1]["lag"] >= 0
    assert 0 < lines[-1]["births"] <= report["tally"]["births"]


def test_what_is_not_known_or_did_not_happen_is_not_shown():
    tally = Tally(assigned=1200, births=2)
    status = Status(
        tally=tally,
        sequence=1200,
        tasks={0: 1200},
        categories=7,
        head_bytes=1,
        progress=Progress(9, None, "bytes"),
        stages={},
        answered=1200,
        seconds=2.0,
    )
    assert progress._description(status, 600.0) == "1,200 events · 600/s · 7 categories · 2 births"
