"""`speciate record`: any source into an event log, and back."""

import json
import signal
import subprocess

import numpy as np
import pytest
from commands import must, refusal, started, until, waiting_in, write_stream

from speciate.config import choose
from speciate.plugins import installed
from speciate_schemas import Array, FeatureEvent, ImageEvent, RenameCategory, encode
from speciate_schemas.framing import pack

COUNT = 700


@pytest.fixture(scope="module")
def vectors():
    return np.random.default_rng(4).normal(size=(COUNT, 5)).astype(np.float32)


@pytest.fixture(scope="module")
def events(vectors):
    """Events of several kinds, with everything an event may have."""
    features = [
        FeatureEvent(id=f"e{n}", features=Array.of(row), stream="cam", time=n / 8, label="é" if n % 2 else None)
        for n, row in enumerate(vectors)
    ]
    image = ImageEvent(id="i", image=memoryview(b"\x89PNG"), media_type="image/png")
    return [*features, image, RenameCategory(id="r", category=1, label="cat")]


def as_lines(events):
    return b"".join(encode(event, "json") + b"\n" for event in events)


def as_log(events):
    return b"".join(pack(encode(event)) for event in events)


def inputs(name, directory, events, vectors):
    """Write what a source of this name reads; the argument that names it."""
    match name:
        case "npz":
            np.savez(directory / "in.npz", features=vectors, labels=np.arange(COUNT) % 3, times=np.arange(COUNT) / 4)
        case "parquet":
            import pyarrow as pa
            import pyarrow.parquet as pq

            columns = {"features": list(vectors), "label": [f"c{n % 3}" for n in range(COUNT)]}
            pq.write_table(pa.table(columns), directory / "in.parquet")
        case "jsonl":
            (directory / "in.jsonl").write_bytes(as_lines(events))
        case "eventlog":
            (directory / "in.log").write_bytes(as_log(events))
        case "images":
            for number in range(5):
                (directory / "in" / "cat").mkdir(parents=True, exist_ok=True)
                (directory / "in" / "cat" / f"{number}.png").write_bytes(b"\x89PNG" + bytes([number]))
            return directory / "in"
    return next(directory.glob("in.*"))


async def read(name, path):
    """What a source yields: the events as bytes, or the damaged bytes."""
    source = choose(installed(), "source", {"plugin": name, "paths": [str(path)]}, "source").create()
    await source.open(None, 0)
    found = []
    while records := await source.read(100):
        found += [encode(one.event) if one.event else bytes(one.original) for one in records]
    await source.close()
    return found


@pytest.mark.parametrize("name", ["npz", "parquet", "jsonl", "eventlog", "images"])
async def test_every_source_into_a_log_and_back(tmp_path, events, vectors, name):
    path, log = inputs(name, tmp_path, events, vectors), tmp_path / "out.recording"
    chosen = ["--plugin", name] if name == "images" else []
    done = must("record", path, "--to", log, *chosen)
    there = await read(name, path)
    assert len(there) >= 5
    assert await read("eventlog", log) == there
    assert done.stdout == f"{len(there):,} inputs, {log.stat().st_size:,} bytes in {log}\n"
    assert done.stderr == ""


@pytest.mark.parametrize(("form", "write"), [("jsonl", as_lines), ("eventlog", as_log)])
async def test_standard_input(tmp_path, events, form, write):
    log = tmp_path / "out.log"
    done = must("record", "--plugin", "stdin", "-s", f"format={form}", "--to", log, "--json", stdin=write(events))
    assert json.loads(done.stdout) == {"events": len(events), "damaged": 0, "bytes": log.stat().st_size}
    assert await read("eventlog", log) == [encode(event) for event in events]


async def test_several_files_and_globs_in_order(tmp_path, events):
    for number in (2, 1, 3):
        (tmp_path / f"part-{number}.jsonl").write_bytes(as_lines(events[number * 10 : number * 10 + 10]))
    must("record", "part-3.jsonl", "part-[12].jsonl", "--to", "out.log", cwd=tmp_path)
    expected = [*events[30:40], *events[10:30]]
    assert await read("eventlog", tmp_path / "out.log") == [encode(event) for event in expected]


async def test_what_is_no_event_is_recorded_and_rejected_on_replay(tmp_path, events):
    (tmp_path / "in.jsonl").write_bytes(as_lines(events[:2]) + b'{"type": "nonsense"}\n' + as_lines(events[2:4]))
    done = must("record", tmp_path / "in.jsonl", "--to", tmp_path / "out.log")
    assert done.stdout.startswith("5 inputs, 1 of them damaged, ")
    assert (await read("eventlog", tmp_path / "out.log"))[2] == b'{"type": "nonsense"}'


def test_the_source_of_a_configuration(tmp_path):
    config = write_stream(tmp_path, events=300)
    done = must("record", "--config", config, "--to", tmp_path / "copy.log")
    assert (tmp_path / "copy.log").read_bytes() == (tmp_path / "stream.log").read_bytes()
    assert done.stdout.startswith("300 inputs")
    (tmp_path / "short.log").write_bytes(as_log([FeatureEvent(id="a", features=Array.of(np.ones(2)))]))
    changed = ("-s", f'paths=["{tmp_path}/short.log"]')
    assert must("record", "--config", config, "--to", tmp_path / "o.log", *changed).stdout.startswith("1 inputs")


