"""What a page is about: a pipeline that runs, or a state that was left behind. The page asks both the same."""

from collections.abc import Callable
from typing import NamedTuple, Protocol, TypeVar

from speciate.audience import Audience
from speciate.errors import UnknownCategoryError
from speciate.instruments import Instruments
from speciate.pipeline import Inside
from speciate_schemas import Control
from speciate_schemas.page import StateView

T = TypeVar("T")


class Where(NamedTuple):
    """A set of categories."""

    task: int
    stream: str | None
    """None where all streams of the task share them."""


def no_set(where: Where) -> UnknownCategoryError:
    """What is raised where there is no such set."""
    return UnknownCategoryError(f"there are no categories of task {where.task}, stream {where.stream!r}")


def no_category(number: int) -> UnknownCategoryError:
    """What is raised where there is none of this number."""
    return UnknownCategoryError(f"there is no category {number}: it was merged, forgotten or never born")


class Subject(Protocol):
    """Answers the page's questions, on the page's own loop. Whatever takes longer than it should is a `StuckError`."""

    audience: Audience
    """Who is told of the answers."""

    @property
    def instruments(self) -> Instruments:
        """Where refusals are counted."""

    async def metrics(self) -> str:
        """Every metric, for Prometheus."""

    async def unready(self) -> list[str]:
        """Why it is not ready; empty when all is well."""

    async def turn(self) -> None:
        """Return if the process turns."""

    async def state(self) -> StateView:
        """How it is, without the sets of categories, which `universes` and `look` tell."""

    async def universes(self) -> list[Where]:
        """The sets of categories there are."""

    async def look(self, where: Where, function: Callable[[Inside], T], *, leaving: float = 0.0) -> T:
        """Look at a set of categories with a quick function, between two batches.

        Only once more than `leaving` seconds of what looking may cost are left for others. Raises
        `UnknownCategoryError` if there is no such set.
        """

    async def work(self, function: Callable[[], T], *, apart: bool = False) -> T:
        """Make something of what was seen: as soon as that may be done, and `apart` from the loop if it takes long."""

    async def send(self, task: int, control: Control) -> str:
        """Have something changed by hand; where the control event was put. Raises `OperatorError` if it cannot be."""
