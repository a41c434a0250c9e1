"""A worker: one process of a group, which runs the tasks that fall to it and lets go of those that do not.

Who owns a task is settled by fencing, not by the group: whoever takes a task over shuts the former owner out. So a
rebalance disturbs no task that stays where it is, and a worker that was believed dead and is not does no harm.
"""

import asyncio
import time
from dataclasses import dataclass, field

from speciate.endurance import STEADY_SECONDS, Backoff, enduring, pausing
from speciate.errors import AwayError, FencedError, StateLockedError
from speciate.household import Household
from speciate.instruments import Instruments
from speciate.logs import get_logger
from speciate.parts import Parts
from speciate.report import Ledger
from speciate.running import TaskRun, Unready
from speciate.stages import Seat, Share
from speciate.standby import Follower
from speciate.takeover import Ready

GRACE_SECONDS = 15.0
"""How long a stop may take to commit and save; after that the next owner does again what is not committed. With what
closing takes it is less than the 30 s that service managers such as Kubernetes wait before they kill."""

log = get_logger(__name__)


@dataclass
class _Owned:
    """A task that is ours: the attempt under way, and whatever repeats it."""

    run: TaskRun
    running: asyncio.Task[None]
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    failed: tuple[TaskRun, str] | None = None
    """The last attempt that ended because something was away, and what was."""

    @property
    def away(self) -> str:
        """What is away, from the failure of an attempt until the next one is open."""
        if self.failed is None or (self.failed[0] is not self.run and self.run.flow is not None):
            return ""
        return self.failed[1]

    @property
    def unready(self) -> Unready | None:
        """Why the task is not being worked on; None if it is."""
        return Unready("away", self.away) if self.away else self.run.unready

    def stop(self) -> None:
        """Finish what was read, and try no more: another attempt would shut out whoever has the task next."""
        self.stopping.set()
        self.run.stop()


