"""Evidence for a merge: the likelihood of two categories' events as those of one, against that of two.

Under a Normal-Inverse-Wishart prior the n events D that a category has learnt have the marginal likelihood

    log p(D) = log Γ_d(ν/2) - log Γ_d(ν₀/2) + ν₀/2 log|Ψ₀| - ν/2 log|Ψ| + d/2 log(κ₀/κ) - nd/2 log π

with κ = κ₀+n, ν = ν₀+n and, in coordinates whitened by the prior, log|Ψ| = log|Ψ₀| + ℓ for ℓ = log|I + WᵀW|. Of two
categories against their union, whatever only counts events cancels:

    log p(D_a ∪ D_b) - log p(D_a) - log p(D_b) = e(n_a+n_b, ℓ_ab) - e(n_a, ℓ_a) - e(n_b, ℓ_b)
    e(n, ℓ) = log Γ_d(ν/2) - log Γ_d(ν₀/2) - ν/2 ℓ + d/2 log(κ₀/κ)

All of it is at hand but ℓ_ab. Scatters add up, and so does what lies between the means; the pull of the prior mean,
which is the origin, is in both scatters and belongs there once:

    Ψ_ab = N + κ_a κ_b/s · vvᵀ - κ₀ κ_ab/s · mmᵀ,   N = Ψ_a + Ψ_b - I,   s = κ_a + κ_b
    v = m_a - m_b,   m = (κ_a m_a + κ_b m_b) / κ_ab,   κ_ab = s - κ₀

With Ψ⁻¹ = I - AᵀA of each, N = Ψ_a (I - A_aᵀA_a A_bᵀA_b) Ψ_b. So nothing is inverted but a matrix of as many rows as
the smaller category has, and wherever a direction is wide in both, it is so by its own rows:

    log|N| = ℓ_a + ℓ_b + log|I - CCᵀ|,   C = A_a A_bᵀ
    N⁻¹ = Ψ_b⁻¹ (I + A_aᵀ (I - CCᵀ)⁻¹ C A_b) Ψ_a⁻¹
"""

import math
from functools import cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import gammaln

from speciate.stages import Matrix, Vector
from speciate_plugins.densities.algebra import root_of_inverse
from speciate_plugins.densities.prior import Prior

BLOCK = 256
"""Categories compared with all others at once: of ten thousand, that is twenty megabytes."""


class Learnt(NamedTuple):
    """What a category holds of its events."""

    weight: float
    """n."""
    mean: Vector
    rows: Matrix
    """A."""
    log_det: float
    """ℓ."""


class Evidence:
    """Marginal likelihoods under one prior."""

    def __init__(self, prior: Prior) -> None:
        self._prior = prior
        # As many as there are sizes of categories, which are few, and each is a sum over all dimensions.
        self._of_size = cache(self._size_term)

    def bayes_factor(self, one: Learnt, other: Learnt) -> float:
        """Of how much likelier the events of both are as one category's than as two's, the logarithm."""
        joint = self.of(one.weight + other.weight, joint_log_det(self._prior.kappa, one, other))
        return joint - self.of(one.weight, one.log_det) - self.of(other.weight, other.log_det)

    def of(self, weight: float, log_det: float) -> float:
        """e(n, ℓ): the log marginal likelihood, less what is the same of each event whatever its category."""
        return self._of_size(weight) - (self._prior.degrees + weight) / 2.0 * log_det

    def _size_term(self, weight: float) -> float:
        prior = self._prior
        # log Γ_d(ν/2) is a constant and Σ log Γ((ν-i)/2) over i = 0 … d-1.
        before = (prior.degrees - np.arange(prior.dimension)) / 2.0
        gammas = float((gammaln(before + weight / 2.0) - gammaln(before)).sum())
        return gammas + prior.dimension / 2.0 * math.log(prior.kappa / (prior.kappa + weight))


def joint_log_det(kappa0: float, one: Learnt, other: Learnt) -> float:
    """ℓ_ab, in O(n_a n_b d)."""
    a, b = (one, other) if len(one.rows) <= len(other.rows) else (other, one)
    kappa_a, kappa_b = kappa0 + a.weight, kappa0 + b.weight
    both = kappa_a + kappa_b
    kappa = both - kappa0
    between = math.sqrt(kappa_a * kappa_b / both) * (a.mean - b.mean)
    pull = math.sqrt(kappa0 / (both * kappa)) * (kappa_a * a.mean + kappa_b * b.mean)

    shared = a.rows @ b.rows.T
    root = root_of_inverse(shared.T)
    log_det = a.log_det + b.log_det + 2.0 * float(np.linalg.slogdet(root)[1])

    sides = np.stack((between, pull), axis=1)
    halfway = sides - a.rows.T @ (a.rows @ sides)
    inner = np.linalg.solve(root, np.linalg.solve(root.T, shared @ (b.rows @ halfway)))
    halfway += a.rows.T @ inner
    (vv, vm), (_, mm) = sides.T @ (halfway - b.rows.T @ (b.rows @ halfway))
    log_det += math.log(max((1.0 + vv) * (1.0 - mm) + vm * vm, np.finfo(np.float64).eps))
    # The union is at least as wide as either, whatever rounding says.
    return max(log_det, a.log_det, b.log_det)


def nearest(means: Matrix, weights: Vector, most: int, of: npt.NDArray[np.intp]) -> list[tuple[int, int]]:
    """For each category of some, those that are nearest to it: pairs (i, j), i < j, each once, in order.

    Near is who adds little to the squares about the means when merged, n_i n_j / (n_i+n_j) · ‖z̄_i - z̄_j‖² with z̄ the
    means of the events: of one cluster's parts, the same to expect whatever their sizes. O(K d) for each of the some,
    by products of blocks.
    """
    count, found = len(weights), [np.empty((0, 2), dtype=np.intp)]
    most = min(most, count - 1)
    if most < 1:
        return []
    # About their middle: squares of distances are differences of squares.
    means = means - means.mean(axis=0)
    squares = np.vecdot(means, means)
    for start in range(0, len(of), BLOCK):
        some = of[start : start + BLOCK]
        costs = means[some] @ means.T
        costs *= -2.0
        costs += squares
        costs += squares[some, np.newaxis]
        costs *= weights / (1.0 + weights / weights[some, np.newaxis])
        costs[np.arange(len(some)), some] = np.inf
        others = np.argpartition(costs, most - 1, axis=1)[:, :most]
        found.append(np.stack((np.repeat(some, most), others.ravel()), axis=1))
    low, high = np.sort(np.concatenate(found), axis=1).T
    return [divmod(code, count) for code in np.unique(low * count + high).tolist()]
