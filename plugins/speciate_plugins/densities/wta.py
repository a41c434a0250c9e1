"""WTA: the code of an event is the winner of each group of its coordinates; the same winners, or a birth.

After Jia et al., "Joint Representation Learning and Novel Category Discovery" (2021), whose winner-take-all hash
compares two images, as the comparisons of this field use it online: 48 coordinates in 3 groups of 16, the tuple of the
places of the largest is the key of a dictionary that starts empty, so no event goes to a known class. The coordinates
are of a trained projection, in place of the encoder the method trains. Of equal coordinates the first wins.
"""

from typing import Annotated

import msgspec
import numpy as np

from speciate.hooks import Provider, hookimpl
from speciate.stages import Density, Matrix
from speciate_plugins.densities.codes import Codes
from speciate_plugins.densities.projection import ProjectionOptions


class WtaOptions(ProjectionOptions, frozen=True):
    """How the embedding is divided."""

    groups: Annotated[int, msgspec.Meta(ge=1, le=64, description="Groups of coordinates, each with one winner.")] = 3
    size: Annotated[int, msgspec.Meta(ge=1, le=64, description="Coordinates of a group.")] = 16


class Wta(Codes):
    """A code is the place of each group's winner."""

    def __init__(self, options: WtaOptions) -> None:
        super().__init__(options, options.groups * options.size)
        self._groups, self._size = options.groups, options.size

    def _encode(self, coordinates: Matrix) -> Matrix:
        grouped = coordinates.reshape(len(coordinates), self._groups, self._size)
        winners: Matrix = grouped.argmax(axis=2).astype(np.float64)
        return winners


@hookimpl
def speciate_density() -> Provider[Density]:
    """Provide the density."""
    return Provider(options=WtaOptions, create=Wta)
