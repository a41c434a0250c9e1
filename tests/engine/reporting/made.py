"""Runs made by hand: whatever a test does not speak of is plausible and fixed."""

import hashlib
import math
import zlib
from typing import Any

import msgspec

from speciate_schemas.benchmark import SupportRule
from speciate_schemas.replay import (
    CategoryPurity,
    Growth,
    Run,
    RunInfo,
    RunMetrics,
    Shares,
    TemporalBin,
    Timing,
)

EVENTS = 2000
CLASSES = 40

CATALOGUE = {
    "dp-boa": ("DP-BOA", 0.59, 0.636, 0.566, 38, 0.006, 299e6, 0.8),
    "dp-boa-l": ("DP-BOA-L", 0.579, 0.62, 0.556, 37, 0.007, 40.5e6, 0.4),
    "spherical": ("Spherical", 0.471, 0.455, 0.479, 52, 0.02, 0.6e6, 0.05),
    "mahalanobis-threshold": ("Mahalanobis threshold", 0.452, 0.443, 0.456, 71, 0.05, 5e6, 0.06),
    "posterior-threshold": ("Posterior threshold", 0.578, 0.65, 0.54, 46, 0.011, 299e6, 0.8),
    "no-prior-mean": ("w/o prior mean", 0.581, 0.63, 0.555, 37, 0.007, 299e6, 0.8),
    "no-prior-shape": ("w/o prior shape", 0.56, 0.52, 0.582, 33, 0.004, 299e6, 0.8),
    "kappa-one": ("κ₀ = 1", 0.575, 0.601, 0.562, 36, 0.005, 299e6, 0.8),
    "no-dp-prior": ("w/o DP prior", 0.571, 0.627, 0.542, 47, 0.013, 299e6, 0.8),
    "frozen": ("Frozen posteriors", 0.50, 0.6, 0.44, 60, 0.03, 299e6, 0.6),
    "smile": ("SMILE", 0.412, 0.421, 0.407, 180, 0.14, 0.03e6, 0.01),
    "phe": ("PHE", 0.483, 0.538, 0.454, 92, 0.07, 0.02e6, 0.012),
    "phe-16": ("PHE, 16 bits", 0.45, 0.51, 0.42, 130, 0.1, 0.02e6, 0.012),
    "rankstat": ("RankStat", 0.33, 0.36, 0.31, 210, 0.16, 0.02e6, 0.012),
    "wta": ("WTA", 0.35, 0.37, 0.33, 190, 0.15, 0.02e6, 0.011),
    "slc": ("SLC", 0.42, 0.48, 0.39, 64, 0.05, 0.2e6, 0.01),
    "sync": ("SynC, visual", 0.46, 0.53, 0.42, 55, 0.03, 0.3e6, 0.01),
    "diffgre": ("DiffGRE, online step", 0.43, 0.47, 0.4, 68, 0.06, 0.3e6, 0.015),
    "dbstream": ("DBSTREAM", 0.3, 0.33, 0.28, 25, 0.08, 0.3e6, 0.02),
    "nearest-mean": ("Nearest mean", 0.44, 0.5, 0.41, 58, 0.04, 0.2e6, 0.01),
}
"""Methods and what they might come to: title, All, Known, Novel, categories, false births, bytes, milliseconds."""