def test_an_existing_output_is_refused(tmp_path, events):
    (tmp_path / "in.log").write_bytes(as_log(events[:3]))
    (tmp_path / "out.log").write_bytes(b"mine")
    message = refusal(2, "record", "in.log", "--to", "out.log", cwd=tmp_path)
    assert message == "out.log exists already: choose another name or remove it\n"
    assert (tmp_path / "out.log").read_bytes() == b"mine"


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (
            ["in.csv"],
            2,
            "known for 'in.csv' (no such file or folder): name one with --plugin, of eventlog, images, jsonl",
        ),
        (["th*.csv"], 2, "no source plugin is known for 'th*.csv': name one with --plugin, of eventlog, images, jsonl"),
        (
            ["there.csv"],
            2,
            "no source plugin is known for 'there.csv': name one with --plugin, of eventlog, images, jsonl",
        ),
        (["in.csv", "--plugin", "jsnl"], 2, "unknown source 'jsnl': did you mean 'jsonl'?"),
        ([], 2, "there is nothing to read: give an INPUT, --plugin or --config"),
        (["in.log", "--plugin", "stdin"], 2, "source 'stdin' takes no INPUT: leave out in.log"),
        (["--plugin", "jsonl"], 2, "missing required field `paths`"),
        (["in.log", "--config", "some.toml"], 2, "give either --config, or INPUTs and --plugin, not both"),
        (["--plugin", "stdin", "--config", "some.toml"], 2, "give either --config, or INPUTs and --plugin, not both"),
        (["--config", "missing.toml"], 2, "cannot read the configuration missing.toml"),
        (["in.log", "-s", "folow=true"], 2, "has no key 'folow': did you mean 'follow'?"),
        (["in.log", "-s", "follow"], 2, "override 'follow' must look like"),
    ],
)
def test_bad_options_are_one_line(speciate, tmp_path, arguments, code, says):
    (tmp_path / "there.csv").touch()
    done = speciate("record", *arguments, "--to", "out.log")
    assert done.exit_code == code
    assert says in done.stderr
    assert done.output.count("\n") == 1
    assert not (tmp_path / "out.log").exists()


def test_what_cannot_be_read_or_written_is_one_line(tmp_path, events):
    assert "no file matches 'in.log'" in refusal(4, "record", "in.log", "--to", "out.log", cwd=tmp_path)
    assert not (tmp_path / "out.log").exists()
    (tmp_path / "in.log").write_bytes(as_log(events[:1]))
    missing = refusal(4, "record", "in.log", "--to", "no/out.log", cwd=tmp_path)
    assert missing.startswith("cannot write no/out.log: No such file or directory")


def test_no_output_named(speciate):
    done = speciate("record", "in.log")
    assert done.exit_code == 2
    assert "Missing option '--to'" in done.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
async def test_a_signal_ends_the_recording_of_a_followed_file(tmp_path, events, number):
    source, log = tmp_path / "in.jsonl", tmp_path / "out.log"
    source.write_bytes(as_lines(events))
    late = [FeatureEvent(id=f"late-{n}", features=Array.of(np.ones(400))) for n in range(100)]
    with started("record", source, "--to", log, "-s", "follow=true", "--json") as recording:
        until(lambda: log.exists() and log.stat().st_size, recording)
        with source.open("ab") as more:
            more.write(as_lines(late))
        # All of it: what is behind the last read when the signal comes is not recorded.
        until(lambda: log.stat().st_size == len(as_log([*events, *late])), recording)
        with source.open("ab") as unfinished:
            unfinished.write(b'{"type": "feat')
        recording.send_signal(number)
        stdout, stderr = recording.communicate(timeout=60)
    assert recording.returncode == 0
    assert stderr == b"speciate: finishing what was read; once more to leave at once\n"
    found = await read("eventlog", log)
    assert len(found) == len(events) + 100 == json.loads(stdout)["events"]
    assert found[: len(events)] == [encode(event) for event in events]


def test_a_signal_ends_the_recording_of_a_silent_pipe(tmp_path):
    log = tmp_path / "out.log"
    with started("record", "--plugin", "stdin", "--to", log, stdin=subprocess.PIPE) as recording:
        until(log.exists, recording)
        recording.send_signal(signal.SIGTERM)
        assert recording.wait(60) == 0
        assert recording.stdout.read() == f"0 inputs, 0 bytes in {log}\n".encode()


async def test_a_killed_recording_holds_all_that_came(tmp_path, events):
    log = tmp_path / "out.log"
    with started("record", "--plugin", "stdin", "--to", log, stdin=subprocess.PIPE) as recording:
        recording.stdin.write(as_lines(events[:20]))
        recording.stdin.flush()
        until(lambda: log.exists() and log.stat().st_size == len(as_log(events[:20])), recording)
        recording.kill()
        recording.wait(60)
    assert await read("eventlog", log) == [encode(event) for event in events[:20]]


async def test_a_signal_loses_nothing_that_was_taken_from_a_pipe(tmp_path, events):
    log = tmp_path / "out.log"
    with started("record", "--plugin", "stdin", "--to", log, "--json", stdin=subprocess.PIPE) as recording:
        recording.stdin.write(as_lines(events) + b'{"type": "feat')
        recording.stdin.flush()
        until(lambda: log.exists() and log.stat().st_size and waiting_in(recording.stdin) == 0, recording)
        recording.send_signal(signal.SIGTERM)
        assert recording.wait(60) == 0
        report = json.loads(recording.stdout.read())
    assert (report["events"], report["damaged"]) == (len(events) + 1, 1)
    assert await read("eventlog", log) == [*(encode(event) for event in events), b'{"type": "feat']
