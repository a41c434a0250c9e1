"""DBSTREAM's micro-clusters, moved by River: an event goes to the nearest one in whose radius it lies, or founds one.

After Hahsler and Bolaños, "Clustering Data Streams Based on Shared Density between Micro-Clusters" (2016), through the
public behaviour of `river.cluster.DBSTREAM`, which fades, moves, adds and cleans up micro-clusters. The score is
radius - distance to the nearest micro-cluster of a category, and below 0 on the rim itself, which River has outside.
Where it must deviate from one DBSTREAM over the stream:

- Every category has a DBSTREAM of its own, which learns its events. One for all would move all micro-clusters around
  an event, whoever owns them, and clean away categories; a decision here changes one category and removes none.
- A known class has the micro-clusters that its support makes, in order; a new category is one micro-cluster. It gets
  more only by merging, or by a policy that assigns beyond the radius.
- Time is counted in a category's own events, so fading and cleaning up forget only what the category itself has left.
- The graph of shared density is dropped. It serves to join micro-clusters afterwards, which would change answers
  already given.

A state holds the centres, weights and ages of the micro-clusters. River has no way to set its clock, so one that goes
on from a state first learns an event without features as often as the category has events, then gets its
micro-clusters back. Merging gives the micro-clusters of both, with their ages.
"""

import math
from collections.abc import Sequence
from importlib import import_module
from typing import Annotated, Any, ClassVar, Literal

import msgspec
import numpy as np
import numpy.typing as npt

from speciate.hooks import Provider, hookimpl
from speciate.stages import Density, Matrix, Vector
from speciate_plugins.densities.leader import reachable
from speciate_plugins.densities.prototypes import Classes, Prototypes, distances, own_distances
from speciate_schemas import Strict

OUTSIDE = np.nextafter(0.0, -1.0)
"""The score on the rim."""

Positive = Annotated[float, msgspec.Meta(gt=0, le=1e12)]


class DbstreamOptions(Strict, frozen=True):
    """Options of River's DBSTREAM; fading and cleaning up as slow as the authors' R package `stream` does."""

    radius: Annotated[
        Literal["auto"] | Positive,
        msgspec.Meta(
            description="Of a micro-cluster; auto: the root mean square distance between support events of one class."
        ),
    ] = "auto"
    fading_factor: Annotated[Positive, msgspec.Meta(description="How fast the weight of a micro-cluster fades.")] = 1e-3
    cleanup_interval: Annotated[
        int, msgspec.Meta(ge=1, description="Events of a category between two removals of faded micro-clusters.")
    ] = 1000


