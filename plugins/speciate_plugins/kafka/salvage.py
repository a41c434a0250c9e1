"""Reads messages that aiokafka cannot: it gives up on a header whose name is no UTF-8, and all that is around it.

Such a name takes with it the message, those fetched before it, and whatever other logs gave in the same call; and the
next fetch meets it again. So the log is fetched once more, past aiokafka's own unpacking. A byte of a name that is no
UTF-8 becomes a lone surrogate, by which `read_headers` knows it and refuses that one message.
"""

import struct
from collections.abc import Iterator
from typing import Any, NamedTuple

from speciate.errors import AwayError
from speciate_plugins.kafka.headers import is_text
from speciate_plugins.kafka.positions import Log

READ_COMMITTED = 1
BATCH_HEAD = struct.Struct(">qi")
"""The first offset of a batch, and how many bytes come behind these two numbers."""
RACK_VERSION = 11
"""From here on a fetch's answer has one more field, behind the aborted transactions."""


class Salvaged(NamedTuple):
    """What was read of a log."""

    messages: list[Any]
    """Records of aiokafka; only the last can have a header whose name is no text."""
    place: int
    """Where the log goes on."""


async def salvage(client: Any, log: Log, offset: int, *, max_messages: int, max_bytes: int) -> Salvaged:
    """The messages of a log from an offset on, up to the first one that aiokafka cannot read.

    `client` is that of an aiokafka consumer, connected.
    """
    from aiokafka.consumer.fetcher import PartitionRecords  # noqa: PLC0415 - an extra
    from aiokafka.errors import for_code  # noqa: PLC0415
    from aiokafka.protocol.fetch import FetchRequest  # noqa: PLC0415
    from aiokafka.structs import TopicPartition  # noqa: PLC0415

    name = TopicPartition(*log)
    leader = client.cluster.leader_for_partition(name)
    if leader is None or leader < 0:
        raise AwayError(f"{log} has no leader for now")
    wanted = [(log.topic, [(log.partition, offset, max_bytes)])]
    answer = await client.send(leader, FetchRequest(0, 1, max_bytes, READ_COMMITTED, wanted))
    ((_, ((_, code, _, *details),)),) = answer.topics
    if code:
        raise for_code(code)(name)
    aborted = details[2] if answer.API_VERSION >= RACK_VERSION else details[-2]
    batches = _Batches(details[-1])
    unpacked = PartitionRecords(name, batches, aborted, offset, None, None, True, READ_COMMITTED)  # noqa: FBT003
    messages: list[Any] = []
    for message in unpacked:
        messages.append(message)
        if len(messages) == max_messages or not all(is_text(header) for header, _ in message.headers):
            break
    return Salvaged(messages, unpacked.next_fetch_offset)


class _Batches:
    """The batches in the bytes of an answer, as aiokafka's `MemoryRecords` gives them out; the last may be cut off."""

    def __init__(self, data: bytes) -> None:
        self._batches = _split(data)
        self._next = next(self._batches, None)

    def has_next(self) -> bool:
        """Whether there is one more."""
        return self._next is not None

    def next_batch(self) -> Any:
        """The next one."""
        batch, self._next = self._next, next(self._batches, None)
        return _readable(batch or b"")


def _split(data: bytes) -> Iterator[bytes]:
    place = 0
    while place + BATCH_HEAD.size <= len(data):
        end = place + BATCH_HEAD.size + BATCH_HEAD.unpack_from(data, place)[1]
        if end > len(data):
            break
        yield data[place:end]
        place = end


def _readable(data: bytes) -> Any:
    """A batch whose records can be read whatever the names of their headers are."""
    from aiokafka.record import default_records  # noqa: PLC0415

    # The one that is written in Python. It is slow; few messages ever come this way.
    class Batch(default_records._DefaultRecordBatchPy):  # type: ignore[misc]  # noqa: SLF001
        def _maybe_uncompress(self) -> None:
            super()._maybe_uncompress()
            self._buffer: Any = _Spelling(self._buffer)

    return Batch(data)


class _Spelling(bytearray):
    """Bytes that can always be decoded, and so can every part of them."""

    def __getitem__(self, key: Any) -> Any:
        found = super().__getitem__(key)
        return _Spelling(found) if isinstance(key, slice) else found

    def decode(self, encoding: str = "utf-8", errors: str = "") -> str:  # noqa: ARG002  # bytearray's signature
        return super().decode(encoding, "surrogateescape")
