"""One place in a consumer group, from joining to leaving: aiokafka's group consumer, used for nothing else.

It is watched from two sides. What goes wrong in its background tasks comes up only when somebody asks for messages, so
somebody always does. And whether we are a member is for the brokers to say: a heartbeat can be stuck without a word.
"""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, NoReturn

from speciate.errors import AwayError
from speciate_plugins.kafka.assignor import TaskAssignor
from speciate_plugins.kafka.layout import Selection
from speciate_plugins.kafka.stopping import stop_client

STOP_SECONDS = 5.0
"""Longest to wait for a goodbye; whoever is gone without one is missed after the session timeout."""
SPARE_MS = 5_000
"""How much longer than a rebalance may take we wait for its end."""
PATIENCE = 2.0
"""For how many session timeouts the brokers may say that we are no member before we give the place up."""


class Place:
    """A member of `group` that takes part in the sharing of the selected topics and reads none of them."""

    def __init__(
        self,
        arguments: Mapping[str, Any],
        *,
        group: str,
        selection: Selection,
        assignor: TaskAssignor,
        session_timeout_ms: int,
        metadata_max_age_ms: int,
    ) -> None:
        from aiokafka import AIOKafkaConsumer  # noqa: PLC0415 - an extra

        self._arguments = dict(arguments)
        self._group = group
        self._selection = selection
        self._session = session_timeout_ms / 1000
        settings = {
            "group_id": group,
            "partition_assignment_strategy": [assignor],
            "enable_auto_commit": False,
            "session_timeout_ms": session_timeout_ms,
            "heartbeat_interval_ms": session_timeout_ms // 3,
            "rebalance_timeout_ms": session_timeout_ms,
            "metadata_max_age_ms": metadata_max_age_ms,
            # Who joins is answered when the others have rejoined. A broker that is silent for longer than that has
            # given our place away.
            "request_timeout_ms": session_timeout_ms + SPARE_MS,
        }
        self._consumer = AIOKafkaConsumer(**{**arguments, **settings})

    async def take(self) -> None:
        """Connect, and join in the background; the assignor hears what comes of it."""
        await self._consumer.start()
        # Pausing partitions would not do: their positions are looked up all the same, and one that has no leader
        # makes the fetcher ask for metadata without a pause.
        # In a task of its own: it takes a cancellation of ours for that of its own task, and we would never leave.
        closing = self._consumer._fetcher.close()  # noqa: SLF001 - nothing else makes a consumer that never reads
        await asyncio.shield(asyncio.ensure_future(closing))
        self._consumer.subscribe(topics=self._selection.names or (), pattern=self._selection.expression)

    async def hold(self) -> NoReturn:
        """Stay, until it cannot go on; raises why."""
        clock = asyncio.get_running_loop().time
        absent: float | None = None
        while True:
            await self._listen()
            seated = await self._seated()
            if seated:
                absent = None
            elif seated is False:
                absent = clock() if absent is None else absent
                if clock() - absent > PATIENCE * self._session:
                    raise AwayError(f"group {self._group!r} has gone on without us for {clock() - absent:.1f} s")

    async def leave(self) -> None:
        """Say goodbye, so that the others share out at once; never hangs."""
        await stop_client(self._consumer, STOP_SECONDS)

    async def _listen(self) -> None:
        """Raise what went wrong in the background, or does within a session timeout."""
        # Its own limit does not hold during a rebalance.
        with suppress(TimeoutError):
            async with asyncio.timeout(self._session):
                await self._consumer.getmany(timeout_ms=round(1000 * self._session))

    async def _seated(self) -> bool | None:
        """Whether the brokers know us as a member; None if they do not say."""
        from aiokafka.admin import AIOKafkaAdminClient  # noqa: PLC0415
        from aiokafka.errors import KafkaError  # noqa: PLC0415

        admin = AIOKafkaAdminClient(**self._arguments)
        try:
            async with asyncio.timeout(self._session):
                await admin.start()
                (answer,) = await admin.describe_consumer_groups([self._group])
        except (KafkaError, OSError):
            return None
        finally:
            await stop_client(admin, STOP_SECONDS)
        (group,) = answer.to_object()["groups"]
        if group["error_code"] != 0:
            return None
        ours = self._consumer._coordinator.member_id  # noqa: SLF001 - aiokafka keeps it to itself
        return any(member["member_id"] == ours for member in group["members"])
