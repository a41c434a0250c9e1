"""Logging: a library that keeps quiet, a command line that tells."""

import json
import logging
import subprocess
import sys

import pytest
from worlds import make_tree, stream

from speciate import logs
from speciate.logs import configure, get_logger


@pytest.fixture
def _restored():
    root = logging.getLogger()
    loggers = [root, *(logging.getLogger(name) for name in logs.SPEAKERS)]
    handlers, levels = list(root.handlers), [logger.level for logger in loggers]
    yield
    root.handlers = handlers
    for logger, level in zip(loggers, levels, strict=True):
        logger.setLevel(level)


def test_fields_travel_as_extras_of_an_ordinary_record(caplog):
    get_logger("speciate.test").warning("something happened", sequence=7, reason="x")
    (told,) = caplog.records
    assert (told.name, told.levelname, told.message) == ("speciate.test", "WARNING", "something happened")
    assert (told.sequence, told.reason) == (7, "x")


def test_what_is_below_the_level_is_not_told(caplog):
    caplog.set_level(logging.WARNING, "speciate")
    get_logger("speciate.test").info("chatter")
    assert caplog.records == []


@pytest.mark.usefixtures("_restored")
def test_without_a_terminal_each_line_is_an_object(capsys):
    configure()
    get_logger("speciate.test").info("hello", sequence=7)
    get_logger("speciate.test").debug("chatter")
    captured = capsys.readouterr()
    assert captured.out == ""
    (line,) = captured.err.splitlines()
    told = json.loads(line)
    assert (told["message"], told["level"], told["sequence"]) == ("hello", "info", 7)
    assert "timestamp" in told


@pytest.mark.usefixtures("_restored")
def test_on_a_terminal_lines_are_readable(capsys, monkeypatch):
    monkeypatch.setattr(logs.sys.stderr, "isatty", lambda: True, raising=False)
    configure(logging.DEBUG)
    get_logger("speciate.test").debug("hello", sequence=7)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "hello" in captured.err
    assert "sequence" in captured.err
    assert not captured.err.startswith("{")


class Odd:
    def __repr__(self):
        return "odd\x1b[2J"


@pytest.mark.usefixtures("_restored")
def test_a_terminal_shows_what_is_in_a_line_and_does_not_obey_it(capsys, monkeypatch):
    hostile = "\x1b]0;pwned\x07\x1b[2J\r\n\u202e\x9b1m"
    monkeypatch.setattr(logs.sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(logs.structlog.dev.ConsoleRenderer, "__init__", _colourless)
    configure()
    get_logger("speciate.test").warning(f"said {hostile}", path=hostile, among=[hostile], odd=Odd(), count=7)
    logging.getLogger("somebody.else").warning("said %s", hostile)
    try:
        _fail(hostile, "correct-horse")
    except ValueError as error:
        get_logger("speciate.test").error("failed", exc_info=error)
    told = capsys.readouterr().err
    assert {one for one in told if not one.isprintable()} == {"\n"}
    first, second, *rest = told.splitlines()
    assert "said \\x1b]0;pwned\\x07\\x1b[2J\\r\\n\\u202e\\x9b1m" in first
    assert "path=\\x1b]0;pwned" in first
    assert "odd\\x1b[2J" in first
    assert "count=7" in first
    assert "said \\x1b]0;pwned" in second
    assert any("raise ValueError(text)" in line for line in rest)
    assert "secret='correct-horse'" not in told.replace(" ", "")


def _fail(text, secret):
    raise ValueError(text)


def _colourless(self, _init=logs.structlog.dev.ConsoleRenderer.__init__, **given):
    _init(self, colors=False, **given)


@pytest.mark.usefixtures("_restored")
def test_configuring_twice_tells_once(capsys):
    configure()
    configure()
    get_logger("speciate.test").warning("hello")
    assert len(capsys.readouterr().err.splitlines()) == 1


SCRIPT = """
import json, sys, speciate
report = speciate.run(json.load(sys.stdin))
assert report.status.sequence == 30, report
"""


def test_a_program_that_uses_the_library_finds_nothing_on_its_output(tmp_path):
    """Another process, so that neither pytest nor an earlier test has a hand in the logging."""
    tree = json.dumps(make_tree(tmp_path, [*stream(29), b"damaged"]))
    done = subprocess.run([sys.executable, "-c", SCRIPT], input=tree, check=False, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.usefixtures("_restored")
def test_plugins_and_the_libraries_they_use_speak_the_same_way(capsys):
    configure()
    get_logger("speciate_plugins.sinks.test").info("opened", partition=3)
    logging.getLogger("somebody.else").warning("odd")
    logging.getLogger("somebody.else").info("chatter")
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [(line["message"], line["level"]) for line in lines] == [("opened", "info"), ("odd", "warning")]


@pytest.mark.usefixtures("_restored")
def test_a_library_that_repeats_itself_is_hushed_and_we_are_not(capsys, monkeypatch):
    now = [1000.0]
    monkeypatch.setattr(logging.time, "time", lambda: now[0])
    monkeypatch.setattr(logging.time, "time_ns", lambda: int(now[0] * 1e9), raising=False)
    configure()
    for _ in range(5):
        logging.getLogger("somebody.else").warning("no broker at %s", "there")
        get_logger("speciate.test").warning("away, trying again")
    now[0] += logs.HUSHED_SECONDS
    logging.getLogger("somebody.else").warning("no broker at %s", "there")
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [line["message"] for line in lines].count("away, trying again") == 5
    told = [line for line in lines if line["message"] == "no broker at there"]
    assert [line.get("repeated") for line in told] == [None, 4]
