"""A state that was left behind: looked at, and never changed."""

import asyncio
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from importlib.metadata import version
from typing import NamedTuple, TypeVar

import msgspec

from speciate.audience import Audience
from speciate.chronicle import Album, Chronicle
from speciate.errors import ConfigError
from speciate.exposition import expose
from speciate.head import Head
from speciate.instruments import Instruments
from speciate.page.subject import Where, no_set
from speciate.pipeline import Inside
from speciate.snapshot import Snapshot
from speciate_schemas import AlbumOptions, Control, Tally
from speciate_schemas.page import StateView

T = TypeVar("T")

MOST_HEADS = 4
"""Heads held ready: each may be large, and people look at one set of categories at a time."""
READ_ONLY = "this is a state that was saved: run the pipeline with --page to change it"
EVERYTHING = AlbumOptions(exemplars=1024, pictures=64, bytes=1 << 62)
"""Whatever the state has kept is shown."""


class StoppedTask(NamedTuple):
    """A task as its newest whole snapshot has it."""

    number: int
    snapshot: Snapshot
    behind: int | None = None
    """About how many records come after it; None if nobody can tell."""

    @property
    def tally(self) -> Tally:
        """What became of its inputs."""
        return self.snapshot.commit.tally


class Stopped:
    """The states of some tasks, as `Live` is a running pipeline. Heads are made of them when somebody looks."""

    def __init__(self, title: str, tasks: Sequence[StoppedTask]) -> None:
        self._tasks = {task.number: task for task in tasks}
        self._heads = {Where(task.number, name): head for task in tasks for name, head in task.snapshot.heads.items()}
        self._ready: OrderedDict[Where, Inside] = OrderedDict()
        self._turn = threading.Lock()
        self._view = _view(title, tasks)
        self.audience = Audience()
        self.instruments = Instruments()

    def check(self) -> None:
        """Raise what is wrong with the state now, before anybody looks."""
        for where in list(self._heads)[:1]:
            self._inside(where)

    async def metrics(self) -> str:
        """See `Subject`."""
        return expose(self.instruments)

    async def unready(self) -> list[str]:
        """See `Subject`."""
        return []

    async def turn(self) -> None:
        """See `Subject`."""

    async def state(self) -> StateView:
        """See `Subject`."""
        return msgspec.structs.replace(self._view, time=time.time())

    async def universes(self) -> list[Where]:
        """See `Subject`."""
        return list(self._heads)

    async def look(self, where: Where, function: Callable[[Inside], T], *, leaving: float = 0.0) -> T:  # noqa: ARG002  # nobody else needs the head
        """See `Subject`."""

        def look() -> T:
            with self._turn:
                return function(self._inside(where))

        return await asyncio.to_thread(look)

    async def work(self, function: Callable[[], T], *, apart: bool = False) -> T:
        """See `Subject`."""
        return await asyncio.to_thread(function) if apart else function()

    async def send(self, task: int, control: Control) -> str:  # noqa: ARG002  # nothing can be
        """See `Subject`."""
        raise ConfigError(READ_ONLY)

    def _inside(self, where: Where) -> Inside:
        found = self._ready.get(where)
        if found is None:
            if where not in self._heads:
                raise no_set(where)
            state = self._tasks[where.task].snapshot.state
            head, kept = Head.from_state(self._heads[where]), state.chronicles.get(where.stream or "")
            album = Album(EVERYTHING)
            chronicle = Chronicle(head, album) if kept is None else Chronicle.from_state(kept, head, album)
            found = self._ready[where] = Inside(head, chronicle, state.sequence)
            while len(self._ready) > MOST_HEADS:
                self._ready.popitem(last=False)
        self._ready.move_to_end(where)
        return found


def _view(title: str, tasks: Sequence[StoppedTask]) -> StateView:
    behind = [task.behind for task in tasks if task.behind is not None]
    heads = [head for task in tasks for head in task.snapshot.heads.values()]
    counted = {
        name: sum(getattr(task.tally, name) for task in tasks)
        for name in ("assigned", "births", "rejected", "controls", "dropped")
    }
    return StateView(
        version=version("speciate"),
        title=title,
        running=False,
        condition="stopped",
        uncontrollable=READ_ONLY,
        suggests=False,
        unready=[],
        time=0.0,
        seconds=0.0,
        events_per_second=0.0,
        answered=sum(task.snapshot.commit.sequence for task in tasks),
        **counted,
        lag=sum(behind) if len(behind) == len(tasks) else None,
        lag_unit="records",
        latency_p50=None,
        latency_p99=None,
        head_bytes=sum(array.data.nbytes for head in heads for one in head.categories for array in one.arrays.values()),
        stages={},
        universes=[],
    )
