"""A worker's share of the tasks, as the group's coordinator in Kafka has it.

The tasks have consumers of their own, and what keeps two owners of a task apart is the fencing of producers. So a
rebalance interrupts nobody: it only ends with news of who owns what.
"""

import asyncio
from collections.abc import Sequence
from typing import Any

from speciate.errors import ConfigError, OperatorError, SpeciateError, StateError, WorldError
from speciate.logs import get_logger
from speciate_plugins.kafka.assignor import NONE, Ready, TaskAssignor, Told
from speciate_plugins.kafka.connection import KafkaConnection, client_arguments
from speciate_plugins.kafka.failures import telling, told
from speciate_plugins.kafka.layout import Selection, check_layout, compare_layouts
from speciate_plugins.kafka.place import Place
from speciate_plugins.kafka.probing import probe
from speciate_plugins.kafka.topics import count_partitions

log = get_logger(__name__)

PAUSES = (0.1, 10.0)
"""Seconds before joining anew after trouble, and what they grow to while it lasts."""
OPINIONS, OPINION_SECONDS = 3, 1.0
"""So many times in a row must brokers say that the topics changed: one that has just started may know too little."""


class Membership:
    """Shares the partition numbers of some topics with the other workers of a group; a `speciate.stages.Share`.

    `topics` is a list of names, or a regular expression that a topic's whole name must match. `together` makes all
    their partitions one task. That a topic changed is seen after `metadata_max_age_ms`.
    """

    def __init__(
        self,
        connection: KafkaConnection,
        *,
        group: str,
        topics: Sequence[str] | str,
        together: bool = False,
        session_timeout_ms: int = 10_000,
        metadata_max_age_ms: int = 60_000,
    ) -> None:
        self._connection = connection
        self._group = group
        self._selection = Selection(topics)
        self._together = together
        self._session_timeout_ms = session_timeout_ms
        self._metadata_max_age_ms = metadata_max_age_ms
        self._doing = f"join group {group!r}"
        self._arguments: dict[str, Any] = {}
        self._counts: dict[str, int] = {}
        self._count = 0
        self._ready = NONE
        self._place: Place | None = None
        self._keeper: asyncio.Task[None] | None = None
        self._told: Told | None = None
        self._error: Exception | None = None
        self._news = asyncio.Event()
        self._settled = False

    async def join(self) -> int:
        """Become a member of the group; how many tasks there are in all.

        Raises:
            ConfigError: if a topic is not there or they differ in their number of partitions, or the brokers do not
                let us in.
            AwayError: if no broker answers.
        """
        await self.leave()
        self._told, self._error = None, None
        await probe(self._connection)
        self._arguments = client_arguments(self._connection)
        self._counts = self._selection.pick(await count_partitions(self._connection))
        self._count = check_layout(self._selection, self._counts, together=self._together)
        with telling(self._doing, self._connection):
            await self._enter()
        self._keeper = asyncio.create_task(self._keep())
        return self._count

    async def changed(self) -> frozenset[int]:
        """Wait for the end of the next rebalance; the numbers of our tasks, which may be the same as before.

        Raises:
            StateMismatchError: if a topic has another number of partitions than when we joined.
            SourceError: if a topic is gone.
            ConfigError: if the other workers read something else, or the brokers do not let us in any more.
        """
        while True:
            await self._news.wait()
            self._news.clear()
            try:
                await self._check()
            except asyncio.CancelledError:
                # Whoever asks next has not heard it yet.
                self._news.set()
                raise
            except Exception as error:
                # There is no way on: whoever asks again is told the same.
                self._fail(error)
                raise
            if self._told is not None and not self._news.is_set():
                return self._told.numbers

    def keep_ready(self, numbers: frozenset[int]) -> None:
        """Say which tasks' states are at hand here; it counts from the next rebalance on."""
        self._ready = numbers

    async def rejoin(self) -> None:
        """Become a new member; `changed` tells its share, as soon as there is a broker to give us one."""
        await self.leave()
        self._keeper = asyncio.create_task(self._keep())

    async def leave(self) -> None:
        """Give up our share, so that others get it at once; it takes some seconds at most, and may be repeated."""
        if self._keeper is not None:
            self._keeper.cancel()
            await asyncio.wait([self._keeper])
            self._keeper = None
        if self._error is None:
            self._news.clear()

    async def _check(self) -> None:
        """Make certain that all members share out the same, and that it is what we began with."""
        if self._error is not None:
            raise self._error
        heard = self._told
        if heard is None:
            return
        if heard.asked != str(self._selection):
            raise ConfigError(
                f"group {self._group!r}: this worker reads {self._selection}, but one that was there before reads "
                f"{heard.asked}: the workers of a group must read the same; correct it, or give this one another group"
            )
        if heard.counts == self._counts:
            return
        for opinion in range(OPINIONS):
            await asyncio.sleep(OPINION_SECONDS * (opinion > 0))
            counts = self._selection.pick(await self._count_partitions())
            try:
                compare_layouts(self._selection, self._counts, counts, together=self._together)
            except SpeciateError:
                if opinion == OPINIONS - 1:
                    raise
            else:
                self._counts = counts
                return

    async def _count_partitions(self) -> dict[str, int]:
        while True:
            try:
                return await count_partitions(self._connection)
            except WorldError as error:
                log.debug("cannot count partitions", group=self._group, reason=str(error))
                await asyncio.sleep(OPINION_SECONDS)

    async def _enter(self) -> None:
        """Take a new place in the group."""
        assignor = TaskAssignor(
            count=self._count, together=self._together, claim=self._claim, hear=self._hear, fail=self._fail
        )
        self._place = Place(
            self._arguments,
            group=self._group,
            selection=self._selection,
            assignor=assignor,
            session_timeout_ms=self._session_timeout_ms,
            metadata_max_age_ms=self._metadata_max_age_ms,
        )
        try:
            await self._place.take()
        except BaseException:
            await self._give_up()
            raise

    async def _give_up(self) -> None:
        place, self._place = self._place, None
        if place is not None:
            await place.leave()

    async def _keep(self) -> None:
        """Stay a member: what one place cannot get over, a new one does."""
        pause, longest = PAUSES
        while True:
            try:
                if self._place is None:
                    await self._enter()
                if self._place is not None:
                    await self._place.hold()
            except Exception as error:  # noqa: BLE001 - whatever aiokafka stumbles over, it may not the next time
                trouble = self._error or told(error, self._doing, self._connection)
            finally:
                await self._give_up()
            if trouble is self._error or isinstance(trouble, OperatorError | StateError):
                self._fail(trouble)
                return
            # Once for each time it happens, however long it lasts.
            (log.warning if self._settled else log.debug)(
                "no place in the group, joining anew", group=self._group, reason=str(trouble)
            )
            pause = PAUSES[0] if self._settled else min(2 * pause, longest)
            self._settled = False
            await asyncio.sleep(pause)

    def _claim(self) -> Ready:
        # What was taken from us while we did not listen is claimed by others since a later round.
        owned, since = (self._told.numbers, self._told.round) if self._told is not None else (NONE, 0)
        return Ready(owned=owned, ready=self._ready, round=since, asked=str(self._selection))

    def _hear(self, heard: Told) -> None:
        self._told = heard
        self._settled = True
        self._news.set()

    def _fail(self, error: Exception) -> None:
        """Keep the error for whoever asks: aiokafka would only log it."""
        if self._error is None:
            self._error = error
        self._news.set()
