"""Merge suggestions: parts of one cluster are found, whatever is apart is left alone, and who cannot tell says so."""

import numpy as np
import pytest

from builtin import DENSITIES, fit, labelled, make
from speciate import Head
from speciate.conformance import check_density
from speciate.errors import ConfigError, UnknownCategoryError
from speciate.suggesting import NEIGHBOURS, Suggestion, densities_that_tell, suggest
from speciate_schemas import encode

CENTRES = np.array([[40.0, 0.0, 0.0], [0.0, 40.0, 0.0], [0.0, 0.0, 40.0]])


def give(head: Head, events: np.ndarray) -> int:
    """A new category of these events; its number."""
    number = head.state().next_category
    for place, point in enumerate(head.embed(events)):
        head.learn(point, number, birth=not place)
    return number


def cluster(centre: int, count: int, seed: int) -> np.ndarray:
    return CENTRES[centre] + np.random.default_rng(seed).normal(size=(count, 3))


@pytest.fixture
def head() -> Head:
    """Known classes 0 to 2 around the origin, far from the rest: 3 and 5 are halves of one cluster, 4 is another."""
    features, classes = labelled(0, 3, (12, 12, 12), spread=9.0)
    head = Head.fit(features, classes, density="full", policy="dp", dtype="float64")
    for centre, count, seed in ((0, 20, 1), (1, 20, 2), (0, 30, 3)):
        give(head, cluster(centre, count, seed))
    return head


def test_halves_of_a_cluster_are_suggested_and_clusters_far_apart_are_not(head: Head) -> None:
    (only,) = suggest(head, 10)
    assert (only.keep, only.absorb, only.labels, only.counts) == (5, 3, (None, None), (30, 20))
    assert only.log_bayes_factor > 5.0
    everything = {(one.keep, one.absorb): one.log_bayes_factor for one in suggest(head, 99, everything=True)}
    assert len(everything) == 6 * 5 // 2
    assert everything[5, 4] < -20.0
    assert everything[5, 3] == only.log_bayes_factor


def test_they_come_best_first_and_no_more_than_wanted(head: Head) -> None:
    everything = suggest(head, 99, everything=True)
    factors = [one.log_bayes_factor for one in everything]
    assert factors == sorted(factors, reverse=True)
    assert suggest(head, 4, everything=True) == everything[:4]


def test_the_factor_does_not_depend_on_whom_else_there_is(head: Head) -> None:
    before = suggest(head, 1)
    give(head, cluster(2, 9, 7))
    assert suggest(head, 1) == before


@pytest.mark.parametrize(
    ("sizes", "keep"),
    [((3, 4), 1), ((4, 3), 0), ((4, 4), 0)],
)
def test_the_larger_is_kept_and_of_equals_the_older(head: Head, sizes: tuple[int, int], keep: int) -> None:
    numbers = [give(head, cluster(2, size, seed)) for seed, size in enumerate(sizes)]
    (best,) = [one for one in suggest(head, 9) if one.keep in numbers]
    assert (best.keep, best.absorb) == (numbers[keep], numbers[1 - keep])
    assert best.counts == (sizes[keep], sizes[1 - keep])


def test_a_known_category_is_kept_however_small() -> None:
    features, classes = labelled(0, 3, (12, 3), spread=30.0)
    head = Head.fit(features, np.array(["cat", "dog"])[classes], density="full", policy="dp")
    events = features[classes == 1].mean(axis=0) + np.geomspace(3.0, 0.3, 3) * np.random.default_rng(1).normal(
        size=(25, 3)
    )
    assert give(head, events) == 2
    (only,) = suggest(head, 9)
    assert (only.keep, only.absorb, only.labels, only.counts) == (1, 2, ("dog", None), (3, 25))


def test_one_category_s_suggestions_are_those_that_concern_it(head: Head) -> None:
    for seed in range(NEIGHBOURS + 3):
        give(head, cluster(1, 4, 10 + seed))
    everything = suggest(head, 999, category=4, everything=True)
    assert len(everything) == head.size - 1
    assert all(4 in (one.keep, one.absorb) for one in everything)
    assert suggest(head, 2, category=4) == everything[:2]
    with pytest.raises(UnknownCategoryError, match="no category 99"):
        suggest(head, 2, category=99)


def test_done_one_after_another_they_leave_the_clusters(head: Head) -> None:
    for seed in range(12):
        give(head, cluster(seed % 3, 1 + seed % 4, 20 + seed))
    while found := suggest(head, 1):
        head.merge(found[0].keep, found[0].absorb)
    assert head.size == 3 + len(CENTRES)
    assert suggest(head, 9, everything=True)[0].log_bayes_factor <= 0.0


def test_to_ask_changes_nothing_and_a_saved_head_says_the_same(head: Head, tmp_path) -> None:
    before = encode(head.state())
    found = suggest(head, 99, everything=True)
    assert encode(head.state()) == before
    head.save(tmp_path / "head")
    assert suggest(Head.load(tmp_path / "head"), 99, everything=True) == found
    assert all(type(one) is Suggestion for one in found)


def test_one_category_alone_has_nobody_to_be_merged_with() -> None:
    head = Head.fit(np.eye(3), ["only"] * 3, density="full", policy="dp", shrinkage=0.5)
    assert suggest(head, 9, everything=True) == []
    head.forget(0)
    assert suggest(head, 9, everything=True) == []


@pytest.mark.parametrize("density", [name for name in DENSITIES if name != "full"])
def test_a_density_that_cannot_tell_names_those_that_can(density: str) -> None:
    head = fit(density, *labelled(0, 3))
    with pytest.raises(ConfigError, match=f"density '{DENSITIES[density]['density']}' cannot tell .*: full$"):
        suggest(head, 9)


def test_who_can_tell() -> None:
    assert densities_that_tell() == ["full"]


LIES = {
    "lead": {"merge_gain": lambda self, pairs: np.ones(len(pairs))},
    "in order": {"neighbours": lambda self, most, of=None: [(1, 2), (0, 1), (0, 2)]},
    "different categories": {"neighbours": lambda self, most, of=None: [(0, 0), (1, 2)]},
    "must have 1 neighbours": {"neighbours": lambda self, most, of=None: [(0, 1), (0, 2)]},
    "change nothing": {"neighbours": lambda self, most, of=None: self.learn_secretly() or self.told(most, of)},
}


@pytest.mark.parametrize("law", LIES)
def test_a_density_that_tells_wrongly_does_not_conform(law: str) -> None:
    true = type(make("full"))

    def learn_secretly(self) -> None:
        self.counts[0] += 1

    helpers = {"learn_secretly": learn_secretly, "told": true.neighbours}
    lying = type("Lying", (true,), LIES[law] | helpers)
    features, classes = labelled(0, 3)
    events = np.random.default_rng(0).normal(size=(6, 3))
    check_density(lambda: true(make("full")._options), features, classes, events)
    with pytest.raises(AssertionError, match=law):
        check_density(lambda: lying(make("full")._options), features, classes, events)
