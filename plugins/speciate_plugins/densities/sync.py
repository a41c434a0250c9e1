"""SynC's visual rule: cosine to a class prototype against the class's own threshold; prototypes do not move.

After Banerjee and Biswas, "Language-assisted Feature Representation and Lightweight Active Learning For On-the-Fly
Category Discovery" (SynC, 2025), the visual rule of it alone: the language side needs a vision-language model and an
oracle, and the classifiers the paper goes on training have no place without it. Features have length 1. A class's
prototype is the direction of the mean of its support, its threshold τ = mean - 3 · std (population) of the cosines of
its support to the prototype. An event goes to the category of the highest cos - τ, which is the score, if that is at
least 0; otherwise it becomes the prototype of a new category, with the τ of that best one.

What the rule leaves open: a class of one sample shows no std and takes the mean τ of the others, and so does a category
founded when there is none. A feature vector of zeros has cosine 0 to everything. A merged category keeps both
prototypes, each with its τ, and the better one speaks.
"""

from typing import Annotated, Any, ClassVar

import msgspec
import numpy as np
import numpy.typing as npt

from speciate.errors import SupportError
from speciate.hooks import Provider, hookimpl
from speciate.stages import Density, Matrix, Vector
from speciate_plugins.densities.prototypes import Classes, Prototypes
from speciate_schemas import Strict


class SyncOptions(Strict, frozen=True):
    """How low the thresholds lie."""

    width: Annotated[
        Annotated[float, msgspec.Meta(ge=0, le=1e12)],
        msgspec.Meta(
            description="Standard deviations of its support's cosines that a threshold lies below their mean."
        ),
    ] = 3.0


class Sync(Prototypes):
    """Prototypes of length 1; their trait is τ."""

    traits: ClassVar[int] = 1
    shared_names: ClassVar[tuple[str, ...]] = ("threshold",)

    def __init__(self, options: SyncOptions) -> None:
        super().__init__()
        self._below = options.width

    def _calibrate(self, features: Matrix, classes: Classes) -> dict[str, npt.NDArray[Any]]:
        groups = [features[classes == number] for number in range(int(classes.max()) + 1)]
        found = [self._threshold(self.embed(group)) for group in groups if len(group) > 1]
        if not found:
            raise SupportError("no class of the support set has two samples, so none shows a threshold: give one two")
        return {"threshold": np.asarray(np.mean(found))}

    def _threshold(self, own: Matrix) -> float:
        cosines = (own * _prototype(own)).sum(axis=1)
        return float(cosines.mean() - self._below * cosines.std())

    def _start(self, own: Matrix) -> tuple[Matrix, Matrix]:
        points = self.embed(own)
        threshold = self._threshold(points) if len(own) > 1 else float(self._shared["threshold"])
        return _prototype(points)[np.newaxis], np.array([[threshold]])

    def embed(self, batch: Matrix) -> Matrix:
        """See `Density`. Directions: the largest feature is taken out first, so that no square overflows."""
        return _unit(batch)

    def _measure(self, vectors: Matrix, traits: Matrix, point: Vector) -> Vector:
        scores: Vector = (vectors * point).sum(axis=1) - traits[:, 0]
        return scores

    def _founding(self, point: Vector) -> Vector:
        if not len(self._owners):
            return np.array([float(self._shared["threshold"])])
        best = int(self._measure(self._vectors, self._traits, point).argmax())
        inherited: Vector = self._traits[best].copy()
        return inherited


def _unit(rows: Matrix) -> Matrix:
    rows = np.ascontiguousarray(rows)
    largest = np.abs(rows).max(axis=1, keepdims=True)
    scaled = rows / np.where(largest > 0.0, largest, 1.0)
    lengths = np.sqrt(np.square(scaled).sum(axis=1, keepdims=True))
    units: Matrix = scaled / np.where(lengths > 0.0, lengths, 1.0)
    return units


def _prototype(points: Matrix) -> Vector:
    prototype: Vector = _unit(points.mean(axis=0)[np.newaxis])[0]
    return prototype


@hookimpl
def speciate_density() -> Provider[Density]:
    """Provide the density."""
    return Provider(options=SyncOptions, create=Sync)
