"""`speciate inspect`: what a pipeline knows, at any time, without disturbing it."""

import json
import shutil
import signal
from collections import Counter

import pytest
from commands import left_behind, lines, must, refusal, speciate, started, until, write_stream

EVENTS = 500


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A pipeline that has run to its end, and its report."""
    config = write_stream(tmp_path_factory.mktemp("inspect"), events=EVENTS, seed=3)
    return config, json.loads(must("run", config, "--json").stdout)


def answers_of(config):
    return [json.loads(line) for line in (config.parent / "out" / "answers.jsonl").read_bytes().splitlines()]


def test_json_agrees_with_the_report_and_the_answers(finished):
    config, report = finished
    before = left_behind(config.parent)
    done = must("inspect", config, "--json")
    found = json.loads(done.stdout)
    assert done.stderr == ""
    assert len(found["categories"]) == found["known"] + found["born"] == report["categories"]
    assert found["outcomes"] == report["tally"]
    assert found["snapshot_sequence"] == found["committed_sequence"] == EVENTS
    assert (found["density"], found["policy"], found["dimension"]) == ("nearest-mean", "dp", 16)
    assert found["options"] == {"alpha": 0.001, "prior": "dp"}
    assert set(found["estimated"]) >= {"within", "between"}
    assert found["store"] == str(config.parent / "out" / "state")
    assert found["plugins"].keys() >= {"source.eventlog", "source.npz", "density.nearest-mean", "policy.dp"}
    assigned = Counter(answer["category"] for answer in answers_of(config) if answer["type"] == "assignment.v1")
    for one in found["categories"]:  # 30 of the support set for each known one
        assert one["count"] == assigned[one["id"]] + (30 if one["known"] else 0)
    assert [one["label"] for one in found["categories"] if one["known"]] == ["0", "1", "2", "3"]
    assert left_behind(config.parent) == before


def test_the_table_has_a_row_a_category_the_largest_first(finished):
    config, report = finished
    found = json.loads(must("inspect", config, "--json").stdout)
    table = must("inspect", config).stdout.splitlines()
    assert table[0].split() == ["category", "label", "origin", "events"]
    rows = [line.split() for line in table[2 : 2 + report["categories"]]]
    counts = [int(row[-1].replace(",", "")) for row in rows]
    assert counts == sorted((one["count"] for one in found["categories"]), reverse=True)
    assert {row[0]: row[-2] for row in rows} == {
        str(one["id"]): "known" if one["known"] else "born" for one in found["categories"]
    }
    rest = dict(line.split(": ", 1) for line in table[2 + report["categories"] :])
    assert rest["committed sequence"] == str(EVENTS)
    assert rest["state sha256"] == found["state_sha256"]
    assert rest["outcomes"] == ", ".join(f"{key} {value}" for key, value in report["tally"].items())


def test_many_categories_are_cut_short_unless_all_are_wanted(tmp_path):
    config = write_stream(tmp_path, events=150)
    must("run", config, "-s", "policy.alpha=1e30")
    born = json.loads(must("inspect", config, "--json").stdout)["born"]
    assert born > 50
    assert f"… and {born + 4 - 50} smaller ones (--all lists them)" in must("inspect", config).stdout
    everything = must("inspect", config, "--all").stdout
    assert "smaller ones" not in everything
    assert everything.count(" born ") == born


def test_it_works_while_the_pipeline_runs(tmp_path):
    config = write_stream(tmp_path, events=EVENTS)
    with started("run", config, "--pace", "20", "-s", "commit.snapshot_events=10") as run:
        until(lambda: lines(tmp_path / "out" / "answers.jsonl") > 20, run)
        found = json.loads(must("inspect", config, "--json").stdout)
        assert run.poll() is None
        assert 0 <= found["snapshot_sequence"] <= found["committed_sequence"]
        assert 0 < found["committed_sequence"] < EVENTS
        assert found["known"] == 4
        run.send_signal(signal.SIGTERM)
        assert run.wait(60) == 0


def test_no_state_yet(tmp_path):
    config = write_stream(tmp_path, events=1)
    assert refusal(3, "inspect", config) == f"{tmp_path}/out/state holds no state yet: run the pipeline first\n"
    assert not (tmp_path / "out").exists(), "to look must not leave anything"


def test_no_configuration(tmp_path):
    assert "cannot read the configuration" in refusal(2, "inspect", tmp_path / "missing.toml")


@pytest.fixture
def damaged(finished, tmp_path):
    """The state of a finished pipeline with its newest snapshot cut."""
    config, _ = finished
    shutil.copytree(config.parent / "out" / "state", tmp_path / "state")
    copy = tmp_path / "pipeline.toml"
    copy.write_text(config.read_text().replace(f"{config.parent}/out/state", f"{tmp_path}/state"))
    newest = max((tmp_path / "state" / "snapshots").iterdir())
    newest.write_bytes(newest.read_bytes()[:-7])
    return copy


def test_a_damaged_snapshot_is_passed_over_with_a_warning(damaged):
    done = must("inspect", damaged, "--json")
    found = json.loads(done.stdout)
    assert 0 < found["snapshot_sequence"] < found["committed_sequence"] == EVENTS
    warning = json.loads(done.stderr)
    assert (warning["level"], warning["sequence"]) == ("warning", EVENTS)
    assert warning["message"] == "snapshot is damaged, trying the one before it"
    assert len(list((damaged.parent / "state" / "snapshots").iterdir())) == 2, "to look must not remove anything"


def test_no_whole_snapshot_is_an_error(damaged):
    for snapshot in (damaged.parent / "state" / "snapshots").iterdir():
        snapshot.write_bytes(b"")
    done = speciate("inspect", damaged)
    assert done.returncode == 3
    *warnings, error = done.stderr.splitlines()
    assert [json.loads(warning)["level"] for warning in warnings] == ["warning"] * 2
    assert error.startswith(f"speciate: error: {damaged.parent}/state holds no whole snapshot: ")


def test_where_the_source_goes_on(finished):
    config, _ = finished
    found = json.loads(must("inspect", config, "--json").stdout)
    assert found["source_position"][-1] == (config.parent / "stream.log").stat().st_size
    assert found["lag"] is None, "a log of events does not say how many it has"
    assert json.loads(must("inspect", config, "--json", "--partition", "0").stdout) == found
    said = refusal(2, "inspect", config, "--partition", "1")
    assert said == "--partition 1: the tasks are numbered from 0 to 0\n"


def test_each_stream_has_categories_of_its_own(tmp_path):
    config = write_stream(tmp_path, events=200)
    must("run", config, "-s", 'run.universe="stream"')
    found = json.loads(must("inspect", config, "--json", "-s", 'run.universe="stream"').stdout)
    streams = {one["stream"] for one in found["categories"]}
    assert "crash" in streams
    assert found["known"] == 4 * len(streams)
    table = must("inspect", config, "--all").stdout.splitlines()
    assert table[0].split() == ["stream", "category", "label", "origin", "events"]
    assert sum(line.startswith("crash ") for line in table) == sum(
        one["stream"] == "crash" for one in found["categories"]
    )


def test_a_pipeline_without_a_head_has_a_place_and_no_categories(tmp_path):
    write_stream(tmp_path, events=50)
    config = tmp_path / "forward.toml"
    config.write_text(
        f'[source]\nplugin = "eventlog"\npaths = ["{tmp_path}/stream.log"]\n'
        f'[sink]\nplugin = "eventlog"\npath = "{tmp_path}/out.log"\n'
        f'[store]\nplugin = "directory"\npath = "{tmp_path}/forwarded"\n'
    )
    assert "holds no state yet" in refusal(3, "inspect", config)
    report = json.loads(must("run", config, "--json").stdout)
    found = json.loads(must("inspect", config, "--json").stdout)
    assert (found["committed_sequence"], found["snapshot_sequence"], found["categories"]) == (50, None, [])
    assert found["outcomes"] == report["tally"]
    assert "committed sequence: 50" in must("inspect", config).stdout
