"""A pipeline: one configuration, opened, restored, run to its end and closed."""

import asyncio
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from speciate import restore
from speciate.commit import CommitPoint, Committer, sealer
from speciate.config import Resolved, load, parse, resolve
from speciate.errors import SpeciateError
from speciate.flow import Flow
from speciate.plugins import Plugins, installed
from speciate.report import Report, Status
from speciate.restore import Parts


class Pipeline:
    """Runs one configuration once, from where it was left to the end of its source or until `stop`."""

    def __init__(self, resolved: Resolved, *, plugins: Plugins | None = None, fresh: bool = False) -> None:
        self._resolved = resolved
        self._plugins = plugins or installed()
        self._fresh = fresh
        self._parts = Parts.of(resolved)
        self._flow: Flow | None = None
        self._stopped = False

    def stop(self) -> None:
        """Read no more; decide, commit and save what was read, then end."""
        self._stopped = True
        if self._flow is not None:
            self._flow.stop()

    async def run(self) -> Report:
        """Run to the end. Raises the first error; what was committed until then stays."""
        try:
            async with self._opened() as flow:
                if self._stopped:
                    flow.stop()
                await flow.run()
                return self._report(flow)
        except BaseExceptionGroup as group:
            error = _first(group)
            raise error from error.__cause__

    def status(self) -> Status | None:
        """How it stands right now; None before it has started."""
        return None if self._flow is None else self._status(self._flow)

    @asynccontextmanager
    async def _opened(self) -> AsyncIterator[Flow]:
        """Everything open and restored; closed again whatever happens."""
        parts, config = self._parts, self._resolved.config
        async with AsyncExitStack() as stack:
            stack.callback(parts.store.close)
            for closing in (parts.answers, parts.dead_letters, parts.source):
                stack.push_async_callback(closing.close)
            # What --fresh is about to discard stays until the new head is there.
            head = await restore.fit(parts, self._resolved) if self._fresh else None
            start = await restore.start(parts, self._resolved, self._plugins, fresh=self._fresh)
            committer = Committer(
                answers=parts.answers,
                dead_letters=parts.dead_letters,
                store=parts.store,
                seal=sealer(self._resolved.fold, self._resolved.versions),
                snapshots_kept=config.commit.snapshots_kept,
                snapshot_first=not parts.source.replayable,
            )
            stack.push_async_callback(committer.close)
            if start is None:
                head = head or await restore.fit(parts, self._resolved)
                start = await restore.begin(parts, self._resolved, head, fresh=self._fresh)
                await committer.begin(CommitPoint(0, None, start.task.tally, start.task.state()))
            self._flow = Flow(config, parts, start, committer)
            yield self._flow

    def _status(self, flow: Flow) -> Status:
        task = flow.task
        return Status(
            tally=flow.tally,
            sequence=task.sequence,
            categories=task.head.size,
            head_bytes=task.head.nbytes,
            progress=self._parts.source.progress(),
            stages=flow.times,
            answered=flow.answered,
            seconds=time.perf_counter() - flow.began,
        )

    def _report(self, flow: Flow) -> Report:
        return Report(
            status=self._status(flow),
            stopped=self._stopped,
            resumed_at=flow.start.commit.sequence,
            latency_p50=flow.latency.quantile(0.50),
            latency_p99=flow.latency.quantile(0.99),
            answers=self._parts.answers.describe(),
            dead_letters=self._parts.dead_letters.describe(),
            state=self._parts.store.describe(),
        )


def run(config: str | Path | Mapping[str, Any], *, overrides: Sequence[str] = (), fresh: bool = False) -> Report:
    """Run a configuration file, or one given as nested mappings, to its end.

    `overrides` are `"section.key=value"` as on the command line; `fresh` discards earlier state and outputs.
    """
    plugins = installed()
    parsed = parse(config, overrides=overrides) if isinstance(config, Mapping) else load(Path(config), overrides)
    return asyncio.run(Pipeline(resolve(parsed, plugins), plugins=plugins, fresh=fresh).run())


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The error to show of several at once: one of ours, if there is one."""
    leaves: list[BaseException] = []
    pending: list[BaseException] = [group]
    while pending:
        error = pending.pop(0)
        if isinstance(error, BaseExceptionGroup):
            pending.extend(error.exceptions)
        else:
            leaves.append(error)
    return next((error for error in leaves if isinstance(error, SpeciateError)), leaves[0])
