"""A category in two dimensions: the Student-t its events leave, and the ellipse drawn for it.

The paper's update with d = 2: with n events of mean x̄ and scatter S, ν₀ = n₀ + d + 1 and Ψ₀ = n₀ Σ,

    κ = κ₀ + n,  ν = ν₀ + n,  μ = (κ₀μ₀ + n x̄) / κ,  Ψ = Ψ₀ + S + κ₀n/κ (x̄-μ₀)(x̄-μ₀)ᵀ

and the next event is Student-t with ν-d+1 degrees of freedom, location μ and scale (κ+1) / (κ(ν-d+1)) Ψ.
"""

import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Points = npt.NDArray[np.float64]

CHECKPOINTS = (0.02, 0.05, 0.10, 0.25, 0.50, 0.75, 1.00)
"""Shares of a category's events of the stream, as in the paper."""
RADIUS = 2.0
"""Mahalanobis radius of the ellipse with respect to the scale."""
PLANE = 2


class Category(NamedTuple):
    """A category to draw: its events in the order they came, projected, and the prior in the same plane."""

    title: str
    points: npt.ArrayLike
    """One row an event; those of the support set first."""
    within: npt.ArrayLike
    """Covariance within classes, 2 × 2."""
    kappa0: float
    n0: float
    prior_mean: npt.ArrayLike = (0.0, 0.0)
    support: int = 0
    """How many of the points are of the support set."""
    background: npt.ArrayLike | None = None
    """Events of all categories, for the gray points behind; left out: this category's own."""


class StudentT(NamedTuple):
    """A Student-t in the plane."""

    location: Points
    scale: Points
    degrees: float


def predictive(points: npt.ArrayLike, category: Category) -> StudentT:
    """What a category expects after some of its events."""
    seen = as_points(points)
    mean0, within = np.asarray(category.prior_mean, dtype=np.float64), np.asarray(category.within, dtype=np.float64)
    kappa0, count = category.kappa0, len(seen)
    kappa, degrees = kappa0 + count, category.n0 + count + 2
    psi: Points = category.n0 * within
    location = mean0
    if count:
        mean = seen.mean(axis=0)
        centred, away = seen - mean, mean - mean0
        location = (kappa0 * mean0 + count * mean) / kappa
        psi = psi + centred.T @ centred + kappa0 * count / kappa * np.outer(away, away)
    return StudentT(location, psi * (kappa + 1) / (kappa * degrees), degrees)


def outline(student: StudentT, radius: float = RADIUS, corners: int = 120) -> Points:
    """Points at a Mahalanobis radius around the location, once around."""
    angles = np.linspace(0.0, 2 * np.pi, corners)
    circle = np.column_stack([np.cos(angles), np.sin(angles)])
    around: Points = student.location + radius * circle @ np.linalg.cholesky(student.scale).T
    return around


def seen_at(share: float, category: Category) -> int:
    """How many of a category's points are there at a checkpoint: the support, and a share of the rest."""
    total = len(as_points(category.points))
    later = total - category.support
    # At the first checkpoint of a small category there is one event: the one it was born of.
    return category.support + min(later, max(1, math.ceil(share * later)))


def as_points(values: Any) -> Points:
    """Anything like a list of pairs, as a matrix."""
    return np.asarray(values, dtype=np.float64).reshape(-1, PLANE)
