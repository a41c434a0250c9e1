"""A trained projection in place of a hash-trained encoder: from features to a few coordinates that tell classes apart.

The hash heads of the compared methods are trained with their encoders. Where features are all there is, the same
support set gives what can be had without a network: directions that separate the classes against the spread within
them (Fisher 1936; whitened by the shrunk covariance of `prior`), then a rotation. For binary codes the rotation is that
of iterative quantisation, which brings the points as near to the corners of a cube as it can (Gong and Lazebnik,
"Iterative Quantization: A Procrustean Approach to Learning Binary Codes", 2011); for codes made of ranks it is a random
one, so that no coordinate is favoured. Everything is seeded.
"""

from typing import Annotated, Literal, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from speciate.stages import Matrix, Vector
from speciate_plugins.densities.prior import Fraction, PriorOptions, estimate
from speciate_schemas import Strict

ITERATIONS = 50
"""Of iterative quantisation, as in its paper."""
NOTHING = 1e-10
"""Relative to the largest singular value: what rounding leaves of a zero."""


class ProjectionOptions(Strict, frozen=True):
    """How features become coordinates."""

    shrinkage: Annotated[
        Literal["auto"] | Fraction,
        msgspec.Meta(description="Share of the scaled identity in the covariance within classes; auto: from the data."),
    ] = "auto"
    seed: Annotated[int, msgspec.Meta(ge=0, description="Of the rotation the coordinates start from.")] = 0


class Projection(NamedTuple):
    """Coordinates of features z: matrix · (z - mean)."""

    mean: Vector
    matrix: Matrix


def train(
    features: Matrix, classes: npt.NDArray[np.int64], coordinates: int, options: ProjectionOptions, *, binary: bool
) -> Projection:
    """So many coordinates, fitted to a support set; `binary` if only their signs are to count."""
    prior = estimate(features, classes, PriorOptions(shrinkage=options.shrinkage, kappa0=1.0))
    points = (features - prior.mean) @ prior.whiten.T
    directions = _directions(points, classes, coordinates)
    turn = rotation(coordinates, len(directions), options.seed)
    if binary:
        turn = quantised(points @ directions.T, turn)
    return Projection(prior.mean, np.ascontiguousarray(turn @ directions @ prior.whiten))


def _directions(points: Matrix, classes: npt.NDArray[np.int64], wanted: int) -> Matrix:
    """The leading directions of the class means, then those of what they leave; fewer if there are no more."""
    counts = np.bincount(classes)
    means = np.stack([points[classes == number].mean(axis=0) for number in range(len(counts))])
    found = _leading(np.sqrt(counts)[:, np.newaxis] * means, min(wanted, len(counts) - 1))
    if len(found) == wanted:
        return found
    rest = points - points @ found.T @ found
    return np.concatenate((found, _leading(rest, min(wanted, points.shape[1]) - len(found))))


def _leading(rows: Matrix, most: int) -> Matrix:
    """Leading right singular vectors, as rows, each with its largest entry positive."""
    _, values, vectors = np.linalg.svd(rows, full_matrices=False)
    vectors = vectors[:most][values[:most] > NOTHING * max(float(values[0]), NOTHING)]
    largest = np.abs(vectors).argmax(axis=1)
    led: Matrix = vectors * np.sign(vectors[np.arange(len(vectors)), largest])[:, np.newaxis]
    return led


def rotation(rows: int, columns: int, seed: int) -> Matrix:
    """A random matrix with orthonormal columns, every such equally likely; a rotation if it is square."""
    basis, triangle = np.linalg.qr(np.random.default_rng(seed).standard_normal((rows, columns)))
    turned: Matrix = basis * np.where(np.diag(triangle) < 0.0, -1.0, 1.0)
    return turned


def quantised(points: Matrix, turn: Matrix) -> Matrix:
    """Turn further, so that turned points lie near their signs: signs and the best turn towards them, in turn."""
    for _ in range(ITERATIONS):
        signs = np.where(points @ turn.T >= 0.0, 1.0, -1.0)
        left, _, right = np.linalg.svd(signs.T @ points, full_matrices=False)
        turn = left @ right
    return turn
