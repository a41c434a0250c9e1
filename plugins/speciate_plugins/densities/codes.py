"""What the methods with codes share: an event is the code of its coordinates, and a category has codes.

Coordinates come from a trained projection (`projection`), which stands in for the hash-trained encoder of the papers.
The score is 0 under a category that has the event's code and minus infinity under any other. A category founded by an
event has its code; codes are never updated, so `absorb` only counts. The dictionaries of these methods start empty:
the known classes are there as categories, for every class is one, but have no code, and no event goes to one unless
it is merged with a category that has. A merged category has the codes of both.
"""

from abc import abstractmethod
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from speciate.stages import Matrix, Vector
from speciate_plugins.densities.projection import ProjectionOptions, train
from speciate_plugins.densities.prototypes import Classes, Prototypes


class Codes(Prototypes):
    """Prototypes are codes. A code that cannot be told, because a coordinate overflows, is not a number."""

    shared_names: ClassVar[tuple[str, ...]] = ("mean", "matrix")
    binary: ClassVar[bool] = False
    """Whether only the signs of the coordinates count."""

    def __init__(self, options: ProjectionOptions, coordinates: int) -> None:
        super().__init__()
        self._options = options
        self._coordinates = coordinates

    def _calibrate(self, features: Matrix, classes: Classes) -> dict[str, npt.NDArray[Any]]:
        return train(features, classes, self._coordinates, self._options, binary=self.binary)._asdict()

    def _start(self, own: Matrix) -> tuple[Matrix, Matrix]:  # noqa: ARG002  # the dictionary starts empty
        return np.empty((0, self._width)), np.empty((0, self.traits))

    @abstractmethod
    def _encode(self, coordinates: Matrix) -> Matrix:
        """The code of each row."""

    def embed(self, batch: Matrix) -> Matrix:
        """See `Density`. One product an event: over a batch it would be one, but its last bits would depend on it."""
        mean, matrix = self._shared["mean"], self._shared["matrix"]
        coordinates = np.empty((len(batch), len(matrix)))
        with np.errstate(over="ignore", invalid="ignore"):
            for row, event in zip(coordinates, batch - mean, strict=True):
                row[:] = matrix @ np.ascontiguousarray(event)
        told = np.isfinite(coordinates).all(axis=1, keepdims=True)
        return np.where(told, self._encode(np.where(told, coordinates, 0.0)), np.nan)

    def _measure(self, vectors: Matrix, traits: Matrix, point: Vector) -> Vector:  # noqa: ARG002  # there are none
        return np.where((vectors == point).all(axis=1), 0.0, -np.inf)


def signs(coordinates: Matrix) -> Matrix:
    """A bit a coordinate: 1 if it is not negative."""
    return np.where(coordinates >= 0.0, 1.0, 0.0)
