"""Stopping with real signals: the first one drains, commits and saves; a second one leaves at once; no byte differs."""

import json
import shutil
import signal
import subprocess

import numpy as np
import pytest
from commands import beside_notices, is_notice, left_behind, lines, must, started, until, waiting_in, write_stream

from fabricate import distribution
from speciate_schemas import Answer, Array, DeadLetter, FeatureEvent, Rejection, decode, encode
from speciate_schemas.framing import next_frame

EVENTS = 400
FINISHING = b"speciate: finishing what was read; once more to leave at once\n"

SLOW_SINK = """
import os, time
from speciate.hooks import Provider, hookimpl
from speciate_plugins.sinks.appending import FileOptions
from speciate_plugins.sinks.jsonl import JsonLinesSink

class SlowSink(JsonLinesSink):
    written = 0

    def write_now(self, items):
        super().write_now(items)
        self.written += 1
        if self.written > 2:  # behind the first commit, which the test waits for
            time.sleep(float(os.environ.get("SLOW_SECONDS", "0")))

@hookimpl
def speciate_sink():
    return Provider(options=FileOptions, create=SlowSink)
"""


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """A pipeline, and what a run leaves that nobody disturbs."""
    config = write_stream(tmp_path_factory.mktemp("signals"), events=EVENTS, seed=7)
    must("run", config)
    return config, left_behind(config.parent)


@pytest.fixture
def config(undisturbed):
    """The pipeline as if it had never run."""
    shutil.rmtree(undisturbed[0].parent / "out")
    return undisturbed[0]


@pytest.fixture(scope="module")
def slow(tmp_path_factory):
    """A pipeline whose sink a stranger wrote, as slow as the environment says; and an undisturbed run."""
    directory = tmp_path_factory.mktemp("slow")
    config = write_stream(directory, events=EVENTS, seed=8)
    distribution(directory / "site", "slow-sink", {"sink.slow": ("slow_sink", SLOW_SINK)})
    arguments = ("run", config, "-s", "sink.plugin=slow", "--json")
    where = {"PYTHONPATH": str(directory / "site")}
    must(*arguments, **where)
    return directory, arguments, where, left_behind(directory)


def committed(directory):
    """How many inputs the last commit covers."""
    commit = directory / "out" / "state" / "commit.json"
    return json.loads(commit.read_text().splitlines()[1])["sequence"] if commit.exists() else 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=lambda number: number.name)
def test_the_first_signal_drains_commits_and_saves(undisturbed, config, number):
    answers = config.parent / "out" / "answers.jsonl"
    with started("run", config, "--pace", "20", "--json") as run:
        until(lambda: lines(answers) >= 10, run)
        run.send_signal(number)
        stdout, stderr = run.communicate(timeout=60)
    assert run.returncode == 0
    assert beside_notices(stderr) == FINISHING
    report = json.loads(stdout)
    assert report["stopped"]
    assert 10 <= report["answered"] < EVENTS
    newest = max((config.parent / "out" / "state" / "snapshots").iterdir())
    assert lines(answers) == committed(config.parent) == int(newest.stem) == report["answered"]
    resumed = json.loads(must("run", config, "--json").stdout)
    assert resumed["resumed_at"] == report["answered"]
    assert resumed["answered"] == EVENTS - report["answered"]
    assert left_behind(config.parent) == undisturbed[1]


def test_a_signal_while_everything_is_being_opened(undisturbed, config):
    lock = config.parent / "out" / "state" / "lock"
    with started("run", config, "--pace", "1") as run:
        until(lock.exists, run)
        run.send_signal(signal.SIGTERM)
        _, stderr = run.communicate(timeout=60)
    assert run.returncode == 0
    assert beside_notices(stderr).startswith(FINISHING + b"stopped: ")
    must("run", config)
    assert left_behind(config.parent) == undisturbed[1]


def test_a_silent_pipe_is_left_alone(config):
    with started("run", config, "-s", 'source={plugin="stdin"}', "--json", stdin=subprocess.PIPE) as run:
        until(lambda: committed(config.parent) == 0 and (config.parent / "out" / "state" / "commit.json").exists(), run)
        run.send_signal(signal.SIGTERM)
        assert run.wait(60) == 0
        assert json.loads(run.stdout.read())["stopped"]


@pytest.mark.parametrize(
    ("first", "second"),
    [(signal.SIGINT, signal.SIGTERM), (signal.SIGINT, signal.SIGINT)],
    ids=lambda number: number.name,
)
def test_the_second_signal_leaves_at_once_and_loses_nothing(slow, first, second):
    directory, arguments, where, expected = slow
    shutil.rmtree(directory / "out")
    with started(*arguments, env={**where, "SLOW_SECONDS": "3"}) as run:
        until(lambda: committed(directory) > 0, run)
        run.send_signal(first)
        assert next(line for line in run.stderr if not is_notice(line)) == FINISHING
        run.send_signal(second)
        stdout, stderr = run.communicate(timeout=60)
    assert run.returncode == 128 + second
    assert (stdout, beside_notices(stderr)) == (b"", b"")
    assert 0 < committed(directory) < EVENTS, "it did not drain"
    resumed = json.loads(must(*arguments, **where).stdout)
    assert resumed["resumed_at"] > 0
    assert left_behind(directory) == expected


def test_all_that_was_taken_from_a_pipe_is_answered(config):
    """Slowed down, so that most of it is still waiting inside; the line cut in the middle keeps its bytes."""
    rng = np.random.default_rng(0)
    events = [FeatureEvent(id=f"p{n}", features=Array.of(rng.normal(size=16))) for n in range(200)]
    data = b"".join(encode(event, "json") + b"\n" for event in events) + b'{"type": "feat'
    out = config.parent / "out"
    arguments = ("run", config, "-s", 'source={plugin="stdin"}', "--pace", "20", "-s", "run.batch_events=4", "--json")
    with started(*arguments, stdin=subprocess.PIPE) as run:
        run.stdin.write(data)
        run.stdin.flush()
        until(lambda: committed(config.parent) > 0 and waiting_in(run.stdin) == 0, run)
        run.send_signal(signal.SIGTERM)
        assert run.wait(60) == 0
        report = json.loads(run.stdout.read())
    answers = [decode(line, Answer, "json") for line in (out / "answers.jsonl").read_bytes().splitlines()]
    assert [answer.id for answer in answers] == [*(event.id for event in events), None]
    assert [isinstance(answer, Rejection) for answer in answers] == [False] * 200 + [True]
    letter = decode(next_frame((out / "dead-letters.log").read_bytes(), 0, final=True).payload, DeadLetter)
    assert bytes(letter.original) == b'{"type": "feat'
    assert (report["stopped"], report["sequence"]) == (True, 201)
    assert committed(config.parent) == 201
