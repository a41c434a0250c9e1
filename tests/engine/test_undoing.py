"""What was done by hand can be taken back, once: the state is then that of a head it was never done to."""

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from worlds import bits

from speciate import undoing
from speciate.errors import UnknownCategoryError
from speciate.head import Head
from speciate_schemas import Relabel

DIMENSION = 3
CENTRES = 6.0 * np.eye(DIMENSION)
CHANGES = {
    "rename": lambda head: head.rename(1, "bee"),
    "merge": lambda head: head.merge(0, 2),
    "merge backwards": lambda head: head.merge(4, 1),
    "forget": lambda head: head.forget(1),
}
HEADS = [("full", 1e-2), ("lowrank", 1e-2), ("spherical", 1.0), ("mahalanobis", 1e-2), ("nearest-mean", 1e-2)]


def made(density="full", alpha=1e-2):
    """A head with three known categories and some that were born."""
    rng = np.random.default_rng(0)
    support = np.repeat(CENTRES, 6, axis=0) + rng.normal(size=(18, DIMENSION))
    head = Head.fit(support, np.repeat(["a", "b", "c"], 6), density=density, policy="dp", alpha=alpha)
    head.process(events(20))
    assert head.size > 4
    return head


def events(count, seed=1):
    rng = np.random.default_rng(seed)
    return np.vstack([CENTRES, -CENTRES])[rng.integers(6, size=count)] + rng.normal(size=(count, DIMENSION))


def state(head):
    """All that a head is, but for the count of its changes."""
    return bits(msgspec.structs.replace(head.state(), version=0))


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize(("density", "alpha"), HEADS)
def test_undone_at_once_it_was_never_done(density, alpha, change):
    head, never = made(density, alpha), made(density, alpha)
    CHANGES[change](head)
    assert state(head) != state(never)
    head.undo()
    assert state(head) == state(never)
    later = events(30, seed=2)
    assert [one[:3] for one in head.process(later)] == [one[:3] for one in never.process(later)]
    assert state(head) == state(never)


@pytest.mark.parametrize("change", ["rename", "forget"])
def test_what_came_in_between_is_not_lost(change):
    head = made()
    before = {one.id: one for one in head.categories}
    CHANGES[change](head)
    decided = head.process(events(25, seed=3))
    head.undo()
    after = {one.id: one for one in head.categories}
    assert after[1].label == before[1].label == "b"
    got = {number: sum(one.category == number for one in decided) for number in after}
    assert {number: one.count - got[number] for number, one in after.items() if number in before} == {
        number: one.count for number, one in before.items()
    }


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 2**16), st.integers(0, 40), st.booleans())
def test_what_a_merged_category_has_learnt_goes_where_it_would_have_gone(seed, count, saved):
    head, apart = made(), made()
    head.merge(0, 2)
    stream = events(count, seed)
    decided = head.process(stream)
    if saved:
        head = Head.from_state(head.state())
    head.undo()
    # The same by hand: two that were never merged are told what the merged one got.
    points = apart.embed(stream)
    for point, one in zip(points, decided, strict=True):
        places = [apart._place(0), apart._place(2)]
        if one.category == 0:
            counts = np.array([apart.categories[place].count for place in places])
            chosen = int(np.argmax(np.log(counts) + apart._density.score(point, places)))
            apart.learn(point, (0, 2)[chosen], birth=False)
        else:
            apart.learn(point, one.category, birth=one.birth)
    assert [one.count for one in head.categories] == [one.count for one in apart.categories]
    for mine, other in zip(head.state().categories, apart.state().categories, strict=True):
        for key, array in mine.arrays.items():
            np.testing.assert_allclose(array.numpy(), other.arrays[key].numpy(), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(("density", "alpha"), HEADS)
def test_if_only_the_two_were_ever_in_question_they_never_were_merged(density, alpha):
    """Bit for bit, whatever came in between; the two are of very different size, and lie close."""
    rng = np.random.default_rng(4)
    support = np.vstack([rng.normal(size=(30, 2)), rng.normal((1.5, 0), size=(4, 2)), rng.normal(size=(9, 2)) + 40])
    labels = np.repeat(["large", "small", "far"], [30, 4, 9])
    compared = apart = 0
    for seed in range(20):
        head, never = (Head.fit(support, labels, density=density, policy="dp", alpha=alpha) for _ in range(2))
        stream = np.random.default_rng(seed).normal((1.0, 0), 0.8, size=(12, 2))
        # Numbers go by the labels: 0 far, 1 large, 2 small.
        head.merge(1, 2)
        without = never.process(stream)
        if [one.category for one in head.process(stream)] != [min(one.category, 1) for one in without]:
            continue  # the merged one reached further, or less far, than the two
        head.undo()
        assert state(head) == state(never)
        compared += 1
        apart += len({one.category for one in without}) == 2
    assert compared > 5
    assert apart > 3, "some of the streams went to both"


def test_it_survives_saving(tmp_path):
    head = made()
    head.merge(0, 2)
    head.process(events(10, seed=5))
    head.save(tmp_path / "head")
    again = Head.load(tmp_path / "head")
    assert state(again) == state(head)
    head.undo()
    again.undo()
    assert state(again) == state(head)


@pytest.mark.parametrize("prepare", [lambda head: None, lambda head: (head.rename(1, "x"), head.undo())])
def test_what_is_not_there_cannot_be_undone(prepare):
    head = made()
    prepare(head)
    before = bits(head.state())
    with pytest.raises(UnknownCategoryError, match="there is nothing to undo"):
        head.undo()
    assert bits(head.state()) == before


def test_only_the_last_is_undone():
    head, once = made(), made()
    head.forget(1)
    once.forget(1)
    head.rename(0, "new")
    head.undo()
    assert [(one.id, one.label) for one in head.categories] == [(one.id, one.label) for one in once.categories]
    with pytest.raises(UnknownCategoryError):
        head.undo()


def test_a_merge_that_has_been_lived_with_for_long_stands(monkeypatch):
    monkeypatch.setattr(undoing, "MOST_SINCE", 5)
    head = made()
    head.merge(0, 2)
    point = CENTRES[0]
    for _ in range(5):
        assert head.step(point).category == 0
    assert len(head.state().last_change.since) == 5
    head.step(point)
    assert head.state().last_change is None, "and nothing is kept for it any longer"
    with pytest.raises(UnknownCategoryError, match="more than"):
        head.undo()


def test_whoever_listens_is_told_what_categories_have_become():
    head = made()
    assert head.rename(1, "bee") == [Relabel(category=1, becomes=1, label="bee")]
    assert head.undo() == [Relabel(category=1, becomes=1, label="b")]
    assert head.merge(0, 2) == [Relabel(category=2, becomes=0, label="a")]
    assert head.undo() == [Relabel(category=2, becomes=2, label="c")]
    assert head.forget(4) == [Relabel(category=4, becomes=None)]
    assert head.undo() == [Relabel(category=4, becomes=4)]


def test_a_number_that_comes_back_is_not_given_to_another():
    head = made()
    last = max(one.id for one in head.categories)
    head.forget(last)
    born = head.step(np.full(DIMENSION, 90.0))
    assert born.birth
    assert born.category == last + 1
    head.undo()
    numbers = [one.id for one in head.categories]
    assert numbers == sorted(set(numbers))
    assert {last, last + 1} <= set(numbers)
