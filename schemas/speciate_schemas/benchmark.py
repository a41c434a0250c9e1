"""Benchmarks and comparisons: what is replayed, with what, and how often. One TOML file each."""

from typing import Annotated, Literal

import msgspec

from speciate_schemas.config import Count, Section, Strict

Share = Annotated[float, msgspec.Meta(gt=0, lt=1)]
Seed = Annotated[int, msgspec.Meta(ge=0)]
Order = Literal["recorded", "class-sorted", "random", "bursty"]


class DataOptions(Strict, frozen=True):
    """Section `[data]`: the recorded events and what is known of each."""

    features: Annotated[
        str | None,
        msgspec.Meta(
            description="A file name or pattern under the data folder: an .npz with all arrays, or the features alone "
            "as an .npy, which is never read whole."
        ),
    ] = None
    source: Annotated[
        Section | None,
        msgspec.Meta(
            description="Or a source of labelled events, such as images; its paths are under the data folder."
        ),
    ] = None
    arrays: Annotated[
        str | None, msgspec.Meta(description="The file with the arrays below, if it is not that of the features.")
    ] = None
    feature_key: Annotated[str, msgspec.Meta(description="Array of the features, one row an event.")] = "features"
    label_key: Annotated[str, msgspec.Meta(description="Array of the true classes.")] = "labels"
    split_key: Annotated[str | None, msgspec.Meta(description="Array saying of which split an event is.")] = None
    splits: Annotated[tuple[str, ...], msgspec.Meta(description="The splits that are used; none: all.")] = ()
    group_key: Annotated[
        str | None, msgspec.Meta(description="Array of groups, such as domains, that are also reported one by one.")
    ] = None


class KnownClasses(Strict, frozen=True):
    """Section `[known]`: which classes have a support set. One of the three."""

    classes: Annotated[tuple[str | int, ...], msgspec.Meta(description="The known classes themselves.")] = ()
    first: Annotated[Count | None, msgspec.Meta(description="The first so many in sorted order.")] = None
    file: Annotated[
        str | None, msgspec.Meta(description="A JSON file under the data folder, and in it the path to a list of them.")
    ] = None
    path: Annotated[tuple[str, ...], msgspec.Meta(description="Keys that lead to the list in that file.")] = ()


class SupportRule(Strict, frozen=True):
    """Section `[support]`: which events of the known classes are labelled."""

    rule: Annotated[
        Literal["pooled", "per-class"],
        msgspec.Meta(description="Draw from all known events at once, as published code does, or from each class."),
    ] = "pooled"
    share: Annotated[Share, msgspec.Meta(description="Share of the known events that are support.")] = 0.5
    seed: Annotated[
        Seed | None, msgspec.Meta(description="Of the draw; left out: the seed of the run, so that it varies.")
    ] = None
    groups: Annotated[tuple[str, ...], msgspec.Meta(description="Support comes from these groups; none: all.")] = ()


class BenchmarkConfig(Strict, frozen=True):
    """One benchmark: recorded events, known classes, support and order."""

    title: Annotated[str, msgspec.Meta(description="What people call it.")]
    data: DataOptions
    known: KnownClasses
    about: Annotated[str, msgspec.Meta(description="Where the data comes from and what to put where.")] = ""
    support: SupportRule = msgspec.field(default_factory=SupportRule)
    order: Annotated[Order, msgspec.Meta(description="In which the stream comes, unless the run says another.")] = (
        "random"
    )
    burst: Annotated[Count, msgspec.Meta(description="Events of one class in a row, where the order is bursty.")] = 10
    encoder: Annotated[Section | None, msgspec.Meta(description="Images to features, for images.")] = None


class MethodConfig(Strict, frozen=True):
    """One method: a density and a policy with their options, and whom it follows."""

    title: Annotated[str, msgspec.Meta(description="What the tables call it.")]
    density: Annotated[Section, msgspec.Meta(description="How likely an event is under each category.")]
    policy: Annotated[Section, msgspec.Meta(description="Which category is chosen, or a birth.")]
    about: Annotated[str, msgspec.Meta(description="What it follows, and where it must deviate.")] = ""


class ComparisonConfig(Strict, frozen=True):
    """Many methods on many benchmarks, in several orders, several times."""

    benchmarks: Annotated[
        tuple[str, ...], msgspec.Meta(min_length=1, description="Names of ready benchmarks, or files of one's own.")
    ]
    methods: Annotated[
        tuple[str, ...], msgspec.Meta(min_length=1, description="Names of ready methods, or files of one's own.")
    ]
    title: Annotated[str, msgspec.Meta(description="Of the table and the page.")] = "Comparison"
    orders: Annotated[tuple[Order, ...], msgspec.Meta(description="Of the stream; none: each benchmark's own.")] = ()
    seeds: Annotated[
        tuple[Seed, ...],
        msgspec.Meta(min_length=1, description="One run each: of the support set and of the order."),
    ] = (0, 1, 2)
    sweep: Annotated[
        dict[str, Annotated[tuple[str | int | float | bool, ...], msgspec.Meta(min_length=1)]],
        msgspec.Meta(
            description='Values of options to go through with every method, such as "policy.alpha" = [1e-9, 1.0]; '
            "several: every combination."
        ),
    ] = msgspec.field(default_factory=dict)
