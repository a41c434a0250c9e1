"""SMILE: the code of an event is the signs of a few coordinates; the same signs, or a birth.

After Du et al., "On-the-Fly Category Discovery" (SMILE, 2023), as its code has it: 12 bits, a dictionary that starts
empty, so no event goes to a known class, an exact match or a birth, nothing is updated. The bits are of a trained
projection with the rotation of iterative quantisation, in place of the hash head and the encoder trained with it.
"""

from typing import Annotated, ClassVar

import msgspec

from speciate.hooks import Provider, hookimpl
from speciate.stages import Density, Matrix
from speciate_plugins.densities.codes import Codes, signs
from speciate_plugins.densities.projection import ProjectionOptions


class SmileOptions(ProjectionOptions, frozen=True):
    """How long a code is."""

    bits: Annotated[int, msgspec.Meta(ge=1, le=4096, description="Bits of a code.")] = 12


class Smile(Codes):
    """A code is a bit a coordinate."""

    binary: ClassVar[bool] = True

    def __init__(self, options: SmileOptions) -> None:
        super().__init__(options, options.bits)

    def _encode(self, coordinates: Matrix) -> Matrix:
        return signs(coordinates)


@hookimpl
def speciate_density() -> Provider[Density]:
    """Provide the density."""
    return Provider(options=SmileOptions, create=Smile)
