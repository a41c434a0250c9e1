"""RankStat: the code of an event is which of its coordinates are the largest; the same set, or a birth.

After Han et al., AutoNovel (2021), whose ranking statistics compare two images by their top coordinates, as the
comparisons of this field use it online: the unordered set of the top 3 of 32 coordinates is the key of a dictionary
that starts empty, so no event goes to a known class. The coordinates are of a trained projection, in place of the
encoder the method trains; they are ranked by value, as AutoNovel's are, which are never negative. Of equal coordinates
the first is the larger.
"""

from typing import Annotated

import msgspec
import numpy as np

from speciate.hooks import Provider, hookimpl
from speciate.stages import Density, Matrix
from speciate_plugins.densities.codes import Codes
from speciate_plugins.densities.projection import ProjectionOptions


class RankStatOptions(ProjectionOptions, frozen=True):
    """How long an embedding is, and how much of it counts."""

    coordinates: Annotated[int, msgspec.Meta(ge=1, le=4096, description="Coordinates of the embedding.")] = 32
    top: Annotated[int, msgspec.Meta(ge=1, description="How many of the largest make the code.")] = 3

    def __post_init__(self) -> None:
        """Refuse to rank more coordinates than there are."""
        if self.top > self.coordinates:
            raise ValueError(f"top = {self.top} of coordinates = {self.coordinates}: choose a smaller top")


class RankStat(Codes):
    """A code is the places of the largest coordinates, in ascending order."""

    def __init__(self, options: RankStatOptions) -> None:
        super().__init__(options, options.coordinates)
        self._top = options.top

    def _encode(self, coordinates: Matrix) -> Matrix:
        ranked = np.argsort(-coordinates, axis=1, kind="stable")
        return np.sort(ranked[:, : self._top], axis=1).astype(np.float64)


@hookimpl
def speciate_density() -> Provider[Density]:
    """Provide the density."""
    return Provider(options=RankStatOptions, create=RankStat)
