"""Which categories are rather one: pairs of near ones, ranked by the log Bayes factor of their being one category."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple, Protocol

from speciate.config import choose
from speciate.errors import OperatorError
from speciate.plugins import Plugins, installed
from speciate.stages import is_mergeable

if TYPE_CHECKING:
    from speciate.head import Head  # which asks here who can tell

NEIGHBOURS = 5
"""Others that each category is compared with: the nearest ones. All pairs of ten thousand would be fifty million."""


class Counted(Protocol):
    """A category as a suggestion tells of it."""

    @property
    def id(self) -> int:
        """Its number."""

    @property
    def label(self) -> str | None:
        """Its label, if it has one."""

    @property
    def known(self) -> bool:
        """Whether it came from the support set."""

    @property
    def count(self) -> int:
        """Events it has learnt."""


class Suggestion(NamedTuple):
    """Two categories that may be one. Each is about the categories as they are: a merge changes the others."""

    keep: int
    """Number of the category to keep: the known one of the two, or else the larger."""
    absorb: int
    log_bayes_factor: float
    """In nats: of how much likelier all their events are as one category's than as two's, the logarithm."""
    labels: tuple[str | None, str | None]
    """Of the kept one and of the other."""
    counts: tuple[int, int]
    """Likewise, in events."""


def suggest(head: "Head", most: int, *, category: int | None = None, everything: bool = False) -> list[Suggestion]:
    """At most so many merges, the best supported first; of all categories, or of one with any other.

    Only those that the events speak for, unless `everything` is wanted. Takes O(K² d) to find the near ones, O(K d) for
    one category, and a pass over the rows of the two for each pair. It only looks, but not while the head learns: ask
    on the head's thread, or a head made of its state.
    """
    neighbours = NEIGHBOURS if category is None else max(NEIGHBOURS, most)
    gains = head.merge_gains(neighbours, category)
    return ranked({one.id: one for one in head.categories}, gains, most, everything=everything)


def ranked(
    categories: Mapping[int, Counted], gains: Iterable[tuple[int, int, float]], most: int, *, everything: bool = False
) -> list[Suggestion]:
    """The merges with these gains, the best supported first, of categories that there are."""
    found = [
        _suggestion(categories[one], categories[other], gain)
        for one, other, gain in gains
        if (everything or gain > 0.0) and one in categories and other in categories
    ]
    # Numbers tell equals apart, so the order never depends on that of the pairs.
    return sorted(found, key=lambda one: (-one.log_bayes_factor, one.keep, one.absorb))[:most]


def _suggestion(one: Counted, other: Counted, gain: float) -> Suggestion:
    keep, absorb = sorted((one, other), key=lambda category: (not category.known, -category.count, category.id))
    return Suggestion(keep.id, absorb.id, gain, (keep.label, absorb.label), (keep.count, absorb.count))


def densities_that_tell(plugins: Plugins | None = None) -> list[str]:
    """The installed densities that know what a merge is worth."""
    plugins = plugins or installed()
    return [name for name in plugins.names("density") if _tells(plugins, name)]


def _tells(plugins: Plugins, name: str) -> bool:
    try:
        return is_mergeable(choose(plugins, "density", {"plugin": name}, "density").create())
    except OperatorError:
        # Not usable here, or not without options: then it is no advice either.
        return False
