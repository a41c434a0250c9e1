"""What is counted: batch by batch, over attempts, and never by what a stranger writes."""

import re
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from logs_in_memory import Cluster, Process, until
from prometheus_client.parser import text_string_to_metric_families
from worlds import feature, make_pipeline, make_tree, stream, with_trouble

from speciate import endurance
from speciate.errors import EventError
from speciate.exposition import expose
from speciate.instruments import Histogram, Instruments
from speciate.metrics import LABELS, METRICS
from speciate.outcomes import Outcome
from speciate.readings import refresh
from speciate.timing import StageTimes
from speciate_schemas import DeadLetter, Tally

ABBREVIATED = {"ms", "us", "ns", "sec", "secs", "min", "mins", "hr", "kb", "mb", "kib", "mib", "b", "s", "h", "d"}
OTHER_UNITS = {
    "milliseconds",
    "microseconds",
    "nanoseconds",
    "minutes",
    "hours",
    "days",
    "kilobytes",
    "megabytes",
    "bits",
}


def read(instruments: Instruments) -> dict[str, dict[tuple[str, ...], float]]:
    """Every sample as Prometheus' own library reads it: by name, then by the labels' values."""
    found: dict[str, dict[tuple[str, ...], float]] = {}
    for family in text_string_to_metric_families(expose(instruments)):
        for sample in family.samples:
            found.setdefault(sample.name, {})[tuple(sample.labels.values())] = sample.value
    return found


# ---- the table


@pytest.mark.parametrize("metric", METRICS.values(), ids=lambda metric: metric.name)
def test_names_are_what_promtool_wants(metric):
    assert re.fullmatch(r"speciate(_[a-z][a-z0-9]*)+", metric.name)
    words = set(metric.name.split("_"))
    assert not words & (ABBREVIATED | OTHER_UNITS | {"counter", "gauge", "histogram", "summary"})
    assert (metric.kind == "counter") == metric.name.endswith("_total")
    assert not metric.name.endswith(("_count", "_sum", "_bucket"))
    assert metric.help.strip() == metric.help
    assert metric.help.endswith(".")
    assert len(set(metric.labels)) == len(metric.labels)
    assert not {"le", "quantile", "job", "instance"} & set(metric.labels)
    assert all(re.fullmatch("[a-z]+", label) and label in LABELS for label in metric.labels)
    assert bool(metric.buckets) == (metric.kind == "histogram")
    assert list(metric.buckets) == sorted(set(metric.buckets))


def test_every_label_is_some_metric_s():
    assert set(LABELS) == {label for metric in METRICS.values() for label in metric.labels}


# ---- the text


labels_of_any_kind = st.text(st.characters(codec="utf-8", exclude_characters="\r\x85\u2028\u2029\x0b\x0c\x1c\x1d\x1e"))


@given(labels_of_any_kind, st.floats(allow_nan=False))
def test_what_is_written_is_read_back_whatever_the_label_holds(label, value):
    instruments = Instruments()
    instruments.set("speciate_build_info", value, label)
    assert read(instruments)["speciate_build_info"][label,] == value


@given(st.lists(st.floats(0, 100), max_size=40), st.integers(0, 40))
def test_a_histogram_counts_alike_one_by_one_and_at_once(values, cut):
    one, many = Histogram((0.1, 1.0, 10.0)), Histogram((0.1, 1.0, 10.0))
    for value in values:
        one.observe(value)
    for part in (values[:cut], values[cut:]):
        many.observe_many(np.array(part, dtype=float))
    below = np.array([sum(value <= end for value in values) for end in (0.1, 1.0, 10.0, np.inf)])
    assert np.cumsum(one.counts).tolist() == np.cumsum(many.counts).tolist() == below.tolist()
    assert one.sum == pytest.approx(many.sum) == pytest.approx(sum(values))


def test_a_histogram_is_told_cumulatively():
    instruments = Instruments()
    instruments.task(3).commits.observe_many(np.array([0.005, 0.2, 1e6]))
    found = read(instruments)
    buckets = found["speciate_commit_seconds_bucket"]
    assert (buckets["3", "0.005"], buckets["3", "0.1"], buckets["3", "0.25"], buckets["3", "+Inf"]) == (1, 1, 2, 3)
    assert found["speciate_commit_seconds_count"]["3",] == 3
    assert found["speciate_commit_seconds_sum"]["3",] == pytest.approx(1e6 + 0.205)


# ---- what is fed


async def test_counts_are_those_of_the_run(tmp_path):
    pipeline = make_pipeline(make_tree(tmp_path, with_trouble(100)))
    report = await pipeline.run()
    found, tally = read(pipeline.instruments()), report.status.tally
    outcomes = {labels[1]: value for labels, value in found["speciate_events_total"].items()}
    assert outcomes == {"assigned": 93, "rejected": 5, "control": 2, "forwarded": 0, "dropped": 0}
    assert found["speciate_births_total"]["0",] == tally.births > 0
    rejections = found["speciate_rejections_total"]
    assert sum(rejections.values()) == 5
    assert rejections["0", "source", "DecodeError"] == rejections["0", "head", "FeatureError"] == 1
    assert found["speciate_latency_seconds_count"]["0",] == 100
    assert found["speciate_batch_events_sum"]["0", "head"] == 100
    assert found["speciate_commit_seconds_count"]["0",] >= 5
    assert found["speciate_snapshot_seconds_count"]["0",] >= 2
    newest = max((tmp_path / "out" / "state" / "snapshots").iterdir())
    assert found["speciate_snapshot_bytes"]["0",] == newest.stat().st_size
    assert found["speciate_restore_seconds_count"]["0",] == 0
    for stage, spent in report.status.stages.items():
        assert found["speciate_stage_seconds_total"]["0", stage, "busy"] == pytest.approx(spent.busy)


