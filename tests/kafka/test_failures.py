"""What a real broker's refusals come out as: the right kind of error, and words that name what to change."""

import asyncio
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import NewTopic
from aiokafka.errors import for_code
from broker import PASSWORD, UNHURRIED, USER, Broker, _admin, forgetful

from speciate.errors import AwayError, ConfigError, FencedError, OutputError, SourceError
from speciate_plugins.kafka.administering import administering
from speciate_plugins.kafka.connection import KafkaConnection, client_arguments
from speciate_plugins.kafka.failures import telling
from speciate_plugins.kafka.positions import Log
from speciate_plugins.kafka.probing import probe
from speciate_plugins.kafka.producer import Transaction
from speciate_plugins.kafka.provisioning import _count_brokers

TIMEOUT_MS = 30_000


@pytest.fixture(scope="module")
def guarded(kafka_runs_here: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker with all listeners; `USER` may use the topic "mine" and the transactional id "my-id", and see "seen"."""
    with Broker(tmp_path_factory.mktemp("guarded"), sasl=True, tls=True, acl=True, properties=UNHURRIED) as broker:
        broker.create_topic("mine")
        broker.create_topic("theirs")
        broker.create_topic("seen")
        broker.grant("topic", "mine", "all")
        broker.grant("topic", "seen", "describe")
        broker.grant("transactional_id", "my-id", "all")
        yield broker


@pytest.fixture
def options(guarded: Broker, tmp_path: Path) -> Callable[..., KafkaConnection]:
    """Options with or without a login, and with what a test changes."""

    def make(server: str, *, login: str | None = None, password: str = PASSWORD, **changes: Any) -> KafkaConnection:
        if login:
            (tmp_path / "password").write_text(f"{password}\n")
            changes |= {"sasl": login, "username": USER, "password_file": str(tmp_path / "password")}
        return KafkaConnection(servers=[server], **({"request_timeout_ms": TIMEOUT_MS} | changes))

    return make


@pytest.fixture
def user(guarded: Broker, options: Callable[..., KafkaConnection]) -> KafkaConnection:
    """`USER`, logged in rightly."""
    return options(guarded.sasl_servers, login="plain")


@pytest.fixture
def anybody(guarded: Broker, options: Callable[..., KafkaConnection]) -> KafkaConnection:
    """The client without a login, who may do everything."""
    return options(guarded.servers)


async def start_and_stop(client: Any) -> None:
    try:
        await client.start()
    finally:
        await client.stop()


async def send(options: KafkaConnection, topic: str, value: bytes = b"value", **more: Any) -> None:
    producer = AIOKafkaProducer(**client_arguments(options), **more)
    try:
        await producer.start()
        await producer.send_and_wait(topic, value)
    finally:
        await producer.stop()


@pytest.mark.parametrize("login", ["plain", "scram-sha-256"])
async def test_the_right_password_is_taken_with_and_without_tls(guarded, options, login):
    await probe(options(guarded.sasl_servers, login=login), ["mine"])
    await probe(options(guarded.sasl_tls_servers, login=login, tls=True, ca_file=str(guarded.ca_file)), ["mine"])


@pytest.mark.parametrize("login", ["plain", "scram-sha-256"])
async def test_a_wrong_password_is_told_with_its_origin_and_never_itself(guarded, options, login, caplog):
    caplog.set_level(logging.DEBUG)
    wrong = options(guarded.sasl_servers, login=login, password="hunter2")
    message = (
        r"cannot connect to 127\.0\.0\.1:\d+: the brokers refuse user 'robot' with the password from password_file"
    )
    with pytest.raises(ConfigError, match=message) as raised:
        await probe(wrong)
    assert "hunter2" not in str(raised.value)
    assert "hunter2" not in repr(wrong)
    assert "hunter2" not in caplog.text


@pytest.mark.parametrize(
    ("listener", "changes", "message"),
    [
        ("tls_servers", {"tls": True}, "TLS failed: .*certificate verify failed.*check ca_file = None"),
        ("tls_servers", {}, "the brokers speak TLS on this port: set tls = true"),
        ("sasl_tls_servers", {"login": "plain"}, "the brokers speak TLS on this port: set tls = true"),
        ("servers", {"tls": True}, "it speaks no TLS: set tls = false"),
        ("servers", {"login": "plain"}, "the brokers take no login on this port: remove sasl = 'plain'"),
        ("sasl_servers", {}, "it wants a login: set sasl, of which it offers 'plain', 'scram-sha-256'"),
        ("sasl_servers", {"login": "scram-sha-512"}, "it wants a login: set sasl, of which it offers 'plain', 'scram"),
    ],
)
async def test_a_port_that_speaks_otherwise_is_told(guarded, options, listener, changes, message):
    with pytest.raises(ConfigError, match=message):
        await probe(options(getattr(guarded, listener), **changes))


async def test_one_server_that_answers_is_enough_and_all_that_do_not_are_named(anybody):
    nobody, nowhere = "127.0.0.1:9", "no-such-host.invalid:9092"
    await probe(KafkaConnection(servers=[nobody, *anybody.servers]))
    with pytest.raises(
        AwayError, match=r"connect to 127\.0\.0\.1:9.*refused.*; cannot connect to no-such-host\.invalid:9092: "
    ):
        await probe(KafkaConnection(servers=[nobody, nowhere]))


async def test_a_broker_that_does_not_answer_is_away(mortal):
    mortal.pause()
    with pytest.raises(AwayError, match="cannot connect to"):
        await probe(KafkaConnection(servers=[mortal.servers], request_timeout_ms=500))


async def test_a_broker_that_is_left_out_is_away(make_broker: Callable[..., Broker]):
    broker = await asyncio.to_thread(make_broker, properties=forgetful(session_ms=3000, heartbeat_ms=30_000))
    options = KafkaConnection(servers=[broker.servers])
    none_ready = "no broker of the cluster is ready yet"
    async with _admin(broker.servers) as early:
        with pytest.raises(AwayError, match=f"^cannot connect to {broker.servers}: it answers, but {none_ready}$"):  # noqa: PT012
            while True:
                await probe(options)
                await asyncio.sleep(0.05)
        # Whoever did not look before, or looked too early.
        with pytest.raises(AwayError, match=f"^cannot ask at {broker.servers}: {none_ready}$"):
            async with administering(options, "ask") as late:
                pytest.fail(f"{late} knows whom to ask")
        with pytest.raises(AwayError, match=f"^cannot count the brokers at {broker.servers}: {none_ready}$"):
            await _count_brokers(early, options)
        ((_, code, message),) = (await early.create_topics([NewTopic("new", 1, 1)])).topic_errors
        with pytest.raises(AwayError, match=none_ready), telling("create", options):
            raise for_code(code)(message)


async def test_a_topic_that_is_missing_or_out_of_bounds_is_told_at_once(user, anybody):
    await probe(anybody, ["mine", "theirs"])
    with pytest.raises(
        ConfigError, match="topic 'none' does not exist: create it with `speciate topics create CONFIG`"
    ):
        await probe(anybody, ["mine", "none"])
    with pytest.raises(ConfigError, match="user 'robot' has no rights on topic 'theirs'"):
        await probe(user, ["mine", "theirs"])


async def test_clients_that_meet_a_missing_topic(guarded, options):
    anybody = options(guarded.servers, request_timeout_ms=3000)
    with pytest.raises(ConfigError, match="topic 'none' does not exist"), telling("read", anybody, "none"):
        await start_and_stop(AIOKafkaConsumer("none", **client_arguments(anybody)))
    with pytest.raises(ConfigError, match="topic 'none' does not exist"), telling("write", anybody, "none"):
        await send(anybody, "none")


async def test_a_topic_without_rights(user):
    for doing in (
        lambda: start_and_stop(AIOKafkaConsumer("theirs", **client_arguments(user))),
        lambda: send(user, "theirs"),
    ):
        with pytest.raises(ConfigError, match="user 'robot' has no rights on topic 'theirs'"), telling("go", user):
            await doing()


async def test_a_group_without_rights(user):
    with pytest.raises(ConfigError, match="no rights on the group 'strangers'"), telling("read", user):
        await start_and_stop(AIOKafkaConsumer("mine", group_id="strangers", **client_arguments(user)))


async def test_transactions_without_rights(user):
    with pytest.raises(ConfigError, match="no rights on the transactional id 'other-id'"), telling("write", user):
        await start_and_stop(AIOKafkaProducer(transactional_id="other-id", **client_arguments(user)))
    producer = AIOKafkaProducer(transactional_id="my-id", **client_arguments(user))
    try:
        await producer.start()
        await producer.begin_transaction()
        with pytest.raises(ConfigError, match="no rights on the group 'strangers'"), telling("write", user):
            await producer.send_offsets_to_transaction({TopicPartition("mine", 0): 1}, "strangers")
        # Otherwise the future of the whole transaction complains that nobody has looked at its error.
        with pytest.raises(ConfigError, match="no rights on the group 'strangers'"), telling("commit", user):
            await producer.commit_transaction()
    finally:
        await producer.stop()


async def test_topic_of_a_transaction_without_rights(user):
    """Its other topics are not taken into it either, and batches for them may meet no transaction."""
    writer = Transaction(user, "my-id")
    for _ in range(6):
        await writer.init()
        with pytest.raises(ConfigError, match="user 'robot' has no rights on topic 'seen'"):  # noqa: PT012
            for topic in ("mine", "seen"):
                await writer.send(Log(topic, 0), None, b"value", [])
            await writer.push()
            await writer.commit({}, None)
    await writer.close()


async def test_an_offset_that_is_not_there(anybody):
    consumer = AIOKafkaConsumer(auto_offset_reset="none", **client_arguments(anybody))
    await consumer.start()
    try:
        consumer.assign([TopicPartition("theirs", 0)])
        consumer.seek(TopicPartition("theirs", 0), 99)
        message = "partition 0 of topic 'theirs' does not hold offset 99"
        with pytest.raises(SourceError, match=message), telling("read", anybody):
            await consumer.getmany(timeout_ms=TIMEOUT_MS)
    finally:
        await consumer.stop()


@pytest.mark.parametrize("limit", [1 << 20, 1 << 24])
async def test_a_message_that_is_too_large_for_us_or_for_the_broker(anybody, limit):
    with pytest.raises(OutputError, match=r"too large.*max\.message\.bytes"), telling("write", anybody):
        await send(anybody, "mine", bytes(1 << 21), max_request_size=limit)


async def test_a_transaction_timeout_above_the_brokers(anybody):
    producer = AIOKafkaProducer(transactional_id="long", transaction_timeout_ms=1 << 30, **client_arguments(anybody))
    with pytest.raises(ConfigError, match=r"transaction\.max\.timeout\.ms"), telling("write", anybody):
        await start_and_stop(producer)


@pytest.mark.parametrize("step", ["send", "commit"])
async def test_who_was_taken_over_is_fenced_and_then_of_no_use(anybody, step):
    old, new = (AIOKafkaProducer(transactional_id=f"twice-{step}", **client_arguments(anybody)) for _ in range(2))
    try:
        await old.start()
        await old.begin_transaction()
        await old.send_and_wait("theirs", b"old")
        await new.start()
        with pytest.raises(FencedError, match="another worker has taken over"), telling("write", anybody):
            await (old.send_and_wait("theirs", b"late") if step == "send" else old.commit_transaction())
        await asyncio.sleep(0.1)  # the task that sends needs a moment to die of it
        with pytest.raises(AwayError, match="Invalid state transition"), telling("write", anybody):
            await old.begin_transaction()
    finally:
        await asyncio.gather(old.stop(), new.stop())
