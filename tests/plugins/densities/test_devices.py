"""The same lines on other arrays: the whole head under array-api-strict and torch, and on a CUDA device.

No CUDA device was at hand when this was written: the test marked `cuda` has never run.
"""

import importlib

import numpy as np
import pytest

from speciate.errors import PluginError
from speciate.head import Head
from speciate_plugins.densities import devices, full
from speciate_plugins.densities.rows import RowStore

DIMENSION = 12


def world():
    rng = np.random.default_rng(5)
    centres = 4.0 * rng.normal(size=(6, DIMENSION))
    labels = np.repeat(np.arange(3), 8)
    support = centres[labels] + rng.normal(size=(24, DIMENSION))
    stream = centres[rng.integers(0, 6, size=120)] + rng.normal(size=(120, DIMENSION))
    return support, labels, stream


def life(density: str, dtype: str) -> tuple[list, list]:
    """Decisions of a stream, with everything a head can do on the way, and the categories at its end."""
    support, labels, stream = world()
    head = Head.fit(support, labels, density=density, policy="dp", alpha=1e-3, dtype=dtype)
    decisions = head.process(stream[:50]) + [head.step(event) for event in stream[50:60]]
    head.merge(0, 1)
    head.forget(2)
    decisions += head.process(stream[60:])
    return decisions, Head.from_state(head.state()).categories


def strange(name: str):
    return pytest.importorskip(name, reason=f"{name} is not installed: its arrays were not tried")


@pytest.mark.parametrize("density", ["full", "lowrank"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", ["array_api_strict", "array_api_compat.torch"])
def test_another_namespace_decides_the_same(monkeypatch, name, dtype, density):
    if name.endswith("torch"):
        strange("torch")
    other = strange(name)
    expected, categories = life(density, dtype)
    used = []

    def store(dimension, kind, _namespace):
        used.append(other)
        return RowStore(dimension, kind, other)

    monkeypatch.setattr(full, "RowStore", store)
    found, kept = life(density, dtype)
    assert used, "the other namespace was not used: the test proved nothing"
    assert [(one.category, one.birth) for one in found] == [(one.category, one.birth) for one in expected]
    assert kept == categories
    tolerance = 1e-9 if dtype == "float64" else 1e-3
    assert [one.log_evidence for one in found] == pytest.approx([one.log_evidence for one in expected], abs=tolerance)


@pytest.mark.parametrize("events", [3, 40])
def test_extents_come_back_from_another_namespace(monkeypatch, events):
    other = strange("array_api_strict")
    support, labels, stream = world()
    axes = np.eye(DIMENSION)[:2]

    def drawn():
        density = full.ExactDensity(full.FullOptions())
        density.fit(support, labels)
        for point in density.embed(stream[:events]):
            density.absorb(1, point)
        assert density.roots[1] == (8 + events > DIMENSION)
        return [density.centre(1), *density.extent(1, axes)[:2], *density.extent_of_birth(axes)[:2]]

    expected = drawn()
    monkeypatch.setattr(full, "RowStore", lambda dimension, kind, _namespace: RowStore(dimension, kind, other))
    for got, wanted in zip(drawn(), expected, strict=True):
        assert type(got) is np.ndarray
        np.testing.assert_allclose(got, wanted, rtol=1e-4)


def test_a_device_without_its_library_says_what_to_install(monkeypatch):
    def missing(name):
        raise ImportError(name)

    monkeypatch.setattr(devices, "import_module", missing)
    with pytest.raises(PluginError, match=r"pip install 'speciate\[cuda12\]' or 'speciate\[cuda13\]'"):
        devices.namespace("cuda")


def test_the_cpu_is_numpy():
    assert devices.namespace("cpu") is importlib.import_module("numpy")


@pytest.mark.cuda
def test_a_cuda_device_decides_the_same():
    cupy = strange("cupy")
    if not cupy.cuda.is_available():
        pytest.skip("no CUDA device")
    support, labels, stream = world()
    heads = [Head.fit(support, labels, density="full", policy="dp", alpha=1e-3, device=one) for one in ("cpu", "cuda")]
    host, device = (head.process(stream) for head in heads)
    assert [one.category for one in host] == [one.category for one in device]
