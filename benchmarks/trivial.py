"""A head that decides nothing: what is left is the engine. Both plugins of it, for `benchmarks/engine.py`."""

from collections.abc import Sequence
from importlib.metadata import EntryPoint, entry_points

import numpy as np
import numpy.typing as npt

from speciate.hooks import PROJECT, Provider, hookimpl
from speciate.plugins import Plugins
from speciate.stages import Choice, Density, DensityState, Matrix, Policy, Vector
from speciate_schemas import Array, Strict


class NoOptions(Strict, frozen=True):
    """Nothing to set."""


class TrivialDensity:
    """Every event is as likely under every category; nothing is learnt but how many came."""

    def __init__(self, options: NoOptions) -> None:
        self._options = options
        self.dimension = 0
        self.nbytes = 0
        self.blur = 0.0
        self._zeros = np.zeros(0)
        self.counts: npt.NDArray[np.int64] = np.zeros(0, dtype=np.int64)

    def fit(self, features: Matrix, classes: npt.NDArray[np.int64]) -> None:
        """One category a class."""
        self.dimension, self.counts = features.shape[1], np.bincount(classes).astype(np.int64)
        self._zeros = np.zeros(len(self.counts))

    def embed(self, batch: Matrix) -> Matrix:
        """As it is."""
        return batch

    def screen(self, points: Matrix) -> "TrivialDensity":  # noqa: ARG002
        """No difference."""
        return self

    def row(self, place: int) -> Vector:  # noqa: ARG002
        """No difference."""
        return self._zeros

    def refresh(self, place: int, category: int) -> None:
        """No difference."""

    def score(self, point: Vector, categories: Sequence[int]) -> Vector:  # noqa: ARG002
        """No difference."""
        return np.zeros(len(categories))

    def score_birth(self, points: Matrix) -> Vector:
        """No difference."""
        return np.zeros(len(points))

    def absorb(self, category: int, point: Vector) -> float:  # noqa: ARG002
        """Count."""
        self.counts[category] += 1
        return 0.0

    def found(self, point: Vector) -> None:
        """Never happens: the policy never chooses a birth."""
        raise NotImplementedError

    def verify(self) -> Vector:
        """Nothing to go wrong."""
        return np.zeros(len(self.counts))

    def merge(self, keep: int, absorb: int) -> None:
        """Not needed here."""
        raise NotImplementedError

    def remove(self, category: int) -> None:
        """Not needed here."""
        raise NotImplementedError

    def export_state(self) -> DensityState:
        """The counts."""
        shared = {"dimension": Array.of(np.int64(self.dimension))}
        return DensityState(shared, [{"count": Array.of(count)} for count in self.counts.copy()])

    def import_state(self, state: DensityState) -> None:
        """The counts."""
        self.dimension = int(state.shared["dimension"].numpy())
        self.counts = np.array([int(one["count"].numpy()) for one in state.categories], dtype=np.int64)


class FirstCategory:
    """Chooses the first category, always."""

    def __init__(self, options: NoOptions) -> None:
        self._choice = Choice(0, 0.0, 0.0, 1.0)
        self._options = options

    def weigh(self, log_density: Vector, counts: npt.NDArray[np.int64], log_birth: float) -> tuple[Vector, float]:  # noqa: ARG002
        """No difference."""
        return log_density, log_birth

    def choose(self, evidence: Vector, birth: float) -> Choice:  # noqa: ARG002
        """The first."""
        return self._choice


@hookimpl
def speciate_density() -> Provider[Density]:
    """Register the density."""
    return Provider(options=NoOptions, create=TrivialDensity)


@hookimpl
def speciate_policy() -> Provider[Policy]:
    """Register the policy."""
    return Provider(options=NoOptions, create=FirstCategory)


def plugins() -> Plugins:
    """What is installed, and the trivial head."""
    own = [EntryPoint(f"{stage}.trivial", "trivial", PROJECT) for stage in ("density", "policy")]
    return Plugins([*entry_points(group=PROJECT), *own])
