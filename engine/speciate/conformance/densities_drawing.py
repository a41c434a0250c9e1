"""The laws of a density whose categories can be drawn."""

import math

import numpy as np

from speciate.conformance.expecting import expect
from speciate.stages import Drawable, Extent, Matrix, Vector

SEED = 7
TOLERANCE = 1e-2
"""In nats and relative: rows in single precision are exact enough."""
MOST = 128
"""Axes that are asked about at once; with more features, an extent along all of them would be too large to check."""


def check_drawing(density: Drawable, events: Matrix) -> None:
    """Check what every category, and a birth, say of their places and extents."""
    dimension, points = density.dimension, density.embed(events)
    axes = np.eye(min(dimension, MOST), dimension)
    turn = np.linalg.qr(np.random.default_rng(SEED).normal(size=(len(axes), min(2, dimension))))[0].T
    for category in range(len(density.counts)):
        who, centre, spread = f"category {category}", density.centre(category), density.spread(category)
        expect(math.isfinite(spread) and spread > 0.0, f"the spread of {who} must be a number above 0, not {spread}")
        whole, part = density.extent(category, axes), density.extent(category, turn @ axes)
        expect(centre.shape == (dimension,), f"the centre of {who} must have a place a feature, not {centre}")
        expect(np.allclose(whole.centre, axes @ centre), f"the extent of {who} must lie at its centre, {centre}")
        _check_extents(whole, part, turn, who)
        scores = np.concatenate([density.score(point, [category]) for point in points])
        _check_scores(whole, events, scores, who)
        # Whoever asks may write to what it is given; that nothing changes is checked by the caller.
        centre[:] = np.nan
    whole, part = density.extent_of_birth(axes), density.extent_of_birth(turn @ axes)
    _check_extents(whole, part, turn, "a birth")
    _check_scores(whole, events, density.score_birth(points), "a birth")


def _check_extents(whole: Extent, part: Extent, turn: Matrix, who: str) -> None:
    """Along many axes it is a distribution, and along some of them that distribution's."""
    for extent, length in zip((whole, part), turn.shape[::-1], strict=True):
        law = f"the extent of {who} along {length} axes must be"
        shaped = extent.centre.shape == (length,) and extent.scale.shape == (length, length)
        expect(shaped, f"{law} of {length} places and a matrix, not {extent}")
        expect(bool(np.isfinite(extent.centre).all() and np.isfinite(extent.scale).all()), f"{law} finite: {extent}")
        expect(np.allclose(extent.scale, extent.scale.T), f"{law} of a symmetric scale, not {extent.scale}")
        expect(bool((np.linalg.eigvalsh(extent.scale) > 0.0).all()), f"{law} wide in all directions: {extent.scale}")
        expect(extent.freedom > 0.0, f"{law} of degrees of freedom above 0, not {extent.freedom}")
    alike = np.allclose(part.centre, turn @ whole.centre) and np.allclose(part.scale, turn @ whole.scale @ turn.T)
    law = f"the extent of {who} along some axes must be that along all, seen from there"
    expect(alike and part.freedom == whole.freedom, f"{law}: {part} of {whole}")


def _check_scores(whole: Extent, events: Matrix, scores: Vector, who: str) -> None:
    if len(whole.centre) < events.shape[1]:
        return
    wanted = _log_density(whole, events)
    alike = np.allclose(scores, wanted, rtol=TOLERANCE, atol=TOLERANCE)
    expect(alike, f"the extent of {who} must be what events are scored by: it gives {wanted}, the scores are {scores}")


def _log_density(extent: Extent, events: Matrix) -> Vector:
    dimension, freedom = len(extent.centre), extent.freedom
    root = np.linalg.cholesky(extent.scale)
    squares = np.square(np.linalg.solve(root, (events - extent.centre).T)).sum(axis=0)
    log_det = float(np.log(np.diag(root)).sum())
    if math.isinf(freedom):
        return np.asarray(-0.5 * (squares + dimension * math.log(2.0 * math.pi)) - log_det)
    both = (freedom + dimension) / 2.0
    constant = math.lgamma(both) - math.lgamma(freedom / 2.0) - dimension / 2.0 * math.log(math.pi * freedom)
    return np.asarray(constant - log_det - both * np.log1p(squares / freedom))