async def test_a_restore_is_counted_with_what_it_folded_again(tmp_path):
    tree = make_tree(tmp_path, stream(90), commit={"snapshot_events": 10**6, "events": 10})
    await make_pipeline(tree).run()
    # Only the first snapshot is left: all that was answered must be folded again.
    for path in sorted((tmp_path / "out" / "state" / "snapshots").iterdir())[1:]:
        path.unlink()
    again = make_pipeline(tree)
    await again.run()
    found = read(again.instruments())
    assert found["speciate_restore_seconds_count"]["0",] == 1
    assert found["speciate_refolded_events_total"]["0",] == 90
    assert sum(found["speciate_events_total"].values()) == 0


async def test_dropped_inputs_are_counted_to_the_last(tmp_path):
    tree = make_tree(tmp_path, stream(200), run={"overflow": "drop-newest", "queue_events": 5, "batch_events": 3})
    pipeline = make_pipeline(tree)
    report = await pipeline.run()
    found = read(pipeline.instruments())["speciate_events_total"]
    assert found["0", "dropped"] == report.status.tally.dropped > 0
    assert sum(found.values()) == 200


async def test_gauges_are_of_the_tasks_that_run_here_and_counters_stay(tmp_path, monkeypatch):
    monkeypatch.setattr(endurance, "FIRST_PAUSE", 0.002)
    cluster = Cluster(stream(40), stream(30, seed=1))
    process = Process(cluster, tmp_path, commit={"interval_ms": 5.0})
    await until(lambda: process.share.joined, process)
    assert process.worker.unready == [("waiting", "waiting for a share of the tasks", None)]
    process.share.give(frozenset({0, 1}))
    await until(lambda: cluster.done and not process.worker.unready, process)
    refresh(process.worker)
    found = read(process.worker.instruments)
    assert found["speciate_lag_records"] == {("0",): 0, ("1",): 0}
    assert found["speciate_sequence"] == {("0",): 40, ("1",): 30}
    assert found["speciate_tasks_owned"][()] == 2
    assert found["speciate_task_ready"] == {("0",): 1, ("1",): 1}
    process.share.give(frozenset({1}))
    await until(lambda: list(process.worker.owned) == [1], process)
    refresh(process.worker)
    found = read(process.worker.instruments)
    assert found["speciate_sequence"] == {("1",): 30}
    assert found["speciate_events_total"]["0", "assigned"] == 40
    await process.stop()


def test_labels_do_not_grow_by_what_comes_over_the_wire():
    instruments = Instruments()
    letters = [
        DeadLetter(id=None, stream=None, sequence=n, stage=f"s{n}", error=f"E{n}", message="", origin="", original=b"")
        for n in range(50)
    ]
    instruments.task(0).answered(Tally(), Tally(rejected=50), [Outcome(letter) for letter in letters])
    assert read(instruments)["speciate_rejections_total"] == {("0", "other", "other"): 50}


def test_a_plugin_s_own_error_is_told_by_its_name():
    class SmudgedError(EventError):
        """Made up."""

    instruments = Instruments()
    letter = DeadLetter(
        id="x", stream="", sequence=0, stage="encoder", error=SmudgedError.__name__, message="", origin="", original=b""
    )
    instruments.task(0).answered(Tally(), Tally(rejected=1), [Outcome(letter)])
    assert read(instruments)["speciate_rejections_total"] == {("0", "encoder", "SmudgedError"): 1}


# ---- times


def test_time_under_way_counts_and_no_counter_goes_back(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])
    instruments, times = Instruments(), StageTimes()
    instruments.task(0).begin({"source": times})

    def idle():
        instruments.read_times()
        return instruments.value("speciate_stage_seconds_total", "0", "source", "idle").value

    with times.under_way("idle"):
        now[0] += 5.0
        assert idle() == 5.0
    # It turns out to have been work for the most part.
    times.idle += 1.0
    times.busy += 4.0
    assert idle() == 5.0
    with times.measure("idle"):
        now[0] += 10.0
        assert idle() == 11.0
    assert idle() == 11.0
    # The next attempt begins at nothing, the counter does not.
    instruments.task(0).begin({"source": StageTimes(idle=2.0)})
    assert idle() == 13.0


async def test_a_report_tells_only_what_was_spent(tmp_path):
    pipeline = make_pipeline(make_tree(tmp_path, [feature("a", [0.0, 0.0, 0.0])]))
    report = await pipeline.run()
    assert set(report.as_json()["stages"]["head"]) == {"busy", "idle", "backpressured"}