def a_run(
    method: str = "dp-boa",
    benchmark: str = "pets",
    order: str = "random",
    seed: int = 0,
    *,
    all: float | None = 0.5,  # noqa: A002  # what the paper calls it
    known: float | None = 0.6,
    novel: float | None = 0.4,
    categories: int = CLASSES,
    false_births: float = 0.01,
    head_bytes: float = 1e6,
    ms: float = 1.0,
    title: str | None = None,
    **info: Any,
) -> Run:
    """One run."""
    where = f"{benchmark}/{order}/{seed}"
    return Run(
        info=RunInfo(
            **{
                "benchmark": benchmark,
                "benchmark_title": {"pets": "Oxford-IIIT Pet", "cub": "CUB-200"}.get(benchmark, benchmark),
                "method": method,
                "method_title": title or method,
                "order": order,
                "seed": seed,
                "burst": 10,
                "density": {"plugin": "full"},
                "policy": {"plugin": "dp", "alpha": 1e-9},
                "tuned": {"alpha": 1e-9},
                "estimated": {"kappa0": 0.31, "n0": 24.0},
                "method_about": f"What {method} follows.",
                "support": SupportRule(),
                "workers": 1,
                "support_events": 900,
                "stream_events": EVENTS,
                "known_classes": CLASSES // 2,
                "dimension": 768,
                "data_sha256": hashlib.sha256(where.encode()).hexdigest(),
                "decisions_sha256": hashlib.sha256(f"{where}/{method}/{all}/{categories}".encode()).hexdigest(),
                "versions": {"speciate": "0.1.0", "numpy": "2.4.6", "python": "3.11.9"},
                "hardware": {"machine": "x86_64", "system": "Linux", "cpus": "2"},
                "finished": f"2025-03-0{1 + seed % 9}T10:00:00+00:00",
                **info,
            }
        ),
        metrics=RunMetrics(
            strict=Shares(all=all, known=known, novel=novel),
            greedy=Shares(all=all, known=known, novel=novel),
            groups={},
            categories=categories,
            held=categories + 2,
            classes=CLASSES,
            births=max(categories - CLASSES // 2, 0),
            false_birth_rate=false_births,
            nmi=0.7,
            ari=0.5,
            purity=0.8,
            purities=[CategoryPurity(category=0, events=100, majority="beagle", purity=0.8)],
            bins=[a_bin(place, false_births) for place in range(5)],
            growth=a_growth(categories),
            timing=a_timing(ms),
            head_bytes=int(head_bytes),
        ),
    )


def a_bin(place: int, false_births: float) -> TemporalBin:
    return TemporalBin(
        events=EVENTS // 5,
        births=5 - place,
        false_birth_rate=min(false_births * (1.6 - 0.3 * place), 1.0),
        mean_drift=0.1 * (1.2 - 0.15 * place),
        mean_margin=None if place == 3 and false_births > 0.1 else 9.0 - place * (2.4 - 0.4 * place),
    )


def a_growth(categories: int) -> Growth:
    events = list(range(1, EVENTS + 1, 20))
    start = CLASSES // 2
    shares = [1 - math.exp(-4 * event / EVENTS) for event in events]
    top = 1 - math.exp(-4)
    return Growth(
        events=events,
        categories=[round(start + (categories - start) * share / top) for share in shares],
        classes=[round(start + (CLASSES - start) * min(1.0, 1.4 * share)) for share in shares],
    )


def a_timing(ms: float) -> Timing:
    edges = [ms * 10 ** (place / 10) for place in range(-4, 7)]
    return Timing(
        batch=64,
        fit_seconds=2.5,
        events_per_second=1000 / ms,
        mean_ms=ms,
        p50_ms=0.95 * ms,
        p99_ms=2.4 * ms,
        max_ms=3.6 * ms,
        histogram_ms=edges,
        histogram_counts=[3, 40, 260, 700, 520, 260, 120, 60, 30, 7],
    )


def a_comparison(
    benchmarks: tuple[str, ...] = ("pets", "cub"),
    orders: tuple[str, ...] = ("random", "bursty", "class-sorted"),
    seeds: int = 3,
    methods: tuple[str, ...] = tuple(CATALOGUE),
) -> list[Run]:
    """A whole comparison in which the paper's findings hold."""
    return [
        _varied(method, benchmark, order, seed)
        for benchmark in benchmarks
        for order in orders
        for method in methods
        for seed in range(seeds)
    ]


def _varied(method: str, benchmark: str, order: str, seed: int) -> Run:
    title, *shares, categories, false_births, size, ms = CATALOGUE[method]
    # A little noise that is the same on every machine.
    noise = (zlib.crc32(f"{method}{benchmark}{order}{seed}".encode()) % 1000 / 1000 - 0.5) * 0.004
    moved = {"random": 0.0, "bursty": -0.006, "class-sorted": -0.03, "recorded": 0.004}[order]
    moved -= 0.06 if benchmark == "cub" else 0.0
    strict, known, novel = (share + moved + noise for share in shares)
    return a_run(
        method,
        benchmark,
        order,
        seed,
        all=strict,
        known=known,
        novel=novel,
        categories=categories + seed - 1,
        false_births=false_births,
        head_bytes=size * (1 + seed / 100),
        ms=ms * (1 + seed / 30),
        title=title,
    )


def with_info(run: Run, **changes: Any) -> Run:
    return msgspec.structs.replace(run, info=msgspec.structs.replace(run.info, **changes))


def with_metrics(run: Run, **changes: Any) -> Run:
    return msgspec.structs.replace(run, metrics=msgspec.structs.replace(run.metrics, **changes))
