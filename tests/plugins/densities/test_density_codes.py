"""RankStat, WTA, SMILE and PHE: against dictionaries, and what their codes are by hand."""

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from speciate.errors import ConfigError
from speciate.head import Head
from speciate.plugins import installed
from speciate_plugins.densities.phe import hamming_radius
from speciate_schemas import Array

Code = tuple[int, ...]


def stream(seed: int, dimension: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    centres = rng.normal(scale=3.0, size=(7, dimension))
    classes = np.repeat(np.arange(4), (6, 2, 4, 5))
    support = centres[classes] + rng.normal(size=(17, dimension))
    return support, classes, centres[rng.integers(7, size=80)] + rng.normal(size=(80, dimension))


def fit(name: str, support: np.ndarray, classes: np.ndarray, **options: Any) -> Head:
    return Head.fit(support, classes, density=name, policy="distance-threshold", threshold=0.0, **options)


def decided(head: Head, events: np.ndarray) -> list[tuple[int, bool]]:
    return [(one.category, one.birth) for one in head.process(events)]


def coordinates(head: Head, rows: np.ndarray) -> list[list[float]]:
    shared = head.state().shared
    return ((rows - shared["mean"].numpy()) @ shared["matrix"].numpy().T).tolist()


def top_three(row: list[float]) -> Code:
    return tuple(sorted(sorted(range(len(row)), key=lambda place: (-row[place], place))[:3]))


def winners(row: list[float]) -> Code:
    groups = [row[start : start + 16] for start in range(0, 48, 16)]
    return tuple(group.index(max(group)) for group in groups)


def bits(row: list[float]) -> Code:
    return tuple(int(value >= 0.0) for value in row)


@pytest.mark.parametrize(("name", "code"), [("rankstat", top_three), ("wta", winners), ("smile", bits)])
@pytest.mark.parametrize("dimension", [2, 9, 60])
@pytest.mark.parametrize("seed", range(4))
def test_it_decides_as_a_dictionary_that_starts_empty(
    name: str, code: Callable[[list[float]], Code], dimension: int, seed: int
) -> None:
    support, classes, events = stream(seed, dimension)
    head = fit(name, support, classes)
    known: dict[Code, int] = {}
    wanted = []
    for row in coordinates(head, events):
        birth = code(row) not in known
        wanted.append((known.setdefault(code(row), 4 + len(known)), birth))
    assert decided(head, events) == wanted
    assert {birth for _, birth in wanted} == {True, False}


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 500), st.sampled_from([2, 9, 30]), st.integers(3, 16), st.sampled_from(["auto", 0, 1, 3]))
def test_it_decides_as_hamming_balls_do(seed: int, dimension: int, length: int, radius: Any) -> None:
    support, classes, events = stream(seed, dimension)
    head = fit("phe", support, classes, bits=length, radius=radius)
    centres = [bits(*coordinates(head, support[classes == k].mean(axis=0)[None])) for k in range(4)]
    within = hamming_radius(length, 4) if radius == "auto" else radius
    wanted = []
    for row in coordinates(head, events):
        own = bits(row)
        away = [sum(one != other for one, other in zip(own, centre, strict=True)) for centre in centres]
        nearest = centres.index(own) if own in centres else away.index(min(away))
        birth = own not in centres and away[nearest] > within
        wanted.append((len(centres), True) if birth else (nearest, False))
        if birth:
            centres.append(own)
    assert decided(head, events) == wanted


@pytest.mark.parametrize(
    ("length", "known", "radius"),
    [(12, 100, 1), (12, 19, 2), (16, 100, 2), (12, 80, 1), (16, 80, 2), (16, 19, 3)],
    ids=["CUB", "Pets", "CUB at 16", "CIFAR100", "CIFAR100 at 16", "Pets at 16"],
)
def test_the_radius_is_that_of_the_table(length: int, known: int, radius: int) -> None:
    assert hamming_radius(length, known) == radius


