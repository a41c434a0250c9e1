"""The broker of these tests is a real one: it keeps what it acknowledged, hides what was aborted, refuses strangers."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaConnectionError, KafkaError, TopicAuthorizationFailedError
from aiokafka.helpers import create_ssl_context
from aiokafka.structs import ConsumerRecord
from broker import PASSWORD, PATIENCE, UNHURRIED, USER, Broker, BrokerError, forgetful, jars, missing, started

FOLDER = Path(__file__).parent


def of(found: dict[int, list[ConsumerRecord]]) -> dict[int, list[bytes]]:
    return {partition: [record.value for record in records] for partition, records in found.items()}


def values(broker: Broker, topic: str, isolation: str = "read_committed") -> dict[int, list[bytes]]:
    return of(broker.read_all(topic, isolation))


def until(reached: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not reached():
        assert time.monotonic() < deadline
        time.sleep(0.02)


async def send(servers: str, topic: str, value: bytes = b"value", **client: object) -> None:
    async with started(AIOKafkaProducer(bootstrap_servers=servers, **client)) as producer:
        await producer.send_and_wait(topic, value)


def test_records_come_back_as_they_were_sent(broker: Broker, topic: str):
    broker.create_topic(topic, 2)
    sent = broker.produce(topic, [(0, b"key", b"a", [("name", b"x")]), (1, None, b"b", []), (0, b"key", None, [])])
    assert [(one.partition, one.offset) for one in sent] == [(0, 0), (1, 0), (0, 1)]
    found = broker.read_all(topic)
    assert [(one.key, one.value, one.headers) for one in found[0]] == [
        (b"key", b"a", (("name", b"x"),)),
        (b"key", None, ()),
    ]
    assert [one.value for one in found[1]] == [b"b"]
    assert broker.end_offsets(topic) == {0: 2, 1: 1}


def test_topic_must_exist_and_keeps_its_configuration(broker: Broker, topic: str):
    with pytest.raises(KafkaError, match=topic):
        broker.read_all(topic)
    broker.create_topic(topic, 1, {"max.message.bytes": "1000"})
    with pytest.raises(KafkaError):
        broker.produce(topic, [(0, None, bytes(2000), [])])
    assert broker.end_offsets(topic) == {0: 0}
    with pytest.raises(KafkaError, match="already exists"):
        broker.create_topic(topic)


async def test_helpers_work_inside_a_running_loop(broker: Broker, topic: str):
    broker.create_topic(topic)
    await asyncio.to_thread(broker.produce, topic, [(0, None, b"a", [])])
    assert values(broker, topic) == {0: [b"a"]}


@pytest.mark.parametrize("end", [Broker.kill, Broker.stop])
def test_acknowledged_records_survive_the_end_of_the_broker(mortal: Broker, topic: str, end: Callable):
    mortal.create_topic(topic, 2)
    expected = {partition: [b"%d" % number for number in range(500)] for partition in (0, 1)}
    mortal.produce(topic, [(partition, None, value, []) for partition in (0, 1) for value in expected[partition]])
    first, servers = mortal.pid, mortal.servers
    end(mortal)
    assert not mortal.alive
    with pytest.raises(ProcessLookupError):
        os.kill(first, 0)
    mortal.restart()
    assert mortal.alive
    assert mortal.pid != first
    assert mortal.servers == servers
    assert values(mortal, topic) == expected


async def test_read_committed_hides_aborted_and_open_transactions(broker: Broker, topic: str):
    broker.create_topic(topic)
    async with AIOKafkaProducer(bootstrap_servers=broker.servers, transactional_id=topic) as producer:
        async with producer.transaction():
            await producer.send_and_wait(topic, b"committed")
        await producer.begin_transaction()
        await producer.send_and_wait(topic, b"aborted")
        await producer.abort_transaction()
        assert values(broker, topic) == {0: [b"committed"]}
        # The aborted record and both markers have offsets, so the reader had to pass them to see the end.
        assert broker.end_offsets(topic, "read_committed") == {0: 4}
        await producer.begin_transaction()
        await producer.send_and_wait(topic, b"open")
        assert of(broker.read_so_far(topic)) == {0: [b"committed"]}
        assert values(broker, topic, "read_uncommitted") == {0: [b"committed", b"aborted", b"open"]}
        assert broker.end_offsets(topic, "read_committed") == {0: 4}
        assert broker.end_offsets(topic) == {0: 5}
        waiting = asyncio.create_task(asyncio.to_thread(values, broker, topic))
        await asyncio.sleep(1)
        assert not waiting.done()
        await producer.commit_transaction()
        assert await waiting == {0: [b"committed", b"open"]}


async def test_paused_broker_answers_once_it_is_resumed(mortal: Broker, topic: str):
    mortal.create_topic(topic)
    async with AIOKafkaProducer(bootstrap_servers=mortal.servers, acks="all") as producer:
        await producer.send_and_wait(topic, b"before")
        mortal.pause()
        sent = await producer.send(topic, b"meanwhile")
        # Longer than the session of the broker with its controller, which both stand still.
        await asyncio.sleep(3)
        assert not sent.done()
        assert mortal.alive
        mortal.resume()
        assert (await sent).offset == 1
    assert values(mortal, topic) == {0: [b"before", b"meanwhile"]}
    mortal.pause()
    mortal.stop()
    assert not mortal.alive


def test_helpers_wait_for_a_broker_that_is_left_out(make_broker: Callable[..., Broker]):
    broker = make_broker(properties=forgetful(session_ms=2000, heartbeat_ms=6000))
    for name in ("first", "second"):
        left_out = broker.times_left_out()
        until(lambda: broker.times_left_out() > left_out)  # noqa: B023 - called at once
        broker.create_topic(name)
        broker.produce(name, [(0, None, b"a", [])])
        left_out = broker.times_left_out()
        until(lambda: broker.times_left_out() > left_out)  # noqa: B023
        assert values(broker, name) == {0: [b"a"]}
        assert broker.end_offsets(name) == {0: 1}


@pytest.fixture(scope="module")
def guarded(kafka_runs_here: None, tmp_path_factory: pytest.TempPathFactory):
    with Broker(tmp_path_factory.mktemp("guarded"), sasl=True, tls=True, acl=True, properties=UNHURRIED) as broker:
        yield broker


def login(mechanism: str, password: str = PASSWORD) -> dict[str, str]:
    return {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": mechanism,
        "sasl_plain_username": USER,
        "sasl_plain_password": password,
    }


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
async def test_password_opens_the_door_and_a_wrong_one_does_not(
    guarded: Broker, topic: str, mechanism: str, caplog: pytest.LogCaptureFixture
):
    guarded.create_topic(topic)
    guarded.grant("topic", topic, "write")
    await send(guarded.sasl_servers, topic, **login(mechanism))
    assert values(guarded, topic) == {0: [b"value"]}
    with pytest.raises(KafkaConnectionError):
        await send(guarded.sasl_servers, topic, **login(mechanism, "guess"))
    assert "SaslAuthenticationFailed" in caplog.text  # the only place where aiokafka tells the reason
    assert guarded.end_offsets(topic) == {0: 1}


async def test_user_without_rights_is_refused_until_they_are_granted(guarded: Broker, topic: str):
    guarded.create_topic(topic)
    with pytest.raises(TopicAuthorizationFailedError):
        await send(guarded.sasl_servers, topic, **login("PLAIN"))
    guarded.grant("topic", topic, "describe")
    with pytest.raises(TopicAuthorizationFailedError):
        await send(guarded.sasl_servers, topic, **login("PLAIN"))
    assert guarded.end_offsets(topic) == {0: 0}
    guarded.grant("topic", topic, "write")
    await send(guarded.sasl_servers, topic, **login("PLAIN"))
    assert guarded.end_offsets(topic) == {0: 1}


async def test_tls_is_verified_against_the_authority(guarded: Broker, topic: str, caplog: pytest.LogCaptureFixture):
    guarded.create_topic(topic)
    guarded.grant("topic", topic, "write")
    trusting = create_ssl_context(cafile=str(guarded.ca_file))
    with_password = login("PLAIN") | {"security_protocol": "SASL_SSL", "ssl_context": trusting}
    await send(guarded.sasl_tls_servers, topic, **with_password)
    await send(guarded.tls_servers, topic, security_protocol="SSL", ssl_context=trusting)
    assert values(guarded, topic) == {0: [b"value", b"value"]}
    with pytest.raises(KafkaConnectionError):
        await send(guarded.tls_servers, topic, security_protocol="SSL", ssl_context=create_ssl_context())
    assert "CERTIFICATE_VERIFY_FAILED" in caplog.text


async def test_tls_may_ask_for_a_certificate(make_broker: Callable[..., Broker]):
    broker = make_broker(tls=True, properties={"ssl.client.auth": "required"})
    broker.create_topic("events")
    ca_file = str(broker.ca_file)
    known = create_ssl_context(cafile=ca_file, certfile=str(broker.cert_file), keyfile=str(broker.key_file))
    await send(broker.tls_servers, "events", security_protocol="SSL", ssl_context=known)
    unknown = create_ssl_context(cafile=ca_file)
    with pytest.raises(KafkaConnectionError):
        await send(broker.tls_servers, "events", security_protocol="SSL", ssl_context=unknown)
    assert values(broker, "events") == {0: [b"value"]}


def test_failed_start_says_why(make_broker: Callable[..., Broker]):
    with pytest.raises(BrokerError, match=r"ClassNotFoundException: no\.such\.Authorizer"):
        make_broker(properties={"authorizer.class.name": "no.such.Authorizer"})


def test_broker_that_died_by_itself_is_started_again(mortal: Broker, topic: str):
    os.kill(mortal.pid, signal.SIGKILL)
    until(lambda: not mortal.alive)
    with pytest.raises(BrokerError, match="not running"):
        mortal.pause()
    mortal.start()
    with pytest.raises(BrokerError, match=f"runs already, as process {mortal.pid}"):
        mortal.start()
    mortal.create_topic(topic)
    assert mortal.end_offsets(topic) == {0: 0}


def test_broker_dies_with_the_process_that_started_it(kafka_runs_here: None, tmp_path: Path):
    script = f"""
