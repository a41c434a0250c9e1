"""Where the runs of a page come from: methods and whom they follow, support sets, orders, machine, every run."""

from collections.abc import Callable, Iterable, Mapping, Sequence

from speciate.reporting.grouping import BURSTY, Group, Variant, group, options_text
from speciate.reporting.markup import Markup, join, tag
from speciate.reporting.measures import BY_KEY, plural
from speciate.reporting.sections import method_cell, table
from speciate_schemas.benchmark import SupportRule
from speciate_schemas.replay import Run, RunInfo

HASH_SHOWN = 12
RULES = {"pooled": "from all known events at once", "per-class": "from each known class"}


def methods_list(runs: Iterable[Run]) -> Markup:
    """Every method: whom it follows and where it deviates, and its options as they were configured."""
    by_method: dict[str, dict[Variant, list[RunInfo]]] = {}
    for one in group(runs):
        here = by_method.setdefault(one.runs[0].info.method, {}).setdefault(one.variant, [])
        here.extend(run.info for run in one.runs)
    return tag("dl", *(_method(name, ways) for name, ways in by_method.items()), class_="methods")


def _method(name: str, ways: Mapping[Variant, Sequence[RunInfo]]) -> Markup:
    infos = [info for some in ways.values() for info in some]
    said = [tag("p", about) for about in _distinct(infos, lambda info: info.method_about.strip()) if about]
    options = [
        tag(
            "p",
            tag("span", f"{variant.title}: ") if len(ways) > 1 else "",
            "density ",
            tag("code", options_text(some[0].density)),
            ", policy ",
            tag("code", options_text(some[0].policy)),
            class_="quiet",
            data_options=variant.method,
        )
        for variant, some in ways.items()
    ]
    return join(tag("dt", infos[0].method_title, " ", tag("code", name)), tag("dd", *said, *options, data_about=name))


def support_text(support: SupportRule) -> str:
    """How a support set was drawn."""
    groups = f"of the groups {', '.join(support.groups)}" if support.groups else "of all groups"
    seed = "the run's seed" if support.seed is None else f"seed {support.seed}"
    return f"{support.rule}: {100 * support.share:g} % {RULES[support.rule]}, {groups}, drawn with {seed}"


def times_text(runs: Iterable[Run]) -> str:
    """Whether times can be compared: nothing to say where every run was alone."""
    workers = sorted({run.info.workers for run in runs})
    if workers == [1]:
        return ""
    if len(workers) == 1:
        return (
            f"{workers[0]} runs were done side by side, which slows each of them down: "
            "these times cannot be compared with those of a run alone."
        )
    counts = " or ".join(map(str, workers))
    return (
        f"Not all runs had as many beside them: {counts} were done at the same time, which slows each of them down. "
        "Their times cannot be compared with each other, nor with those of a run alone."
    )


def how_it_was_run(runs: Sequence[Run]) -> Markup:
    """Benchmarks with their support sets and orders; versions, hardware, seeds and dates; every run."""
    groups = group(runs)
    infos = [run.info for one in groups for run in one.runs]
    dates = sorted(info.finished for info in infos)
    facts = {
        "seeds": _numbers(info.seed for info in infos),
        "first run finished": dates[0],
        "last run finished": dates[-1],
        "events in a batch": _numbers(run.metrics.timing.batch for run in runs),
        "runs at the same time": _numbers(info.workers for info in infos),
        **_agreed(info.versions for info in infos),
        **_agreed(info.hardware for info in infos),
    }
    lines = [tag("tr", tag("th", key, scope="row"), tag("td", value, data_fact=key)) for key, value in facts.items()]
    counted = "The one run" if len(infos) == 1 else f"All {plural(len(infos), 'run')}"
    times = times_text(runs)
    return join(
        _benchmarks(groups),
        table("Versions and machine.", ["What", "Value"], lines, kind="text"),
        tag("p", times, class_="about", data_times="") if times else "",
        tag("details", tag("summary", counted), _runs(groups)),
    )


def _benchmarks(groups: Sequence[Group]) -> Markup:
    """Each benchmark: how many events, how its support set was drawn, in which orders its stream came."""
    together: dict[str, list[Group]] = {}
    for one in groups:
        together.setdefault(one.setting.benchmark, []).append(one)
    lines = []
    for name, some in together.items():
        infos = [run.info for one in some for run in one.runs]
        orders = dict.fromkeys(_order(one) for one in some)
        counts = {
            "support": _numbers(info.support_events for info in infos),
            "stream": _numbers(info.stream_events for info in infos),
            "known": _numbers(info.known_classes for info in infos),
            "dimension": _numbers(info.dimension for info in infos),
            "drawn": "; ".join(_distinct(infos, lambda info: support_text(info.support))),
            "orders": "; ".join(orders),
        }
        cells = [tag("td", value, data_stream=key, data_benchmark=name) for key, value in counts.items()]
        lines.append(tag("tr", tag("th", infos[0].benchmark_title, scope="row"), *cells))
    headings = ["Benchmark", "Support", "Stream", "Known classes", "Dimensions", "Support drawn", "Orders"]
    return table("Events of the support set and of the stream.", headings, lines, kind="text")


def _order(one: Group) -> str:
    info = one.runs[0].info
    return f"{BURSTY}, up to {info.burst} of a class in a row" if info.order == BURSTY else info.order


def _distinct(infos: Iterable[RunInfo], read: Callable[[RunInfo], str]) -> list[str]:
    return list(dict.fromkeys(map(read, infos)))


def _numbers(values: Iterable[int]) -> str:
    return ", ".join(str(value) for value in sorted(set(values)))


def _agreed(sides: Iterable[Mapping[str, str]]) -> dict[str, str]:
    """What all runs say, and where they do not agree, all that is said."""
    said: dict[str, dict[str, None]] = {}
    for side in sides:
        for key, value in side.items():
            said.setdefault(key, {})[value] = None
    return {key: ", ".join(values) for key, values in said.items()}


def _runs(groups: Sequence[Group]) -> Markup:
    keys = ("all", "known", "novel")
    lines = [
        tag(
            "tr",
            method_cell(one.variant.method, one.variant.title),
            tag("td", one.setting.benchmark),
            tag("td", one.setting.order),
            tag("td", str(run.info.seed), data_value=run.info.seed),
            *(tag("td", BY_KEY[key].text(BY_KEY[key].read(run)), data_value=BY_KEY[key].read(run)) for key in keys),
            tag("td", tag("code", options_text(run.info.tuned))),
            tag("td", tag("code", run.info.decisions_sha256[:HASH_SHOWN])),
            tag("td", run.info.finished),
            data_run=f"{one.setting.benchmark}/{one.setting.order}/{one.variant.method}/{run.info.seed}",
        )
        for one in groups
        for run in one.runs
    ]
    headings = ["Method", "Benchmark", "Order", "Seed", *(BY_KEY[key].heading for key in keys), "Policy as used"]
    return table("One row a run.", [*headings, "Decisions", "Finished"], lines, kind="plain", sortable=True)
