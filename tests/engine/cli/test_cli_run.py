"""`speciate run`: to the end, on from where it was left, and every way it can be refused."""

import json
import re
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from commands import (
    COMMAND,
    beside_notices,
    environment,
    left_behind,
    lines,
    must,
    refusal,
    started,
    until,
    write_stream,
)
from commands import speciate as speciate_process

from speciate_schemas import Answer, Array, Event, FeatureEvent, decode, encode
from speciate_schemas.framing import pack

EVENTS = 400
STDOUT = 'sink={plugin="stdout"}'

REPORT = {
    "tally", "sequence", "tasks", "categories", "head_bytes", "progress", "stages", "answered", "seconds",
    "events_per_second", "lag", "stopped", "resumed_at", "latency_p50", "latency_p99", "answers", "dead_letters",
    "state",
}  # fmt: skip

APPENDER = """
import pathlib, sys, time
data = pathlib.Path(sys.argv[1]).read_bytes()
with open(sys.argv[2], "ab", buffering=0) as log:
    for place in range(0, len(data), 3001):  # hardly ever at the end of a frame
        log.write(data[place : place + 3001])
        time.sleep(0.01)
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return write_stream(tmp_path_factory.mktemp("run"), events=EVENTS)


@pytest.fixture
def config(made):
    """A pipeline that never ran."""
    shutil.rmtree(made.parent / "out", ignore_errors=True)
    return made


@pytest.fixture(scope="module")
def run_once(made, tmp_path_factory):
    """What a run to the end says, and a copy of all that it leaves."""
    shutil.rmtree(made.parent / "out", ignore_errors=True)
    done = must("run", made)
    return done, shutil.copytree(made.parent / "out", tmp_path_factory.mktemp("ran") / "out")


@pytest.fixture
def ran(run_once, config):
    """A pipeline that ran to its end, and what the run said."""
    done, left = run_once
    shutil.copytree(left, config.parent / "out")
    return config, done


def report_of(done):
    assert done.stdout.count("\n") == 1
    return json.loads(done.stdout)


def json_lines(directory):
    """The sound events of the stream, as JSON Lines."""
    from speciate_plugins.splitting import FrameSplitter

    splitter = FrameSplitter(0)
    splitter.feed((directory / "stream.log").read_bytes())
    splitter.finish()
    events = []
    for payload, _, _, _ in splitter.take(EVENTS):
        try:
            events.append(decode(payload, Event))
        except ValueError:
            continue
    return b"".join(encode(event, "json") + b"\n" for event in events)


def test_it_runs_to_the_end_and_tells_people_on_standard_error(ran):
    config, done = ran
    assert done.stdout == ""
    assert beside_notices(done.stderr).startswith(f"done: {EVENTS} events answered in ".encode())
    for part in (
        "in all: ",
        "births",
        "categories: ",
        "latency: p50 ",
        "head: ",
        f"state in {config.parent}/out/state",
    ):
        assert part in done.stderr
    assert lines(config.parent / "out" / "answers.jsonl") == EVENTS


def test_the_report_for_programs_is_one_line(config):
    done = must("run", config, "--json")
    report = report_of(done)
    assert beside_notices(done.stderr) == b""
    assert set(report) == REPORT
    tally = report["tally"]
    assert set(tally) == {"assigned", "births", "rejected", "controls", "dropped", "forwarded"}
    assert tally["assigned"] + tally["rejected"] + tally["controls"] == EVENTS == report["answered"]
    size = (config.parent / "stream.log").stat().st_size
    assert report["progress"] == {"done": size, "total": size, "unit": "bytes"}
    assert (report["lag"], report["stopped"], report["resumed_at"], report["sequence"]) == (0, False, 0, EVENTS)
    assert set(report["stages"]) == {"source", "decoder", "encoder", "head", "sink"}
    assert all(set(spent) == {"busy", "idle", "backpressured"} for spent in report["stages"].values())
    assert report["events_per_second"] == pytest.approx(EVENTS / report["seconds"])
    assert 0 < report["latency_p50"] <= report["latency_p99"]


def test_a_second_run_does_nothing_twice(ran):
    config, _ = ran
    before = left_behind(config.parent)
    report = report_of(must("run", config, "--json"))
    assert (report["answered"], report["resumed_at"], report["sequence"]) == (0, EVENTS, EVENTS)
    assert left_behind(config.parent) == before


def test_a_log_that_has_grown_is_gone_on_with(tmp_path):
    config = write_stream(tmp_path, events=200)
    whole = (tmp_path / "stream.log").read_bytes()
    must("run", config)
    (tmp_path / "stream.log").write_bytes(whole + pack(encode(FeatureEvent(id="late", features=Array.of(np.ones(16))))))
    done = must("run", config)
    assert done.stderr.startswith("done: 1 events answered in ")
    assert "resumed at record 200" in done.stderr
    resumed = left_behind(tmp_path)
    must("run", config, "--fresh")
    assert left_behind(tmp_path) == resumed


def test_fresh_starts_over_even_with_another_configuration(ran):
    config, _ = ran
    before = left_behind(config.parent)
    changed = report_of(must("run", config, "--fresh", "--json", "-s", "policy.alpha=1e-300"))
    assert (changed["answered"], changed["tally"]["births"]) == (EVENTS, 0)
    assert report_of(must("run", config, "--fresh", "--json"))["tally"]["births"] > 0
    assert left_behind(config.parent) == before


def test_overrides_hold_and_the_last_one_wins(config):
    overrides = (
        "-s",
        "commit.snapshot_events=9",
        "--set",
        "commit.snapshot_events=64",
        "-s",
        "commit.snapshots_kept=3",
    )
    must("run", config, *overrides, "-s", "run.batch_events=64")
    found = sorted(int(path.stem) for path in (config.parent / "out" / "state" / "snapshots").iterdir())
    assert len(found) == 3
    assert found[-1] == EVENTS


def test_a_growing_log_is_followed_until_a_signal(tmp_path):
    config = write_stream(tmp_path, events=EVENTS)
    (tmp_path / "stream.log").rename(tmp_path / "whole.log")
    (tmp_path / "stream.log").touch()
    answers = tmp_path / "out" / "answers.jsonl"
    with started("run", config, "--follow", "--json") as run:
        writer = [sys.executable, "-c", APPENDER, tmp_path / "whole.log", tmp_path / "stream.log"]
        subprocess.run(writer, check=True, timeout=60)
        until(lambda: lines(answers) == EVENTS, run)
        time.sleep(0.2)
        assert run.poll() is None, "it must wait for more"
        run.send_signal(signal.SIGTERM)
        stdout, stderr = run.communicate(timeout=60)
    assert run.returncode == 0, stderr
    assert beside_notices(stderr) == b"speciate: finishing what was read; once more to leave at once\n"
    report = json.loads(stdout)
    assert (report["stopped"], report["answered"]) == (True, EVENTS)
    followed = left_behind(tmp_path)
    must("run", config, "--fresh")
    assert left_behind(tmp_path) == followed


@pytest.mark.parametrize("pace", ["100", "original"])
def test_pace(tmp_path, pace):
    config = write_stream(tmp_path, events=1)
    rng = np.random.default_rng(0)
    events = [FeatureEvent(id=str(n), features=Array.of(rng.normal(size=16)), time=5 + n / 100) for n in range(61)]
    (tmp_path / "stream.log").write_bytes(b"".join(pack(encode(event)) for event in events))
    report = report_of(must("run", config, "--pace", pace, "--json"))
    assert report["answered"] == 61
    assert 0.6 <= report["seconds"] < 10


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["-s", "run.batches=1"], "[run] has no key 'batches': did you mean 'batch_events'?"),
        (["-s", "sources.path=x"], "has no key 'sources': did you mean 'source'?"),
        (
            ["-s", "source.pats=x"],
            "[source] source 'eventlog' has no key 'pats': did you mean 'paths'?",
        ),
        (["-s", "source.plugin=evntlog"], "unknown source 'evntlog': did you mean 'eventlog'?"),
        (["-s", "policy.alpha=0"], "[policy] policy 'dp'"),
        (["-s", "policy"], "override 'policy' must look like section.key=value"),
        (["-s", "density={}"], '[density] needs plugin = "name"'),
        (["--pace", "fast"], "--pace fast: must be max, original, or a number of events per second above 0"),
        (["--pace", "0"], "--pace 0: must be max, original, or a number"),
        (["--pace", "nan"], "--pace nan: must be max, original, or a number"),
        (["--pace", ""], "--pace : must be max, original, or a number"),
    ],
)
def test_each_mistake_in_the_configuration_is_one_line(config, speciate, options, says):
    done = speciate("run", config, *options)
    assert done.exit_code == 2
    assert done.stderr.startswith("speciate: error: ")
    assert says in done.stderr
    assert done.output.count("\n") == 1
    assert not (config.parent / "out").exists()


@pytest.mark.parametrize(
    ("options", "code", "says"),
    [
        (["-s", "source.plugin=evntlog"], 2, "unknown source 'evntlog': did you mean 'eventlog'?"),
        (["-s", 'support.paths=["unlabelled.npz"]'], 2, "unlabelled.npz#0 of the support set has no label"),
        (["-s", 'source.paths=["missing.log"]'], 4, "no file matches 'missing.log'; check the spelling"),
        (["-s", 'support.paths=["missing.npz"]'], 4, "no file matches 'missing.npz'; check the spelling"),
        (["-s", "sink.path=/dev/null/answers"], 4, "/dev/null"),
        (["-s", "store.path=/dev/null/state"], 4, "cannot write /dev/null/state"),
    ],
)
def test_each_mistake_found_at_the_start_is_one_line(config, options, code, says):
    np.savez(config.parent / "unlabelled.npz", features=np.ones((3, 16), np.float32))
    assert says in refusal(code, "run", config, *options, cwd=config.parent)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (None, "cannot read the configuration pipeline.toml: No such file or directory"),
        (b"[source\n", "pipeline.toml is not valid TOML"),
        (b"\xff\xfe", "pipeline.toml is not valid TOML"),
        (b"", "pipeline.toml: Object missing required field `source`"),
    ],
)
def test_a_configuration_that_is_none(tmp_path, speciate, content, says):
    if content is not None:
        (tmp_path / "pipeline.toml").write_bytes(content)
    done = speciate("run", "pipeline.toml")
    assert done.exit_code == 2
    assert says in done.stderr
    assert done.output.count("\n") == 1


def test_one_process_at_a_time(config):
    with started("run", config, "--pace", "1") as first:
        until(lambda: lines(config.parent / "out" / "answers.jsonl"), first)
        for fresh in ([], ["--fresh"]):
            message = refusal(3, "run", config, *fresh)
            assert f"out/state is in use by process {first.pid}" in message
        assert lines(config.parent / "out" / "answers.jsonl"), (
            "the second one must not touch what the first has written"
        )
        first.send_signal(signal.SIGTERM)
        assert first.wait(60) == 0


def test_a_state_that_does_not_fit_is_refused(ran):
    config, _ = ran
    before = left_behind(config.parent)
    message = refusal(3, "run", config, "-s", "policy.alpha=0.5")
    assert message.startswith("the state was made with policy.alpha = 0.001, the configuration says 0.5: ")
    assert message.endswith("start over with --fresh\n")
    assert left_behind(config.parent) == before
    # And so is one whose output was cut.
    answers = config.parent / "out" / "answers.jsonl"
    answers.write_bytes(answers.read_bytes()[:100])
    message = refusal(3, "run", config)
    assert f"{answers} has 100 bytes but " in message
    assert lines(answers) == 0
    assert answers.stat().st_size == 100


def test_outputs_of_unknown_origin_are_not_overwritten(config):
    answers = config.parent / "out" / "answers.jsonl"
    answers.parent.mkdir()
    answers.write_text("mine\n")
    assert str(answers) in refusal(3, "run", config)
    assert answers.read_text() == "mine\n"


def test_answers_on_standard_output_and_nothing_else(config):
    done = must("run", config, "-s", STDOUT)
    answers = [decode(line, Answer, "json") for line in done.stdout.encode().splitlines()]
    assert [answer.sequence for answer in answers] == list(range(EVENTS))
    assert '"type"' not in done.stderr
    assert "answers in stdout" in done.stderr
    assert must("run", config, "-s", STDOUT).stdout == "", "nothing is left to answer"


def test_a_reader_that_leaves_is_one_clear_line(config):
    script = '"$@" | head -n 1; exit "${PIPESTATUS[0]}"'
    command = ["bash", "-c", script, "bash", *COMMAND, "run", config, "-s", STDOUT]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment(), timeout=60)
    assert done.returncode == 4
    assert decode(done.stdout.encode(), Answer, "json").sequence == 0
    words = b"speciate: error: standard output was closed by the program that was reading it\n"
    assert beside_notices(done.stderr) == words


def placeless(answers):
    """Answers without where their input was read."""
    return [re.sub(rb',"origin":"[^"]*"', b"", line) for line in answers.splitlines()]


def test_json_lines_from_a_pipe(config):
    stream = json_lines(config.parent)
    (config.parent / "stream.jsonl").write_bytes(stream)
    must("run", config, "-s", 'source={plugin="jsonl", paths=["stream.jsonl"]}', cwd=config.parent)
    from_file = placeless(left_behind(config.parent)["answers.jsonl"])
    piped = report_of(must("run", config, "--fresh", "--json", "-s", 'source={plugin="stdin"}', stdin=stream))
    assert piped["answered"] == stream.count(b"\n") == len(from_file)
    assert (piped["progress"]["total"], piped["lag"]) == (None, None)
    # The messages of rejections tell where the event was read, too, and that differs.
    differing = set(placeless(left_behind(config.parent)["answers.jsonl"])) ^ set(from_file)
    assert all(b"rejection.v1" in line for line in differing)


def test_an_event_log_from_a_pipe_and_on_with_the_next_pipe(ran):
    config, _ = ran
    from_file = placeless(left_behind(config.parent)["answers.jsonl"])
    stream = (config.parent / "stream.log").read_bytes()
    whole = must("run", config, "--fresh", "--json", "-s", 'source={plugin="stdin", format="eventlog"}', stdin=stream)
    assert report_of(whole)["answered"] == EVENTS
    answers = placeless(left_behind(config.parent)["answers.jsonl"])
    assert all(b"rejection.v1" in line for line in set(answers) ^ set(from_file))
    more = pack(encode(FeatureEvent(id="late", features=Array.of(np.ones(16)))))
    done = must("run", config, "--json", "-s", 'source={plugin="stdin", format="eventlog"}', stdin=more)
    assert report_of(done)["resumed_at"] == EVENTS
    assert lines(config.parent / "out" / "answers.jsonl") == EVENTS + 1


def test_usage_errors_come_with_the_usage(speciate):
    done = speciate("run")
    assert done.exit_code == 2
    assert done.stderr.startswith("Usage: speciate run [OPTIONS] CONFIG [INPUT]...\n")
    assert "Missing argument 'CONFIG'" in done.stderr


@pytest.fixture(scope="module")
def fitted(made, tmp_path_factory):
    """A model of the same support set."""
    path = tmp_path_factory.mktemp("fitted") / "m"
    options = ("-s", "density.plugin=nearest-mean", "-s", "policy.alpha=0.01")
    must("fit", made.parent / "support.npz", "--out", path, *options)
    return path


@pytest.fixture
def model(config, fitted, tmp_path):
    """That model, to do anything with."""
    return shutil.copytree(fitted, tmp_path / "m")


def test_a_model_is_run_as_it_is(config, model, tmp_path):
    done = must("run", model, config.parent / "stream.log", cwd=tmp_path)
    assert beside_notices(done.stderr).startswith(f"done: {EVENTS} events answered in ".encode())
    assert lines(tmp_path / "out" / "assignments.jsonl") == EVENTS
    again = report_of(must("run", model, config.parent / "stream.log", "--json", cwd=tmp_path))
    assert (again["answered"], again["resumed_at"]) == (0, EVENTS)


def test_a_model_answers_as_its_sections_would(config, model, tmp_path):
    sections = ("-s", 'density={plugin="nearest-mean"}', "-s", 'policy={plugin="dp", alpha=0.01}')
    must("run", config, *sections)
    expected = left_behind(config.parent)["answers.jsonl"]
    shutil.rmtree(config.parent / "out")
    # Rejections tell where the dead letter is.
    letters = f"dead_letters.path={config.parent}/out/dead-letters.log"
    must("run", model, config.parent / "stream.log", "-s", letters, cwd=tmp_path)
    assert (tmp_path / "out" / "assignments.jsonl").read_bytes() == expected


def test_overrides_reach_a_model_and_its_source(config, model, tmp_path):
    stream = json_lines(config.parent)
    options = ("--plugin", "stdin", "-s", "source.format=jsonl", "-s", STDOUT, "-s", "store.path=elsewhere")
    done = must("run", model, *options, stdin=stream, cwd=tmp_path)
    assert done.stdout.count("\n") == stream.count(b"\n")
    assert (tmp_path / "elsewhere").is_dir()


def test_inputs_stand_in_for_the_source_of_a_configuration(config, tmp_path):
    (tmp_path / "other.jsonl").write_bytes(b"".join(json_lines(config.parent).splitlines(keepends=True)[:7]))
    report = report_of(must("run", config, tmp_path / "other.jsonl", "--json"))
    assert report["answered"] == 7


def test_a_model_without_input_is_told_what_is_missing(model, tmp_path):
    assert "source" in refusal(2, "run", model, cwd=tmp_path)
    assert "no source plugin is known for 'what'" in refusal(2, "run", model, "what", cwd=tmp_path)


def test_a_damaged_model_is_refused_before_anything_is_made(config, model, tmp_path):
    (model / "head.state").write_bytes((model / "head.state").read_bytes()[:-1])
    message = refusal(3, "run", model, config.parent / "stream.log", cwd=tmp_path)
    assert message.startswith(f"the model {model} cannot be used: head.state has ")
    assert not (tmp_path / "out").exists()


def test_another_model_cannot_go_on(config, model, tmp_path):
    must("run", model, config.parent / "stream.log", cwd=tmp_path)
    options = ("-s", "density.plugin=nearest-mean", "-s", "policy.alpha=0.02")
    must("fit", config.parent / "support.npz", "--out", tmp_path / "other", *options)
    message = refusal(3, "run", tmp_path / "other", config.parent / "stream.log", cwd=tmp_path)
    assert "model.fingerprint" in message


def test_outputs_that_would_overwrite_something_are_refused_by_check_and_run(config):
    stream = (config.parent / "stream.log").read_bytes()
    for options in (
        ["-s", "dead_letters.path=out/answers.jsonl", "-s", "sink.path=out/answers.jsonl"],
        ["-s", f"sink.path={config.parent}/stream.log"],
        ["-s", 'source.paths=["*.log"]', "-s", "dead_letters.path=dead.log"],
    ):
        for command in ("check", "run"):
            message = refusal(2, command, config, *options, cwd=config.parent)
            assert "uses too: choose another path" in message
    assert (config.parent / "stream.log").read_bytes() == stream
    assert not (config.parent / "out").exists()


def test_the_cause_is_shown_to_who_asks_for_it(config):
    options = ("run", config, "-s", "sink.path=/dev/null/answers")
    assert "File exists: '/dev/null'" in refusal(4, *options)
    done = speciate_process(*options, SPECIATE_DEBUG="1")
    assert done.returncode == 4
    assert "FileExistsError: [Errno 17] File exists: '/dev/null'" in done.stderr
    assert "The above exception was the direct cause of the following exception" in done.stderr
    assert done.stderr.splitlines()[-1].startswith("speciate: error: cannot open the output: ")
