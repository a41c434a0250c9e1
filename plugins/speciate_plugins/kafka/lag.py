"""Moves the offsets of a consumer group along, for those who watch its lag, where outputs are in no transaction.

Nothing depends on it, so nothing waits for it. It is done in small transactions all the same: an ordinary commit of
offsets is refused to all but the members of a group, and a writer is none.
"""

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING

from speciate.errors import SpeciateError
from speciate.logs import get_logger
from speciate_plugins.kafka.positions import Log
from speciate_plugins.kafka.stopping import looked_at

if TYPE_CHECKING:
    from speciate_plugins.kafka.producer import Transaction

log = get_logger(__name__)

CLOSE_SECONDS = 2.0


class LagMarker:
    """Moves offsets in the background, with a writer of its own; after a failure it gives up."""

    def __init__(self, writer: "Transaction") -> None:
        self._writer = writer
        self._wanted: tuple[Mapping[Log, int], str] | None = None
        self._moving: asyncio.Task[None] | None = None
        self._started = False
        self._failed = False

    def move(self, offsets: Mapping[Log, int], group: str) -> None:
        """Move them soon; of several wishes the last counts."""
        self._wanted = (offsets, group)
        if not self._failed and (self._moving is None or self._moving.done()):
            self._moving = asyncio.create_task(self._move())

    async def close(self) -> None:
        """Finish what is wanted if that is quickly done."""
        moving, self._moving = self._moving, None
        if moving is not None:
            await asyncio.wait([moving], timeout=CLOSE_SECONDS)
            moving.cancel()
            await asyncio.wait([moving])
            looked_at(moving)
        self._started = self._failed = False
        await self._writer.close()

    async def _move(self) -> None:
        try:
            if not self._started:
                await self._writer.init()
                self._started = True
            while self._wanted is not None:
                (offsets, group), self._wanted = self._wanted, None
                await self._writer.begin()
                await self._writer.commit(offsets, group)
        except SpeciateError as error:
            self._failed = True
            log.warning(
                "the offsets of the group are not moved any more", writer=self._writer.identity, error=str(error)
            )
