"""Screening: the scores of a batch, kept current while its events are learnt one after another."""

import numpy as np

from speciate.stages import Density, Matrix, Vector


class ExactScreening:
    """The plain way: score everything once, and score again what an earlier event of the batch has changed.

    For a density whose `score` is cheap enough to be called for every event.
    """

    blur = 0.0

    def __init__(self, density: Density, points: Matrix) -> None:
        self._density = density
        self._points = points
        self._changed: dict[int, None] = {}
        size = len(density.counts)
        # A column more for every event: each may found a category.
        self._table = np.empty((len(points), size + len(points)))
        for row, point in zip(self._table, points, strict=True):
            row[:size] = density.score(point, range(size))

    def row(self, place: int) -> Vector:
        """See `Screening`."""
        row: Vector = self._table[place, : len(self._density.counts)]
        if self._changed:
            changed = list(self._changed)
            row[changed] = self._density.score(self._points[place], changed)
        return row

    def refresh(self, place: int, category: int) -> None:  # noqa: ARG002  # rows are brought up to date when asked for
        """See `Screening`."""
        self._changed[category] = None
