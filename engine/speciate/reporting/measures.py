"""The numbers of a run that are reported: what they are called, how they are read, written and ranked.

Fractions stay fractions wherever a program reads them, and become percent only for people.
"""

from collections.abc import Callable
from typing import NamedTuple

from speciate_schemas.replay import Run

Value = float | None
NONE = "–"
"""What people read where there is no value."""

_BINARY_PREFIXES = ("B", "kB", "MB", "GB", "TB")
_STEP = 1000.0


class Measure(NamedTuple):
    """One number of a run."""

    key: str
    heading: str
    about: str
    read: Callable[[Run], Value]
    write: Callable[[float], str]
    better: int
    """1 where more is better, -1 where less is, 0 where neither."""
    goodness: Callable[[Run], Value] | None = None
    """What is ranked, more being better, where it is not the number itself."""
    timing: bool = False
    """Whether it differs from one run of the same thing to the next."""

    def rank(self, run: Run) -> Value:
        """How good a run is by this measure: more is better. None where it cannot be ranked."""
        if self.goodness is not None:
            return self.goodness(run)
        value = self.read(run)
        return None if value is None or not self.better else self.better * value

    def text(self, value: Value) -> str:
        """A value as people read it."""
        return NONE if value is None else self.write(value)


def plural(count: int, what: str) -> str:
    """A count and what is counted: `1 run`, `2 runs`."""
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def percent(value: float) -> str:
    """A fraction in percent."""
    return f"{100 * value:.1f}"


def whole(value: float) -> str:
    """A count, or a mean of counts."""
    return f"{value:.0f}" if value == round(value) else f"{value:.1f}"


def plain(value: float) -> str:
    """A number of no special kind, three digits of it."""
    return f"{value:,.0f}" if abs(value) >= _STEP else f"{value:.3g}"


def size(value: float) -> str:
    """Bytes."""
    for prefix in _BINARY_PREFIXES[:-1]:
        if abs(value) < _STEP:
            return f"{value:.3g} {prefix}"
        value /= _STEP
    return f"{value:.3g} {_BINARY_PREFIXES[-1]}"


def miscount(run: Run) -> float:
    """How far the number of categories is off, as a share of the classes there are."""
    return abs(run.metrics.categories - run.metrics.classes) / max(run.metrics.classes, 1)


MEASURES = (
    Measure("all", "All %", "Strict accuracy over all events.", lambda r: r.metrics.strict.all, percent, 1),
    Measure("known", "Known %", "Strict accuracy, known classes.", lambda r: r.metrics.strict.known, percent, 1),
    Measure("novel", "Novel %", "Strict accuracy, novel classes.", lambda r: r.metrics.strict.novel, percent, 1),
    Measure("greedy_all", "Greedy all %", "Greedy accuracy, all events.", lambda r: r.metrics.greedy.all, percent, 1),
    Measure("greedy_known", "Greedy known %", "Greedy, known classes.", lambda r: r.metrics.greedy.known, percent, 1),
    Measure("greedy_novel", "Greedy novel %", "Greedy, novel classes.", lambda r: r.metrics.greedy.novel, percent, 1),
    Measure(
        "categories",
        "Categories",
        "Categories that got an event; best is closest to the classes there are.",
        lambda r: r.metrics.categories,
        whole,
        0,
        lambda r: -miscount(r),
    ),
    Measure("classes", "Classes", "Classes in the stream.", lambda r: r.metrics.classes, whole, 0),
    Measure("held", "Held", "Categories the head had in the end.", lambda r: r.metrics.held, whole, 0),
    Measure("births", "Births", "Categories born.", lambda r: r.metrics.births, whole, 0),
    Measure(
        "false_birth_rate",
        "False births %",
        "Births of classes there already, an event.",
        lambda r: r.metrics.false_birth_rate,
        percent,
        -1,
    ),
    Measure("nmi", "NMI", "Normalised mutual information.", lambda r: r.metrics.nmi, "{:.3f}".format, 1),
    Measure("ari", "ARI", "Adjusted Rand index.", lambda r: r.metrics.ari, "{:.3f}".format, 1),
    Measure("purity", "Purity %", "Events of their category's majority.", lambda r: r.metrics.purity, percent, 1),
    Measure("head_bytes", "Memory", "Of the head in the end.", lambda r: r.metrics.head_bytes, size, -1),
    Measure(
        "events_per_second",
        "Events/s",
        "Rate of the head.",
        lambda r: r.metrics.timing.events_per_second,
        plain,
        1,
        timing=True,
    ),
    Measure("mean_ms", "Mean ms", "Time an event, mean.", lambda r: r.metrics.timing.mean_ms, plain, -1, timing=True),
    Measure("p50_ms", "p50 ms", "Time an event, median.", lambda r: r.metrics.timing.p50_ms, plain, -1, timing=True),
    Measure("p99_ms", "p99 ms", "Time an event, 99 %.", lambda r: r.metrics.timing.p99_ms, plain, -1, timing=True),
    Measure("max_ms", "Max ms", "Time an event, longest.", lambda r: r.metrics.timing.max_ms, plain, -1, timing=True),
    Measure("fit_seconds", "Fit s", "Time to fit.", lambda r: r.metrics.timing.fit_seconds, plain, -1, timing=True),
)
BY_KEY = {measure.key: measure for measure in MEASURES}
SHOWN = ("all", "known", "novel", "categories", "false_birth_rate", "nmi", "head_bytes", "events_per_second", "p99_ms")
"""Measures for people; programs get them all."""
