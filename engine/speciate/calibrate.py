"""Tuning a policy's options that are `"auto"` on the support set: what is held out of it plays the stream.

A split of known classes alone never sees a birth, so whole classes are held out as if they were novel, and beside them
a part of every other class. The density is fitted to the rest; held-out events come shuffled, as a stream. Each class
is novel in one fold. The candidates come from the policy's own `tune`; the most accurate over all folds wins, or rather
the middle of the plateau around it. Everything is seeded: the same support set gives the same options.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from speciate.config import Chosen
from speciate.errors import SupportError
from speciate.evaluate.accuracy import strict_accuracy
from speciate.hooks import Evidence, Held
from speciate.logs import get_logger
from speciate.stages import BIRTH, Density, DensityState, Matrix, Policy, Vector, Watch

log = get_logger(__name__)

FOLDS = 3
"""Parts the classes are divided into; each is novel once."""
LEAST_KEPT = 2
"""Classes that must be left as known: with fewer, a density cannot tell how far apart classes are."""
KNOWN_SHARE = 5
"""One in so many samples of a kept class is held out: few, for a density's prior depends on how many are left."""
NOVEL_FACTOR = 2
"""A novel class has so many times that share of its samples in the stream: enough to see it fall apart, and not so many
that known events hardly count."""
MOST_EVENTS = 400
"""Held-out events of a fold, so that tuning takes seconds whatever the support set."""
TOLERANCE = 0.005
"""Accuracies that differ by less are the same plateau."""
SEED = 0

Classes = npt.NDArray[np.int64]


class Fold(NamedTuple):
    """A density fitted to a part of the support set, and a stream of what was held out."""

    density: Density
    state: DensityState
    points: Matrix
    births: Vector
    truth: list[int]
    novel: list[bool]
    kept: list[int]
    """The class of each category there is at the start."""


def unwatched(_done: int, _total: int, _word: str) -> None:
    """Nobody wants to know how far it is."""


def tuned(density: Chosen, policy: Chosen, features: Matrix, classes: Classes, watch: Watch = unwatched) -> Chosen:
    """The policy with its options that are `"auto"` replaced by what suits this support set best."""
    tune = policy.provider.tune
    if tune is None or not tune(policy.options, Held()):
        return policy
    folds = _folds(density, features, classes)
    candidates = tune(policy.options, _held(folds))
    if not any(any(fold.novel) for fold in folds):
        log.warning(
            "no class can be held out as novel, which takes three classes and one with three different samples: "
            "what should be tuned falls back",
            policy=policy.name,
            options=str(candidates[0]),
        )
        return replace(policy, options=candidates[0])
    scores = []
    for done, options in enumerate(candidates):
        watch(done, len(candidates), f"tuning {policy.name}")
        scores.append(_score(policy.provider.create(options), folds))
    best = _middle(scores)
    log.debug("tuned on held-out classes", policy=policy.name, options=str(candidates[best]), accuracy=scores[best])
    return replace(policy, options=candidates[best])


def _folds(density: Chosen, features: Matrix, classes: Classes) -> list[Fold]:
    """One fold a part of the classes; a single one without novel classes where there are too few."""
    generator = np.random.default_rng(SEED)
    order = generator.permutation(int(classes.max()) + 1)
    parts = np.array_split(order, FOLDS) if len(order) > LEAST_KEPT else [order[:0]]
    folds = []
    for part in parts:
        queries = _queries(classes, part, generator)
        try:
            folds.append(_fold(density.create(), features, classes, part, queries))
        except SupportError:
            log.debug("nothing can be fitted to what is left of the support set", held_out=part.tolist())
    return folds


def _queries(classes: Classes, novel: Classes, generator: np.random.Generator) -> Classes:
    """The rows of a stream: a share of every class, shuffled; of a kept one at least one row and not the only one."""
    rows = []
    for number in np.unique(classes):
        own = generator.permutation(np.flatnonzero(classes == number))
        share = max(len(own) // KNOWN_SHARE, 1)
        rows.append(own[: NOVEL_FACTOR * share] if number in novel else own[: min(share, len(own) - 1)])
    return generator.permutation(np.concatenate(rows))[:MOST_EVENTS]


def _fold(density: Density, features: Matrix, classes: Classes, novel: Classes, queries: npt.NDArray[np.int64]) -> Fold:
    left = np.setdiff1d(np.arange(len(classes)), np.union1d(queries, np.flatnonzero(np.isin(classes, novel))))
    density.fit(features[left], np.unique(classes[left], return_inverse=True)[1].astype(np.int64))
    stream = queries[:MOST_EVENTS]
    points = density.embed(features[stream])
    truth = classes[stream]
    kept: list[int] = np.unique(classes[left]).tolist()
    births, is_novel = density.score_birth(points), np.isin(truth, novel)
    return Fold(density, density.export_state(), points, births, truth.tolist(), is_novel.tolist(), kept)


def _held(folds: Sequence[Fold]) -> Held:
    """The evidence of all that was held out, before anything was learnt from it."""
    known: list[Evidence] = []
    novel: list[Evidence] = []
    for fold in folds:
        screening = fold.density.screen(fold.points)
        for place, is_novel in enumerate(fold.novel):
            evidence = Evidence(screening.row(place).copy(), fold.density.counts.copy(), float(fold.births[place]))
            (novel if is_novel else known).append(evidence)
    return Held(known, novel)


def _score(policy: Policy, folds: Sequence[Fold]) -> float:
    """Accuracy, the mean over the folds."""
    return float(np.mean([_accuracy(_walk(policy, fold), fold) for fold in folds]))


def _accuracy(found: Sequence[int], fold: Fold) -> float:
    """Strict accuracy of a fold's stream, with the known categories matched to their own classes beforehand.

    A free match would let a novel class pass for discovered by overrunning the category of a known one.
    """
    events = list(zip(found, fold.truth, fold.novel, strict=True))
    known = len(fold.kept)
    own = sum(category < known and fold.kept[category] == truth for category, truth, novel in events if not novel)
    born = [(category, truth) for category, truth, novel in events if novel and category >= known]
    if not born:
        return own / len(events)
    matched = strict_accuracy([category for category, _ in born], [truth for _, truth in born], ()).all
    return (own + matched * len(born)) / len(events)


def _walk(policy: Policy, fold: Fold) -> list[int]:
    """Decide and learn a fold's stream from its start; the category of each event."""
    density = fold.density
    density.import_state(fold.state)
    screening = density.screen(fold.points)
    found = []
    for place, (point, log_birth) in enumerate(zip(fold.points, fold.births.tolist(), strict=True)):
        choice = policy.choose(*policy.weigh(screening.row(place), density.counts, log_birth))
        category = choice.category
        if not math.isfinite(choice.log_evidence):
            # A head would refuse it and learn nothing; it is right with nobody.
            found.append(BIRTH)
            continue
        if category == BIRTH:
            category = len(density.counts)
            density.found(point)
        else:
            density.absorb(category, point)
        screening.refresh(place, category)
        found.append(category)
    return found


def _middle(scores: Sequence[float]) -> int:
    """The middle of the plateau around the best score."""
    best = int(np.argmax(scores))
    first = last = best
    while first > 0 and scores[first - 1] >= scores[best] - TOLERANCE:
        first -= 1
    while last < len(scores) - 1 and scores[last + 1] >= scores[best] - TOLERANCE:
        last += 1
    return (first + last) // 2
