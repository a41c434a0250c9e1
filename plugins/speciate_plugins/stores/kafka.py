"""Store `kafka`: snapshots in a compacted topic, in the partition with the number of the task.

A snapshot is cut into chunks, records with the keys `<sequence>/<number>`. The last record of every transaction is the
index, with the key `index`: which snapshots there are and at which offsets. So what there is, is what the last index
says, and a snapshot whose transaction was not committed is not there at all. Nothing is locked: who opens the store
shuts out who had it.
"""

import asyncio
import hashlib
from collections.abc import Callable, Coroutine, Sequence
from typing import Annotated, Any, TypeVar

import msgspec

from speciate.errors import ConfigError, StateDamagedError, StateMismatchError
from speciate.hooks import Provider, hookimpl
from speciate.logs import get_logger
from speciate.stages import Seat, StateStore
from speciate_plugins.kafka.connection import KafkaConnection
from speciate_plugins.kafka.inspection import inspect_topics
from speciate_plugins.kafka.loops import LoopThread
from speciate_plugins.kafka.options import TOPIC
from speciate_plugins.kafka.positions import Log
from speciate_plugins.kafka.producer import Transaction
from speciate_plugins.kafka.tail import LogReader
from speciate_schemas import Commit, decode, encode

CHUNK_BYTES = 768 << 10
"""With what Kafka adds it is still below the mebibyte that a topic takes unless told otherwise."""
RECORD_BYTES = 1024
"""More than what Kafka adds to a chunk."""
INDEX = b"index"
INDEX_LOOK = 2
"""Offsets to look at first for the index: itself and the marker of its transaction. Before it are large chunks."""
TIMEOUT_MS = 300_000
"""A snapshot of some gigabytes must get through in one transaction."""

T = TypeVar("T")
log = get_logger(__name__)


class KafkaStoreOptions(KafkaConnection, frozen=True, kw_only=True):
    """Options of the store `kafka`."""

    topic: Annotated[
        str, msgspec.Meta(min_length=1, description="The compacted topic to keep snapshots in; one partition a task.")
    ]
    transactional_id_prefix: Annotated[
        str, msgspec.Meta(min_length=1, description="How the names of our writers begin, which rights can be tied to.")
    ] = "speciate"

    def __post_init__(self) -> None:
        """Refuse a topic that cannot be."""
        super().__post_init__()
        if not TOPIC.fullmatch(self.topic) or self.topic in {".", ".."}:
            raise ValueError(
                f"topic = {self.topic!r} is no name of a topic: it has 1 to 249 letters, digits, dots, dashes or "
                "underscores"
            )


class Kept(msgspec.Struct, frozen=True):
    """A snapshot in the topic."""

    sequence: int
    first: int
    """Offset of its first chunk; the others follow without a gap."""
    chunks: int
    nbytes: int
    sha256: str


class Index(msgspec.Struct, frozen=True):
    """What the store holds."""

    snapshots: tuple[Kept, ...] = ()
    commit: Commit | None = None


