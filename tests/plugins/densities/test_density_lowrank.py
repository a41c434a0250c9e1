"""Low rank: against Frequent Directions by SVD of dense arrays and SciPy's Student t, and against `full`."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import multivariate_t

from speciate.conformance import check_density
from speciate.errors import StateMismatchError
from speciate.plugins import installed
from speciate.stages import Density
from speciate_plugins.densities.lowrank import LowRankDensity

SPACES = ["whitened", "features"]


def make(name: str = "lowrank", **options: Any) -> Any:
    provider = installed().provider("density", name)
    return provider.create(provider.options(**{"dtype": "float64", "shrinkage": 0.1, **options}))


def support(seed: int, dimension: int, sizes: Sequence[int] = (9, 2, 5)) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    classes = np.repeat(np.arange(len(sizes)), sizes)
    centres = rng.normal(scale=3.0, size=(len(sizes), dimension))
    return centres[classes] + shaped(rng, len(classes), dimension), classes


def shaped(rng: np.random.Generator, size: int, dimension: int) -> np.ndarray:
    """Events that differ more in some directions than in others, as real ones do."""
    return rng.normal(size=(size, dimension)) * np.geomspace(3.0, 0.3, dimension) @ mixing(dimension)


def mixing(dimension: int) -> np.ndarray:
    return np.linalg.qr(np.random.default_rng(99).normal(size=(dimension, dimension)))[0]


def scores(density: Density, events: np.ndarray) -> np.ndarray:
    everybody = range(len(density.counts))
    return np.array([density.score(point, everybody) for point in density.embed(events)])


class Sketch:
    """A category with its sketch and its exact trace, in coordinates where the prior is a standard one."""

    def __init__(self, oracle: "Oracle") -> None:
        self.oracle, self.count = oracle, 0
        self.mean, self.rows, self.trace = np.zeros(oracle.dimension), np.zeros((0, oracle.dimension)), 0.0

    @property
    def kappa(self) -> float:
        return self.oracle.kappa + self.count

    def learn(self, event: np.ndarray) -> None:
        point = np.linalg.solve(self.oracle.root, event - self.oracle.mean)
        row = np.sqrt(self.kappa / (self.kappa + 1)) * (point - self.mean)
        self.trace += row @ row
        self.mean = (self.kappa * self.mean + point) / (self.kappa + 1)
        self.count += 1
        self.insert(np.vstack((self.rows, row)))

    def insert(self, rows: np.ndarray) -> None:
        """Frequent Directions as it is written down."""
        self.rows = rows
        if len(rows) > self.oracle.rank:
            _, values, directions = np.linalg.svd(rows)
            values = np.pad(values, (0, max(self.oracle.rank + 1 - len(values), 0)))
            left = np.sqrt(np.maximum(values[: self.oracle.rank] ** 2 - values[self.oracle.rank] ** 2, 0))
            size = min(self.oracle.rank, self.oracle.dimension)
            self.rows = left[:size, np.newaxis] * directions[:size]

    def join(self, other: "Sketch") -> None:
        """The scatter of both in one dense matrix, cut to the rank by its eigenvectors."""
        total = self.kappa + other.kappa - self.oracle.kappa
        mean = (self.kappa * self.mean + other.kappa * other.mean) / total
        between = self.kappa * np.outer(self.mean, self.mean) + other.kappa * np.outer(other.mean, other.mean)
        between -= total * np.outer(mean, mean)
        self.trace += other.trace + np.trace(between)
        values, vectors = np.linalg.eigh(self.rows.T @ self.rows + other.rows.T @ other.rows + between)
        self.count, self.mean = self.count + other.count, mean
        self.insert((np.sqrt(np.maximum(values, 0.0)) * vectors).T)

    def predictive(self) -> Any:
        oracle = self.oracle
        residual = (self.trace - (self.rows**2).sum()) / oracle.dimension
        scale = oracle.root @ ((1 + residual) * np.eye(oracle.dimension) + self.rows.T @ self.rows) @ oracle.root.T
        return oracle.predictive(oracle.mean + oracle.root @ self.mean, scale, self.count)


class Oracle:
    """Nothing clever: dense matrices, and only the prior taken from the density under test."""

    def __init__(self, shared: Any, rank: int, space: str) -> None:
        self.mean, self.rank = shared["mean"].numpy(), rank
        self.dimension = len(self.mean)
        self.root = np.linalg.inv(shared["whiten"].numpy())
        self.scale = self.root @ self.root.T
        if space == "features":
            self.root = np.sqrt(np.trace(self.scale) / self.dimension) * np.eye(self.dimension)
        self.kappa, self.strength = float(shared["kappa0"].numpy()), float(shared["n0"].numpy())
        self.sketches: list[Sketch] = []

    def found(self, events: np.ndarray) -> None:
        self.sketches.append(Sketch(self))
        for event in events:
            self.sketches[-1].learn(event)

    def predictive(self, mean: np.ndarray, scale: np.ndarray, count: int) -> Any:
        kappa, free = self.kappa + count, self.strength + 2 + count
        return multivariate_t(mean, (kappa + 1) / (kappa * free) * scale, free)

    def scores(self, events: np.ndarray) -> np.ndarray:
        predictives = [sketch.predictive() for sketch in self.sketches]
        return np.array([[one.logpdf(event) for one in predictives] for event in events])

    def births(self, events: np.ndarray) -> np.ndarray:
        """The exact prior, whatever the space."""
        return np.atleast_1d(self.predictive(self.mean, self.scale, 0).logpdf(events))


def fitted(features: np.ndarray, classes: np.ndarray, rank: int, space: str) -> tuple[Any, Oracle]:
    density = make(rank=rank, space=space)
    density.fit(features, classes)
    oracle = Oracle(density.export_state().shared, rank, space)
    for number in range(classes.max() + 1):
        oracle.found(features[classes == number])
    return density, oracle


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("space", SPACES)
@pytest.mark.parametrize(("dimension", "rank"), [(1, 1), (2, 1), (7, 0), (8, 3), (8, 32), (65, 4), (65, 32)])
def test_it_keeps_the_laws(dimension: int, rank: int, space: str, dtype: str) -> None:
    features, classes = support(dimension, dimension)
    events = np.random.default_rng(0).normal(scale=4.0, size=(11, dimension))
    for away in (0.0, 100.0):
        check_density(lambda: make(rank=rank, space=space, dtype=dtype), features + away, classes, events + away)


@pytest.mark.parametrize("space", SPACES)
def test_it_keeps_the_laws_at_the_size_of_real_features(space: str) -> None:
    features, classes = support(0, 768)
    events = np.random.default_rng(0).normal(scale=4.0, size=(7, 768))
    check_density(lambda: make(rank=4, space=space, dtype="float32"), features, classes, events)


@pytest.mark.parametrize("space", SPACES)
@settings(deadline=None, max_examples=60)
@given(
    st.integers(0, 1000),
    st.integers(1, 9),
    st.integers(0, 6),
    st.lists(st.tuples(st.sampled_from(["absorb", "absorb", "found", "merge", "remove"]), *[st.integers(0, 9)] * 2)),
)
def test_it_is_the_sketch_it_says_whatever_it_has_learnt(
    space: str, seed: int, dimension: int, rank: int, script: list
) -> None:
    features, classes = support(seed, dimension)
    density, oracle = fitted(features, classes, rank, space)
    rng = np.random.default_rng(seed + 1)
    for kind, first, second in script:
        event, size = 3.0 * shaped(rng, 1, dimension), len(oracle.sketches)
        point, one, other = density.embed(event)[0], first % max(size, 1), second % max(size, 1)
        if kind == "found" or not size:
            density.found(point)
            oracle.found(event)
        elif kind == "absorb":
            density.absorb(one, point)
            oracle.sketches[one].learn(event[0])
        elif kind == "remove":
            density.remove(one)
            del oracle.sketches[one]
        elif one != other:
            density.merge(one, other)
            oracle.sketches[one].join(oracle.sketches.pop(other) if other > one else oracle.sketches[other])
            if other < one:
                del oracle.sketches[other]
    events = 3.0 * shaped(rng, 4, dimension)
    assert density.counts.tolist() == [sketch.count for sketch in oracle.sketches]
    np.testing.assert_allclose(scores(density, events), oracle.scores(events).reshape(4, -1), rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(density.score_birth(density.embed(events)), oracle.births(events), rtol=1e-9)


@pytest.mark.parametrize("space", SPACES)
def test_a_long_life_stays_on_the_sketch(space: str) -> None:
    features, classes = support(5, 48)
    density, oracle = fitted(features, classes, 8, space)
    events = shaped(np.random.default_rng(6), 400, 48)
    for event, point in zip(events, density.embed(events), strict=True):
        density.absorb(1, point)
        oracle.sketches[1].learn(event)
    np.testing.assert_allclose(scores(density, events[:9]), oracle.scores(events[:9]), rtol=1e-9)


@pytest.mark.parametrize("space", SPACES)
def test_single_precision_stays_near(space: str) -> None:
    features, classes = support(5, 300, (40, 30, 60))
    events = shaped(np.random.default_rng(6), 1000, 300)
    got = {}
    for dtype in ("float32", "float64"):
        density = make(space=space, dtype=dtype)
        density.fit(features, classes)
        for point in density.embed(events):
            density.absorb(1, point)
        got[dtype] = scores(density, events[:9])
    np.testing.assert_allclose(got["float32"], got["float64"], atol=1e-3)


def test_up_to_its_rank_a_category_is_that_of_full() -> None:
    features, classes = support(2, 40, (6, 2, 3))
    events = shaped(np.random.default_rng(1), 8, 40)
    one, full = make(rank=6, dtype="float32"), make("full", dtype="float32")
    for density in (one, full):
        density.fit(features, classes)
        points = density.embed(events)
        density.found(points[0])
        for point in points[1:4]:
            density.absorb(1, point)
            density.absorb(3, point)
    assert scores(one, events).tobytes() == scores(full, events).tobytes()
    assert one.score_birth(one.embed(events)).tobytes() == full.score_birth(full.embed(events)).tobytes()
    before = scores(one, events)
    one.absorb(0, points[4])
    full.absorb(0, points[4])
    assert (scores(one, events)[:, 0] != scores(full, events)[:, 0]).all(), "a seventh event is one too many"
    assert scores(one, events)[:, 1:].tobytes() == before[:, 1:].tobytes()


@pytest.mark.parametrize("rank", [5, 9])
def test_with_a_rank_of_all_dimensions_it_is_full(rank: int) -> None:
    features, classes = support(2, 5)
    events = shaped(np.random.default_rng(1), 60, 5)
    got = []
    for density in (make(rank=rank), make("full")):
        density.fit(features, classes)
        for point in density.embed(events):
            density.absorb(2, point)
        density.merge(2, 0)
        got.append(scores(density, events))
    np.testing.assert_allclose(*got, rtol=1e-9)


@pytest.mark.parametrize("rank", [0, 3])
def test_the_trace_is_that_of_full(rank: int) -> None:
    """What the sketch drops comes back: in whitened coordinates, all that `full` would have learnt."""
    features, classes = support(2, 12)
    density, full = make(rank=rank), make("full")
    for one in (density, full):
        one.fit(features, classes)
        one.absorb(1, one.embed(features[:1])[0])
        one.merge(0, 1)
    state = density.export_state().categories[0]
    traces = state["spectrum"].numpy().sum() + state["dropped"].numpy()
    rows = full.export_state().categories[0]["rows"].numpy()
    taken = np.linalg.eigvalsh(rows.T @ rows)
    assert traces == pytest.approx((taken / (1.0 - taken)).sum())


@pytest.mark.parametrize("space", SPACES)
def test_its_memory_is_bounded(space: str) -> None:
    features, classes = support(2, 24)
    density = make(rank=4, space=space, dtype="float32")
    density.fit(features, classes)
    sizes = []
    for point in density.embed(shaped(np.random.default_rng(3), 300, 24)):
        density.absorb(0, point)
        density.absorb(1, point)
        sizes.append((density.nbytes, len(density.rows)))
    assert set(sizes[2:]) == {sizes[-1]}
    assert len(density.rows) == 12
    density.merge(0, 2)
    assert [len(one["rows"].numpy()) for one in density.export_state().categories] == [4, 4]


def test_the_spaces_differ_in_what_they_give_back() -> None:
    features, classes = support(3, 32, (30, 20, 25))
    events = shaped(np.random.default_rng(4), 9, 32)
    got = []
    for space in SPACES:
        density = make(rank=5, space=space)
        density.fit(features, classes)
        got.append(scores(density, events))
        births = density.score_birth(density.embed(events))
    assert np.abs(got[0] - got[1]).min() > 1.0
    full = make("full")
    full.fit(features, classes)
    np.testing.assert_allclose(births, full.score_birth(full.embed(events)), rtol=1e-12)


@pytest.mark.parametrize("space", SPACES)
@pytest.mark.parametrize("rank", [0, 1, 3])
def test_equal_events_are_no_trouble(space: str, rank: int) -> None:
    features, classes = support(3, 6)
    density, oracle = fitted(features, classes, rank, space)
    point = density.embed(features[:1])[0]
    for one in (density, oracle):
        one.found(features[:1]) if one is oracle else one.found(point)
    for _ in range(20):
        density.absorb(3, point)
        oracle.sketches[3].learn(features[0])
    np.testing.assert_allclose(scores(density, features), oracle.scores(features), rtol=1e-8)


@pytest.mark.parametrize("space", SPACES)
def test_a_state_that_is_not_its_own_is_refused(space: str) -> None:
    features, classes = support(3, 4)
    full = make("full")
    full.fit(features, classes)
    with pytest.raises(StateMismatchError, match="not a state of this density"):
        make(space=space).import_state(full.export_state())


def test_whitened_is_what_you_get_unasked() -> None:
    assert type(make()) is LowRankDensity
    assert installed().provider("density", "lowrank").options().rank == 32
