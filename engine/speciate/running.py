"""One task, from the opening of its stages to the end of its source."""

import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Literal, NamedTuple

from structlog.contextvars import bound_contextvars

from speciate import restore
from speciate.commit import CommitPoint, Committer, sealer
from speciate.errors import ConfigError, SpeciateError
from speciate.flow import Flow
from speciate.household import Household
from speciate.logs import get_logger
from speciate.pacing import Paced
from speciate.parts import Parts
from speciate.restore import Start
from speciate.stages import Seat, is_transactional
from speciate.steering import Steered, steer
from speciate.takeover import Ready, take_over
from speciate.task import Task
from speciate.threads import in_thread
from speciate.tracing import span

log = get_logger(__name__)


class Unready(NamedTuple):
    """Why something is not being worked on."""

    condition: Literal["waiting", "restoring", "away", "stopping"]
    reason: str
    task: int | None = None

    def told(self, *, alone: bool) -> str:
        """A line for people; `alone` if nothing beside it tells the condition."""
        place = [] if self.task is None else [f"task {self.task}"]
        named = [self.condition] if alone and self.condition in ("restoring", "away") else []
        return ": ".join([*place, *named, self.reason])


class TaskRun:
    """Runs one task once: opened, restored, run to its end and closed."""

    def __init__(self, household: Household, seat: Seat, *, fresh: bool = False, ready: Ready | None = None) -> None:
        self._household = household
        self.seat = seat
        self._fresh = fresh
        self._ready = ready
        self.parts = Parts.of(household.resolved, seat, household.encoder)
        self._paced: Paced | None = None
        if (pace := household.resolved.config.run.pace) != "max":
            self.parts.source = self._paced = Paced(self.parts.source, pace)
        # Around the pace: a control event does not wait until the next record is due.
        steer(self.parts, household.resolved)
        self.flow: Flow | None = None
        self._doing = Unready("waiting", "starting")
        self._stopped = False

    @property
    def unready(self) -> Unready | None:
        """Why it does not answer yet; None once it is restored, and has caught up with what was answered before."""
        if self.flow is None:
            return self._doing
        left = self.flow.to_refold
        return Unready("restoring", f"{left} inputs to be folded again") if left else None

    def stop(self) -> None:
        """Read no more; decide, commit and save what was read, then end."""
        self._stopped = True
        if self.flow is not None:
            self.flow.stop()
        else:
            # It may be waiting for others while it opens.
            self.parts.source.stop()

    async def run(self) -> None:
        """Run to the end. Raises the first error; what was committed until then stays."""
        try:
            with bound_contextvars(task=self.seat.number):
                async with self._opened() as flow:
                    if self._stopped:
                        flow.stop()
                    await flow.run()
        except BaseExceptionGroup as group:
            error = _first(group)
            raise error from error.__cause__

    @asynccontextmanager
    async def _opened(self) -> AsyncIterator[Flow]:
        """Everything open and restored; closed again whatever happens."""
        parts, resolved = self.parts, self._household.resolved
        instruments = self._household.instruments.task(self.seat.number)
        began = time.monotonic()
        async with AsyncExitStack() as stack:
            if parts.store is not None:
                # Off the loop: a store whose service is away takes a while to let go of it.
                stack.push_async_callback(in_thread, None, parts.store.close)
            for sink in parts.sinks:
                stack.push_async_callback(sink.close)
            stack.push_async_callback(parts.source.close)
            if self._household.encoder is not None:
                self._doing = Unready("waiting", "loading the encoder")
            await self._household.load_encoder()
            self._doing = Unready("restoring", "opening its input and outputs")
            with span("restore", task=self.seat.number):
                start = await self._start()
            answered = start.replay.until
            if isinstance(parts.source, Steered):
                answered = parts.source.free_from(answered)
            if self._paced is not None:
                self._paced.unpaced_before = answered
            committer = Committer(
                answers=parts.answers,
                dead_letters=parts.dead_letters,
                store=parts.store,
                seal=sealer(resolved.fold, resolved.versions),
                snapshots_kept=resolved.config.commit.snapshots_kept,
                snapshot_first=not parts.source.replayable,
                instruments=instruments,
            )
            stack.push_async_callback(committer.close)
            if start.new:
                state = start.task.state() if isinstance(start.task, Task) else None
                await committer.begin(CommitPoint(0, start.commit.source, start.task.tally, state))
            audience = self._household.audience
            tell = None if audience is None else partial(audience.note, task=self.seat.number)
            self.flow = Flow(resolved.config, parts, start, committer, instruments, tell=tell)
            self._tell(start, time.monotonic() - began)
            if not start.new:
                instruments.restores.observe(time.monotonic() - began)
            yield self.flow

    def _tell(self, start: Start, seconds: float) -> None:
        """What was taken over, for whoever asks later why a task stood still; a run of one's own is no news."""
        (log.info if self.parts.answers.transactional else log.debug)(
            "task taken over",
            task=self.seat.number,
            sequence=start.commit.sequence,
            folded_again=start.replay.until - start.task.sequence,
            followed=start.followed,
            seconds=round(seconds, 3),
        )

    async def _start(self) -> Start:
        parts, home = self.parts, self._household
        if is_transactional(parts.answers):
            if self._fresh:
                await parts.answers.open(None, fresh=True)
                raise ConfigError(f"{parts.answers.describe()} cannot be emptied: start over with new outputs")
            return await take_over(parts, parts.answers, home, self._ready)
        if self._fresh and home.resolved.decides:
            # What --fresh is about to discard stays until the new head is there.
            await home.fitted()
        start = await restore.start(parts, home, fresh=self._fresh)
        return start or await restore.begin(parts, home, fresh=self._fresh)


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
