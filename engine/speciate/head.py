"""The head: a density and a policy meet over a list of categories. Also the library's front door."""

import math
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Self

import msgspec
import numpy as np
import numpy.typing as npt

from speciate.calibrate import tuned, unwatched
from speciate.config import Chosen, choose
from speciate.errors import (
    ConfigError,
    FeatureError,
    PluginError,
    StateMismatchError,
    UnknownCategoryError,
)
from speciate.plugins import Plugins, installed
from speciate.sealed import load_sealed, save_sealed
from speciate.stages import (
    BIRTH,
    Choice,
    Density,
    DensityState,
    Extent,
    Matrix,
    Policy,
    Vector,
    Watch,
    is_drawable,
    is_mergeable,
)
from speciate.suggesting import densities_that_tell
from speciate.support import check_support
from speciate.undoing import MOST_SINCE, Memory, Undone, learn_again, relabels_of
from speciate_schemas import CategoryState, HeadState, LastChange, Relabel

NEGLIGIBLE_NATS = 50.0
"""So far behind the best, even ten thousand categories add less to a posterior's normaliser than its last bit: they are
left out of it."""

SCREENED = 64
"""Events screened at once: enough for the speed of a matrix product, few to bring up to date while they are learnt."""


class Decision(NamedTuple):
    """What became of one event."""

    category: int
    birth: bool
    label: str | None
    log_evidence: float
    margin: float | None
    probability: float
    drift: float | None
    """How far the category's mean moved, in the density's own measure; None for a birth."""


class Category(msgspec.Struct, frozen=True, gc=False):
    """One category as the outside sees it."""

    id: int
    label: str | None
    known: bool
    count: int


@dataclass
class _Entry:
    id: int
    label: str | None
    known: bool


