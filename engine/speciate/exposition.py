"""Prometheus' text format, version 0.0.4: what `/metrics` answers."""

import functools
import math
from collections.abc import Iterator
from itertools import groupby

from speciate.instruments import Histogram, Instruments, Labels
from speciate.metrics import Metric

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def expose(instruments: Instruments) -> str:
    """All instruments as text; a metric without any value is left out."""
    return "".join(f"{line}\n" for line in _lines(instruments))


def _lines(instruments: Instruments) -> Iterator[str]:
    for metric, group in groupby(instruments.readings(), key=lambda one: one[0]):
        yield f"# HELP {metric.name} {_escaped(metric.help)}"
        yield f"# TYPE {metric.name} {metric.kind}"
        for _, labels, one in group:
            if isinstance(one, Histogram):
                yield from _buckets(metric, labels, one)
            else:
                yield _sample(metric.name, metric.labels, labels, one.value)


def _buckets(metric: Metric, labels: Labels, one: Histogram) -> Iterator[str]:
    # One copy for all: values may come in meanwhile, and the last bucket must agree with the count.
    counts, total = one.counts.tolist(), 0
    name, names = f"{metric.name}_bucket", (*metric.labels, "le")
    for end, count in zip([*map(_number, metric.buckets), "+Inf"], counts, strict=True):
        total += count
        yield _sample(name, names, (*labels, end), total)
    yield _sample(f"{metric.name}_sum", metric.labels, labels, one.sum)
    yield _sample(f"{metric.name}_count", metric.labels, labels, total)


def _sample(name: str, names: Labels, labels: Labels, value: float) -> str:
    return f"{_series(name, names, labels)} {_number(value)}"


@functools.lru_cache(maxsize=1 << 16)  # they are the same every time: most of the work, for a process of many tasks
def _series(name: str, names: Labels, labels: Labels) -> str:
    quoted = (_escaped(text).replace('"', '\\"') for text in labels)
    pairs = ",".join(f'{key}="{text}"' for key, text in zip(names, quoted, strict=True))
    return f"{name}{{{pairs}}}" if pairs else name


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n")


def _number(value: float) -> str:
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return str(int(value)) if value == int(value) else repr(float(value))
