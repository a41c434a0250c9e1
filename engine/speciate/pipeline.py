"""A pipeline: one configuration, run by this process alone or as a worker of a group."""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from speciate.alone import Alone
from speciate.audience import Audience
from speciate.chronicle import Chronicle
from speciate.config import Resolved, load, parse, resolve
from speciate.errors import ConfigError, UnknownCategoryError
from speciate.flow import Flow
from speciate.head import Head
from speciate.household import Household
from speciate.instruments import Instruments
from speciate.plugins import Plugins, installed
from speciate.readings import refresh
from speciate.report import Report, Status
from speciate.running import Unready
from speciate.stages import Share
from speciate.steering import send_control, uncontrollable
from speciate.task import Task
from speciate.threads import T, in_thread
from speciate.worker import Worker
from speciate_schemas import Control


class Inside(NamedTuple):
    """A set of categories, as it is between two batches."""

    head: Head
    chronicle: Chronicle
    sequence: int
    """Number of the next input."""


class Pipeline:
    """Runs one configuration once, from where it was left to the end of its source or until `stop`."""

    def __init__(self, resolved: Resolved, *, plugins: Plugins | None = None, fresh: bool = False) -> None:
        share = _share_of(resolved)
        if fresh and not isinstance(share, Alone):
            raise ConfigError("--fresh cannot empty what several workers share: start over with new outputs and state")
        self._household = Household(resolved, plugins or installed())
        self._worker = Worker(self._household, share, fresh=fresh)
        self._stopped = False
        self._began = time.perf_counter()

    def stop(self) -> None:
        """Read no more; decide, commit and save what was read, then end."""
        self._stopped = True
        self._worker.stop()

    async def run(self) -> Report:
        """Run to the end. Raises the first error; what was committed until then stays."""
        self._began = time.perf_counter()
        try:
            await self._worker.run()
        finally:
            await in_thread(None, self._household.close)
        return Report.of(self._worker.runs, self._worker.ledger, self._seconds, stopped=self._stopped)

    def status(self) -> Status | None:
        """How it stands right now; None before it has started."""
        return Status.of(self._worker.runs, self._worker.ledger, self._seconds)

    def instruments(self) -> Instruments:
        """Everything that is counted, as of now; ask on the loop that runs the pipeline, read anywhere."""
        refresh(self._worker)
        return self._worker.instruments

    def unready(self) -> list[Unready]:
        """Why it is not ready; empty when every task is restored and connected."""
        return self._worker.unready

    @property
    def audience(self) -> Audience | None:
        """Who is told of the answers as they are handed to the sink; to be set before it runs."""
        return self._household.audience

    @audience.setter
    def audience(self, audience: Audience | None) -> None:
        self._household.audience = audience

    def universes(self) -> list[tuple[int, str | None]]:
        """The sets of categories there are here: each task's, or where streams have categories of their own, those."""
        return [
            (number, stream if task.universe.per_stream else None)
            for number, flow in self._flows().items()
            if isinstance(task := flow.task, Task)
            for stream in task.universe.streams
        ]

    async def look_into(self, task: int, stream: str | None, function: Callable[[Inside], T]) -> T:
        """Look at one set of categories, between two batches; quickly, for the stream waits meanwhile.

        Raises:
            UnknownCategoryError: if there is no such set here.
        """
        flow = self._flows().get(task)
        if flow is None:
            raise UnknownCategoryError(f"task {task} is not at work here: it has ended, or another worker has it")

        def look(folded: Task) -> T:
            head = folded.universe.existing(stream or "")
            return function(Inside(head, folded.chronicle(stream or ""), folded.sequence))

        return await flow.ask(look)

    async def send(self, task: int, control: Control) -> str:
        """Have something changed by hand, in its turn among the inputs; where the control event was put."""
        return await send_control(self._household.resolved, task, control)

    def uncontrollable(self) -> str:
        """Why nothing can be changed by hand; empty if it can."""
        return uncontrollable(self._household.resolved)

    def _flows(self) -> dict[int, Flow]:
        return {run.seat.number: run.flow for run in self._worker.runs if run.flow is not None}

    @property
    def _seconds(self) -> float:
        return time.perf_counter() - self._began


def _share_of(resolved: Resolved) -> Share:
    """How the source is shared with other workers; not at all, if nobody asks for it."""
    source, run = resolved["source"], resolved.config.run
    if source.provider.share is None:
        return Alone()
    if run.overflow != "block":
        raise ConfigError(f"run.overflow is {run.overflow!r}: what is in a log is never dropped, leave it at 'block'")
    return source.provider.share(source.options, run.universe == "shared") or Alone()


def run(config: str | Path | Mapping[str, Any], *, overrides: Sequence[str] = (), fresh: bool = False) -> Report:
    """Run a configuration file, or one given as nested mappings, to its end.

    `overrides` are `"section.key=value"` as on the command line; `fresh` discards earlier state and outputs.
    """
    plugins = installed()
    parsed = parse(config, overrides=overrides) if isinstance(config, Mapping) else load(Path(config), overrides)
    resolved = resolve(parsed, plugins)

    async def run_pipeline() -> Report:
        return await Pipeline(resolved, plugins=plugins, fresh=fresh).run()

    return asyncio.run(run_pipeline())
