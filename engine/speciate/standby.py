"""Standing by: following a task of another worker, from its inputs and its committed answers, emitting nothing."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack

from structlog.contextvars import bound_contextvars

from speciate.encoding import BATCH_IMAGES, encode_records
from speciate.endurance import enduring
from speciate.errors import AwayError, SourceError
from speciate.household import Household
from speciate.logs import get_logger
from speciate.parts import Parts
from speciate.restore import LEARN_ANEW, check_made_by
from speciate.snapshot import newest_whole
from speciate.stages import Record, TransactionalSink, is_transactional
from speciate.task import Task
from speciate.threads import in_thread
from speciate_schemas import Answer

CATCH_UP_SECONDS = 30.0
"""A follower that needs longer to come to the end is no help: whoever waits for it restores instead."""

log = get_logger(__name__)


class Follower:
    """Keeps the state of one task at hand, as far as its answers are committed."""

    def __init__(self, make_parts: Callable[[], Parts], home: Household, number: int) -> None:
        self._make_parts = make_parts
        self._home = home
        self._number = number
        self._following: asyncio.Task[None] | None = None
        self._folding = asyncio.Lock()
        self._folded = asyncio.Event()
        self._task: Task | None = None

    def start(self) -> None:
        """Follow in the background until `let_go`; a failure costs only the head start it would have given."""
        self._following = asyncio.create_task(enduring(self._follow, asyncio.Event(), following=self._number))
        self._following.add_done_callback(self._tell_failure)

    async def catch_up(self, sequence: int) -> Task | None:
        """Stop following once every input before `sequence` is folded; None if this one is of no use.

        The task is handed over once: whoever has it changes it.
        """
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CATCH_UP_SECONDS):
                while self._is_behind(sequence):
                    self._folded.clear()
                    await self._folded.wait()
        await self.let_go()
        task, self._task = self._task, None
        return task if task is not None and task.sequence == sequence else None

    async def let_go(self) -> None:
        """Stop following and close everything; the task stays as it is."""
        if self._following is not None:
            # Never in the middle of a fold: what is handed over must be whole.
            async with self._folding:
                self._following.cancel()
            await asyncio.wait({self._following})

    def _is_behind(self, sequence: int) -> bool:
        """Whether waiting helps: it follows, and has not come so far yet."""
        under_way = self._following is not None and not self._following.done()
        return under_way and self._task is not None and self._task.sequence < sequence

    @property
    def ended(self) -> bool:
        """True if it follows no more, and may be replaced."""
        return self._following is not None and self._following.done()

    def _tell_failure(self, done: asyncio.Task[None]) -> None:
        self._folded.set()
        if not done.cancelled() and done.exception() is not None:
            # A fold that failed may have learnt a part of its batch: nobody must go on with that.
            self._task = None
            log.warning("following another worker's task ended", task=self._number, reason=str(done.exception()))

    async def _follow(self) -> None:
        parts = self._make_parts()
        answers = parts.answers
        assert is_transactional(answers)  # noqa: S101  # the worker follows no others
        async with AsyncExitStack() as stack:
            stack.enter_context(bound_contextvars(following=self._number))
            stack.push_async_callback(in_thread, None, parts.needed_store.close)
            stack.push_async_callback(answers.close)
            stack.push_async_callback(parts.source.close)
            async for piece in await self._open(parts, answers):
                await self._fold(parts, piece)

    async def _open(self, parts: Parts, answers: TransactionalSink) -> AsyncIterator[Sequence[Answer]]:
        snapshot = await in_thread(None, newest_whole, parts.needed_store)
        if snapshot is None:
            raise AwayError("nothing is saved of it yet")
        check_made_by(snapshot, self._home.resolved, LEARN_ANEW)
        await parts.source.open(snapshot.commit.source, snapshot.commit.sequence)
        self._task = await self._home.restored_task(snapshot.state, snapshot.commit.tally, parts.locate)
        log.info("standing by for a task of another worker", task=self._number, sequence=self._task.sequence)
        return answers.follow(snapshot.commit.answers)

    async def _fold(self, parts: Parts, answers: Sequence[Answer]) -> None:
        assert self._task is not None  # noqa: S101  # _open has made it
        parts.source.expect([answer.origin for answer in answers])
        # A few at a time: images take room, and whoever lets go of the task does not wait for more than those.
        for start in range(0, len(answers), BATCH_IMAGES):
            part = answers[start : start + BATCH_IMAGES]
            records: list[Record] = []
            while len(records) < len(part):
                read = await parts.source.read(len(part) - len(records))
                if not read:
                    raise SourceError("the input ended before its answers")
                records += read
            encoded = await in_thread(None, encode_records, records, parts.encoder)
            async with self._folding:
                # Shielded: a fold cut off half-way would leave a state that never was.
                await asyncio.shield(in_thread(None, self._task.refold, encoded, part))
            self._folded.set()
