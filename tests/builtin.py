"""The densities and policies that come with Speciate: what holds for one must hold for all of them."""

from collections.abc import Iterator
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import strategies as st

from speciate.head import Head
from speciate.plugins import installed

DENSITIES: dict[str, dict[str, Any]] = {
    "full": {"density": "full"},
    "lowrank": {"density": "lowrank", "rank": 3},
    "lowrank in features": {"density": "lowrank", "rank": 3, "space": "features"},
    "mahalanobis": {"density": "mahalanobis"},
    "nearest-mean": {"density": "nearest-mean"},
    "spherical": {"density": "spherical"},
}
RULES = {"leader", "rankstat", "wta", "smile", "phe", "sync", "diffgre", "dbstream"}
"""Scores that stand for the rules of other methods, not for probabilities: their own tests hold them to those rules."""
ROWED = [name for name in DENSITIES if name != "nearest-mean"]
"""Those that are screened by rows, though some never have one."""
POLICIES = ["dp", "posterior-threshold", "distance-threshold"]

densities = pytest.mark.parametrize("density", DENSITIES)
rowed = pytest.mark.parametrize("density", ROWED)
policies = pytest.mark.parametrize("policy", POLICIES)
dtypes = pytest.mark.parametrize("dtype", ["float32", "float64"])


def make(density: str, **options: Any) -> Any:
    """A density, not fitted; options it does not have are left out."""
    given = DENSITIES[density] | options
    provider = installed().provider("density", given["density"])
    known = {field.name for field in msgspec.structs.fields(provider.options)}
    return provider.create(provider.options(**{key: value for key, value in given.items() if key in known}))


def fit(density: str, features: Any, labels: Any, policy: str = "dp", **options: Any) -> Head:
    """A head; nearest mean has no options, so those of its fellows are left out."""
    if density == "nearest-mean":
        options = {key: value for key, value in options.items() if key in ("alpha", "threshold")}
    return Head.fit(features, labels, policy=policy, **DENSITIES[density], **options)


def labelled(
    seed: int, dimension: int, sizes: tuple[int, ...] = (9, 2, 5), spread: float = 3.0
) -> tuple[np.ndarray, np.ndarray]:
    """A support set of Gaussians wider in some features than in others."""
    rng = np.random.default_rng(seed)
    classes = np.repeat(np.arange(len(sizes)), sizes)
    centres = rng.normal(scale=spread, size=(len(sizes), dimension))
    return centres[classes] + np.geomspace(3.0, 0.3, dimension) * rng.normal(size=(len(classes), dimension)), classes


steps = st.lists(
    st.tuples(st.sampled_from(["absorb", "found", "merge", "remove"]), st.integers(0, 9), st.integers(0, 9)),
    max_size=30,
)
"""What happens to a density's categories, for `live`."""


def live(
    density: Any, members: list[list[np.ndarray]], script: list[tuple[str, int, int]], seed: int
) -> Iterator[None]:
    """A life of a density, and of lists of the events its categories hold; yields after each step."""
    rng = np.random.default_rng(seed)
    for kind, first, second in script:
        event, size = rng.normal(scale=3.0, size=density.dimension), len(members)
        point, one, other = density.embed(event[np.newaxis])[0], first % max(size, 1), second % max(size, 1)
        if kind == "found" or not size:
            density.found(point)
            members.append([event])
        elif kind == "absorb":
            density.absorb(one, point)
            members[one].append(event)
        elif kind == "remove":
            density.remove(one)
            del members[one]
        elif one != other:
            density.merge(one, other)
            members[one] += members[other]
            del members[other]
        yield
    assert density.counts.tolist() == [len(held) for held in members]
