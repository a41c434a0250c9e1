"""The shared prior over categories, estimated from labelled support: a Normal-Inverse-Wishart and its whitening.

After DP-BOA (section 3.3, appendix F): the mean is the support's, the scale is n0 times the pooled covariance within
classes, the mean's strength is matched to the spread of the class means by their traces.
"""

import math
from typing import Annotated, Literal, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt
from scipy.linalg import LinAlgError, cholesky, solve_triangular

from speciate.errors import SupportError
from speciate.logs import get_logger
from speciate.stages import Matrix, Vector
from speciate_schemas import Strict

log = get_logger(__name__)

FALLBACK_KAPPA = 1e-2
"""Where the class means do not tell: the middle of the values found for real features."""
SINGULAR = 1e-12
"""Share of a feature's variance that must not be explained by others."""

Fraction = Annotated[float, msgspec.Meta(ge=0, le=1)]
Positive = Annotated[float, msgspec.Meta(gt=0, le=1e12)]


class PriorOptions(Strict, frozen=True):
    """How the prior is estimated; the defaults are the paper's, the others its ablations."""

    shrinkage: Annotated[
        Literal["auto"] | Fraction,
        msgspec.Meta(description="Share of the scaled identity in the covariance within classes; auto: from the data."),
    ] = "auto"
    n0: Annotated[
        Literal["auto"] | Positive,
        msgspec.Meta(description="Events the prior counts for; auto: half of what a support class has, at most n_cap."),
    ] = "auto"
    n_cap: Annotated[Positive, msgspec.Meta(description="Most the prior counts for, in events, where n0 is auto.")] = (
        50.0
    )
    kappa0: Annotated[
        Literal["auto"] | Positive,
        msgspec.Meta(description="Strength of the prior mean; auto: matched to the spread of the class means."),
    ] = "auto"
    mean: Annotated[
        Literal["support", "zero"], msgspec.Meta(description="Prior mean: that of the support set, or zero.")
    ] = "support"
    scale: Annotated[
        Literal["within", "identity"],
        msgspec.Meta(description="Shape of the prior covariance: that within the support classes, or round."),
    ] = "within"


class Prior(NamedTuple):
    """A Normal-Inverse-Wishart prior; `whiten` maps features less the mean to where its scale is the identity."""

    mean: Vector
    whiten: Matrix
    log_det: float
    """Log determinant of the scale."""
    kappa: float
    strength: float
    """n0: how many events the prior counts for; degrees of freedom are n0 + d + 1."""
    shrinkage: float

    @property
    def dimension(self) -> int:
        """Length of a feature vector."""
        return len(self.mean)

    @property
    def degrees(self) -> float:
        """Degrees of freedom."""
        return self.strength + self.dimension + 1.0


def estimate(features: Matrix, classes: npt.NDArray[np.int64], options: PriorOptions) -> Prior:
    """Calibrate the prior on a support set."""
    counts = np.bincount(classes).astype(np.float64)
    means = np.stack([features[classes == k].mean(axis=0) for k in range(len(counts))])
    residuals = features - means[classes]
    within, shrinkage = _within(residuals, len(features) - len(counts), options)
    mean = features.mean(axis=0) if options.mean == "support" else np.zeros(features.shape[1])
    kappa = (
        _kappa(means, features.mean(axis=0), counts, float(np.trace(within)))
        if options.kappa0 == "auto"
        else options.kappa0
    )
    strength = min(float(counts.mean()) / 2.0, options.n_cap) if options.n0 == "auto" else options.n0
    root = _root(strength * within, shrinkage)
    # Row by row in memory, as it will be when read back from a state: products keep their bits.
    whiten = np.ascontiguousarray(solve_triangular(root, np.eye(len(root)), lower=True))
    log_det = 2.0 * float(np.log(np.diag(root)).sum())
    return Prior(mean, whiten, log_det, float(kappa), strength, shrinkage)


def student_constants(prior: Prior, weight: float, log_det: float) -> tuple[float, float, float]:
    """Of a category that has learnt from so many events: base, (ν+1)/2 and κ/(κ+1) of its Student-t's logarithm."""
    kappa, degrees, dimension = prior.kappa + weight, prior.degrees + weight, prior.dimension
    base = math.lgamma((degrees + 1.0) / 2.0) - math.lgamma((degrees - dimension + 1.0) / 2.0)
    base -= dimension / 2.0 * math.log(math.pi * (kappa + 1.0) / kappa) + 0.5 * (prior.log_det + log_det)
    return base, (degrees + 1.0) / 2.0, kappa / (kappa + 1.0)


def _within(residuals: Matrix, degrees: int, options: PriorOptions) -> tuple[Matrix, float]:
    """The covariance within classes, shrunk towards a round one of the same trace; and by how much."""
    if degrees <= 0 or not residuals.any():
        raise SupportError(
            "the support set has no spread within its classes (one sample a class, or equal samples): "
            "give at least one class two different samples"
        )
    dimension = residuals.shape[1]
    pooled = residuals.T @ residuals / degrees
    level = float(np.trace(pooled)) / dimension
    shrinkage = _ledoit_wolf(residuals, degrees) if options.shrinkage == "auto" else options.shrinkage
    if options.scale == "identity":
        return level * np.eye(dimension), 1.0
    return (1.0 - shrinkage) * pooled + shrinkage * level * np.eye(dimension), shrinkage


def _ledoit_wolf(residuals: Matrix, degrees: int) -> float:
    """The shrinkage with the least expected squared error (Ledoit and Wolf 2004), for a pooled scatter.

    At least 1 / (degrees + 1): of a handful of samples the estimate can come out as none at all.
    """
    samples, dimension = residuals.shape
    pooled = residuals.T @ residuals / degrees
    level = float(np.trace(pooled)) / dimension
    distance = float((pooled**2).sum()) - dimension * level**2
    squares = np.einsum("ij,ij->i", residuals, residuals) * (samples / degrees)
    error = (float((squares**2).sum()) / samples - float((pooled**2).sum())) / degrees
    return float(np.clip(error / distance, 1.0 / (degrees + 1), 1.0)) if distance > 0.0 else 1.0


def _kappa(means: Matrix, centre: Vector, counts: Vector, trace: float) -> float:
    """Strength of the prior mean, by matching traces; with a fallback where the class means do not tell it."""
    if len(means) > 1:
        spread = float(((means - centre) ** 2).sum()) / (len(means) - 1)
        inverse = spread / trace - float((1.0 / counts).mean())
        if inverse > 0.0:
            return 1.0 / inverse
        log.warning("the class means are closer than chance: kappa0 falls back", kappa0=FALLBACK_KAPPA)
    else:
        log.warning("one class shows no spread of class means: kappa0 falls back", kappa0=FALLBACK_KAPPA)
    return FALLBACK_KAPPA


def _root(scale: Matrix, shrinkage: float) -> Matrix:
    try:
        root: Matrix = cholesky(scale, lower=True)
    except LinAlgError:
        root = np.zeros_like(scale)
    # The share of each feature's variance that those before it do not explain: rounding alone leaves some.
    if (np.square(np.diag(root)) <= SINGULAR * np.diag(scale)).any():
        raise SupportError(
            f"the covariance within classes is singular at shrinkage = {shrinkage}: fewer independent samples than "
            'features; use shrinkage = "auto" or a larger one'
        )
    return root
