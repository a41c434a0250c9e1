"""Commits: answers, dead letters, the input position and the state become visible together or not at all."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from speciate import snapshot
from speciate.stages import Sink, StateStore
from speciate.task import Outcome
from speciate.threads import in_thread
from speciate_schemas import Commit, Position, Tally, TaskState


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
        dead_letters: Sink,
        store: StateStore,
        seal: Callable[[Commit, TaskState], bytes],
        snapshots_kept: int,
        snapshot_first: bool,
    ) -> None:
        self._answers = answers
        self._dead_letters = dead_letters
        self._store = store
        self._seal = seal
        self._kept = snapshots_kept
        self._snapshot_first = snapshot_first
        self._committing: asyncio.Task[None] | None = None
        self._saving: asyncio.Future[None] | None = None

    @property
    def saving(self) -> bool:
        """True while a snapshot is being written."""
        return self._saving is not None and not self._saving.done()

    async def write(self, outcomes: Sequence[Outcome]) -> None:
        """Hand outcomes to the sinks; they count once `commit` has returned."""
        dead = [outcome.dead_letter for outcome in outcomes if outcome.dead_letter is not None]
        if dead:
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
        self._committing = asyncio.create_task(self._commit(point, snapshot_first=snapshot_first))
        await asyncio.shield(self._committing)

    async def _commit(self, point: CommitPoint, *, snapshot_first: bool) -> None:
        commit = Commit(
            sequence=point.sequence,
            source=point.source,
            answers=await self._answers.flush(),
            dead_letters=await self._dead_letters.flush(),
            tally=point.tally,
        )
        # A snapshot holds its commit. Where the input cannot be read again it must never lag behind the commit file.
        if point.state is not None and snapshot_first:
            await in_thread(None, self._save, commit, point.state)
        await in_thread(None, self._store.save_commit, commit)
        if point.state is not None and not snapshot_first:
            await self.settle()
            self._saving = in_thread(None, self._save, commit, point.state)

    async def settle(self) -> None:
        """Wait for a snapshot under way; raises what went wrong with it."""
        if self._saving is not None:
            await asyncio.shield(self._saving)
            self._saving = None

    async def close(self) -> None:
        """Let what is under way come to its end; how it ended no longer matters, another error ended the run."""
        await _ended(self._committing)
        # Looked at only now: the commit may have been about to begin it.
        await _ended(self._saving)

    def _save(self, commit: Commit, state: TaskState) -> None:
        self._store.save_snapshot(commit.sequence, self._seal(commit, state))
        snapshot.prune(self._store, self._kept)


async def _ended(task: asyncio.Future[None] | None) -> None:
    if task is not None:
        await asyncio.wait({task})
        _ = task.cancelled() or task.exception()


def sealer(config: dict[str, Any], plugins: dict[str, str]) -> Callable[[Commit, TaskState], bytes]:
    """How this run's snapshots are made: with its configuration and its plugins' versions."""

    def seal(commit: Commit, state: TaskState) -> bytes:
        return snapshot.build(commit, state, config=config, plugins=plugins)

    return seal
