"""Sources and sinks that block on files, made asynchronous: each runs on a thread of its own.

A plugin author writes plain functions; the engine's event loop never waits for a disk.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

from speciate.errors import OutputError, SourceError
from speciate.stages import Output, Progress, Record
from speciate.threads import P, T, in_thread
from speciate_schemas import Answer, Position

POLL_SECONDS = 0.05


class _OwnThread:
    """Runs calls one after another on one thread."""

    # On the class, so that a plugin's constructor need not call ours.
    _executor: ThreadPoolExecutor | None = None

    async def _call(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        if self._executor is None:
            self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix=type(self).__name__)
        return await in_thread(self._executor, function, *args, **kwargs)

    def _end_thread(self) -> None:
        if self._executor is not None:
            self._executor.shutdown(wait=False)
            self._executor = None


class BlockingSource(_OwnThread, ABC):
    """A source written as plain functions. `read_now` returns what is there without waiting for more."""

    replayable = True
    waited = 0.0

    _stopping = False

    @abstractmethod
    def open_now(self, position: Position | None, sequence: int) -> None:
        """Get ready to yield record number `sequence`, which follows `position`."""

    @abstractmethod
    def read_now(self, max_events: int) -> Sequence[Record] | None:
        """At most `max_events` records; empty if none is there yet, None at the end."""

    def rest_now(self, max_events: int) -> Sequence[Record]:  # noqa: ARG002  # for those who cannot read again
        """After `stop`: records of bytes already taken from where they cannot be read again; empty when all are out."""
        return ()

    @abstractmethod
    def progress(self) -> Progress:
        """How much has been read, and of how much."""

    def close_now(self) -> None:
        """Let go of everything; may be called more than once."""

    async def open(self, position: Position | None, sequence: int) -> Position | None:
        """See `Source`."""
        self._stopping = False
        try:
            await self._call(self.open_now, position, sequence)
        except OSError as error:
            raise SourceError(f"cannot read the input: {error}") from error
        return position

    def expect(self, origins: Sequence[str]) -> None:
        """See `Source`. Files and pipes have one order."""

    async def read(self, max_events: int) -> Sequence[Record]:
        """See `Source`."""
        while not self._stopping:
            try:
                records = await self._call(self.read_now, max_events)
            except OSError as error:
                raise SourceError(f"cannot read the input: {error}") from error
            if records is None:
                return ()
            if records:
                return records
            self.waited += POLL_SECONDS
            await asyncio.sleep(POLL_SECONDS)
        return await self._call(self.rest_now, max_events)

    def stop(self) -> None:
        """See `Source`."""
        self._stopping = True

    async def close(self) -> None:
        """See `Source`."""
        await self._call(self.close_now)
        self._end_thread()


class BlockingSink(_OwnThread, ABC):
    """A sink written as plain functions."""

    durable = True
    transactional = False

    @abstractmethod
    def open_now(self, position: Position | None, *, fresh: bool) -> None:
        """Get ready to write behind `position`, removing whatever lies there; None: it must be empty, or `fresh`."""

    @abstractmethod
    def write_now(self, items: Sequence[Output]) -> None:
        """Write, in order."""

    @abstractmethod
    def flush_now(self) -> Position:
        """Make everything written survive a crash; where it ends."""

    @abstractmethod
    def read_back_now(self, start: Position, end: Position) -> Iterator[Sequence[Answer]]:
        """What was written between two positions, in order, in pieces of bounded size."""

    @abstractmethod
    def describe(self) -> str:
        """For people: where it is; a path, say."""

    def locate(self, sequence: int) -> str:
        """Where the item for this input is to be found."""
        return f"{self.describe()}#{sequence}"

    def close_now(self) -> None:
        """Let go of everything; may be called more than once."""

    async def open(self, position: Position | None, *, fresh: bool = False) -> None:
        """See `Sink`."""
        try:
            await self._call(self.open_now, position, fresh=fresh)
        except OSError as error:
            raise OutputError(f"cannot open the output: {error}") from error

    async def write(self, items: Sequence[Output]) -> None:
        """See `Sink`."""
        try:
            await self._call(self.write_now, items)
        except OSError as error:
            raise OutputError(f"cannot write the output: {error}") from error

    async def flush(self) -> Position:
        """See `Sink`."""
        try:
            return await self._call(self.flush_now)
        except OSError as error:
            raise OutputError(f"cannot write the output: {error}") from error

    async def read_back(self, start: Position, end: Position) -> AsyncIterator[Sequence[Answer]]:
        """See `Sink`."""
        pieces = self.read_back_now(start, end)
        try:
            while (piece := await self._call(next, pieces, None)) is not None:
                yield piece
        except OSError as error:
            raise OutputError(f"cannot read the output back: {error}") from error

    async def close(self) -> None:
        """See `Sink`."""
        await self._call(self.close_now)
        self._end_thread()
