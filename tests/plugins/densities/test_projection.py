"""The trained projection: against scikit-learn's discriminant, and what rotations must keep."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import eigh, subspace_angles

from speciate_plugins.densities.projection import Projection, ProjectionOptions, quantised, rotation, train


def support(seed: int, dimension: int, classes: int = 5) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    labels = np.repeat(np.arange(classes), rng.integers(3, 9, size=classes))
    scale = np.geomspace(3.0, 0.3, dimension)
    centres = rng.normal(scale=2.0, size=(classes, dimension))
    return centres[labels] + scale * rng.normal(size=(len(labels), dimension)), labels


def project(projection: Projection, features: np.ndarray) -> np.ndarray:
    return (features - projection.mean) @ projection.matrix.T


@pytest.mark.parametrize("binary", [False, True])
@pytest.mark.parametrize("wanted", [1, 2, 4])
@pytest.mark.parametrize("shrinkage", [0.0, 0.1, 0.7])
def test_it_spans_the_directions_of_the_linear_discriminant(wanted: int, shrinkage: float, binary: bool) -> None:
    """As a generalised eigenproblem; without shrinkage scikit-learn has the same."""
    from sklearn.covariance import shrunk_covariance
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

    features, classes = support(wanted, 12)
    means = np.array([features[classes == k].mean(axis=0) for k in range(5)])[classes]
    within = shrunk_covariance(np.cov((features - means).T, bias=True), shrinkage)
    directions = eigh(np.cov(means.T, bias=True), within)[1][:, ::-1]
    projection = train(features, classes, wanted, ProjectionOptions(shrinkage=shrinkage), binary=binary)
    assert projection.matrix.shape == (wanted, 12)
    assert subspace_angles(projection.matrix.T, directions[:, :wanted]).max() < 1e-6
    if not shrinkage:
        oracle = LinearDiscriminantAnalysis(solver="eigen").fit(features, classes)
        assert subspace_angles(projection.matrix.T, oracle.scalings_[:, :wanted]).max() < 1e-6


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 1000), st.integers(1, 12), st.integers(1, 20), st.booleans())
def test_any_number_of_coordinates_can_be_had(seed: int, dimension: int, wanted: int, binary: bool) -> None:
    """With more than the classes give directions, the rest of the support does; with more than that, a frame."""
    features, classes = support(seed, dimension, classes=3)
    projection = train(features, classes, wanted, ProjectionOptions(), binary=binary)
    assert projection.matrix.shape == (wanted, dimension)
    assert np.linalg.matrix_rank(projection.matrix) == min(wanted, dimension)
    again = train(features, classes, wanted, ProjectionOptions(), binary=binary)
    assert again.matrix.tobytes() == projection.matrix.tobytes()


def test_directions_beyond_the_classes_come_behind_theirs() -> None:
    features, classes = support(0, 12, classes=3)
    few, many = (train(features, classes, wanted, ProjectionOptions(), binary=False) for wanted in (2, 6))
    assert subspace_angles(many.matrix.T, few.matrix.T).max() < 1e-6


def test_fewer_samples_than_coordinates_still_give_them() -> None:
    rng = np.random.default_rng(0)
    projection = train(rng.normal(size=(6, 40)), np.array([0, 0, 0, 1, 1, 1]), 32, ProjectionOptions(), binary=False)
    assert projection.matrix.shape == (32, 40)
    assert np.linalg.matrix_rank(projection.matrix) == 5


@given(st.integers(1, 12), st.integers(0, 6), st.integers(0, 100))
def test_a_rotation_keeps_lengths(columns: int, more: int, seed: int) -> None:
    turn = rotation(columns + more, columns, seed)
    np.testing.assert_allclose(turn.T @ turn, np.eye(columns), atol=1e-12)


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 1000), st.integers(1, 8), st.integers(0, 4))
def test_quantising_brings_points_nearer_to_their_signs(seed: int, columns: int, more: int) -> None:
    points = np.random.default_rng(seed).normal(size=(40, columns))
    start = rotation(columns + more, columns, seed)
    turn = quantised(points, start)
    np.testing.assert_allclose(turn.T @ turn, np.eye(columns), atol=1e-10)
    errors = [np.square(points @ one.T - np.where(points @ one.T >= 0, 1.0, -1.0)).sum() for one in (start, turn)]
    assert errors[1] <= errors[0] + 1e-9


def test_quantising_leaves_the_corners_of_a_cube_where_they_are() -> None:
    corners = np.array([[a, b, c] for a in (-1.0, 1.0) for b in (-1.0, 1.0) for c in (-1.0, 1.0)])
    turned = corners @ quantised(corners, np.eye(3)).T
    np.testing.assert_allclose(np.abs(turned), 1.0)


def test_events_of_a_class_far_from_others_share_its_code() -> None:
    rng = np.random.default_rng(3)
    classes = np.repeat(np.arange(8), 30)
    features = rng.normal(scale=10.0, size=(8, 16))[classes] + rng.normal(size=(240, 16))
    bits = project(train(features, classes, 12, ProjectionOptions(), binary=True), features) >= 0.0
    means = np.array([bits[classes == k].mean(axis=0) for k in range(8)])
    assert np.abs(means - 0.5).mean() > 0.45
    assert len({tuple(row) for row in (means > 0.5).tolist()}) == 8
