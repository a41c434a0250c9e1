"""The ready methods: each is well-formed, says whom it follows, and decides a stream."""

import tomllib
from importlib.resources import files

import msgspec
import numpy as np
import pytest

from speciate.config import choose
from speciate.head import Head
from speciate.plugins import installed
from speciate_schemas import MethodConfig

FOLDER = files("speciate_plugins") / "catalogue" / "methods"
NAMES = sorted(one.name.removesuffix(".toml") for one in FOLDER.iterdir() if one.name.endswith(".toml"))

WANTED = """
    dp-boa dp-boa-auto dp-boa-l dp-boa-l-features spherical mahalanobis-threshold posterior-threshold no-prior-mean
    no-prior-shape kappa-one no-dp-prior frozen slc rankstat wta smile phe phe-16 sync diffgre nearest-mean dbstream
"""


def load(name: str) -> MethodConfig:
    return msgspec.convert(tomllib.loads((FOLDER / f"{name}.toml").read_text("utf-8")), MethodConfig)


def make(config: MethodConfig) -> Head:
    plugins = installed()
    return Head(
        choose(plugins, "density", config.density, "density"), choose(plugins, "policy", config.policy, "policy")
    )


def stream() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Support of six classes, and events of these and four more."""
    rng = np.random.default_rng(0)
    centres = rng.normal(scale=4.0, size=(10, 12))
    classes = np.repeat(np.arange(6), 12)
    support = centres[classes] + rng.normal(size=(72, 12))
    return support, classes, centres[rng.integers(10, size=80)] + rng.normal(size=(80, 12))


def test_the_methods_of_the_paper_are_all_there() -> None:
    assert set(WANTED.split()) <= set(NAMES)


def test_no_two_have_the_same_title() -> None:
    titles = [load(name).title for name in NAMES]
    assert len(set(titles)) == len(titles)


@pytest.mark.parametrize("name", NAMES)
def test_it_says_whom_it_follows_and_decides_a_stream(name: str) -> None:
    config = load(name)
    assert config.title
    assert config.about.endswith(".")
    support, classes, events = stream()
    head = make(config)
    head.calibrate(support, classes)
    decisions = head.process(events)
    assert len(decisions) == len(events)
    assert head.size - 6 == sum(one.birth for one in decisions)
    again = Head.from_state(head.state())
    assert again.process(events[:20]) == head.process(events[:20])


# Those that cannot know a class by what its encoder learnt, or that are crippled on purpose, may fail on it.
@pytest.mark.parametrize(
    "name", ["dp-boa-auto", "mahalanobis-threshold", "posterior-threshold", "nearest-mean", "slc", "sync", "diffgre"]
)
def test_it_tells_known_from_new_where_that_is_easy(name: str) -> None:
    support, classes, _ = stream()
    head = make(load(name))
    head.calibrate(support, classes)
    rng = np.random.default_rng(1)
    known = support[classes == 2].mean(axis=0) + 0.2 * rng.normal(size=(5, 12))
    assert [(one.category, one.birth) for one in head.process(known)] == [(2, False)] * 5
    assert head.step(-8.0 * support[classes == 2].mean(axis=0)).birth
