"""A pipeline that runs, asked from the page's thread."""

import asyncio
import time
from collections.abc import Callable, Coroutine
from importlib.metadata import version
from typing import Any, NamedTuple, TypeVar

import msgspec

from speciate.audience import Audience
from speciate.exposition import expose
from speciate.instruments import Instruments
from speciate.page.asking import PATIENCE_SECONDS, Question, UnreadyError, patience
from speciate.page.budget import LOOK_SHARE, WORK_SHARE, Budget
from speciate.page.costs import Cost
from speciate.page.meter import Meter, Sample
from speciate.page.subject import Where, no_set
from speciate.pipeline import Inside, Pipeline
from speciate.report import Status
from speciate.running import Unready
from speciate_schemas import Control, Tally
from speciate_schemas.page import Condition, StateView

T = TypeVar("T")

READY_SECONDS = 0.1
"""Whether it is ready is told anew after so long: whoever sends work here must hear soon that it ends."""

WORST_FIRST: tuple[Condition, ...] = ("stopping", "away", "restoring", "waiting")


class _Reading(NamedTuple):
    status: Status | None
    uncontrollable: str
    instruments: Instruments


class _Places(NamedTuple):
    sets: list[Where]
    tasks: frozenset[int]
    shared: bool
    """Whether streams have no sets of their own."""


class Live:
    """A pipeline that runs on another loop. It is disturbed for a moment at a time, and for few of them."""

    def __init__(self, pipeline: Pipeline, loop: asyncio.AbstractEventLoop, title: str) -> None:
        self._pipeline = pipeline
        self._loop = loop
        self._title = title
        self._version = version("speciate")
        self._meter = Meter()
        self._looking, self._working = Budget(LOOK_SHARE), Budget(WORK_SHARE)
        self.audience = pipeline.audience = Audience()
        self.instruments = pipeline.instruments()
        self._metrics = Question(loop, pipeline.instruments, expose)
        self._unready = Question(loop, pipeline.unready, list[Unready], fresh=READY_SECONDS)
        self._turn = Question(loop, lambda: None, bool)
        self._universes = Question(loop, pipeline.universes, _places)
        self._state = Question(loop, self._read, self._view)

    async def metrics(self) -> str:
        """See `Subject`."""
        return await self._metrics.ask()

    async def unready(self) -> list[str]:
        """See `Subject`."""
        return [one.told(alone=True) for one in await self._unready.ask()]

    async def turn(self) -> None:
        """See `Subject`."""
        await self._turn.ask()

    async def state(self) -> StateView:
        """See `Subject`."""
        state, found = await self._state.ask(), await self._unready.ask()
        unready = [one.told(alone=False) for one in found]
        return msgspec.structs.replace(state, condition=_condition(found), unready=unready)

    async def universes(self) -> list[Where]:
        """See `Subject`."""
        return (await self._universes.ask()).sets

    async def look(self, where: Where, function: Callable[[Inside], T], *, leaving: float = 0.0) -> T:
        """See `Subject`."""
        # The head's own time: a machine that stands still meanwhile has slowed nothing that must be made up for.
        cost = Cost()

        def timed(inside: Inside) -> T:
            with cost:
                return function(inside)

        # The waiting for a turn counts as well, or the two would add up to more than a connection has.
        async with patience(PATIENCE_SECONDS, "come to it: try again"):
            await self._find(where)
            async with self._looking.turn(leaving=leaving):
                try:
                    return await self._there(self._pipeline.look_into(where.task, where.stream, timed))
                finally:
                    self._looking.spend(cost.seconds)

    async def work(self, function: Callable[[], T], *, apart: bool = False) -> T:
        """See `Subject`."""
        return await self._working.do(function, apart=apart)

    async def send(self, task: int, control: Control) -> str:
        """See `Subject`."""
        async with patience(PATIENCE_SECONDS, "sent it, but may yet: look before you send it again"):
            return await self._there(self._pipeline.send(task, control))

    async def _find(self, where: Where) -> None:
        """Raise if there cannot be such a set, or not yet: the head need not be asked for that."""
        there = await self._universes.ask()
        if where.stream is not None and there.shared:
            raise no_set(where)
        if where.task not in there.tasks and (reasons := await self.unready()):
            raise UnreadyError(f"task {where.task} has no categories yet ({'; '.join(reasons)}): try again")

    async def _there(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """What a coroutine on the pipeline's loop comes to."""
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(coroutine, self._loop))

    def _read(self) -> _Reading:
        """On the pipeline's loop."""
        one = self._pipeline
        return _Reading(one.status(), one.uncontrollable(), one.instruments())

    def _view(self, read: _Reading) -> StateView:
        status = read.status
        rates = self._meter.rates(Sample.of(time.monotonic(), status.answered if status else 0, read.instruments))
        tally = status.tally if status else Tally()
        return StateView(
            version=self._version,
            title=self._title,
            running=True,
            condition="running",
            uncontrollable=read.uncontrollable,
            suggests=False,
            unready=[],
            time=time.time(),
            seconds=status.seconds if status else 0.0,
            events_per_second=rates.events_per_second,
            answered=status.answered if status else 0,
            assigned=tally.assigned,
            births=tally.births,
            rejected=tally.rejected,
            controls=tally.controls,
            dropped=tally.dropped,
            lag=status.lag if status else None,
            lag_unit=status.progress.unit if status else "records",
            latency_p50=rates.latency_p50,
            latency_p99=rates.latency_p99,
            head_bytes=status.head_bytes if status else 0,
            stages=rates.stages,
            universes=[],
        )


def _condition(found: list[Unready]) -> Condition:
    """One word for all tasks: that of the one which waits for most."""
    there = {one.condition for one in found}
    return next((one for one in WORST_FIRST if one in there), "running")


def _places(found: list[tuple[int, str | None]]) -> _Places:
    sets = [Where(task, stream) for task, stream in found]
    return _Places(sets, frozenset(one.task for one in sets), any(one.stream is None for one in sets[:1]))
