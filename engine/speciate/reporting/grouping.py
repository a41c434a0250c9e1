"""Which runs belong together: those that differ in nothing but their seed.

A sweep runs one method with several options. Such runs are told apart by the options they differ in: `dp` becomes
`dp policy.alpha=1.0`. A method that was run in one way keeps its name.

All that is reported goes by benchmark, order, method and seed, in one fixed order: it is the same whatever order the
runs are given in.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from speciate_schemas.codec import encode
from speciate_schemas.replay import Run, RunInfo

BURSTY = "bursty"
ORDERS = ("random", "class-sorted", BURSTY, "recorded")
"""Orders of a stream as they are listed: the one a benchmark has unless it says another comes first."""
DEFAULT = "default"
"""What is said of an option that was left out."""
_NUMBER = re.compile(r"(\d+(?:\.\d+)?(?:e[-+]?\d+)?)")


class Setting(NamedTuple):
    """Where methods meet: one benchmark in one order."""

    benchmark: str
    order: str


class Variant(NamedTuple):
    """A method as it was run."""

    method: str
    title: str


class Group(NamedTuple):
    """The runs of one method in one setting, one a seed."""

    setting: Setting
    variant: Variant
    runs: tuple[Run, ...]


def in_order(runs: Iterable[Run]) -> list[Run]:
    """The runs by benchmark, order, method and seed."""
    return sorted(runs, key=_place)


def group(runs: Iterable[Run]) -> list[Group]:
    """All runs by setting and method, in their fixed order."""
    runs = in_order(runs)
    named = _variants(runs)
    bursts = {run.info.burst for run in runs if run.info.order == BURSTY}
    found: dict[tuple[Setting, Variant], list[Run]] = {}
    for run in runs:
        info = run.info
        # Bursts of several lengths are several orders.
        order = f"{BURSTY}-{info.burst}" if info.order == BURSTY and len(bursts) > 1 else info.order
        variant = named[info.method, _options(info)]
        found.setdefault((Setting(info.benchmark, order), variant), []).append(run)
    groups = [Group(setting, variant, tuple(some)) for (setting, variant), some in found.items()]
    return sorted(groups, key=lambda one: (_setting_place(*one.setting), natural(one.variant.method)))


def grouped(some: Iterable[Run] | Iterable[Group]) -> list[Group]:
    """Runs as groups; groups as they are, for whoever looks at a part of them and must keep their names."""
    listed = list(some)
    groups = [one for one in listed if isinstance(one, Group)]
    return groups or group(one for one in listed if isinstance(one, Run))


def natural(text: str) -> tuple[list[str | float], str]:
    """A key that sorts text as people do: `phe-8` before `phe-16`, `alpha=1e-09` before `alpha=0.1`."""
    pieces = _NUMBER.split(text)
    return [float(piece) if place % 2 else piece.casefold() for place, piece in enumerate(pieces)], text


def settings(groups: Iterable[Group]) -> list[Setting]:
    """Every setting there is, once."""
    return list(dict.fromkeys(one.setting for one in groups))


def variants(groups: Iterable[Group]) -> list[Variant]:
    """Every method there is, once."""
    return list(dict.fromkeys(one.variant for one in groups))


def benchmark_titles(runs: Iterable[Run]) -> dict[str, str]:
    """What people call the benchmarks."""
    return {run.info.benchmark: run.info.benchmark_title for run in runs}


def options_text(sections: Mapping[str, Any]) -> str:
    """Options as one line."""
    return ", ".join(f"{key}={_text(value)}" for key, value in flatten(sections))


def flatten(section: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """All keys of nested sections, dotted, with their values."""
    for key, value in section.items():
        if isinstance(value, Mapping):
            yield from flatten(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _setting_place(benchmark: str, order: str) -> tuple[Any, ...]:
    kind = BURSTY if order.startswith(f"{BURSTY}-") else order
    place = ORDERS.index(kind) if kind in ORDERS else len(ORDERS)
    return natural(benchmark), place, natural(order)


def _place(run: Run) -> tuple[Any, ...]:
    info = run.info
    # Two runs of one thing differ in when they finished, or at least in what they came to.
    last = info.finished, encode(run)
    return _setting_place(info.benchmark, info.order), info.burst, natural(info.method), info.seed, *last


def _text(value: Any) -> str:
    return value if isinstance(value, str) else encode(value, "json").decode()


def _options(info: RunInfo) -> bytes:
    return encode({"density": info.density, "policy": info.policy})


def _variants(runs: Iterable[Run]) -> dict[tuple[str, bytes], Variant]:
    by_method: dict[str, dict[bytes, RunInfo]] = {}
    for run in runs:
        by_method.setdefault(run.info.method, {}).setdefault(_options(run.info), run.info)
    named: dict[tuple[str, bytes], Variant] = {}
    for method, ways in by_method.items():
        for (options, info), suffix in zip(ways.items(), _suffixes(list(ways.values())), strict=True):
            named[method, options] = Variant(method + suffix, info.method_title + suffix)
    return named


def _suffixes(ways: Sequence[RunInfo]) -> list[str]:
    """What tells several ways to run one method apart; nothing for one."""
    flat = [{key: _text(value) for key, value in flatten({"density": i.density, "policy": i.policy})} for i in ways]
    keys = dict.fromkeys(key for one in flat for key in one)
    differing = [key for key in keys if len({one.get(key, DEFAULT) for one in flat}) > 1]
    return ["".join(f" {key}={one.get(key, DEFAULT)}" for key in differing) for one in flat]
