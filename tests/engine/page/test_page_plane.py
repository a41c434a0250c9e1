"""The plane of a category: orthonormal axes that do not flip, and ellipses that hold what they say."""

import math
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from scipy import stats

from speciate.page.plane import PROBABILITY, Plane, plane_of, squared_radius
from speciate.stages import Extent

clouds = st.tuples(st.integers(2, 12), st.integers(2, 9)).flatmap(
    lambda shape: arrays.arrays(np.float32, shape, elements=st.integers(-8, 8).map(float))
)


@given(clouds)
def test_two_axes_are_orthonormal_whatever_the_points(cloud):
    plane = plane_of(list(cloud))
    assert np.allclose(plane.axes @ plane.axes.T, np.eye(2), atol=1e-9)
    assert np.array_equal(plane_of(list(cloud)).axes, plane.axes)
    first, second = plane.explained
    assert 0.0 <= second <= first <= 1.0 + 1e-12


@given(clouds)
def test_no_other_plane_shows_more_of_the_points(cloud):
    plane, wide = plane_of(list(cloud)), cloud.astype(np.float64)
    shown = np.array(plane.place(list(cloud)))
    variance = ((wide - wide.mean(axis=0)) ** 2).sum()
    eigenvalues = np.linalg.eigvalsh(np.cov(wide.T, bias=True) * len(wide))
    assert np.allclose((shown**2).sum(), eigenvalues[-2:].sum(), atol=1e-6 * (1.0 + variance))
    assert sum(plane.explained) * variance == pytest.approx((shown**2).sum(), abs=1e-6 * (1.0 + variance))


@pytest.mark.parametrize(("count", "dimension"), [(2, 2), (3, 300), (64, 256), (256, 64), (100, 100)])
def test_it_is_the_plane_of_the_two_largest_singular_values(count, dimension):
    rng = np.random.default_rng(count)
    cloud = rng.normal(size=(count, dimension)) * np.geomspace(1.0, 1e-3, dimension) + 50.0
    plane, wide = plane_of(list(cloud.astype(np.float32))), cloud.astype(np.float32).astype(np.float64)
    _, lengths, directions = np.linalg.svd(wide - wide.mean(axis=0), full_matrices=False)
    shares = lengths**2 / (lengths**2).sum()
    assert plane.explained == pytest.approx(shares[:2], abs=1e-9)
    assert abs(directions[0] @ plane.axes[0]) == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize(("count", "dimension"), [(1024, 512), (512, 1024)])
def test_many_points_do_not_take_long(count, dimension):
    cloud = list(np.random.default_rng(0).normal(size=(count, dimension)).astype(np.float32))
    whole = timed(lambda: np.linalg.svd(np.array(cloud, dtype=np.float64), full_matrices=False))
    assert timed(lambda: plane_of(cloud)) < whole / 2


def timed(function):
    """What it takes at best, of this thread's own time and of those that it lets work."""
    taken = []
    for _ in range(3):
        began = time.process_time()
        function()
        taken.append(time.process_time() - began)
    return min(taken)


@pytest.mark.parametrize(
    "points", [[], [np.ones(3)], [np.ones(1), np.zeros(1)], [np.ones(3), np.array([np.inf, 0.0, 0.0])]]
)
def test_what_spans_no_plane_has_none(points):
    assert plane_of(points) is None


def test_a_picture_does_not_flip_when_its_points_move_a_little():
    rng = np.random.default_rng(0)
    cloud = rng.normal(size=(32, 256)) * np.linspace(3.0, 0.1, 256)
    before = plane_of(list(cloud)).axes
    for _ in range(20):
        cloud[rng.integers(32)] += rng.normal(scale=0.02, size=256)
        after = plane_of(list(cloud)).axes
        assert (np.sum(before * after, axis=1) > 0.9).all()
        before = after


@pytest.mark.parametrize("freedom", [1.0, 3.5, 30.0, 1e6, math.inf])
def test_the_region_has_its_probability(freedom):
    radius = squared_radius(freedom, PROBABILITY)
    if math.isinf(freedom):
        assert stats.chi2(2).cdf(radius) == pytest.approx(PROBABILITY)
    else:
        # r² / 2 of a bivariate t distribution is distributed as F with 2 and ν degrees of freedom.
        assert stats.f(2, freedom).cdf(radius / 2) == pytest.approx(PROBABILITY)


@given(st.floats(0.1, 9.0), st.floats(0.01, 1.0), st.floats(-1.5, 1.5), st.tuples(st.floats(-5, 5), st.floats(-5, 5)))
def test_an_ellipse_is_where_the_distribution_is(major, ratio, angle, centre):
    turn = np.array([[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]])
    scale = turn @ np.diag([major**2, (ratio * major) ** 2]) @ turn.T
    plane = Plane(np.eye(2), np.array([1.0, -2.0]), (1.0, 0.0))
    found = plane.ellipse(Extent(np.array(centre), scale, math.inf))
    radius = math.sqrt(squared_radius(math.inf, PROBABILITY))
    assert (found.x, found.y) == pytest.approx((centre[0] - 1.0, centre[1] + 2.0))
    assert (found.major, found.minor) == pytest.approx((major * radius, ratio * major * radius), rel=1e-4, abs=1e-6)
    if ratio < 0.9:
        assert math.sin(found.angle - angle) == pytest.approx(0.0, abs=1e-4)


def test_what_cannot_be_drawn_is_not():
    plane = Plane(np.eye(2), np.zeros(2), (1.0, 0.0))
    assert plane.ellipse(None) is None
    assert plane.ellipse(Extent(np.array([math.inf, 0.0]), np.eye(2), 3.0)) is None
    assert plane.place([]) == []
