"""PHE: the nearest hash centre within a Hamming radius, or the event's own code becomes a centre.

After Zheng et al., "Prototypical Hash Encoding for On-the-Fly Fine-Grained Category Discovery" (PHE, 2024), as its code
has it: the centres are the codes of the class prototypes, here of the means of the support; an event with the code of a
centre goes there, otherwise to the nearest centre by Hamming distance, the first of equal ones, if it is within R, and
founds a category with its code otherwise. Codes are not updated. The score is R - distance. For L bits and K known
classes R = max(⌊d/2⌋, 1), where d is the smallest with C(L, d-1) ≥ 2^L / K; where K is so small that there is none, d
is that of the largest C(L, d-1). The bits are of a trained projection with the rotation of iterative quantisation, in
place of the hash head and the encoder trained with it. A merged category keeps the centres of both.
"""

import math
from typing import Annotated, Any, ClassVar, Literal

import msgspec
import numpy as np
import numpy.typing as npt

from speciate.hooks import Provider, hookimpl
from speciate.stages import Density, Matrix, Vector
from speciate_plugins.densities.prototypes import Classes
from speciate_plugins.densities.smile import Smile, SmileOptions


class PheOptions(SmileOptions, frozen=True):
    """How long a code is, and how near is near enough."""

    radius: Annotated[
        Literal["auto"] | Annotated[int, msgspec.Meta(ge=0)],
        msgspec.Meta(description="Bits that may differ from a centre; auto: from the bits and how many are known."),
    ] = "auto"


class Phe(Smile):
    """Prototypes are hash centres."""

    shared_names: ClassVar[tuple[str, ...]] = ("mean", "matrix", "radius")

    def __init__(self, options: PheOptions) -> None:
        super().__init__(options)
        self._bits, self._radius = options.bits, options.radius

    def _calibrate(self, features: Matrix, classes: Classes) -> dict[str, npt.NDArray[Any]]:
        radius = hamming_radius(self._bits, int(classes.max()) + 1) if self._radius == "auto" else self._radius
        return {**super()._calibrate(features, classes), "radius": np.asarray(radius, dtype=np.int64)}

    def _start(self, own: Matrix) -> tuple[Matrix, Matrix]:
        return self.embed(own.mean(axis=0)[np.newaxis]), np.empty((1, self.traits))

    def _measure(self, vectors: Matrix, traits: Matrix, point: Vector) -> Vector:  # noqa: ARG002  # there are none
        away = np.abs(vectors - point).sum(axis=1)
        return np.where(np.isnan(away), -np.inf, self._shared["radius"] - away)


def hamming_radius(bits: int, known: int) -> int:
    """R of so many bits for so many known classes."""
    # Past the middle the binomials fall again.
    distances = range(1, bits // 2 + 2)
    room = 2**bits
    widest = next((d for d in distances if known * math.comb(bits, d - 1) >= room), distances[-1])
    return max(widest // 2, 1)


@hookimpl
def speciate_density() -> Provider[Density]:
    """Provide the density."""
    return Provider(options=PheOptions, create=Phe)
