"""Commits: answers, dead letters, the input position and the state become visible together or not at all."""

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from speciate import snapshot
from speciate.instruments import Instruments, TaskInstruments
from speciate.logs import get_logger
from speciate.outcomes import Outcome
from speciate.stages import Sink, StateStore, is_transactional
from speciate.threads import in_thread
from speciate.tracing import span
from speciate_schemas import Commit, Position, Tally, TaskState

CLOSING_SECONDS = 2.0
"""How long a transaction that nobody waits for any more may take to come to its end."""

log = get_logger(__name__)


class CommitPoint(NamedTuple):
    """Where the fold stood when a commit became due; with the state if a snapshot is due too."""

    sequence: int
    source: Position | None
    tally: Tally
    state: TaskState | None


class Committer:
    """The only one who writes: to the sinks, and to the state store."""

    def __init__(
        self,
        *,
        answers: Sink,
        dead_letters: Sink | None,
        store: StateStore | None,
        seal: Callable[[Commit, TaskState], bytes],
        snapshots_kept: int,
        snapshot_first: bool,
        instruments: TaskInstruments | None = None,
    ) -> None:
        self._answers = answers
        self._dead_letters = dead_letters
        self._store = store
        self._seal = seal
        self._kept = snapshots_kept
        self._snapshot_first = snapshot_first
        self._instruments = instruments or Instruments().task(0)
        self._committing: asyncio.Task[None] | None = None
        self._transaction: asyncio.Future[Position] | None = None
        self._saving: asyncio.Future[None] | None = None

    @property
    def saving(self) -> bool:
        """True while a snapshot is being written."""
        return self._saving is not None and not self._saving.done()

    async def write(self, outcomes: Sequence[Outcome]) -> None:
        """Hand outcomes to the sinks; they count once `commit` has returned."""
        dead = [outcome.dead_letter for outcome in outcomes if outcome.dead_letter is not None]
        if dead and self._dead_letters is not None:
            await self._dead_letters.write(dead)
        await self._answers.write([outcome.answer for outcome in outcomes])

    async def begin(self, point: CommitPoint) -> None:
        """The first commit: its snapshot goes first, so that there is never a commit without one to start from."""
        await self._tracked(point, snapshot_first=True)

    async def commit(self, point: CommitPoint) -> None:
        """Make everything written so far count, and start saving the state if it came along."""
        await self._tracked(point, snapshot_first=self._snapshot_first)

    async def _tracked(self, point: CommitPoint, *, snapshot_first: bool) -> None:
        """A commit once begun is finished, even if the run ends meanwhile: the store stays locked until then."""
        with span("commit", sequence=point.sequence):
            self._committing = asyncio.create_task(self._commit(point, snapshot_first=snapshot_first))
            await asyncio.shield(self._committing)

    async def _commit(self, point: CommitPoint, *, snapshot_first: bool) -> None:
        began = time.perf_counter()
        answers, dead_letters = await self._make_visible(point)
        commit = Commit(
            sequence=point.sequence, source=point.source, answers=answers, dead_letters=dead_letters, tally=point.tally
        )
        # A snapshot holds its commit. Where the input cannot be read again it must never lag behind the commit file.
        if point.state is not None and snapshot_first:
            await in_thread(None, self._save, commit, point.state)
        if self._store is not None and not self._answers.transactional:
            await in_thread(None, self._store.save_commit, commit)
        self._instruments.commits.observe(time.perf_counter() - began)
        if point.state is not None and not snapshot_first:
            await self.settle()
            self._saving = in_thread(None, self._save, commit, point.state)
            # It is raised with the next snapshot, which an idle task may never come to.
            self._saving.add_done_callback(self._tell_failure)

    async def _make_visible(self, point: CommitPoint) -> tuple[Position, Position]:
        """Where the answers and the dead letters now end. One transaction, or two files that the commit will name."""
        if is_transactional(self._answers):
            self._transaction = asyncio.ensure_future(self._answers.commit(point.sequence, point.source))
            return await self._transaction, ()
        answers = await self._answers.flush()
        return answers, () if self._dead_letters is None else await self._dead_letters.flush()

    async def settle(self) -> None:
        """Wait for a snapshot under way; raises what went wrong with it."""
        if self._saving is not None:
            await asyncio.shield(self._saving)
            self._saving = None

    async def close(self) -> None:
        """Let what is under way come to its end; how it ended no longer matters, another error ended the run.

        A disk is waited for. A log may be away, and whether its transaction came through is told when it is taken over.
        """
        await _ended(self._transaction, CLOSING_SECONDS)
        await _ended(self._committing)
        # Looked at only now: the commit may have been about to begin it.
        await _ended(self._saving, CLOSING_SECONDS if self._answers.transactional else None)

    def _save(self, commit: Commit, state: TaskState) -> None:
        assert self._store is not None  # noqa: S101  # whoever has a state has a store for it
        began = time.perf_counter()
        with span("snapshot", sequence=commit.sequence):
            sealed = self._seal(commit, state)
            self._store.save_snapshot(commit.sequence, sealed)
            snapshot.prune(self._store, self._kept)
        self._instruments.snapshots.observe(time.perf_counter() - began)
        self._instruments.saved(len(sealed))

    def _tell_failure(self, saving: asyncio.Future[None]) -> None:
        if not saving.cancelled() and saving.exception() is not None:
            self._instruments.snapshot_failures.add()
            log.warning("a snapshot was not saved", reason=str(saving.exception()))


async def _ended(task: asyncio.Future[Any] | None, patience: float | None = None) -> None:
    if task is not None:
        await asyncio.wait({task}, timeout=patience)
        task.cancel()
        await asyncio.wait({task})
        _ = task.cancelled() or task.exception()


def sealer(config: dict[str, Any], plugins: dict[str, str]) -> Callable[[Commit, TaskState], bytes]:
    """How this run's snapshots are made: with its configuration and its plugins' versions."""

    def seal(commit: Commit, state: TaskState) -> bytes:
        return snapshot.build(commit, state, config=config, plugins=plugins)

    return seal