def test_the_radius_follows_its_definition_wherever_it_has_one() -> None:
    def binomial(length: int, chosen: int) -> int:
        return sum(1 for _ in itertools.combinations(range(length), chosen)) if chosen >= 0 else 0

    defined = 0
    for length in range(2, 11):
        for known in range(1, 2**length + 1):
            share = 2**length / known
            found = [d for d in range(1, length + 2) if binomial(length, d - 2) <= share <= binomial(length, d - 1)]
            if found:
                defined += 1
                assert hamming_radius(length, known) == max(min(found) // 2, 1)
    assert defined > 1000


def test_few_classes_have_the_widest_radius_there_is() -> None:
    assert [hamming_radius(12, known) for known in (1, 2, 4, 5)] == [3, 3, 3, 3]
    assert hamming_radius(1, 1) == 1
    assert hamming_radius(2, 1000) == 1


def codes_by_hand(name: str, rows: list[list[float]], **options: Any) -> list[list[float]]:
    """The codes of features that are the coordinates themselves."""
    provider = installed().provider("density", name)
    density = provider.create(provider.options(**options))
    rng = np.random.default_rng(0)
    size = len(rows[0])
    density.fit(rng.normal(size=(20, size)), np.repeat([0, 1], 10))
    state = density.export_state()
    shared = {**state.shared, "mean": Array.of(np.zeros(size)), "matrix": Array.of(np.eye(size))}
    density.import_state(state._replace(shared=shared))
    return density.embed(np.array(rows)).tolist()


def test_ranks_by_hand() -> None:
    rows = [[0.1, 0.9, -5.0, 0.8], [0.9, 0.1, 0.8, 0.0], [1.0, 1.0, 1.0, 1.0], [-1.0, -1.0, 0.0, -1.0]]
    assert codes_by_hand("rankstat", rows, coordinates=4, top=2) == [[1, 3], [0, 2], [0, 1], [0, 2]]


def test_winners_by_hand() -> None:
    rows = [[0.1, 0.9, -5.0, 0.8], [0.9, 0.1, 0.8, 0.0], [1.0, 1.0, 0.0, 0.0], [-1.0, -2.0, -4.0, -3.0]]
    assert codes_by_hand("wta", rows, groups=2, size=2) == [[1, 1], [0, 0], [0, 0], [0, 1]]


@pytest.mark.parametrize("name", ["smile", "phe"])
def test_bits_by_hand(name: str) -> None:
    assert codes_by_hand(name, [[0.1, -0.1, 0.0, -7.0]], bits=4) == [[1, 0, 1, 0]]


def test_the_first_of_equally_near_centres_wins_and_the_rim_is_inside() -> None:
    support, classes, _ = stream(0, 9)
    head = fit("phe", support, classes, bits=4, radius=1)
    density = head._density
    for code in ([0, 0, 0, 0], [1, 1, 0, 0], [1, 1, 1, 1]):
        density.found(np.array(code, dtype=float))
    scores = density.score(np.array([0.0, 1.0, 0.0, 0.0]), [4, 5, 6])
    assert scores.tolist() == [0.0, 0.0, -2.0]
    choice = head._policy.choose(*head._policy.weigh(scores, density.counts[4:], 0.0))
    assert choice.category == 0


def test_more_ranks_than_coordinates_are_refused() -> None:
    support, classes, _ = stream(0, 9)
    with pytest.raises(ConfigError, match="choose a smaller top"):
        fit("rankstat", support, classes, coordinates=2)


@pytest.mark.parametrize("name", ["rankstat", "wta", "smile", "phe"])
def test_another_seed_is_another_rotation(name: str) -> None:
    support, classes, _ = stream(0, 20)
    first, again, other = (fit(name, support, classes, seed=seed).state().shared["matrix"] for seed in (0, 0, 1))
    assert first == again
    assert first != other