class KafkaStore:
    """Keeps state in one partition of a topic."""

    def __init__(self, options: KafkaStoreOptions, seat: Seat) -> None:
        self._options = options
        self._seat = seat
        self._log = Log(options.topic, seat.number)
        self._thread = LoopThread(f"speciate store {self._log}")
        self._writer: Transaction | None = None
        self._writing = asyncio.Lock()
        # What the store holds, while we are the only one who writes.
        self._index = Index()
        self._chunk_bytes = CHUNK_BYTES

    def open(self, *, fresh: bool) -> None:
        """See `StateStore`."""
        self._thread.run(self._open(fresh=fresh))

    def load_commit(self) -> Commit | None:
        """See `StateStore`."""
        return self._thread.run(self._current()).commit

    def save_commit(self, commit: Commit) -> None:
        """See `StateStore`."""
        self._write(lambda writer: self._save_commit(writer, commit))

    def snapshots(self) -> list[int]:
        """See `StateStore`."""
        return sorted(kept.sequence for kept in self._thread.run(self._current()).snapshots)

    def load_snapshot(self, sequence: int) -> bytes:
        """See `StateStore`."""
        kept, data = self._thread.run(self._load(sequence))
        if len(data) != kept.nbytes or hashlib.sha256(data).hexdigest() != kept.sha256:
            raise StateDamagedError(
                f"snapshot {sequence} in {self.describe()} is damaged: {len(data)} of {kept.nbytes} bytes are left, or "
                "they are others"
            )
        return data

    def save_snapshot(self, sequence: int, data: bytes) -> None:
        """See `StateStore`."""
        checksum = hashlib.sha256(data).hexdigest()
        self._write(lambda writer: self._save_snapshot(writer, sequence, data, checksum))

    def remove_snapshot(self, sequence: int) -> None:
        """See `StateStore`."""
        self._write(lambda writer: self._remove(writer, sequence))

    def describe(self) -> str:
        """See `StateStore`."""
        return f"topic {self._log}"

    def close(self) -> None:
        """See `StateStore`."""
        writer, self._writer = self._writer, None
        if writer is not None:
            self._thread.run(writer.close())
        self._thread.close()

    def _write(self, act: Callable[[Transaction], Coroutine[Any, Any, Index]]) -> None:
        """Do something as the only writer, and remember what the store holds then."""

        async def one_at_a_time() -> None:
            if self._writer is None:
                raise ValueError(f"{self.describe()} is not open; call open first")
            async with self._writing:
                index = await act(self._writer)
                if index is not self._index:
                    await self._writer.send(self._log, INDEX, encode(index), [])
                    await self._writer.commit({}, None)
                    self._index = index

        self._thread.run(one_at_a_time())

    async def _open(self, *, fresh: bool) -> None:
        limit = await self._check_topic()
        # A lock belongs to its loop, and each opening has a new one.
        self._writing = asyncio.Lock()
        writer = Transaction(
            self._options,
            f"{self._options.transactional_id_prefix}-{self._log.topic}-{self._log.partition}",
            timeout_ms=TIMEOUT_MS,
        )
        if limit is not None:
            self._chunk_bytes = max(RECORD_BYTES, min(CHUNK_BYTES, limit - RECORD_BYTES))
            writer.limits[self._log.topic] = limit
        try:
            await writer.init()
            self._index = await self._read_index()
            if fresh and self._index != Index():
                for kept in self._index.snapshots:
                    await self._bury(writer, kept.sequence, range(kept.chunks))
                await writer.send(self._log, INDEX, encode(Index()), [])
                await writer.commit({}, None)
                self._index = Index()
        except BaseException:
            await writer.close()
            raise
        self._writer = writer

    async def _check_topic(self) -> int | None:
        """The largest message it takes, where known."""
        name, tasks = self._log.topic, self._seat.count
        found = (await inspect_topics(self._options, [name])).get(name)
        if found is None:
            raise ConfigError(
                f"topic {name!r} does not exist, or we may not see it: run `speciate topics create CONFIG`"
            )
        if found.partitions < tasks:
            raise ConfigError(
                f"topic {name!r} has {found.partitions} partitions, but there are {tasks} tasks: give it {tasks}, or "
                "name another topic"
            )
        if found.cleanup is not None and "delete" in found.cleanup:
            log.warning("old snapshots will vanish: set cleanup.policy=compact", topic=name, cleanup=found.cleanup)
        return found.limit

    async def _current(self) -> Index:
        return self._index if self._writer is not None else await self._read_index()

    async def _read_index(self) -> Index:
        async with LogReader(self._options) as reader:
            return await reader.last(self._log, self._index_of, INDEX_LOOK) or Index()

    def _index_of(self, record: Any) -> Index | None:
        if record.key != INDEX:
            return None
        try:
            index: Index = decode(record.value or b"", Index)
        except msgspec.DecodeError as error:
            raise StateDamagedError(
                f"{self._log.origin(record.offset)} is no index of snapshots ({error}): use a topic of its own for them"
            ) from error
        return index

    async def _load(self, sequence: int) -> tuple[Kept, bytes]:
        kept = next((one for one in (await self._current()).snapshots if one.sequence == sequence), None)
        if kept is None:
            raise StateDamagedError(f"there is no snapshot {sequence} in {self.describe()}")
        wanted = {_key(sequence, number) for number in range(kept.chunks)}
        chunks: list[bytes] = []
        try:
            async with LogReader(self._options) as reader:
                async for records in reader.read(self._log, kept.first, kept.first + kept.chunks):
                    chunks += [record.value for record in records if record.key in wanted]
        except StateMismatchError as error:
            raise StateDamagedError(f"snapshot {sequence} is gone: {error}") from error
        return kept, b"".join(chunks)

    async def _save_commit(self, _: Transaction, commit: Commit) -> Index:
        return msgspec.structs.replace(self._index, commit=commit)

    async def _save_snapshot(self, writer: Transaction, sequence: int, data: bytes, checksum: str) -> Index:
        view, size = memoryview(data), self._chunk_bytes
        chunks = max(1, -(-len(data) // size))
        for number in range(chunks):
            await writer.send(self._log, _key(sequence, number), bytes(view[number * size : (number + 1) * size]), [])
        first = (await writer.deliver())[self._log] - chunks
        kept = Kept(sequence, first, chunks, len(data), checksum)
        return msgspec.structs.replace(self._index, snapshots=(*await self._others(writer, kept), kept))

    async def _others(self, writer: Transaction, kept: Kept) -> Sequence[Kept]:
        """All but the one that this replaces, of which no chunk may be left over."""
        for one in self._index.snapshots:
            if one.sequence == kept.sequence:
                await self._bury(writer, one.sequence, range(kept.chunks, one.chunks))
        return [one for one in self._index.snapshots if one.sequence != kept.sequence]

    async def _remove(self, writer: Transaction, sequence: int) -> Index:
        found = [one for one in self._index.snapshots if one.sequence == sequence]
        if not found:
            return self._index
        for one in found:
            await self._bury(writer, sequence, range(one.chunks))
        left = tuple(one for one in self._index.snapshots if one.sequence != sequence)
        return msgspec.structs.replace(self._index, snapshots=left)

    async def _bury(self, writer: Transaction, sequence: int, numbers: range) -> None:
        """Records without a value make compaction remove those before them with the same key."""
        for number in numbers:
            await writer.send(self._log, _key(sequence, number), None, [])


def _key(sequence: int, number: int) -> bytes:
    return b"%d/%d" % (sequence, number)


@hookimpl
def speciate_store() -> Provider[StateStore]:
    """Provide the store."""
    return Provider(
        options=KafkaStoreOptions,
        create=lambda options: KafkaStore(options, Seat()),
        create_at=KafkaStore,
        requires=("aiokafka",),
        install="speciate[kafka]",
    )