class Head:
    """Folds feature vectors into categories, one decision an event.

    >>> head = Head.fit(features, labels, density="full", policy="dp", alpha="auto")  # doctest: +SKIP
    >>> head.step(vector).category  # doctest: +SKIP
    """

    def __init__(self, density: Chosen, policy: Chosen) -> None:
        self._chosen = (density, policy)
        self._density: Density = density.create()
        self._policy: Policy = policy.create()
        self._entries: list[_Entry] = []
        self._next_category = 0
        self._memory = Memory()
        self.version = 0
        """Changes since the head was fitted."""

    @classmethod
    def fit(
        cls,
        features: npt.ArrayLike,
        labels: Sequence[Any] | npt.NDArray[Any],
        *,
        density: str,
        policy: str,
        plugins: Plugins | None = None,
        **options: Any,
    ) -> Self:
        """A head whose known categories are the classes of a labelled support set.

        `options` are those of the two plugins, under the names the configuration uses.
        """
        plugins = plugins or installed()
        head = cls(*_choose_both(plugins, density, policy, options))
        head.calibrate(features, labels)
        return head

    def calibrate(
        self, features: npt.ArrayLike, labels: Sequence[Any] | npt.NDArray[Any], watch: Watch = unwatched
    ) -> None:
        """Fit a new head to its support set; classes become categories 0 … K-1 in sorted order.

        Options of the policy that are `"auto"` are tuned on a part of it, which is watched, for it may take some time;
        the state records what was found.
        """
        matrix, names, classes = check_support(features, labels)
        self._density.fit(matrix, classes)
        density, policy = self._chosen
        self._chosen = (density, tuned(density, policy, matrix, classes, watch))
        self._policy = self._chosen[1].create()
        self._entries = [_Entry(number, name, known=True) for number, name in enumerate(names)]
        self._next_category = len(names)

    @property
    def dimension(self) -> int:
        """Length of the feature vectors it takes."""
        return self._density.dimension

    @property
    def nbytes(self) -> int:
        """Memory held by the categories."""
        return self._density.nbytes

    @property
    def categories(self) -> list[Category]:
        """All categories, known and born, in the order of their numbers."""
        counts = self._density.counts.tolist()
        return [Category(e.id, e.label, e.known, n) for e, n in zip(self._entries, counts, strict=True)]

    @property
    def size(self) -> int:
        """How many categories there are."""
        return len(self._entries)

    def step(self, event: npt.ArrayLike) -> Decision:
        """Decide one event and learn from it."""
        return self.process(np.asarray(event, dtype=np.float64)[np.newaxis])[0]

    def process(self, events: npt.ArrayLike) -> list[Decision]:
        """Decide many events in order: the same decisions as `step`, one by one."""
        batch = np.asarray(events, dtype=np.float64)
        if batch.ndim != 2 or batch.shape[1] != self.dimension:  # noqa: PLR2004  # a matrix has two axes
            raise FeatureError(f"events have shape {batch.shape}, this head takes (N, {self.dimension})")
        if not np.isfinite(batch).all():
            row, column = np.argwhere(~np.isfinite(batch))[0]
            raise FeatureError(f"event {row} has {batch[row, column]} at feature {column}: clean or drop it")
        decisions: list[Decision] = []
        for decision in self.deciding(batch):
            if isinstance(decision, FeatureError):
                raise FeatureError(f"event {len(decisions)}: {decision}; those before it are learnt") from decision
            decisions.append(decision)
        return decisions

    def deciding(self, batch: Matrix) -> Iterator[Decision | FeatureError]:
        """Decide a clean batch in order; an event whose evidence overflows gets an error and teaches nothing.

        All events are screened at once; while walking them, the categories that could matter are scored exactly, as
        they are by then. So the decisions, and every figure with them, are those of one at a time, and when one comes
        the head has learnt just so far.
        """
        # Row by row in memory: sums over an event then have the same bits alone and among others.
        batch = np.ascontiguousarray(batch)
        for start in range(0, len(batch), SCREENED):
            yield from self._decide_screened(self._density.embed(batch[start : start + SCREENED]))

    def _decide_screened(self, points: Matrix) -> Iterator[Decision | FeatureError]:
        screening = self._density.screen(points)
        births = self._density.score_birth(points).tolist()
        for place, (point, log_birth) in enumerate(zip(points, births, strict=True)):
            choice = self._choose(screening.row(place), screening.blur, point, log_birth)
            if not math.isfinite(choice.log_evidence):
                yield FeatureError(f"its evidence is {choice.log_evidence}: the features are too far out")
                continue
            decision, category = self._apply(choice, point)
            screening.refresh(place, category)
            yield decision

    def _choose(self, row: Vector, blur: float, point: Vector, log_birth: float) -> Choice:
        """Let the policy choose, on exact scores of all that can show in the choice."""
        evidence, birth = self._policy.weigh(row, self._density.counts, log_birth)
        if not blur:
            return self._policy.choose(evidence, birth)
        contenders = _contenders(evidence, birth, 2.0 * blur)
        if not contenders:
            return self._policy.choose(evidence, birth)
        row[contenders] = self._density.score(point, contenders)
        evidence, birth = self._policy.weigh(row, self._density.counts, log_birth)
        exact = evidence[contenders]
        # Who is among the contenders may depend on the batch; who is left on exact scores alone.
        left = _contenders(exact, birth, 0.0) if len(contenders) > 1 else [0]
        choice = self._policy.choose(exact[left], birth)
        return choice if choice.category == BIRTH else choice._replace(category=contenders[left[choice.category]])

    def _apply(self, choice: Choice, point: Vector) -> tuple[Decision, int]:
        """Learn what was chosen; the decision as the outside sees it, and the category's place."""
        if not 0.0 <= choice.probability <= 1.0:
            raise PluginError(f"policy {self._chosen[1].name!r} gave probability {choice.probability}: not in 0 … 1")
        born = choice.category == BIRTH
        place, drift = self._found(point) if born else self._absorb(choice.category, point)
        entry = self._entries[place]
        # A runner-up without any evidence is no runner-up.
        margin = choice.margin if choice.margin is not None and math.isfinite(choice.margin) else None
        return Decision(entry.id, born, entry.label, choice.log_evidence, margin, choice.probability, drift), place

    def embed(self, batch: Matrix) -> Matrix:
        """Events as the points that `learn` takes; learning does not change what they are."""
        return self._density.embed(np.ascontiguousarray(batch))

    def learn(self, point: Vector, category: int, *, birth: bool) -> None:
        """Apply a decision that was made before, without deciding again."""
        if not birth:
            try:
                self._absorb(self._place(category), point)
            except UnknownCategoryError as error:
                raise StateMismatchError(f"the outputs belong to another state: {error}") from error
        elif category == self._next_category:
            self._found(point)
        else:
            raise StateMismatchError(
                f"the recorded birth of category {category} does not follow this state, whose next category is "
                f"{self._next_category}: the outputs belong to another state"
            )

    def rename(self, category: int, label: str) -> list[Relabel]:
        """Give a category a label; what that means for decisions made before."""
        entry = self._entries[self._place(category)]
        before = CategoryState(id=entry.id, label=entry.label, known=entry.known, count=0, arrays={})
        self._memory.keep(LastChange(kind="rename", before=[before]))
        entry.label = label
        self.version += 1
        return [Relabel(category=category, becomes=category, label=label)]

    def merge(self, keep: int, absorb: int) -> list[Relabel]:
        """Fold one category into another; the absorbed number is never used again, unless the merge is undone."""
        into, gone = self._place(keep), self._place(absorb)
        if into == gone:
            raise UnknownCategoryError(f"category {keep} cannot be merged with itself: name two different ones")
        self._memory.keep(LastChange(kind="merge", before=self._category_states(into, gone)))
        self._density.merge(into, gone)
        label = self._entries[into].label
        del self._entries[gone]
        self.version += 1
        return [Relabel(category=absorb, becomes=keep, label=label)]

    def forget(self, category: int) -> list[Relabel]:
        """Remove a category; its number is never used again, unless that is undone."""
        place = self._place(category)
        self._memory.keep(LastChange(kind="forget", before=self._category_states(place)))
        self._density.remove(place)
        del self._entries[place]
        self.version += 1
        return [Relabel(category=category, becomes=None)]

    def undo(self) -> list[Relabel]:
        """Take back the last rename, merge or forget; what that means for decisions made before.

        What a merged category has learnt since then goes to whichever of the two it would have gone to.
        """
        return self.take_back().relabels

    def take_back(self) -> Undone:
        """As `undo`, and where each event went that a merged category had learnt."""
        last = self._memory.take()
        if last is None:
            raise UnknownCategoryError(
                "there is nothing to undo: nothing was renamed, merged or forgotten, or it is undone already, or the "
                f"merged category has learnt from more than {MOST_SINCE} events since"
            )
        shares: list[int] = []
        if last.kind == "rename":
            self._entries[self._place(last.before[0].id)].label = last.before[0].label
        else:
            shares = self._bring_back(last)
        self.version += 1
        return Undone(relabels_of(last), shares)

    def _bring_back(self, last: LastChange) -> list[int]:
        """Have categories again as they were, each at the place of its number; where the events since then went."""
        state = self._density.export_state()
        entries = {entry.id: entry for entry in self._entries}
        arrays = dict(zip(entries, state.categories, strict=True))
        for one in last.before:
            entries[one.id] = _Entry(one.id, one.label, one.known)
            arrays[one.id] = one.arrays
        self._density.import_state(DensityState(state.shared, [arrays[number] for number in sorted(arrays)]))
        self._entries = [entries[number] for number in sorted(entries)]
        if last.kind != "merge":
            return []
        kept, gone = (self._place(one.id) for one in last.before)
        return learn_again(self._density, self._policy, (kept, gone), last.since)

    def _category_states(self, *places: int) -> list[CategoryState]:
        """Some categories as the state has them."""
        arrays, categories = self._density.export_state().categories, self.categories
        return [
            CategoryState(id=one.id, label=one.label, known=one.known, count=one.count, arrays=arrays[place])
            for place in places
            for one in [categories[place]]
        ]

    def merge_gains(self, neighbours: int, category: int | None = None) -> list[tuple[int, int, float]]:
        """Each category, or one, with so many of its nearest: the numbers of the two, and what a merge is worth.

        That is the log Bayes factor, in nats, of their events being one category's. Looks only.
        """
        density = self._density
        if not is_mergeable(density):
            raise ConfigError(
                f"density {self._chosen[0].name!r} cannot tell what a merge is worth: its categories have no marginal "
                f"likelihood; densities that have one: {', '.join(densities_that_tell()) or 'none is installed'}"
            )
        pairs = density.neighbours(neighbours, None if category is None else [self._place(category)])
        gains = density.merge_gain(pairs).tolist()
        return [(self._entries[i].id, self._entries[j].id, gain) for (i, j), gain in zip(pairs, gains, strict=True)]

    @property
    def suggests(self) -> bool:
        """Whether `merge_gains` can tell what a merge is worth."""
        return is_mergeable(self._density)

    def centre(self, category: int) -> Vector | None:
        """Where a category lies, in the coordinates of the features; None if it has no place. Looks only."""
        density = self._density
        return density.centre(self._place(category)) if is_drawable(density) else None

    def spread(self, category: int) -> float | None:
        """How wide a category is, in the density's own measure; None if that has none. Looks only."""
        density = self._density
        return density.spread(self._place(category)) if is_drawable(density) else None

    def extent(self, category: int | None, axes: Matrix) -> Extent | None:
        """Where a category, or None for one not born yet, expects its next event, along some axes. Looks only."""
        density = self._density
        if not is_drawable(density):
            return None
        return density.extent_of_birth(axes) if category is None else density.extent(self._place(category), axes)

    def nearest(self, category: int, most: int) -> list[tuple[int, float]]:
        """Other categories by the log density of this one's centre under them, nearest first. Looks only."""
        centre = self.centre(category)
        if centre is None:
            return []
        row = self._density.screen(self._density.embed(np.ascontiguousarray(centre[np.newaxis]))).row(0)
        row[self._place(category)] = -np.inf
        order = np.argsort(-row, kind="stable")[: min(most, self.size - 1)]
        return [(self._entries[place].id, float(row[place])) for place in order.tolist()]

    def verify(self) -> dict[int, float]:
        """What rounding shows to have done to each category's log scores, in nats, by its number.

        The state is factored again in double precision from what it keeps, and compared with the figures it is scored
        by: a sign of wear, not a bound on it, since errors in different directions may cancel, and a merge starts anew.
        Looks only.
        """
        return dict(zip((entry.id for entry in self._entries), self._density.verify().tolist(), strict=True))

    def state(self) -> HeadState:
        """Everything needed to go on exactly here; later learning does not change it."""
        density, policy = self._chosen
        exported = self._density.export_state()
        categories = [
            CategoryState(id=one.id, label=one.label, known=one.known, count=one.count, arrays=arrays)
            for one, arrays in zip(self.categories, exported.categories, strict=True)
        ]
        return HeadState(
            density=density.name,
            policy=policy.name,
            density_options=msgspec.to_builtins(density.options),
            policy_options=msgspec.to_builtins(policy.options),
            dimension=self.dimension,
            version=self.version,
            next_category=self._next_category,
            shared=exported.shared,
            categories=categories,
            last_change=self._memory.state(),
        )

    @classmethod
    def from_state(cls, state: HeadState, plugins: Plugins | None = None) -> Self:
        """A head that goes on where `state` was taken."""
        plugins = plugins or installed()
        density = choose(plugins, "density", {"plugin": state.density, **state.density_options}, "density")
        policy = choose(plugins, "policy", {"plugin": state.policy, **state.policy_options}, "policy")
        head = cls(density, policy)
        head._density.import_state(DensityState(state.shared, [one.arrays for one in state.categories]))
        if head._density.counts.tolist() != [one.count for one in state.categories]:
            raise StateMismatchError("the state's counts are not those of its arrays: it was changed since")
        if head.dimension != state.dimension:
            raise StateMismatchError(f"the state says dimension {state.dimension}, its arrays have {head.dimension}")
        head._entries = [_Entry(one.id, one.label, one.known) for one in state.categories]
        head._next_category = state.next_category
        head._memory = Memory(state.last_change)
        head.version = state.version
        return head

    def save(self, path: str | Path) -> None:
        """Write the state to a file: compact, versioned, checksummed."""
        save_sealed(Path(path), self.state())

    @classmethod
    def load(cls, path: str | Path, plugins: Plugins | None = None) -> Self:
        """Read a head that `save` wrote; a damaged or foreign file is refused."""
        return cls.from_state(load_sealed(Path(path), HeadState), plugins)

    def _absorb(self, place: int, point: Vector) -> tuple[int, float]:
        drift = self._density.absorb(place, point)
        self.version += 1
        if self._memory.merged == self._entries[place].id:
            self._memory.learnt(point)
        return place, drift

    def _found(self, point: Vector) -> tuple[int, None]:
        self._density.found(point)
        self._entries.append(_Entry(self._next_category, None, known=False))
        self._next_category += 1
        self.version += 1
        return self.size - 1, None

    def _place(self, category: int) -> int:
        # Entries are ordered by id for ever: births append the next number and removals keep the order.
        place = bisect_left(self._entries, category, key=lambda entry: entry.id)
        if place < self.size and self._entries[place].id == category:
            return place
        raise UnknownCategoryError(f"there is no category {category}: it was merged, forgotten or never born")


