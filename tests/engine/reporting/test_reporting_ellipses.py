"""The Student-t of a category in the plane, against computations of another kind."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import multigammaln
from scipy.stats import multivariate_t

from speciate.reporting.ellipses import CHECKPOINTS, Category, outline, predictive, seen_at

seeds = st.integers(0, 10_000)


def a_category(seed: int, events: int = 12, support: int = 0) -> Category:
    rng = np.random.default_rng(seed)
    mixing = rng.normal(size=(2, 2)) + 2 * np.eye(2)
    return Category(
        title="c",
        points=rng.normal(size=(events, 2)) @ mixing + rng.normal(size=2),
        within=mixing.T @ mixing / 3,
        kappa0=float(rng.uniform(0.05, 3)),
        n0=float(rng.uniform(1, 40)),
        prior_mean=rng.normal(size=2),
        support=support,
    )


def log_marginal(points, category):
    """Evidence of points under the prior, by the closed form with the determinants of prior and posterior."""
    points = np.asarray(points).reshape(-1, 2)
    n, mean0 = len(points), np.asarray(category.prior_mean)
    nu0, psi0 = category.n0 + 3, category.n0 * np.asarray(category.within)
    kappa, nu = category.kappa0 + n, nu0 + n
    location = (category.kappa0 * mean0 + points.sum(axis=0)) / kappa
    # Uncentred second moments: another way to the same scale matrix.
    psi = psi0 + points.T @ points + category.kappa0 * np.outer(mean0, mean0) - kappa * np.outer(location, location)
    return (
        -n * math.log(math.pi)
        + multigammaln(nu / 2, 2)
        - multigammaln(nu0 / 2, 2)
        + nu0 / 2 * np.linalg.slogdet(psi0)[1]
        - nu / 2 * np.linalg.slogdet(psi)[1]
        + math.log(category.kappa0 / kappa)
    )


@given(seeds, st.integers(0, 12))
def test_the_predictive_density_is_the_ratio_of_evidences(seed, count):
    category = a_category(seed)
    seen, event = category.points[:count], np.random.default_rng(seed + 1).normal(size=2)
    student = predictive(seen, category)
    direct = log_marginal([*seen, event], category) - log_marginal(seen, category)
    assert multivariate_t(student.location, student.scale, student.degrees).logpdf(event) == pytest.approx(
        direct, rel=1e-8
    )


@given(seeds)
def test_all_events_at_once_are_the_events_one_by_one(seed):
    category = a_category(seed)
    kappa, nu = category.kappa0, category.n0 + 3
    location, psi = np.asarray(category.prior_mean), category.n0 * np.asarray(category.within)
    for event in category.points:
        psi = psi + kappa / (kappa + 1) * np.outer(event - location, event - location)
        location = (kappa * location + event) / (kappa + 1)
        kappa, nu = kappa + 1, nu + 1
    student = predictive(category.points, category)
    assert np.allclose(student.location, location)
    assert np.allclose(student.scale, psi * (kappa + 1) / (kappa * (nu - 1)))
    assert student.degrees == pytest.approx(nu - 1)


@given(seeds, st.floats(0.1, 5))
def test_an_outline_is_at_one_mahalanobis_distance_and_closed(seed, radius):
    category = a_category(seed)
    student = predictive(category.points, category)
    around = outline(student, radius)
    away = around - student.location
    squares = np.einsum("ni,ij,nj->n", away, np.linalg.inv(student.scale), away)
    assert np.allclose(squares, radius**2)
    assert np.allclose(around[0], around[-1])


def test_with_much_evidence_the_scale_is_the_covariance_of_the_events():
    category = a_category(3, events=20_000)
    student = predictive(category.points, category)
    assert np.allclose(student.scale, np.cov(np.asarray(category.points).T), rtol=0.02)


@given(st.integers(0, 30), st.integers(0, 300))
def test_checkpoints_count_the_support_and_a_growing_share_of_the_rest(support, later):
    category = a_category(0, events=support + later, support=support)
    counts = [seen_at(share, category) for share in CHECKPOINTS]
    assert counts == sorted(counts)
    assert counts[-1] == support + later
    assert counts[0] == support + min(later, max(1, math.ceil(0.02 * later)))
