"""Runs as tables: one row a run, or one row a method with mean and standard deviation over its seeds."""

import csv
import io
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from speciate.reporting.grouping import Group, group, in_order, settings
from speciate.reporting.measures import BY_KEY, MEASURES, NONE, SHOWN, Value
from speciate_schemas.replay import Run

BEST_MARK = "*"
"""Behind the best value of a column, for people."""

MOST_PURITIES = 100
"""Categories of a run whose purity programs get; some methods have thousands of one event."""

Table = tuple[list[str], list[list[str]]]
"""Headings and rows, as `speciate.cli.output.print_table` takes them."""


class Spread(msgspec.Struct, frozen=True):
    """A number over seeds."""

    mean: Value
    std: Value
    """Of the sample; none of one run."""
    best: bool = False
    """Whether no other method of the setting has a better mean."""


class Aggregate(msgspec.Struct, frozen=True):
    """One method in one setting, over its seeds."""

    benchmark: str
    benchmark_title: str
    order: str
    method: str
    method_title: str
    seeds: list[int]
    measures: dict[str, Spread]
    groups: dict[str, dict[str, Spread]]
    """Strict accuracy of each group of events, if the benchmark has groups."""

    @property
    def runs(self) -> int:
        """How many runs it is of."""
        return len(self.seeds)


def aggregate(runs: Iterable[Run]) -> list[Aggregate]:
    """Every method in every setting; settings in their fixed order, methods with the best strict accuracy first."""
    groups = group(runs)
    rows: list[Aggregate] = []
    for setting in settings(groups):
        together = [one for one in groups if one.setting == setting]
        best = {measure.key: _best(together, measure.key) for measure in MEASURES}
        here = [_summarise(one, {key for key, who in best.items() if one.variant.method in who}) for one in together]
        rows += sorted(here, key=_by_accuracy)
    return rows


def spread(values: Iterable[Value], *, best: bool = False) -> Spread:
    """Mean and sample standard deviation of the values there are."""
    there = [value for value in values if value is not None]
    return Spread(
        mean=math.fsum(there) / len(there) if there else None,
        std=statistics.stdev(there) if len(there) > 1 else None,
        best=best,
    )


def _by_accuracy(row: Aggregate) -> tuple[bool, float, str]:
    mean = row.measures["all"].mean
    return mean is None, -(mean or 0.0), row.method


def _best(groups: Sequence[Group], key: str) -> set[str]:
    """The methods no other is better than; none where there is nothing to compare."""
    ranks = {one.variant.method: spread(BY_KEY[key].rank(run) for run in one.runs).mean for one in groups}
    there = [rank for rank in ranks.values() if rank is not None]
    if not there or min(there) == max(there):
        return set()
    return {method for method, rank in ranks.items() if rank == max(there)}


def _summarise(one: Group, best: set[str]) -> Aggregate:
    info = one.runs[0].info
    names = dict.fromkeys(name for run in one.runs for name in run.metrics.groups)
    shares = {name: [run.metrics.groups[name] for run in one.runs if name in run.metrics.groups] for name in names}
    return Aggregate(
        benchmark=one.setting.benchmark,
        benchmark_title=info.benchmark_title,
        order=one.setting.order,
        method=one.variant.method,
        method_title=one.variant.title,
        seeds=[run.info.seed for run in one.runs],
        measures={m.key: spread(map(m.read, one.runs), best=m.key in best) for m in MEASURES},
        groups={
            name: {part: spread(getattr(share, part) for share in some) for part in ("all", "known", "novel")}
            for name, some in shares.items()
        },
    )


def runs_csv(runs: Iterable[Run]) -> str:
    """One row a run, every measure in it; fractions are fractions, and what there is not is empty."""
    rows: list[dict[str, Any]] = []
    for one in group(runs):
        for run in one.runs:
            shares = {
                f"group.{name}.{part}": getattr(share, part)
                for name, share in run.metrics.groups.items()
                for part in ("all", "known", "novel")
            }
            rows.append(
                {
                    "benchmark": one.setting.benchmark,
                    "order": one.setting.order,
                    "method": one.variant.method,
                    "method_title": one.variant.title,
                    "seed": run.info.seed,
                    "workers": run.info.workers,
                    **{measure.key: measure.read(run) for measure in MEASURES},
                    **shares,
                    "data_sha256": run.info.data_sha256,
                    "decisions_sha256": run.info.decisions_sha256,
                    "finished": run.info.finished,
                }
            )
    return _csv(rows)


def aggregates_csv(runs: Iterable[Run]) -> str:
    """One row a method and setting: means, and standard deviations beside them."""
    rows: list[dict[str, Any]] = []
    for one in aggregate(runs):
        shares = {f"group.{name}.{part}": s for name, parts in one.groups.items() for part, s in parts.items()}
        numbers: dict[str, Value] = {}
        for key, value in (one.measures | shares).items():
            numbers |= {key: value.mean, f"{key}_std": value.std}
        rows.append(
            {
                "benchmark": one.benchmark,
                "order": one.order,
                "method": one.method,
                "method_title": one.method_title,
                "runs": one.runs,
                **numbers,
            }
        )
    return _csv(rows)


def as_json(runs: Iterable[Run]) -> dict[str, Any]:
    """Aggregates and runs, as plain values.

    Of the purities of a run's categories only those of the 100 largest are in it; its own `run.json` has all.
    """
    runs = in_order(runs)
    return {
        "aggregates": msgspec.to_builtins(aggregate(runs)),
        "runs": msgspec.to_builtins([_shortened(run) for run in runs]),
    }


def _shortened(run: Run) -> Run:
    purities = run.metrics.purities
    if len(purities) <= MOST_PURITIES:
        return run
    largest = sorted(purities, key=lambda one: (-one.events, one.category))[:MOST_PURITIES]
    return msgspec.structs.replace(run, metrics=msgspec.structs.replace(run.metrics, purities=largest))


def for_terminal(runs: Iterable[Run], keys: Sequence[str] = SHOWN) -> Table:
    """Headings and rows for people; the best value of each setting has a mark."""
    columns = ["benchmark", "order", "method", "runs", *(BY_KEY[key].heading for key in keys)]
    rows = [
        [one.benchmark, one.order, one.method, str(one.runs), *(spread_text(key, one.measures[key]) for key in keys)]
        for one in aggregate(runs)
    ]
    return columns, rows


def spread_text(key: str, value: Spread, *, mark: str = f" {BEST_MARK}") -> str:
    """Mean ± standard deviation, marked if it is the best."""
    measure = BY_KEY[key]
    if value.mean is None:
        return NONE
    beside = "" if value.std is None else f" ± {measure.text(value.std)}"
    return measure.text(value.mean) + beside + (mark if value.best else "")


def _csv(rows: Sequence[Mapping[str, Any]]) -> str:
    columns = dict.fromkeys(key for row in rows for key in row)
    text = io.StringIO()
    writer = csv.DictWriter(text, list(columns), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()