import os, sys, time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from broker import Broker
broker = Broker(Path({str(tmp_path)!r}))
with ThreadPoolExecutor() as pool:
    pool.submit(broker.start).result()
time.sleep(0.5)
assert broker.alive, "it ended with the thread that started it"
print(broker.pid, flush=True)
time.sleep(600)
"""
    owner = subprocess.Popen([sys.executable, "-c", script], cwd=FOLDER, stdout=subprocess.PIPE, text=True)
    with owner:
        pid = int(owner.stdout.readline())
        os.kill(owner.pid, signal.SIGKILL)
    until(lambda: not Path(f"/proc/{pid}").exists())


def test_missing_names_what_is_absent(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert missing() == "a real Kafka needs java and openssl and mvn on the PATH"
    (tmp_path / "speciate-tests" / "kafka-3.9.1").mkdir(parents=True)
    assert missing() == "a real Kafka needs java and openssl on the PATH"


def fake_mvn(folder: Path, monkeypatch: pytest.MonkeyPatch, then: str) -> Path:
    """Stand in for mvn: note the call, write one jar to the directory that the last argument names, and do `then`."""
    program = folder / "bin" / "mvn"
    program.parent.mkdir(exist_ok=True)
    program.write_text(
        f'#!/bin/sh\necho called >> {folder}/calls\nfor last; do :; done\nlibs="${{last#*=}}"\n'
        f'mkdir "$libs"\necho > "$libs/one.jar"\nsleep 0.3\n{then}\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=os.pathsep)
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
    return folder / "calls"


def test_jars_are_fetched_once_by_many(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    calls = fake_mvn(tmp_path, monkeypatch, "echo > $libs/two.jar")
    with ThreadPoolExecutor(4) as pool:
        (found,) = set(pool.map(lambda _: jars(), range(4)))
    assert sorted(path.name for path in found.iterdir()) == ["one.jar", "two.jar"]
    assert calls.read_text() == "called\n"


def test_half_finished_fetch_is_not_taken_for_a_whole_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    fake_mvn(tmp_path, monkeypatch, "echo no route; exit 1")
    with pytest.raises(BrokerError, match="mvn ended with 1: no route"):
        jars()
    fake_mvn(tmp_path, monkeypatch, "echo > $libs/two.jar")
    assert sorted(path.name for path in jars().iterdir()) == ["one.jar", "two.jar"]


@pytest.mark.parametrize(("ci", "outcome"), [("", "1 skipped"), ("true", "1 error")])
def test_tests_without_kafka_are_skipped_except_in_ci(tmp_path: Path, ci: str, outcome: str):
    test = f"{__file__}::test_records_come_back_as_they_were_sent"
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", test],
        env=os.environ | {"PATH": str(tmp_path), "CI": ci},
        capture_output=True,
        text=True,
        check=False,
    )
    assert outcome in done.stdout.splitlines()[-1]
    assert "a real Kafka needs java" in done.stdout
