"""Why a cluster cannot be reached. aiokafka's clients only log the reason; one connection of our own finds it out."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from speciate.errors import AwayError, ConfigError, SpeciateError
from speciate_plugins.kafka.connection import KafkaConnection, client_arguments, split_server
from speciate_plugins.kafka.failures import telling, told
from speciate_plugins.kafka.meanings import NONE_READY

CLOSING_SECONDS = 1.0


async def probe(options: KafkaConnection, topics: Sequence[str] = ()) -> None:
    """Connect, log in, and look for the topics, none of which is created by that.

    One server that answers is enough. Worth calling before a client is started: a wrong password is, for that, the
    same as nobody there; a missing topic takes it the whole request timeout; and a consumer that was assigned a
    partition which is not there, or which it may not see, waits for ever.

    Raises:
        ConfigError: for what trying again does not mend: a login, TLS, a topic that is missing or out of bounds.
        AwayError: if nobody answers, or the cluster has no broker that is ready.
    """
    arguments = client_arguments(options)
    del arguments["bootstrap_servers"]
    problems: list[SpeciateError] = []
    for server in options.servers:
        try:
            await _probe(server, msgspec.structs.replace(options, servers=[server]), arguments, topics)
        except SpeciateError as problem:
            problems.append(problem)
        else:
            return
    raise next((problem for problem in problems if not isinstance(problem, AwayError)), _all_away(problems))


def _all_away(problems: Sequence[SpeciateError]) -> AwayError:
    return AwayError("; ".join(str(problem) for problem in problems))


async def _probe(server: str, options: KafkaConnection, arguments: dict[str, Any], topics: Sequence[str]) -> None:
    from aiokafka.errors import KafkaError, for_code  # noqa: PLC0415 - an extra
    from aiokafka.protocol.metadata import MetadataRequest  # noqa: PLC0415

    doing = f"connect to {server}"
    try:
        async with _connected(server, arguments) as connection:
            answer = await connection.send(MetadataRequest(list(topics), allow_auto_topic_creation=False))
    except (KafkaError, OSError) as error:
        cut_off = isinstance(error, KafkaError | ConnectionResetError | ssl.SSLError)
        explained = await _explained(server, options, arguments) if cut_off else None
        raise explained or told(error, doing, options) from error
    if not answer.brokers:
        # It stood still for so long that the controller left it out, or has just started: clients would not know whom
        # to ask. It is let in again by itself.
        raise AwayError(f"cannot {doing}: it answers, but {NONE_READY}")
    for code, topic, *_ in answer.topics:
        if code:
            with telling(f"use topic {topic!r}", options, topic):
                raise for_code(code)(topic)


async def _explained(server: str, options: KafkaConnection, arguments: dict[str, Any]) -> ConfigError | None:
    """What only asking another way tells: that the port wants no TLS, or another login than ours."""
    bare = {key: value for key, value in arguments.items() if not key.startswith("sasl_")}
    bare["security_protocol"] = "SSL" if options.tls else "PLAINTEXT"
    mechanisms = await _mechanisms(server, bare)
    if mechanisms is None and options.tls:
        plain = await _mechanisms(server, {**bare, "security_protocol": "PLAINTEXT"})
        return None if plain is None else ConfigError(f"cannot connect to {server}: it speaks no TLS: set tls = false")
    if mechanisms and (options.sasl is None or options.sasl.upper() not in mechanisms):
        offered = ", ".join(repr(mechanism.lower()) for mechanism in mechanisms)
        return ConfigError(f"cannot connect to {server}: it wants a login: set sasl, of which it offers {offered}")
    return None


async def _mechanisms(server: str, arguments: dict[str, Any]) -> Sequence[str] | None:
    """How one can log in at a server, nothing if it wants no login; None if it does not understand us."""
    from aiokafka.errors import KafkaError  # noqa: PLC0415
    from aiokafka.protocol.admin import SaslHandShakeRequest  # noqa: PLC0415

    try:
        async with _connected(server, arguments) as connection:
            answer = await connection.send(SaslHandShakeRequest("PLAIN"))
            mechanisms: Sequence[str] = answer.enabled_mechanisms
            return mechanisms
    except (KafkaError, OSError):
        return None


@asynccontextmanager
async def _connected(server: str, arguments: dict[str, Any]) -> AsyncIterator[Any]:
    from aiokafka.conn import create_conn  # noqa: PLC0415

    connection = await create_conn(*split_server(server), **arguments)
    try:
        yield connection
    finally:
        await asyncio.wait([connection.close()], timeout=CLOSING_SECONDS)
