"""What the compared methods share: categories as prototypes, and a rule that says how well an event suits one.

A category has prototypes: one as a rule, none if a method gives its known classes none, several after a merge, when
the best of them speaks for it. A prototype is a vector, and a few numbers beside it that a rule may need, its traits.
The score of an event under a category is at least 0 exactly where the method would assign it there, and grows with
the method's preference: under the policy `distance-threshold` with `threshold = 0`, the decisions are the method's. A
birth scores 0, or the negative of a radius; an event so far out that it cannot be scored is impossible everywhere.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from speciate.errors import StateMismatchError, SupportError
from speciate.screening import ExactScreening
from speciate.stages import DensityState, Matrix, Screening, Vector
from speciate_plugins.densities.columns import Column
from speciate_schemas import Array

Classes = npt.NDArray[np.int64]


class Prototypes(ABC):
    """Categories as counts and prototypes, these in the order of their categories. The rules are subclasses."""

    shared_names: ClassVar[tuple[str, ...]] = ()
    """Arrays of a rule that all categories share, beside the dimension."""
    traits: ClassVar[int] = 0
    """Numbers a prototype has beside its vector."""

    counts: npt.NDArray[np.int64]
    _vectors: Matrix
    _traits: Matrix
    _owners: npt.NDArray[np.int64]

    def __init__(self) -> None:
        self._dimension = 0
        self._shared: dict[str, npt.NDArray[Any]] = {}
        self._reset(0)

    def _reset(self, width: int) -> None:
        """No category; vectors of so many numbers."""
        self._sizes = Column(np.int64)
        self._columns = {
            "_vectors": Column(np.float64, width),
            "_traits": Column(np.float64, self.traits),
            "_owners": Column(np.int64),
        }
        self._bind()

    def _bind(self) -> None:
        """The columns as attributes, now that there are more or fewer entries."""
        self.counts = self._sizes.entries
        for name, column in self._columns.items():
            setattr(self, name, column.entries)

    @property
    def dimension(self) -> int:
        """See `Density`."""
        return self._dimension

    @property
    def nbytes(self) -> int:
        """See `Density`."""
        return self._sizes.nbytes + sum(column.nbytes for column in self._columns.values())

    def fit(self, features: Matrix, classes: Classes) -> None:
        """See `Density`."""
        self._dimension = features.shape[1]
        self._shared = self._calibrate(features, classes)
        self._reset(self._width)
        for number, size in enumerate(np.bincount(classes).tolist()):
            own = features[classes == number]
            self._add(size, *self._start(own))

    @property
    def _width(self) -> int:
        return len(self.embed(np.zeros((1, self._dimension)))[0])

    @abstractmethod
    def _calibrate(self, features: Matrix, classes: Classes) -> dict[str, npt.NDArray[Any]]:
        """What the rule learns from the whole support set: the arrays `shared_names` names."""

    @abstractmethod
    def _start(self, own: Matrix) -> tuple[Matrix, Matrix]:
        """The prototypes of a known class, given its support: vectors and traits."""

    @abstractmethod
    def embed(self, batch: Matrix) -> Matrix:
        """See `Density`."""

    @abstractmethod
    def _measure(self, vectors: Matrix, traits: Matrix, point: Vector) -> Vector:
        """The score of a point under each of some prototypes; the bits of one must not depend on the others."""

    def screen(self, points: Matrix) -> Screening:
        """See `Density`."""
        return ExactScreening(self, points)

    def score(self, point: Vector, categories: Sequence[int]) -> Vector:
        """See `Density`."""
        places = np.asarray(categories, dtype=np.intp)
        best = np.full(len(self.counts), -np.inf)
        wanted = np.zeros(len(self.counts), dtype=np.bool_)
        wanted[places] = True
        units = np.flatnonzero(wanted[self._owners])
        # To gather all of them would be to copy them.
        some: Any = slice(None) if len(units) == len(self._owners) else units
        np.maximum.at(best, self._owners[some], self._measure(self._vectors[some], self._traits[some], point))
        return best[places]

    def score_birth(self, points: Matrix) -> Vector:
        """See `Density`. 0, the boundary: a birth is ahead of a category exactly where the method would not assign."""
        return np.where(np.isfinite(points).all(axis=1), 0.0, -np.inf)

    def absorb(self, category: int, point: Vector) -> float:  # noqa: ARG002  # the others learn from it
        """See `Density`. A prototype stays where it is."""
        self.counts[category] += 1
        return 0.0

    def found(self, point: Vector) -> None:
        """See `Density`."""
        self._add(1, point[np.newaxis], self._founding(point)[np.newaxis])

    def _founding(self, point: Vector) -> Vector:  # noqa: ARG002  # a rule may look at it
        """The traits of the prototype of a new category."""
        return np.zeros(self.traits)

    def _add(self, count: int, vectors: Matrix, traits: Matrix) -> None:
        """Append a category with these prototypes."""
        self._give(len(self.counts), vectors, traits)
        self._sizes.append(count)
        self._bind()

    def _give(self, category: int, vectors: Matrix, traits: Matrix) -> None:
        """Append prototypes of a category."""
        for vector, numbers in zip(vectors, traits, strict=True):
            self._columns["_vectors"].append(vector)
            self._columns["_traits"].append(numbers)
            self._columns["_owners"].append(category)
        self._bind()

    def merge(self, keep: int, absorb: int) -> None:
        """See `Density`. The kept category answers to the prototypes of both."""
        self._owners[self._owners == absorb] = keep
        self._regroup()
        self.counts[keep] += self.counts[absorb]
        self.remove(absorb)

    def remove(self, category: int) -> None:
        """See `Density`."""
        self._drop(category)
        self._sizes.remove(category)
        self._bind()
        self._owners[self._owners > category] -= 1

    def _drop(self, category: int) -> None:
        """Remove the prototypes of a category."""
        for unit in np.flatnonzero(self._owners == category)[::-1].tolist():
            for column in self._columns.values():
                column.remove(unit)
        self._bind()

    def _regroup(self) -> None:
        """Put the prototypes in the order of their categories, where a state has them too."""
        order = np.argsort(self._owners, kind="stable")
        for column in self._columns.values():
            column.entries[:] = column.entries[order]

    def verify(self) -> Vector:
        """See `Density`. Scores are taken from the prototypes as they are: nothing can drift."""
        return np.zeros(len(self.counts))

    def export_state(self) -> DensityState:
        """See `Density`."""
        shared = {name: Array.of(self._shared[name].copy()) for name in self.shared_names}
        shared["dimension"] = Array.of(np.int64(self._dimension))
        return DensityState(shared, [self._export(category) for category in range(len(self.counts))])

    def _export(self, category: int) -> dict[str, Array]:
        own = self._owners == category
        return {
            "count": Array.of(np.int64(self.counts[category])),
            "vectors": Array.of(self._vectors[own]),
            "traits": Array.of(self._traits[own]),
        }

    def import_state(self, state: DensityState) -> None:
        """See `Density`."""
        try:
            self._dimension = int(state.shared["dimension"].numpy())
            self._shared = {name: state.shared[name].numpy().copy() for name in self.shared_names}
            self._reset(self._width)
            for one in state.categories:
                self._import(one)
        except (KeyError, ValueError) as error:
            raise StateMismatchError(
                f"not a state of this density, {type(self).__name__}: {error}; name the density it was made with"
            ) from error

    def _import(self, arrays: dict[str, Array]) -> None:
        self._add(int(arrays["count"].numpy()), arrays["vectors"].numpy(), arrays["traits"].numpy())


def distances(vectors: Matrix, point: Vector) -> Vector:
    """Euclidean distances, each summed in one fixed order; infinite if too far out."""
    with np.errstate(over="ignore", invalid="ignore"):
        found: Vector = np.sqrt(np.square(vectors - point).sum(axis=1))
    return found


def own_distances(features: Matrix, classes: Classes) -> Vector:
    """How far each support event is from the mean of the others of its class; those without others are left out."""
    found = [np.empty(0)]
    for number in range(int(classes.max()) + 1):
        own = features[classes == number]
        if len(own) > 1:
            # Without the event itself the mean is further away by this factor.
            found.append(distances(own, own.mean(axis=0)) * (len(own) / (len(own) - 1)))
    together = np.concatenate(found)
    if not together.any():
        raise SupportError(
            "the support set has no spread within its classes (one sample a class, or equal samples): "
            "give at least one class two different samples"
        )
    return together