def _contenders(evidence: Vector, birth: float, slack: float) -> list[int]:
    """The categories that can show in a choice: those near the best hypothesis, and the runner-up."""
    leaders = np.partition(evidence, -2)[-2:] if len(evidence) > 2 else evidence  # noqa: PLR2004  # two lead
    *_, second, best = sorted([-math.inf, birth, *leaders.tolist()])
    found: list[int] = (evidence >= min(best - NEGLIGIBLE_NATS, second) - slack).nonzero()[0].tolist()
    return found


def _choose_both(plugins: Plugins, density: str, policy: str, options: dict[str, Any]) -> tuple[Chosen, Chosen]:
    """Hand each option to the one of the two plugins that knows it."""
    fields = {
        stage: {field.name for field in msgspec.structs.fields(plugins.provider(stage, name).options)}
        for stage, name in (("density", density), ("policy", policy))
    }
    unknown = set(options) - fields["density"] - fields["policy"]
    if unknown:
        known = ", ".join(sorted(fields["density"] | fields["policy"])) or "none"
        raise ConfigError(f"unknown option {min(unknown)!r}: {density!r} and {policy!r} have {known}")

    def section(stage: str, name: str) -> dict[str, Any]:
        return {"plugin": name, **{key: value for key, value in options.items() if key in fields[stage]}}

    return (
        choose(plugins, "density", section("density", density), "density"),
        choose(plugins, "policy", section("policy", policy), "policy"),
    )
