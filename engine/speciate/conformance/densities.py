"""The laws of a density."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from speciate.conformance.expecting import expect, expect_equal
from speciate.stages import Density, DensityState, Matrix
from speciate_schemas import encode

SEED = 7
FEWEST_EVENTS = 6


def check_density(
    make: Callable[[], Density], features: Matrix, classes: npt.NDArray[np.int64], events: Matrix
) -> None:
    """Check a density with a support set, two classes at least, and some events, six at least.

    `make` makes a new density each time, not fitted yet. The laws:

    - Fitted, it has one category a class; `counts` are the sizes of the classes, `dimension` is that of the features.
    - An event's scores have the same bits alone, in any part of the batch and in any order of it, and under some
      categories the same as under all; this before and after learning.
    - Scoring changes nothing, and neither does exporting.
    - `absorb` adds one to one count, `found` appends a category of one event, `merge` keeps the sum of the counts,
      `remove` makes those behind it move up; the others' scores keep their bits through all of these.
    - Export and import are the identity, bit for bit, in the state, in scores and in what is learnt afterwards.
    - An exported state does not change when the density learns on, nor when one that imported it does.
    """
    expect(len(events) >= FEWEST_EVENTS, f"the check needs at least {FEWEST_EVENTS} events")
    expect(len(np.unique(classes)) > 1, "the check needs at least two classes")
    density = _fitted(make, features, classes)
    _check_fit(density, features, classes)
    _check_scores(density, events)
    _check_counts(density, events)
    _check_scores(density, events)
    _check_places(make, features, classes, events)
    _check_identity(make, density, events)
    _check_independence(make, density, events)


def _fitted(make: Callable[[], Density], features: Matrix, classes: npt.NDArray[np.int64]) -> Density:
    density = make()
    density.fit(features.copy(), classes.copy())
    return density


def _check_fit(density: Density, features: Matrix, classes: npt.NDArray[np.int64]) -> None:
    expect_equal(density.counts.tolist(), np.bincount(classes).tolist(), "counts must be the sizes of the classes")
    expect_equal(density.dimension, features.shape[1], "dimension must be that of the features")
    expect(density.nbytes > 0, f"fitted categories must hold some memory, nbytes is {density.nbytes}")


def _check_scores(density: Density, events: Matrix) -> None:
    before = _bytes(density.export_state())
    scores, births = density.score(events), density.score_birth(events)
    expect_equal(scores.shape, (len(events), len(density.counts)), "score must have the shape (B, K)")
    expect_equal(births.shape, (len(events),), "score_birth must have the shape (B,)")
    generator = np.random.default_rng(SEED)
    half = len(events) // 2
    parts = [np.array([place]) for place in range(len(events))]
    parts += [np.arange(half), np.arange(half, len(events)), generator.permutation(len(events)), np.arange(0)]
    for part in parts:
        law = f"events {_some(part)} must have the same scores as among all"
        expect_equal(_bits(density.score(events[part])), _bits(scores[part]), law)
        expect_equal(_bits(density.score_birth(events[part])), _bits(births[part]), f"as a birth, {law}")
    for event, row in zip(events, scores, strict=True):
        for size in (1, len(row), int(generator.integers(len(row) + 1))):
            places = generator.permutation(len(row))[:size].tolist()
            law = f"score_some of categories {places} must have the bits of score"
            expect_equal(_bits(density.score_some(event, places)), _bits(row[places]), law)
    expect_equal(_bytes(density.export_state()), before, "scoring must change nothing")


def _check_counts(density: Density, events: Matrix) -> None:
    """Learn some events; the counts say of each to whom it went."""
    for place, event in enumerate(events):
        wanted, category = density.counts.tolist(), place % len(density.counts)
        if place % 3:
            wanted[category] += 1
            density.absorb(category, event)
        else:
            wanted.append(1)
            density.found(event)
        expect_equal(density.counts.tolist(), wanted, "absorb adds one to its category, found appends a category of 1")
    expect(density.dimension == events.shape[1], "learning must not change the dimension")


def _check_places(
    make: Callable[[], Density], features: Matrix, classes: npt.NDArray[np.int64], events: Matrix
) -> None:
    """Whatever happens to one category, the others are only moved."""
    density = _fitted(make, features, classes)
    for event in events[:3]:
        density.found(event)
    scores = density.score(events)
    density.absorb(1, events[3])
    others = [place for place in range(len(density.counts)) if place != 1]
    law = "the other categories must keep their scores, bit for bit"
    expect_equal(_bits(density.score(events)[:, others]), _bits(scores[:, others]), f"absorbing, {law}")
    density.remove(1)
    expect_equal(_bits(density.score(events)), _bits(scores[:, others]), f"removing moves up those behind, and {law}")
    counts = density.counts.tolist()
    density.merge(0, 2)
    wanted = [counts[0] + counts[2], counts[1], *counts[3:]]
    expect_equal(density.counts.tolist(), wanted, "merge must keep the sum of the counts and move up those behind")
    untouched = [others[1], *others[3:]]
    expect_equal(_bits(density.score(events)[:, 1:]), _bits(scores[:, untouched]), f"merging, {law}")
    density.merge(2, 0)
    expect_equal(density.counts.tolist(), [wanted[1], wanted[2] + wanted[0], *wanted[3:]], "merge may go backwards")


def _check_identity(make: Callable[[], Density], density: Density, events: Matrix) -> None:
    state = density.export_state()
    expect_equal(len(state.categories), len(density.counts), "a state must have the arrays of every category")
    copy = make()
    copy.import_state(state)
    expect_equal(_bytes(copy.export_state()), _bytes(state), "importing must be the inverse of exporting, bit for bit")
    expect_equal(copy.counts.tolist(), density.counts.tolist(), "importing must restore the counts")
    expect_equal(copy.dimension, density.dimension, "importing must restore the dimension")
    expect_equal(_bits(copy.score(events)), _bits(density.score(events)), "an imported state must score alike")
    for one in (density, copy):
        _learn(one, events)
    law = "an imported state must learn alike, bit for bit"
    expect_equal(_bytes(copy.export_state()), _bytes(density.export_state()), law)


def _check_independence(make: Callable[[], Density], density: Density, events: Matrix) -> None:
    state = density.export_state()
    before = _bytes(state)
    first, second = make(), make()
    first.import_state(state)
    second.import_state(state)
    _learn(density, events)
    expect_equal(_bytes(state), before, "an exported state must not change when the density learns on")
    _learn(first, events)
    expect_equal(_bytes(state), before, "a state must not change when one that imported it learns on")
    expect_equal(_bytes(second.export_state()), before, "two that imported one state must not share anything")


def _learn(density: Density, events: Matrix) -> None:
    density.absorb(0, events[0])
    density.found(events[1])
    density.absorb(len(density.counts) - 1, events[2])
    density.merge(0, 1)
    density.remove(0)
    density.found(events[3])


def _bytes(state: DensityState) -> bytes:
    return encode({"shared": state.shared, "categories": state.categories})


def _bits(values: npt.NDArray[Any]) -> tuple[tuple[int, ...], bytes]:
    return values.shape, np.ascontiguousarray(values, dtype=np.float64).tobytes()


def _some(places: npt.NDArray[Any]) -> str:
    return np.array2string(places, threshold=10)
