"""The head `full` + `dp` makes the decisions of the paper, and its figures, whatever the stream and the options."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oracle import Oracle
from speciate import Head
from speciate_schemas import encode

FIGURES = ("log_evidence", "margin", "probability", "drift")


def world(seed: int, dimension: int, known: int, novel: int, events: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Support of unequal classes, and events of these and others: Gaussians of one crooked shape, near and far."""
    rng = np.random.default_rng(seed)
    shape = np.linalg.qr(rng.normal(size=(dimension, dimension)))[0] * rng.uniform(0.5, 2.0, dimension)
    centres = rng.normal(scale=rng.choice([0.5, 3.0, 10.0]), size=(known + novel, dimension)) + rng.normal(scale=5.0)
    sizes = rng.integers(1, 9, known)
    sizes[0] += dimension + 2
    classes = np.repeat(np.arange(known), sizes)
    rng.shuffle(classes)
    places = rng.integers(known + novel, size=events)
    if rng.random() < 0.5:
        places.sort()
    noise = rng.normal(size=(len(classes) + events, dimension)) @ shape
    return centres[classes] + noise[: len(classes)], classes, centres[places] + noise[len(classes) :]


def compare(head: Head, oracle: Oracle, events: np.ndarray, tolerance: float) -> None:
    for place, (decision, event) in enumerate(zip(head.process(events), events, strict=True)):
        verdict = oracle.step(event)
        assert (decision.category, decision.birth) == (verdict.category, verdict.birth), f"event {place}"
        for figure in FIGURES:
            got, wanted = getattr(decision, figure), getattr(verdict, figure)
            near = None if wanted is None else pytest.approx(wanted, rel=0, abs=tolerance)
            assert got == near, f"{figure} of event {place}"


def fit(features: np.ndarray, classes: np.ndarray, **options: Any) -> Head:
    return Head.fit(features, classes, density="full", policy="dp", **options)


options = st.fixed_dictionaries(
    {"alpha": st.sampled_from([1e-9, 1e-3, 1.0, 1e6])},
    optional={
        "shrinkage": st.sampled_from(["auto", 0.0, 0.1, 1.0]),
        "kappa0": st.sampled_from(["auto", 1e-3, 1.0, 50.0]),
        "n_cap": st.sampled_from([0.5, 3.0]),
        "mean": st.just("zero"),
        "scale": st.just("identity"),
        "frozen": st.just(True),
    },
)


@settings(deadline=None, max_examples=150)
@given(st.integers(0, 2**32), st.integers(1, 20), st.integers(1, 8), st.integers(0, 6), options)
def test_it_decides_as_the_oracle(seed: int, dimension: int, known: int, novel: int, chosen: dict[str, Any]) -> None:
    features, classes, events = world(seed, dimension, known, novel, 30)
    head = fit(features, classes, dtype="float64", **chosen)
    more = {key: chosen[key] for key in ("alpha", "frozen") if key in chosen}
    compare(head, Oracle(head.state().shared, features, classes, **more), events, 1e-9)


def wide() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """As wide as real features: 12 classes of 12, and 60 events of these and six others."""
    rng = np.random.default_rng(768)
    widths = np.geomspace(3.0, 0.1, 768)
    centres = rng.normal(scale=1.5, size=(18, 768)) * widths
    classes, places = np.repeat(np.arange(12), 12), rng.integers(18, size=60)
    noise = rng.normal(size=(len(classes) + len(places), 768)) * widths
    return centres[classes] + noise[: len(classes)], classes, centres[places] + noise[len(classes) :]


def test_single_precision_decides_as_the_oracle_at_768_features() -> None:
    features, classes, events = wide()
    head = fit(features, classes)
    compare(head, Oracle(head.state().shared, features, classes), events, 1e-3)
    assert 12 < head.size < 30


@pytest.mark.parametrize("size", [1, 2, 7, 32, 60])
def test_at_768_features_a_batch_is_its_events_one_by_one(size: int, stepped: tuple[bytes, bytes]) -> None:
    features, classes, events = wide()
    head = fit(features, classes)
    decisions = [one for start in range(0, len(events), size) for one in head.process(events[start : start + size])]
    assert (encode(decisions), encode(head.state())) == stepped


@pytest.fixture(scope="module")
def stepped() -> tuple[bytes, bytes]:
    features, classes, events = wide()
    head = fit(features, classes)
    return encode([head.step(event) for event in events]), encode(head.state())
