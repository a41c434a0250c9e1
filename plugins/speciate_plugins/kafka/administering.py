"""Asking brokers about topics and groups: a client for one question, which is ended whatever comes of it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from speciate_plugins.kafka.connection import KafkaConnection, client_arguments
from speciate_plugins.kafka.failures import telling
from speciate_plugins.kafka.meanings import Attempt, none_ready
from speciate_plugins.kafka.stopping import STOP_SECONDS, stop_client


@asynccontextmanager
async def administering(options: KafkaConnection, doing: str) -> AsyncIterator[Any]:
    """An admin client of aiokafka, for as long as a request may take; `doing` completes "cannot …".

    Raises:
        AwayError: if nobody answers, or the cluster has no broker that is ready.
    """
    from aiokafka.admin import AIOKafkaAdminClient  # noqa: PLC0415 - only who uses Kafka has it

    with telling(doing, options):
        admin = AIOKafkaAdminClient(**client_arguments(options))
        try:
            async with asyncio.timeout(options.request_timeout_ms / 1000):
                await admin.start()
                if not admin._client.cluster.brokers():  # noqa: SLF001 - it would ask broker None, or fail without a word
                    raise none_ready(Attempt(doing, options, None))
                yield admin
        finally:
            await stop_client(admin, STOP_SECONDS)
