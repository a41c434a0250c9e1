"""What a replay came to, from its decisions event by event and its seconds batch by batch."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from speciate.errors import ConfigError
from speciate.evaluate.accuracy import Accuracy, greedy, strict, strict_by_group
from speciate.evaluate.clustering import adjusted_rand_index, normalized_mutual_information, purities, purity
from speciate.evaluate.contingency import Flags, Integers, contingency
from speciate.evaluate.temporal import Reals, false_births, growth, temporal_bins
from speciate.evaluate.timing import timing
from speciate_schemas.replay import RunMetrics, Shares


def measure(
    found: Integers,
    truth: Integers,
    birth: Flags,
    margin: Reals,
    drift: Reals,
    *,
    known_classes: Flags,
    represented: Flags | None = None,
    class_names: Sequence[str],
    groups: tuple[Integers, Sequence[str]] | None = None,
    seconds: npt.ArrayLike,
    sizes: npt.ArrayLike,
    fit_seconds: float,
    batch: int,
    held: int,
    head_bytes: int,
) -> RunMetrics:
    """All measures of one replay.

    Args:
        found: The category of each event.
        truth: The class of each event, as its place in `class_names`.
        birth: Whether the event gave birth to its category.
        margin: Its lead over the runner-up; NaN where there is none.
        drift: How far its category's mean moved; NaN for births.
        known_classes: Whether the class is known, for each of `class_names`.
        represented: Whether a class has a category from the start; left out: every known one. A known class may have
            had no event in the support set.
        class_names: What the classes are called.
        groups: The group of each event, as its place among the names beside it, to be reported one by one.
        seconds: How long each batch took.
        sizes: How many events each batch had.
        fit_seconds: How long the head took to be fitted.
        batch: The size batches were meant to have.
        held: The categories of the head in the end.
        head_bytes: The memory of the head in the end.
    """
    members, group_names = groups or (None, [])
    _check(truth, sizes, found=found, birth=birth, margin=margin, drift=drift, groups=members)
    _check_named("truth", truth, "class_names", class_names)
    if members is not None:
        _check_named("groups", members, "their names", group_names)
    table = contingency(found, truth)
    there = known_classes if represented is None else represented
    false = false_births(birth, truth, there)
    of_groups = {} if members is None else strict_by_group(table, known_classes, members, group_names)
    return RunMetrics(
        strict=_shares(strict(table, known_classes)),
        greedy=_shares(greedy(table, known_classes)),
        groups={name: _shares(accuracy) for name, accuracy in of_groups.items()},
        categories=len(table.categories),
        held=held,
        classes=len(table.classes),
        births=int(np.count_nonzero(birth)),
        false_birth_rate=int(np.count_nonzero(false)) / len(truth),
        nmi=normalized_mutual_information(table),
        ari=adjusted_rand_index(table),
        purity=purity(table),
        purities=purities(table, class_names),
        bins=temporal_bins(birth, false, drift, margin),
        growth=growth(birth, truth, there),
        timing=timing(seconds, sizes, fit_seconds=fit_seconds, batch=batch),
        head_bytes=head_bytes,
    )


def _shares(accuracy: Accuracy) -> Shares:
    return Shares(*(None if math.isnan(share) else share for share in accuracy))


def _check(truth: Integers, sizes: npt.ArrayLike, **arrays: npt.NDArray[Any] | None) -> None:
    """Arrays of different streams would give numbers that look like any others."""
    if not len(truth):
        raise ConfigError("truth has 0 events: nothing can be measured, replay a stream that has some")
    for name, array in arrays.items():
        if array is not None and len(array) != len(truth):
            raise ConfigError(f"{name} has {len(array)} values, truth {len(truth)}: give one an event")
    events = int(np.sum(np.asarray(sizes)))
    if events != len(truth):
        raise ConfigError(f"sizes add up to {events} events, truth has {len(truth)}: give the size of each batch")


def _check_named(field: str, places: Integers, beside: str, names: Sequence[str]) -> None:
    lowest, highest = int(places.min()), int(places.max())
    if lowest < 0 or highest >= len(names):
        wrong = lowest if lowest < 0 else highest
        raise ConfigError(f"{field} has {wrong}, {beside} {len(names)} entries: count from 0 and name each")
