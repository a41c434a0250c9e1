"""The laws of a density."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from speciate.conformance.densities_drawing import check_drawing
from speciate.conformance.expecting import expect, expect_equal
from speciate.stages import (
    Density,
    DensityState,
    Drawable,
    Matrix,
    Mergeable,
    Screening,
    Vector,
    is_drawable,
    is_mergeable,
)
from speciate_schemas import encode

SEED = 7
FEWEST_EVENTS = 6
GAIN_TOLERANCE = 1e-2
"""Of what a merge is worth, in nats and relative: rows in single precision are exact enough."""


def check_density(
    make: Callable[[], Density], features: Matrix, classes: npt.NDArray[np.int64], events: Matrix
) -> None:
    """Check a density with a support set, two classes at least, and some events, six at least.

    `make` makes a new density each time, not fitted yet. The laws:

    - Fitted, it has one category a class; `counts` are the sizes of the classes, `dimension` is that of the features.
    - An event is embedded, and scored as a birth, with the same bits alone, in any part of the batch and in any order
      of it; its scores under some categories have the bits of those under all; this before and after learning.
    - Embedding, screening and scoring change nothing, and neither does exporting.
    - While a batch is learnt, one event after the other, the screening of every event still to come is within `blur`
      of its scores, and has their bits if `blur` is 0; to write to a row of it changes no other.
    - `absorb` says how far the mean moved; `verify` says of each category, in nats, how far its scores are off: both
      are numbers from 0 up.
    - `absorb` adds one to one count, `found` appends a category of one event, `merge` keeps the sum of the counts,
      `remove` makes those behind it move up; the others' scores keep their bits through all of these.
    - Without any category it still embeds, scores births, and founds.
    - Export and import are the identity, bit for bit, in the state, in scores and in what is learnt afterwards.
    - An exported state does not change when the density learns on, nor when one that imported it does.
    - If it is `Mergeable`: each category has its `most` neighbours, or all others if they are fewer, in pairs (i, j)
      with i < j, in order, each once, and of those asked about only; a gain is a number, and that of a category of a
      single event with another is the lead of its score there over a birth. To ask changes nothing.
    - If it is `Drawable`: a spread is a number above 0; an extent along all axes is a distribution around the centre,
      the one that events are scored by (with up to 128 features), and along some axes it is that distribution's; so is
      a birth's. To ask changes nothing, what is given may be written to, and an imported state gives the centres bit
      for bit.
    """
    expect(len(events) >= FEWEST_EVENTS, f"the check needs at least {FEWEST_EVENTS} events")
    expect(len(np.unique(classes)) > 1, "the check needs at least two classes")
    density = _fitted(make, features, classes)
    _check_fit(density, features, classes)
    _check_scores(density, events)
    _check_learning(density, density.embed(events))
    _check_scores(density, events)
    points = density.embed(events)
    _check_places(_fitted(make, features, classes), points)
    _check_emptied(_fitted(make, features, classes), events)
    _check_identity(make, density, events)
    _check_independence(make, density, points)
    density = _fitted(make, features, classes)
    if is_mergeable(density):
        _check_merging(density, points)
    density = _fitted(make, features, classes)
    if is_drawable(density):
        _check_drawing(make, density, events)


def _fitted(make: Callable[[], Density], features: Matrix, classes: npt.NDArray[np.int64]) -> Density:
    density = make()
    density.fit(features.copy(), classes.copy())
    return density


def _check_fit(density: Density, features: Matrix, classes: npt.NDArray[np.int64]) -> None:
    expect_equal(density.counts.tolist(), np.bincount(classes).tolist(), "counts must be the sizes of the classes")
    expect_equal(density.dimension, features.shape[1], "dimension must be that of the features")
    expect(density.nbytes > 0, f"fitted categories must hold some memory, nbytes is {density.nbytes}")


def _check_scores(density: Density, events: Matrix) -> None:
    """Whatever stands beside an event, its figures have the same bits; and looking changes nothing."""
    before, given = _bytes(density.export_state()), events.copy()
    points = density.embed(events)
    births = density.score_birth(points)
    expect_equal(len(points), len(events), "embed must give one point an event")
    expect_equal(births.shape, (len(events),), "score_birth must have the shape (B,)")
    for part in _parts(len(events)):
        law = f"events {np.array2string(part, threshold=10)} must"
        expect_equal(_bits(density.embed(events[part])), _bits(points[part]), f"{law} be embedded as among all")
        law = f"{law} have the same scores as births as among all"
        expect_equal(_bits(density.score_birth(points[part])), _bits(births[part]), law)
    scores = _scores(density, points)
    generator = np.random.default_rng(SEED)
    for point, row in zip(points, scores, strict=True):
        for size in (0, 1, len(row), int(generator.integers(len(row) + 1))):
            places = generator.permutation(len(row))[:size].tolist()
            law = f"scores under categories {places} must have the bits of those under all"
            expect_equal(_bits(density.score(point, places)), _bits(row[places]), law)
    _check_rows(density, density.screen(points), points, 0)
    expect_equal(_bytes(density.export_state()), before, "embedding, screening and scoring must change nothing")
    expect_equal(_bits(events), _bits(given), "a density must not change the events it is given")


def _parts(size: int) -> Iterator[npt.NDArray[np.intp]]:
    half = size // 2
    yield from (np.array([place]) for place in range(size))
    yield from (np.arange(0), np.arange(half), np.arange(half, size), np.arange(size)[::-2])
    yield np.random.default_rng(SEED).permutation(size)


def _check_learning(density: Density, points: Matrix) -> None:
    """Learn a batch: the counts say of each event to whom it went, the screening what it changed."""
    screening = density.screen(points)
    for place, point in enumerate(points):
        screening.row(place)[:] = np.nan
        wanted, category = density.counts.tolist(), place % len(density.counts)
        if place % 3:
            wanted[category] += 1
            moved = np.array([density.absorb(category, point)], dtype=np.float64)
            _check_measures(moved, 1, "absorb must say how far the mean moved")
        else:
            category = len(wanted)
            wanted.append(1)
            density.found(point)
        screening.refresh(place, category)
        expect_equal(density.counts.tolist(), wanted, "absorb adds one to its category, found appends a category of 1")
        _check_rows(density, screening, points, place + 1)
    before = _bytes(density.export_state())
    _check_measures(density.verify(), len(density.counts), "verify must give one figure a category")
    expect_equal(_bytes(density.export_state()), before, "verify must change nothing")


def _check_measures(measures: Vector, count: int, law: str) -> None:
    usable = measures.shape == (count,) and bool(np.isfinite(measures).all() and (measures >= 0.0).all())
    expect(usable, f"{law}, finite and not negative, not {measures}")


def _check_rows(density: Density, screening: Screening, points: Matrix, start: int) -> None:
    """What is screened from `start` on is what would be scored now."""
    for place in range(start, len(points)):
        row, scores = screening.row(place), density.score(points[place], range(len(density.counts)))
        expect_equal(row.shape, scores.shape, "a row of the screening must have one entry a category")
        law = f"the screening of event {place} after {start} were learnt"
        if screening.blur:
            # Equal is equal, infinities too.
            off = max((abs(one - other) for one, other in zip(row, scores, strict=True) if one != other), default=0.0)
            expect(bool(off <= screening.blur), f"{law} is off by {off} nats, more than its blur {screening.blur}")
        else:
            expect_equal(_bits(row), _bits(scores), f"{law} must have the bits of the scores, its blur is 0")


def _check_places(density: Density, points: Matrix) -> None:
    """Whatever happens to one category, the others are only moved."""
    for point in points[:3]:
        density.found(point)
    scores = _scores(density, points)
    density.absorb(1, points[3])
    others = [place for place in range(len(density.counts)) if place != 1]
    law = "the other categories must keep their scores, bit for bit"
    expect_equal(_bits(_scores(density, points)[:, others]), _bits(scores[:, others]), f"absorbing, {law}")
    density.remove(1)
    expect_equal(
        _bits(_scores(density, points)), _bits(scores[:, others]), f"removing moves up those behind, and {law}"
    )
    counts = density.counts.tolist()
    density.merge(0, 2)
    wanted = [counts[0] + counts[2], counts[1], *counts[3:]]
    expect_equal(density.counts.tolist(), wanted, "merge must keep the sum of the counts and move up those behind")
    untouched = [others[1], *others[3:]]
    expect_equal(_bits(_scores(density, points)[:, 1:]), _bits(scores[:, untouched]), f"merging, {law}")
    density.merge(2, 0)
    expect_equal(density.counts.tolist(), [wanted[1], wanted[2] + wanted[0], *wanted[3:]], "merge may go backwards")
    _check_rows(density, density.screen(points), points, 0)


def _check_emptied(density: Density, events: Matrix) -> None:
    """All categories removed, it founds new ones."""
    births = density.score_birth(density.embed(events))
    while len(density.counts):
        density.remove(0)
    points = density.embed(events)
    expect_equal(_bits(density.score_birth(points)), _bits(births), "without a category births must score the same")
    screening = density.screen(points)
    _check_rows(density, screening, points, 0)
    density.found(points[0])
    screening.refresh(0, 0)
    _check_rows(density, screening, points, 1)
    expect_equal(density.counts.tolist(), [1], "without a category an event must found one")


def _check_identity(make: Callable[[], Density], density: Density, events: Matrix) -> None:
    state, points = density.export_state(), density.embed(events)
    expect_equal(len(state.categories), len(density.counts), "a state must have the arrays of every category")
    copy = make()
    copy.import_state(state)
    expect_equal(_bytes(copy.export_state()), _bytes(state), "importing must be the inverse of exporting, bit for bit")
    expect_equal(copy.counts.tolist(), density.counts.tolist(), "importing must restore the counts")
    expect_equal(copy.dimension, density.dimension, "importing must restore the dimension")
    expect_equal(_bits(copy.embed(events)), _bits(points), "an imported state must embed alike, bit for bit")
    _check_alike(copy, density, points)
    for one in (density, copy):
        _learn(one, points)
    law = "an imported state must learn alike, bit for bit"
    expect_equal(_bytes(copy.export_state()), _bytes(density.export_state()), law)
    _check_alike(copy, density, points)


def _check_alike(copy: Density, density: Density, points: Matrix) -> None:
    law = "an imported state must score alike, bit for bit"
    expect_equal(_bits(_scores(copy, points)), _bits(_scores(density, points)), law)
    expect_equal(_bits(copy.score_birth(points)), _bits(density.score_birth(points)), law)


def _check_independence(make: Callable[[], Density], density: Density, points: Matrix) -> None:
    state = density.export_state()
    before = _bytes(state)
    first, second = make(), make()
    first.import_state(state)
    second.import_state(state)
    _learn(density, points)
    expect_equal(_bytes(state), before, "an exported state must not change when the density learns on")
    _learn(first, points)
    expect_equal(_bytes(state), before, "a state must not change when one that imported it learns on")
    expect_equal(_bytes(second.export_state()), before, "two that imported one state must not share anything")


def _check_merging(density: Mergeable, points: Matrix) -> None:
    founded = len(density.counts)
    lead = density.score(points[0], range(founded)) - density.score_birth(points[:1])
    density.found(points[0])
    before = _bytes(density.export_state())
    gains = density.merge_gain([(place, founded) for place in range(founded)])
    usable = gains.shape == lead.shape and np.allclose(gains, lead, rtol=GAIN_TOLERANCE, atol=GAIN_TOLERANCE)
    expect(usable, f"the gain of a single event must be the lead of its score over a birth, {lead}, not {gains}")
    everybody = set(range(founded + 1))
    for most in (1, founded + 1):
        pairs = list(density.neighbours(most))
        expect(pairs == sorted(set(pairs)), f"neighbours must be in order and each pair once, not {pairs}")
        law = "neighbours must be pairs (i, j) of different categories with i < j"
        expect(all(0 <= i < j <= founded for i, j in pairs), f"{law}, not {pairs}")
        for one in everybody:
            own = list(density.neighbours(most, [one]))
            law = f"category {one} must have {min(most, founded)} neighbours, and all of them in its pairs, not {own}"
            expect(len(own) == min(most, founded) and all(one in pair for pair in own), law)
            expect(set(own) <= set(pairs), f"the neighbours of category {one} must be among those of all, not {own}")
    expect_equal(_bytes(density.export_state()), before, "to ask what a merge is worth must change nothing")


def _check_drawing(make: Callable[[], Density], density: Drawable, events: Matrix) -> None:
    _learn(density, density.embed(events))
    state = density.export_state()
    check_drawing(density, events)
    law = "to ask where categories lie, and to write to the answer, must change nothing"
    expect_equal(_bytes(density.export_state()), _bytes(state), law)
    copy: Any = make()
    copy.import_state(state)
    for category in range(len(density.counts)):
        law = "an imported state must have its centres where they were, bit for bit"
        expect_equal(_bits(copy.centre(category)), _bits(density.centre(category)), law)


def _learn(density: Density, points: Matrix) -> None:
    density.absorb(0, points[0])
    density.found(points[1])
    density.absorb(len(density.counts) - 1, points[2])
    density.merge(0, 1)
    density.remove(0)
    density.found(points[3])


def _scores(density: Density, points: Matrix) -> Matrix:
    """Scores of every point under every category."""
    everybody = range(len(density.counts))
    return np.reshape([density.score(point, everybody) for point in points], (len(points), len(everybody)))


def _bytes(state: DensityState) -> bytes:
    return encode({"shared": state.shared, "categories": state.categories})


def _bits(values: npt.NDArray[Any]) -> tuple[tuple[int, ...], bytes]:
    return values.shape, np.ascontiguousarray(values).tobytes()
