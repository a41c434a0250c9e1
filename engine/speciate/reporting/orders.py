"""Whether the order of a stream matters more than the method: each method's spread over orders beside the gaps."""

from collections.abc import Iterable, Sequence
from itertools import pairwise

import msgspec

from speciate.reporting.tables import Aggregate, aggregate
from speciate_schemas.replay import Run

MEASURE = "all"
LEAST = 2
"""Orders and methods it takes to compare."""


class MethodSpread(msgspec.Struct, frozen=True):
    """One method on one benchmark, over orders."""

    method: str
    title: str
    by_order: dict[str, float]
    """Strict accuracy, mean over seeds."""
    mean: float
    spread: float
    """Largest less smallest."""
    gap: float | None
    """From its mean to that of the method nearest to it; none without another."""

    @property
    def larger(self) -> bool | None:
        """Whether the order moves it further than to its neighbour; none without a neighbour."""
        return None if self.gap is None else self.spread > self.gap


class OrderEffect(msgspec.Struct, frozen=True):
    """One benchmark in several orders, with the methods that were run in all of them; the best first."""

    benchmark: str
    title: str
    orders: list[str]
    methods: list[MethodSpread]
    leaders: dict[str, str]
    """The best method of each order."""
    mean_spread: float
    mean_gap: float | None
    """Between neighbours in the ranking, on average."""

    @property
    def larger(self) -> bool | None:
        """Whether, on average, the order moves a method further than to its neighbour."""
        return None if self.mean_gap is None else self.mean_spread > self.mean_gap


def order_effects(runs: Iterable[Run]) -> list[OrderEffect]:
    """Of every benchmark that was run in two orders at least."""
    rows = aggregate(runs)
    effects = [
        _effect([row for row in rows if row.benchmark == name]) for name in dict.fromkeys(r.benchmark for r in rows)
    ]
    return [effect for effect in effects if effect is not None]


def _effect(rows: Sequence[Aggregate]) -> OrderEffect | None:
    orders = list(dict.fromkeys(row.order for row in rows))
    scores: dict[str, dict[str, float]] = {}
    for row in rows:
        if (mean := row.measures[MEASURE].mean) is not None:
            scores.setdefault(row.method, {})[row.order] = mean
    # A method that was spared some orders would look steadier than it is.
    whole = {method: some for method, some in scores.items() if len(some) == len(orders)}
    if len(orders) < LEAST or not whole:
        return None
    means = {method: sum(some.values()) / len(some) for method, some in whole.items()}
    ranked = sorted(means, key=lambda method: (-means[method], method))
    titles = {row.method: row.method_title for row in rows}
    methods = [_spread(method, titles[method], whole[method], means) for method in ranked]
    steps = [means[a] - means[b] for a, b in pairwise(ranked)]
    return OrderEffect(
        benchmark=rows[0].benchmark,
        title=rows[0].benchmark_title,
        orders=orders,
        methods=methods,
        leaders={order: max(ranked, key=lambda method: whole[method][order]) for order in orders},
        mean_spread=sum(one.spread for one in methods) / len(methods),
        mean_gap=sum(steps) / len(steps) if steps else None,
    )


def _spread(method: str, title: str, scores: dict[str, float], means: dict[str, float]) -> MethodSpread:
    gaps = [abs(means[method] - mean) for other, mean in means.items() if other != method]
    return MethodSpread(
        method=method,
        title=title,
        by_order=scores,
        mean=means[method],
        spread=max(scores.values()) - min(scores.values()),
        gap=min(gaps) if gaps else None,
    )