class Worker:
    """Runs this process's share of the tasks until it is stopped, or all of them have come to their end."""

    def __init__(self, household: Household, share: Share, *, fresh: bool = False) -> None:
        self._household = household
        self._share = share
        self._fresh = fresh
        self._count = 0
        self._owned: dict[int, _Owned] = {}
        self._ended: set[int] = set()
        self._followers: dict[int, Follower] = {}
        self._stopping = asyncio.Event()
        self._fencings = Backoff()
        self._fenced_at = 0.0
        self._done: dict[int, TaskRun] = {}
        self._placed = False
        self._outside = Unready("waiting", "starting")
        self.ledger = Ledger()
        """Attempts that are over and were not the last of their task here."""

    @property
    def runs(self) -> list[TaskRun]:
        """The last attempt at each of our tasks."""
        return [*({**self._done, **{number: owned.run for number, owned in self._owned.items()}}.values())]

    @property
    def owned(self) -> dict[int, _Owned]:
        """Our tasks, by number."""
        return dict(sorted(self._owned.items()))

    @property
    def followed(self) -> int:
        """How many tasks of others are followed."""
        return len(self._followers)

    @property
    def instruments(self) -> Instruments:
        """What is counted here."""
        return self._household.instruments

    @property
    def unready(self) -> list[Unready]:
        """Why not all is well; empty when every task that is ours is restored and connected."""
        if self._stopping.is_set():
            return [Unready("stopping", "stopping")]
        if not self._placed:
            return [self._outside]
        found = [(number, owned.unready) for number, owned in self.owned.items()]
        return [one._replace(task=number) for number, one in found if one is not None]

    def stop(self) -> None:
        """Let every task finish what it has read, then leave the group."""
        self._stopping.set()
        for owned in self._owned.values():
            owned.stop()

    async def run(self) -> None:
        """Take part in the group. Raises the first error that trying again does not mend."""
        try:
            self._count = await self._joined()
            if self._count:
                await self._take_part()
        except asyncio.CancelledError:
            await self._let_go(0.0)
            raise
        except BaseException:
            # What the others end with is of no interest any more: the first error is the one to raise.
            await self._let_go(self._grace)
            raise
        failure = await self._let_go(self._grace)
        if failure is not None:
            raise failure

    async def _joined(self) -> int:
        """Join, as soon as there is somebody to join; whoever is stopped meanwhile need not wait for it."""
        count = 0

        async def join() -> None:
            nonlocal count
            try:
                count = await self._share.join()
            except AwayError as error:
                self._outside = Unready("away", str(error))
                raise
            self._outside = Unready("waiting", "waiting for a share of the tasks")

        joining = asyncio.create_task(enduring(join, self._stopping))
        stopping = asyncio.create_task(self._stopping.wait())
        try:
            await asyncio.wait({joining, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if joining.done():
                joining.result()
            return count
        finally:
            for task in (joining, stopping):
                await _cancelled(task)

    async def _take_part(self) -> None:
        changed: asyncio.Task[frozenset[int]] | None = None
        stopping = asyncio.create_task(self._stopping.wait())
        try:
            # Even if it is to stop: a process that has its source to itself opens it, and leaves a state behind.
            while True:
                changed = changed or asyncio.create_task(self._share.changed())
                watched = {changed, stopping, *(owned.running for owned in self._owned.values())}
                await asyncio.wait(watched, return_when=asyncio.FIRST_COMPLETED)
                await self._notice_ends()
                if changed.done():
                    share, changed = changed.result(), None
                    await self._arrange(share)
                if self._stopping.is_set() or (self._ended and not self._owned):
                    return
        finally:
            for task in (changed, stopping):
                if task is not None:
                    await _cancelled(task)

    async def _arrange(self, share: frozenset[int]) -> None:
        """Let go of what is no longer ours, take over what is new, follow some of the rest."""
        if self._count > 1:
            log.info("share of the tasks", tasks=sorted(share), of=self._count)
        for number in self._ended - share:
            self.ledger.add(self._done.pop(number))
        self._ended &= share
        gone = {number: self._owned[number] for number in sorted(self._owned.keys() - share)}
        for owned in gone.values():
            owned.stop()
        for number in sorted(share - self._owned.keys() - self._ended):
            self._take(number)
        self._placed = True
        await self._drop(gone)
        await self._follow_some(share)

    def _take(self, number: int) -> None:
        follower = self._followers.pop(number, None)
        first = TaskRun(self._household, self._seat(number), fresh=self._fresh, ready=_ready(follower))
        self._fresh = False
        owned = _Owned(first, asyncio.create_task(asyncio.sleep(0)))
        owned.running = asyncio.create_task(self._keep_running(owned, follower))
        self._owned[number] = owned

    async def _keep_running(self, owned: _Owned, follower: Follower | None) -> None:
        """Attempt after attempt while something is away; each with stages of its own, none of which outlives it."""
        number, attempts = owned.run.seat.number, 0

        async def attempt() -> None:
            nonlocal attempts
            attempts += 1
            if attempts > 1:
                self.ledger.add(owned.run)
                owned.run = TaskRun(self._household, self._seat(number), ready=_ready(follower))
            try:
                await owned.run.run()
            except StateLockedError as error:
                if not owned.run.parts.answers.transactional:
                    raise
                # Its former owner is on this machine and has not noticed yet.
                owned.failed = (owned.run, str(error))
                raise AwayError(str(error)) from error
            except AwayError as error:
                owned.failed = (owned.run, str(error))
                self.instruments.task(number).away.add()
                raise

        try:
            await enduring(attempt, owned.stopping, task=number)
        finally:
            if follower is not None:
                await follower.let_go()

    async def _notice_ends(self) -> None:
        """Tasks that ended by themselves: at the end of their input, fenced, or with an error that is ours to raise."""
        if not self._take_out_ended():
            return
        if time.monotonic() - self._fenced_at > STEADY_SECONDS:
            self._fencings.reset()
        self._fenced_at = time.monotonic()
        await pausing(self._fencings.next(), self._stopping)
        # Who was frozen is shut out of one task after another: a single new place in the group does for all of them.
        self._take_out_ended()
        if not self._stopping.is_set():
            self._placed = False
            await self._share.rejoin()

    def _take_out_ended(self) -> bool:
        """Whether one of the tasks that ended was fenced."""
        fenced = False
        for number, owned in list(self._owned.items()):
            if not owned.running.done():
                continue
            del self._owned[number]
            try:
                owned.running.result()
                self._ended.add(number)
                self._done[number] = owned.run
            except FencedError as error:
                self.ledger.add(owned.run)
                self.instruments.task(number).fenced.add()
                log.warning("another worker has taken over", task=number, reason=str(error))
                fenced = True
        return fenced

    async def _drop(self, gone: dict[int, _Owned]) -> None:
        """Let tasks finish what was read, if their new owners let us; those do again what is not committed."""
        if gone:
            await asyncio.wait({owned.running for owned in gone.values()}, timeout=self._grace)
        # All at once: each may take seconds to let go of what is away.
        await asyncio.gather(*(_cancelled(owned.running) for owned in gone.values()))
        for number, owned in gone.items():
            del self._owned[number]
            self.ledger.add(owned.run)

    async def _follow_some(self, share: frozenset[int]) -> None:
        """Follow as many tasks of others as the configuration says, beginning behind our own: so workers differ."""
        resolved = self._household.resolved
        # What only hands events on has no state to be followed.
        wanted = resolved.config.run.standby if resolved.decides else 0
        first = max(share, default=-1) + 1
        others = [(first + step) % self._count for step in range(self._count)]
        chosen = [number for number in others if number not in share][:wanted]
        for number in sorted(self._followers):
            if number not in chosen or self._followers[number].ended:
                await self._followers.pop(number).let_go()
        for number in chosen:
            if number not in self._followers:
                self._followers[number] = self._follower(number)
        self._share.keep_ready(share | frozenset(chosen))

    def _follower(self, number: int) -> Follower:
        home = self._household
        follower = Follower(lambda: Parts.of(home.resolved, self._seat(number), home.encoder), home, number)
        follower.start()
        return follower

    async def _let_go(self, grace: float | None) -> BaseException | None:
        """End everything and leave; the first failure of a task that nobody has heard of yet."""
        for owned in self._owned.values():
            owned.stop()
        running = {owned.running for owned in self._owned.values()}
        if running:
            await asyncio.wait(running, timeout=grace)
        failures = await asyncio.gather(*(_cancelled(task) for task in running))
        self._done |= {number: owned.run for number, owned in self._owned.items()}
        self._owned.clear()
        for follower in self._followers.values():
            await follower.let_go()
        await self._share.leave()
        return next(
            (one for one in failures if one is not None and not isinstance(one, (FencedError, AwayError))), None
        )

    @property
    def _grace(self) -> float | None:
        """A disk is waited for; a log may be away, and what is not committed to it is safe all the same."""
        runs = [owned.run for owned in self._owned.values()]
        return GRACE_SECONDS if any(run.parts.answers.transactional for run in runs) else None

    def _seat(self, number: int) -> Seat:
        return Seat(number, self._count)


def _ready(follower: Follower | None) -> Ready | None:
    return None if follower is None else follower.catch_up


async def _cancelled(task: asyncio.Task[object]) -> BaseException | None:
    """End a task; what it had raised by then, if anything."""
    task.cancel()
    # It does not raise what the task ends with; being cancelled ourselves is for whoever called us.
    await asyncio.wait({task})
    return None if task.cancelled() else task.exception()
