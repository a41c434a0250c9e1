"""Sends control events: one message to the partition of the task that is to hear it."""

from speciate.errors import ConfigError
from speciate_plugins.kafka.connection import client_arguments
from speciate_plugins.kafka.failures import telling
from speciate_plugins.kafka.headers import CONTENT_TYPE, content_type
from speciate_plugins.kafka.options import KafkaSourceOptions
from speciate_plugins.kafka.positions import Log
from speciate_plugins.kafka.probing import probe
from speciate_plugins.kafka.stopping import STOP_SECONDS, stop_client
from speciate_plugins.kafka.topics import count_partitions
from speciate_schemas import Control, encode


def unsendable(options: KafkaSourceOptions) -> str:
    """Why no control event can be sent; empty if one can."""
    if options.control is not None:
        return ""
    return "control is not set in [source]: name the topic that control events are sent to"


async def send(options: KafkaSourceOptions, number: int, control: Control) -> str:
    """Write a control event for the task of this number; where it is, once it is kept for certain.

    Raises:
        ConfigError: if there is no control topic, or no task of this number.
        AwayError: if it is not known whether it was kept; its id makes sending it again harmless.
    """
    if options.control is None:
        raise ConfigError(unsendable(options))
    await probe(options, [options.control])
    count = (await count_partitions(options)).get(options.control, 0)
    if not 0 <= number < count:
        raise ConfigError(
            f"there is no task {number}: control = {options.control!r} has {count} partitions, numbered from 0"
        )
    return await _send(options, Log(options.control, number), encode(control))


async def _send(options: KafkaSourceOptions, log: Log, value: bytes) -> str:
    from aiokafka import AIOKafkaProducer  # noqa: PLC0415 - only who uses Kafka has it

    producer = AIOKafkaProducer(**client_arguments(options), acks="all", enable_idempotence=True)
    try:
        with telling(f"send to {log}", options, log.topic):
            await producer.start()
            headers = [(CONTENT_TYPE, content_type("msgpack"))]
            kept = await producer.send_and_wait(log.topic, value, partition=log.partition, headers=headers)
    finally:
        await stop_client(producer, STOP_SECONDS)
    return log.origin(kept.offset)
