"""What a replay leaves: where it comes from, and what it came to."""

from typing import Annotated, Literal

import msgspec

from speciate_schemas.benchmark import BenchmarkConfig, MethodConfig, Order, Seed, SupportRule
from speciate_schemas.config import Count, Section, Strict

Fraction = Annotated[float, msgspec.Meta(ge=0, le=1)]


class Shares(Strict, frozen=True):
    """Fractions of events that are right; null where there are no such events."""

    all: Annotated[Fraction | None, msgspec.Meta(description="Of all events.")]
    known: Annotated[Fraction | None, msgspec.Meta(description="Of events of known classes.")]
    novel: Annotated[Fraction | None, msgspec.Meta(description="Of events of classes to be discovered.")]


class TemporalBin(Strict, frozen=True):
    """A fifth of the stream."""

    events: Annotated[int, msgspec.Meta(description="Events in it.")]
    births: Annotated[int, msgspec.Meta(description="Events that founded a category.")]
    false_birth_rate: Annotated[Fraction | None, msgspec.Meta(description="Births of classes there already, an event.")]
    mean_drift: Annotated[float | None, msgspec.Meta(description="Mean movement of the chosen category's mean.")]
    mean_margin: Annotated[float | None, msgspec.Meta(description="Mean lead over the runner-up, in its own units.")]


class Growth(Strict, frozen=True):
    """How many categories there were as the stream went on, beside the classes it had shown."""

    events: Annotated[list[int], msgspec.Meta(description="How many had come.")]
    categories: Annotated[list[int], msgspec.Meta(description="Categories there were by then, known ones included.")]
    classes: Annotated[list[int], msgspec.Meta(description="Classes shown by then, known ones included.")]


class Timing(Strict, frozen=True):
    """How long the head took. Times of an event are those of its batch, divided by the events in it."""

    batch: Annotated[int, msgspec.Meta(description="Events decided at once.")]
    fit_seconds: Annotated[float, msgspec.Meta(description="To fit the support set, tuning included.")]
    events_per_second: Annotated[float, msgspec.Meta(description="Of the head alone.")]
    mean_ms: Annotated[float, msgspec.Meta(description="Mean time an event.")]
    p50_ms: Annotated[float, msgspec.Meta(description="Median time an event.")]
    p99_ms: Annotated[float, msgspec.Meta(description="Time that one event in a hundred exceeds.")]
    max_ms: Annotated[float, msgspec.Meta(description="Longest time an event.")]
    histogram_ms: Annotated[list[float], msgspec.Meta(description="Edges, ascending, of the bins counted below.")]
    histogram_counts: Annotated[list[int], msgspec.Meta(description="Events in each bin.")]


class CategoryPurity(Strict, frozen=True):
    """One category of the stream and the class most of its events have."""

    category: Annotated[int, msgspec.Meta(description="Its number.")]
    events: Annotated[int, msgspec.Meta(description="How many it got.")]
    majority: Annotated[str, msgspec.Meta(description="The class most of them have.")]
    purity: Annotated[Fraction, msgspec.Meta(description="Share of them that have it.")]


class RunMetrics(Strict, frozen=True):
    """What one replay came to."""

    strict: Annotated[Shares, msgspec.Meta(description="One match of categories to classes over all events.")]
    greedy: Annotated[Shares, msgspec.Meta(description="Separate matches for known and novel classes.")]
    groups: Annotated[dict[str, Shares], msgspec.Meta(description="Strict accuracy of each group, by the one match.")]
    categories: Annotated[int, msgspec.Meta(description="Categories that got an event of the stream.")]
    held: Annotated[int, msgspec.Meta(description="Categories the head had in the end, used or not.")]
    classes: Annotated[int, msgspec.Meta(description="Classes in the stream.")]
    births: Annotated[int, msgspec.Meta(description="Events that founded a category.")]
    false_birth_rate: Annotated[Fraction, msgspec.Meta(description="Births of classes there already, an event.")]
    nmi: Annotated[float, msgspec.Meta(description="Normalised mutual information of categories and classes.")]
    ari: Annotated[float, msgspec.Meta(description="Adjusted Rand index.")]
    purity: Annotated[Fraction, msgspec.Meta(description="Share of events that have their category's majority class.")]
    purities: Annotated[list[CategoryPurity], msgspec.Meta(description="The largest categories first.")]
    bins: Annotated[list[TemporalBin], msgspec.Meta(description="The fifths of the stream.")]
    growth: Annotated[Growth, msgspec.Meta(description="Categories along the stream.")]
    timing: Annotated[Timing, msgspec.Meta(description="How long the head took.")]
    head_bytes: Annotated[int, msgspec.Meta(description="Memory of the categories at the end.")]


class Recipe(Strict, frozen=True):
    """What to replay: kept beside a run, enough to do it again."""

    benchmark: Annotated[str, msgspec.Meta(description="Name of the benchmark.")]
    method: Annotated[str, msgspec.Meta(description="Name of the method.")]
    benchmark_config: BenchmarkConfig
    method_config: MethodConfig
    order: Order
    seed: Seed
    batch: Annotated[Count, msgspec.Meta(description="Events given to the head at once.")] = 64
    type: Annotated[Literal["recipe.v1"], msgspec.Meta(description="What the file holds, and in which version.")] = (
        "recipe.v1"
    )


class RunInfo(Strict, frozen=True):
    """Where one replay comes from, and what was found on the way."""

    benchmark: str
    benchmark_title: str
    method: str
    method_title: str
    order: str
    seed: int
    burst: int
    density: Section
    policy: Section
    tuned: Annotated[Section, msgspec.Meta(description="The policy's options as they were used, tuned ones included.")]
    estimated: Annotated[dict[str, float], msgspec.Meta(description="Numbers the density estimated from the support.")]
    method_about: Annotated[str, msgspec.Meta(description="Whom the method follows, and where it deviates.")]
    support: Annotated[SupportRule, msgspec.Meta(description="How the support set was drawn.")]
    workers: Annotated[int, msgspec.Meta(description="Runs done at the same time, which slows each of them down.")]
    support_events: int
    stream_events: int
    known_classes: int
    dimension: int
    data_sha256: Annotated[str, msgspec.Meta(description="Of all used features and labels, and the known classes.")]
    decisions_sha256: Annotated[str, msgspec.Meta(description="Of categories and births, event by event.")]
    versions: dict[str, str]
    hardware: dict[str, str]
    finished: Annotated[str, msgspec.Meta(description="When, in UTC.")]


class Run(Strict, frozen=True):
    """One replay, as it is kept beside its assignments."""

    info: RunInfo
    metrics: RunMetrics
    type: Annotated[Literal["run.v1"], msgspec.Meta(description="What the file holds, and in which version.")] = (
        "run.v1"
    )
