"""Tuning: what is held out is really held out, the result is recorded, repeatable and bounded, fallbacks are told."""

import logging
import math
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from worlds import bits, make_pipeline, make_tree, stream

from speciate import Head, calibrate
from speciate.calibrate import FOLDS, MOST_EVENTS, TOLERANCE, _folds, _middle, tuned
from speciate.config import choose
from speciate.evaluate.accuracy import strict_accuracy
from speciate.hooks import Held
from speciate.plugins import installed
from speciate_schemas import HeadState, decode

DENSITIES = ["nearest-mean", "full"]


def chosen(density="nearest-mean", **policy):
    sections = {"density": {"plugin": density}, "policy": {"plugin": "dp", "alpha": "auto", **policy}}
    return tuple(choose(installed(), stage, section, stage) for stage, section in sections.items())


def world(classes, samples, *, dimension=6, seed=0, spread=5.0):
    """Samples of classes whose centres are `spread` times as far apart as their samples."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(scale=spread, size=(classes, dimension))
    labels = np.repeat(np.arange(classes), samples)
    return centres[labels] + rng.normal(size=(len(labels), dimension)), labels


def fit(features, labels, *, density="nearest-mean", **options):
    return Head.fit(features, labels, density=density, policy="dp", **{"alpha": "auto", **options})


class Watched:
    """A density that tells what it was fitted to, and how often it learnt."""

    fitted: ClassVar[list] = []
    learnt = 0

    def __init__(self, real):
        self._real = real

    def __getattr__(self, name):
        return getattr(self._real, name)

    def fit(self, features, classes):
        self.fitted.append((features.copy(), classes.copy()))
        self._real.fit(features, classes)

    def _count(self, name, *args):
        type(self).learnt += 1
        getattr(self._real, name)(*args)

    def found(self, point):
        self._count("found", point)

    def absorb(self, category, point):
        self._count("absorb", category, point)


@pytest.fixture
def watched(monkeypatch):
    monkeypatch.setattr(Watched, "fitted", [])
    monkeypatch.setattr(Watched, "learnt", 0)
    density, policy = chosen()
    monkeypatch.setattr(type(density), "create", lambda self: Watched(self.provider.create(self.options)))
    return density, policy


@pytest.mark.parametrize("density", DENSITIES)
def test_what_was_tuned_is_in_the_state_and_goes_on_from_there(density):
    head = fit(*world(9, 12), density=density)
    alpha = head.state().policy_options["alpha"]
    assert isinstance(alpha, float)
    assert alpha != 1e-9
    resumed = Head.from_state(decode(bits(head.state()), HeadState))
    assert resumed.state().policy_options["alpha"] == alpha
    fixed = fit(*world(9, 12), density=density, alpha=alpha)
    events = world(12, 3, seed=1)[0]
    assert bits(head.process(events)) == bits(resumed.process(events)) == bits(fixed.process(events))


@pytest.mark.parametrize("density", DENSITIES)
def test_the_same_support_set_gives_the_same_options_and_is_not_changed(density):
    features, labels = world(7, 9)
    before = features.tobytes()
    assert bits(fit(features, labels, density=density).state()) == bits(fit(features, labels, density=density).state())
    assert features.tobytes() == before


@pytest.mark.parametrize("density", DENSITIES)
@pytest.mark.parametrize("dimension", [6, 40])
def test_tuned_it_finds_the_classes_whatever_the_dimension(density, dimension):
    features, labels = world(20, 40, dimension=dimension, spread=12.0)
    known, rng = labels < 12, np.random.default_rng(3)
    support = known & (rng.random(len(labels)) < 0.5)
    order = rng.permutation(np.flatnonzero(~support))
    head = fit(features[support], labels[support], density=density)
    found = [decision.category for decision in head.process(features[order])]
    accuracy = strict_accuracy(found, labels[order].tolist(), range(12))
    assert min(accuracy) > 0.9, accuracy


def test_a_number_is_left_alone_and_nothing_is_held_out(watched):
    density, _ = watched
    for policy in (chosen(alpha=0.5)[1], chosen(prior="none")[1]):
        assert tuned(density, policy, *world(9, 12)) is policy
    assert Watched.fitted == []


def test_every_class_is_novel_once_and_nothing_asked_about_was_fitted():
    features, labels = world(10, 11)
    density, _ = chosen()
    folds = _folds(density, features, labels)
    novel = [{truth for truth, is_novel in zip(fold.truth, fold.novel, strict=True) if is_novel} for fold in folds]
    assert len(folds) == FOLDS
    assert sorted(number for part in novel for number in part) == list(range(10))
    for fold, part in zip(folds, novel, strict=True):
        assert len(fold.state.categories) == 10 - len(part)
        known = {truth for truth, is_novel in zip(fold.truth, fold.novel, strict=True) if not is_novel}
        assert known == set(range(10)) - part


def test_held_out_rows_are_not_among_the_fitted(watched):
    features, labels = world(10, 11)
    folds = _folds(watched[0], features, labels)
    for fold, (rows, _) in zip(folds, Watched.fitted, strict=True):
        fitted = {row.tobytes() for row in rows}
        assert fitted.isdisjoint({row.tobytes() for row in fold.points})  # nearest-mean embeds as it is
        assert len(fitted) <= len(features) - len(fold.points)


def test_the_work_is_bounded_whatever_the_support_set(watched):
    features, labels = world(30, 400, dimension=2)
    density, policy = watched
    tuned(density, policy, features, labels)
    assert len(Watched.fitted) == FOLDS, "one fit a fold, whatever is tried"
    candidates = 15
    assert 0 < Watched.learnt <= FOLDS * MOST_EVENTS * candidates


@pytest.mark.parametrize("density", DENSITIES)
@pytest.mark.parametrize(
    "labels",
    [
        [0] * 8,
        [0] * 5 + [1] * 5,
        [0, 0, 1, 2, 3],
        [0, 0, 1],
        [0, 0],
    ],
)
def test_with_too_little_to_hold_out_it_falls_back_and_says_so(density, labels, caplog):
    features = np.random.default_rng(0).normal(size=(len(labels), 2)) + 5.0 * np.array(labels)[:, None]
    with caplog.at_level(logging.WARNING, "speciate"):
        head = fit(features, labels, density=density)
    assert head.state().policy_options["alpha"] == 1e-9
    assert "falls back" in caplog.text
    (told,) = [record for record in caplog.records if "what should be tuned falls back" in record.getMessage()]
    assert told.policy == "dp"
    assert "1e-09" in told.options


@settings(deadline=None, max_examples=60)
@given(st.lists(st.integers(1, 6), min_size=1, max_size=7), st.integers(0, 9))
def test_classes_of_any_size_are_tuned_or_fall_back(sizes, seed):
    labels = np.repeat(np.arange(len(sizes)), sizes)
    if max(sizes) == 1:
        return  # no density can be fitted to that, tuned or not
    features = np.random.default_rng(seed).normal(size=(len(labels), 2)) + 9.0 * labels[:, None]
    alpha = fit(features, labels).state().policy_options["alpha"]
    assert 0.0 < alpha < math.inf


def test_equal_samples_fall_back_where_what_is_left_has_no_spread(caplog):
    """One class alone has any spread: in the fold where it is novel nothing can be fitted."""
    features = np.repeat(np.arange(4.0), 6)[:, None]
    features[:6, 0] += np.linspace(-0.1, 0.1, 6)
    head = fit(features, np.repeat(np.arange(4), 6))
    assert isinstance(head.state().policy_options["alpha"], float)


def test_without_evidence_a_provider_still_says_whether_it_wants_any():
    policy = chosen()[1]
    (fallback,) = policy.provider.tune(policy.options, Held())
    assert fallback.alpha == 1e-9
    fixed = chosen(alpha=2.0)[1]
    assert list(fixed.provider.tune(fixed.options, Held())) == []


@pytest.mark.parametrize(
    ("scores", "place"),
    [
        ([0.5], 0),
        ([0.1, 0.9, 0.9, 0.9, 0.2], 2),
        ([0.9, 0.9, 0.1, 0.9 + TOLERANCE / 2], 3),
        ([0.9, 0.9 - TOLERANCE / 2, 0.9 - TOLERANCE / 2, 0.5], 1),
        ([0.9, 0.9, 0.9, 0.9], 1),
        ([0.2, 0.5, 0.8], 2),
    ],
)
def test_the_middle_of_the_plateau_around_the_best_is_chosen(scores, place):
    assert _middle(scores) == place


def test_a_novel_class_that_overruns_a_known_category_is_not_discovered():
    fold = calibrate.Fold(None, None, None, None, [4, 7, 9, 9, 9, 9], [False, False, True, True, True, True], [4, 7])
    assert calibrate._accuracy([0, 1, 0, 0, 0, 0], fold) == pytest.approx(2 / 6)
    assert calibrate._accuracy([0, 1, 2, 2, 2, 2], fold) == 1.0
    assert calibrate._accuracy([0, 2, 2, 2, 2, 3], fold) == pytest.approx(4 / 6), "pieces and strangers are errors"
    assert calibrate._accuracy([1, 0, 0, 1, 0, 1], fold) == 0.0


async def test_a_pipeline_tunes_once_and_resumes_with_what_it_found(tmp_path, monkeypatch):
    features, labels = world(6, 8, dimension=3)
    tree = make_tree(tmp_path, stream(60), policy={"alpha": "auto"})
    np.savez(tmp_path / "support.npz", features=features, labels=labels)
    report = await make_pipeline(tree).run()
    assert report.status.answered == 60

    def refuse(*_):
        raise AssertionError("a resumed pipeline must not tune again")

    monkeypatch.setattr(calibrate, "_folds", refuse)
    again = await make_pipeline(tree).run()
    assert again.status.categories == report.status.categories


def test_it_tells_how_far_it_is() -> None:
    told = []
    Head(*chosen()).calibrate(*world(9, 12), watch=lambda *where: told.append(where))
    assert [done for done, _, _ in told] == list(range(len(told)))
    assert {(total, word) for _, total, word in told} == {(len(told), "tuning dp")}
    assert len(told) > 3
