"""The supervised contrast is the paper's, whatever is in a batch."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

torch = pytest.importorskip("torch")

from speciate_plugins.vision.losses import supervised_contrast  # noqa: E402 - after the check for torch


def contrast_as_written(features, classes, temperature):
    """Appendix H, sum by sum."""
    total = 0.0
    for i, one in enumerate(features):
        others = [a for a in range(len(features)) if a != i]
        alike = {a: cosine(one, features[a]) / temperature for a in others}
        positives = [p for p in others if classes[p] == classes[i]]
        for p in positives:
            share = math.exp(alike[p]) / sum(math.exp(alike[a]) for a in others)
            total -= math.log(share) / len(positives)
    return total / len(features)


def cosine(one, other):
    return float(one @ other / np.linalg.norm(one) / np.linalg.norm(other))


def loss_of(features, classes, temperature):
    return supervised_contrast(torch.tensor(features), torch.tensor(classes), temperature).item()


@settings(max_examples=50, deadline=None)
@given(
    data=st.data(), count=st.integers(2, 9), dimension=st.integers(1, 5), temperature=st.sampled_from([0.07, 0.5, 2.0])
)
def test_it_is_the_papers_equation(data, count, dimension, temperature):
    coordinate = st.floats(-5, 5).filter(lambda value: abs(value) > 1e-2)
    features = data.draw(arrays.arrays(np.float64, (count, dimension), elements=coordinate))
    classes = data.draw(arrays.arrays(np.int64, count, elements=st.integers(0, 3)))
    expected = contrast_as_written(features, classes, temperature)
    assert loss_of(features, classes, temperature) == pytest.approx(expected, rel=1e-9, abs=1e-12)


def test_it_does_not_depend_on_the_lengths():
    features = np.random.default_rng(0).normal(size=(6, 4))
    classes = np.array([0, 0, 1, 1, 2, 2])
    scaled = features * np.arange(1, 7)[:, None]
    assert loss_of(scaled, classes, 0.1) == pytest.approx(loss_of(features, classes, 0.1))


def test_an_image_alone_of_its_class_adds_nothing_but_counts_in_the_mean():
    pair = np.array([[1.0, 0.0], [1.0, 0.0], [-1.0, 0.0]])
    expected = 2 / 3 * -math.log(math.exp(10) / (math.exp(10) + math.exp(-10)))
    assert loss_of(pair, np.array([0, 0, 1]), 0.1) == pytest.approx(expected)


@pytest.mark.parametrize("count", [1, 3])
def test_without_any_positives_it_is_nothing_and_so_is_its_gradient(count):
    features = torch.ones((count, 4), requires_grad=True)
    loss = supervised_contrast(features, torch.arange(count), 0.07)
    loss.backward()
    assert loss.item() == 0
    assert not features.grad.any()


def test_gradients_are_finite_for_equal_images():
    features = torch.ones((4, 3), requires_grad=True)
    supervised_contrast(features, torch.tensor([0, 0, 1, 1]), 1e-3).backward()
    assert torch.isfinite(features.grad).all()
