"""Every metric there is: the one table that the engine feeds, `/metrics` shows and docs/metrics.md is written from."""

from typing import Literal, NamedTuple

Kind = Literal["counter", "gauge", "histogram"]

# Round numbers, and never changed: alerts are written in terms of them.
LATENCIES = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
DURATIONS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
SIZES = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 4096.0)


class Metric(NamedTuple):
    """One metric: what it is called, what it counts, and what tells its values apart."""

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()
    """Upper ends of a histogram's buckets; a last one without end is implied."""


LABELS = {
    "task": "Number of the task, which is that of its partition; 0 where the source is not shared.",
    "outcome": "`assigned`, `rejected`, `control`, `forwarded` (by a pipeline without a head) or `dropped`.",
    "stage": "`source`, `decoder`, `encoder`, `head` or `sink`; of a rejection `source`, `encoder`, `admission`, "
    "`head`, `control`, or `other` for one that came from a pipeline in front and names a stage unknown here.",
    "error": "Class of the error, as in the rejection; `other` where a pipeline in front names one unknown here.",
    "state": "`busy`, `idle` (nothing to do) or `backpressured` (the next stage takes nothing).",
    "reason": "What was wrong with a request. Who asks: `token`, `host`, `origin` (another site's page). How: "
    "`malformed` (no HTTP), `headers` (too large), `method`, `type` (no JSON), `body` (too large), `invalid` "
    "(parameters or JSON that make no sense). What for: `unknown` (not there), `uncontrollable` (cannot be changed). "
    "How many: `crowded` (connections, or requests at once), `streams` (that listen), `slow` (in asking, or in taking "
    "the answer). Or with us: `unready` (not restored yet), `stuck` (the pipeline does not come to it), `failed` (an "
    "error here, or of a service that is needed).",
    "version": "Version of Speciate.",
}
"""What each label means."""

_TABLE = (
    Metric(
        "speciate_events_total",
        "counter",
        "Inputs whose answers were handed to the sink, and inputs dropped. One that was not committed before a "
        "failure is answered, and counted, again.",
        ("task", "outcome"),
    ),
    Metric("speciate_births_total", "counter", "Assignments that founded a category.", ("task",)),
    Metric(
        "speciate_rejections_total",
        "counter",
        "Inputs that could not be used, by where they failed and how.",
        ("task", "stage", "error"),
    ),
    Metric(
        "speciate_latency_seconds",
        "histogram",
        "From reading an event to writing its answer; the commit comes on top.",
        ("task",),
        LATENCIES,
    ),
    Metric(
        "speciate_batch_events",
        "histogram",
        "Events that a stage took at once.",
        ("task", "stage"),
        SIZES,
    ),
    Metric(
        "speciate_stage_seconds_total",
        "counter",
        "How a stage spent its time. Divided by the time passed it is the stage's share of each state.",
        ("task", "stage", "state"),
    ),
    Metric("speciate_categories", "gauge", "Categories there are, known and discovered.", ("task",)),
    Metric("speciate_head_bytes", "gauge", "Memory held by the categories.", ("task",)),
    Metric("speciate_sequence", "gauge", "Number of the next input to be decided on.", ("task",)),
    Metric(
        "speciate_lag_records",
        "gauge",
        "What the source still holds, where its end is known, in records, rows or files.",
        ("task",),
    ),
    Metric("speciate_lag_bytes", "gauge", "What the source still holds, where it counts in bytes.", ("task",)),
    Metric(
        "speciate_commit_seconds",
        "histogram",
        "Making answers and position visible together.",
        ("task",),
        DURATIONS,
    ),
    Metric(
        "speciate_snapshot_seconds",
        "histogram",
        "Sealing and saving the state, beside the stream.",
        ("task",),
        DURATIONS,
    ),
    Metric("speciate_snapshot_bytes", "gauge", "Size of the last snapshot saved.", ("task",)),
    Metric("speciate_snapshot_failures_total", "counter", "Snapshots that could not be saved.", ("task",)),
    Metric(
        "speciate_restore_seconds",
        "histogram",
        "Taking a task up where it was left, from opening its stages to reading; its count is the number of restores.",
        ("task",),
        DURATIONS,
    ),
    Metric(
        "speciate_refolded_events_total",
        "counter",
        "Inputs folded again after a restore, with the answers that were committed.",
        ("task",),
    ),
    Metric("speciate_away_total", "counter", "Attempts that ended because a service was away.", ("task",)),
    Metric("speciate_fenced_total", "counter", "Times that another worker took the task over.", ("task",)),
    Metric("speciate_task_ready", "gauge", "1 if the task is restored and connected, else 0.", ("task",)),
    Metric("speciate_task_away", "gauge", "1 while a service that the task needs is away, else 0.", ("task",)),
    Metric("speciate_tasks_owned", "gauge", "Tasks that this process runs."),
    Metric("speciate_tasks_followed", "gauge", "Tasks of other workers whose state is kept at hand here."),
    Metric("speciate_ready", "gauge", "1 if /ready says so, else 0."),
    Metric("speciate_encoder_load_seconds", "gauge", "How long the encoder took to load, its device included."),
    Metric(
        "speciate_page_refusals_total",
        "counter",
        "Requests to this server that were refused, or could not be answered.",
        ("reason",),
    ),
    Metric("speciate_build_info", "gauge", "Always 1; its label tells what runs.", ("version",)),
)

METRICS = {metric.name: metric for metric in _TABLE}
"""The table, by name, in the order in which the metrics are shown."""