class Dbstream(Prototypes):
    """Prototypes are the centres of micro-clusters; traits are their weight and how many events ago they learnt."""

    traits: ClassVar[int] = 2
    shared_names: ClassVar[tuple[str, ...]] = ("radius",)

    def __init__(self, options: DbstreamOptions) -> None:
        self._options = options
        super().__init__()

    def _reset(self, width: int) -> None:
        super()._reset(width)
        self._models: list[Any] = []
        """River's object of each category; None until it learns, when it is made from the prototypes."""

    def _calibrate(self, features: Matrix, classes: Classes) -> dict[str, npt.NDArray[Any]]:
        own_distances(features, classes)  # refuses a support set without spread
        if self._options.radius != "auto":
            return {"radius": np.asarray(self._options.radius)}
        squares = sum(features[classes == k].var(axis=0).sum() * n for k, n in enumerate(np.bincount(classes)))
        return {"radius": np.asarray(math.sqrt(2.0 * squares / (len(features) - int(classes.max()) - 1)))}

    def _start(self, own: Matrix) -> tuple[Matrix, Matrix]:
        model = self._empty()
        for event in own:
            _learn(model, event)
        clusters = model.micro_clusters.values()
        return np.array([_centre(one) for one in clusters]), _traits(clusters, len(own))

    def embed(self, batch: Matrix) -> Matrix:
        """See `Density`. The features are their own coordinates."""
        return np.ascontiguousarray(batch)

    def _measure(self, vectors: Matrix, traits: Matrix, point: Vector) -> Vector:  # noqa: ARG002  # weights do not count
        inside = self._shared["radius"] - distances(vectors, point)
        return np.where(inside > 0.0, inside, np.minimum(inside, OUTSIDE))

    def score_birth(self, points: Matrix) -> Vector:
        """See `Density`. 0, the rim of every micro-cluster."""
        return np.where(reachable(points), 0.0, -np.inf)

    def absorb(self, category: int, point: Vector) -> float:
        """See `Density`. The drift is that of the micro-cluster that moved the furthest."""
        model = self._model(category)
        before = {number: one.center for number, one in model.micro_clusters.items()}
        _learn(model, point)
        self.counts[category] += 1
        rows = dict(zip(before, self._vectors[self._owners == category], strict=True))
        # River replaces the centres it moves: only those are read again.
        fresh = {
            number: _centre(one) for number, one in model.micro_clusters.items() if one.center is not before.get(number)
        }
        steps = [fresh[number] - rows[number] for number in fresh if number in rows]
        vectors = [fresh.get(number, rows.get(number)) for number in model.micro_clusters]
        self._rewrite(category, np.array(vectors), _traits(model.micro_clusters.values(), int(self.counts[category])))
        return max((math.sqrt(step @ step) for step in steps), default=0.0)

    def _rewrite(self, category: int, vectors: Matrix, traits: Matrix) -> None:
        own = self._owners == category
        if own.sum() == len(vectors):
            self._vectors[own], self._traits[own] = vectors, traits
            return
        self._drop(category)
        self._give(category, vectors, traits)
        self._regroup()

    def _founding(self, point: Vector) -> Vector:  # noqa: ARG002  # all alike
        return np.array([1.0, 1.0])

    def _add(self, count: int, vectors: Matrix, traits: Matrix) -> None:
        super()._add(count, vectors, traits)
        self._models.append(None)

    def merge(self, keep: int, absorb: int) -> None:
        """See `Density`."""
        self._models[keep] = None
        super().merge(keep, absorb)

    def remove(self, category: int) -> None:
        """See `Density`."""
        super().remove(category)
        del self._models[category]

    def _model(self, category: int) -> Any:
        """River's object of a category, from its prototypes if there is none yet."""
        if self._models[category] is None:
            model, clock = self._empty(), int(self.counts[category])
            for _ in range(clock):
                model.learn_one({})
            model.micro_clusters.clear()
            cluster = import_module("river.cluster.dbstream").DBSTREAMMicroCluster
            own = self._owners == category
            for number, (centre, (weight, age)) in enumerate(zip(self._vectors[own], self._traits[own], strict=True)):
                model.micro_clusters[number] = cluster(
                    x=_features(centre), last_update=clock - int(age), weight=float(weight)
                )
            self._models[category] = model
        return self._models[category]

    def _empty(self) -> Any:
        return import_module("river.cluster").DBSTREAM(
            clustering_threshold=float(self._shared["radius"]),
            fading_factor=self._options.fading_factor,
            cleanup_interval=self._options.cleanup_interval,
        )


def _learn(model: Any, event: Vector) -> None:
    model.learn_one(_features(event))
    model.s.clear()
    model.s_t.clear()


def _features(row: Vector) -> dict[int, float]:
    return dict(enumerate(row.tolist()))


def _centre(cluster: Any) -> Vector:
    return np.fromiter(cluster.center.values(), dtype=np.float64, count=len(cluster.center))


def _traits(clusters: Sequence[Any], clock: int) -> Matrix:
    return np.array([[one.weight, clock - one.last_update] for one in clusters], dtype=np.float64)


@hookimpl
def speciate_density() -> Provider[Density]:
    """Provide the density."""
    return Provider(options=DbstreamOptions, create=Dbstream, requires=("river",), install="speciate[river]")
