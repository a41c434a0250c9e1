"""The plane a category is drawn on: the first two principal components of its exemplars."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.linalg import eigh

from speciate.stages import Extent
from speciate_schemas.page import Ellipse

PROBABILITY = 0.9
"""With which the next event is expected within an ellipse."""

Floats = npt.NDArray[np.float64]


class Plane(NamedTuple):
    """Two orthonormal axes through the middle of some points."""

    axes: Floats
    """Shape (2, d)."""
    origin: Floats
    """The middle, along the axes."""
    explained: tuple[float, float]
    """Share of the points' variance along each axis."""

    def place(self, points: Sequence[npt.NDArray[np.floating]]) -> list[tuple[float, float]]:
        """Where points are on the plane."""
        if not points:
            return []
        found: list[list[float]] = (np.asarray(points, dtype=np.float64) @ self.axes.T - self.origin).tolist()
        return [(x, y) for x, y in found]

    def ellipse(self, extent: Extent | None) -> Ellipse | None:
        """The region of a distribution along the axes that has `PROBABILITY`; none if that cannot be drawn."""
        if extent is None:
            return None
        x, y = (np.asarray(extent.centre, dtype=np.float64) - self.origin).tolist()
        values, vectors = np.linalg.eigh(np.asarray(extent.scale, dtype=np.float64))
        minor, major = np.sqrt(np.maximum(values, 0.0) * squared_radius(extent.freedom, PROBABILITY)).tolist()
        # An axis has no direction: of the two angles the one to the right.
        angle = math.atan(vectors[1, 1] / vectors[0, 1]) if vectors[0, 1] else math.pi / 2
        if not all(map(math.isfinite, (x, y, major, minor, angle))):
            return None
        return Ellipse(x=x, y=y, major=major, minor=minor, angle=angle, probability=PROBABILITY)


def squared_radius(freedom: float, probability: float) -> float:
    """Of the region of a bivariate t distribution that has this probability, in units of its scale.

    r² = ν((1 - p)^(-2/ν) - 1), which goes to -2 ln(1 - p) as the distribution becomes a normal one.
    """
    tail = -math.log1p(-probability)
    return 2.0 * tail if math.isinf(freedom) else freedom * math.expm1(2.0 * tail / freedom)


def plane_of(points: Sequence[npt.NDArray[np.floating]]) -> Plane | None:
    """The plane on which these points are farthest apart.

    None for fewer than two of them, or of one dimension, or if one is infinitely far.
    """
    if len(points) < 2 or len(points[0]) < 2:  # noqa: PLR2004  # two span a line, which has two coordinates
        return None
    cloud = np.asarray(points, dtype=np.float64)
    if not np.isfinite(cloud).all():
        return None
    middle = cloud.mean(axis=0)
    around = cloud - middle
    directions, lengths = _longest(around)
    # What is left of rounding has no direction.
    solid = lengths > max(cloud.shape) * np.finfo(np.float64).eps * max(float(lengths[0]), float(np.abs(middle).max()))
    axes = _oriented(_completed(directions[solid]))
    total = float((around**2).sum())
    first, second = (float(one) ** 2 / total if there else 0.0 for one, there in zip(lengths, solid, strict=True))
    return Plane(axes, axes @ middle, (first, second))


def _longest(around: Floats) -> tuple[Floats, Floats]:
    """The first two principal directions, and how far the points are apart along each.

    By way of the smaller of the two matrices of inner products: the singular values of all points take many times as
    long. What is lost to squaring is got back from the two directions alone.
    """
    few = len(around) < around.shape[1]
    products = around @ around.T if few else around.T @ around
    last = len(products) - 1
    found = eigh(products, subset_by_index=(last - 1, last))[1]
    if few:
        directions, lengths, _ = np.linalg.svd(around.T @ found, full_matrices=False)
        return directions.T, lengths
    _, lengths, turn = np.linalg.svd(around @ found, full_matrices=False)
    return turn @ found.T, lengths


def _completed(axes: Floats) -> Floats:
    """Two orthonormal axes, of which the given ones are the first: the others are as near a coordinate's as can be."""
    found = list(axes)
    while len(found) < 2:  # noqa: PLR2004  # a plane
        basis = np.array(found).reshape(len(found), axes.shape[1])
        # The coordinate that the axes there are have least of; the first of equals.
        which = int(np.argmin((basis**2).sum(axis=0)))
        rest = np.eye(1, axes.shape[1], which)[0] - basis.T @ basis[:, which]
        found.append(rest / np.linalg.norm(rest))
    return np.array(found)


def _oriented(axes: Floats) -> Floats:
    """The axes with signs by a fixed direction, so that a picture does not flip when its points move a little."""
    fixed = np.cos(np.arange(1.0, axes.shape[1] + 1.0))
    return np.where(axes @ fixed < 0.0, -1.0, 1.0)[:, np.newaxis] * axes
