"""A real Apache Kafka of one node, for tests that kill it, stop it, or only want to talk to it.

    with Broker(Path("somewhere")) as broker:
        broker.create_topic("events", 3)

Needs java, and mvn the first time. Every method blocks; in a coroutine use `asyncio.to_thread(broker.restart)`, or the
loop (and with it the heartbeats of the clients under test) stands still meanwhile.
"""

import asyncio
import contextlib
import fcntl
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Self, TypeVar

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.errors import KafkaError, for_code
from aiokafka.protocol.admin import CreateAclsRequest, DescribeAclsRequest
from aiokafka.structs import ConsumerRecord, RecordMetadata

VERSION = "3.9.1"
USER, PASSWORD = "robot", "secret"
"""Who may log in on the SASL listeners, with PLAIN and with SCRAM-SHA-256."""
PATIENCE = 120.0
"""Seconds a start, a stop or a helper may take: many times what it needs, for machines that do other things too."""

T = TypeVar("T")
Client = TypeVar("Client", AIOKafkaAdminClient, AIOKafkaConsumer, AIOKafkaProducer)
Record = tuple[int, bytes | None, bytes | None, Sequence[tuple[str, bytes]]]

POM = f"""\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>tests</groupId><artifactId>kafka</artifactId><version>1</version><packaging>pom</packaging>
  <dependencies>
    <dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>{VERSION}</version></dependency>
    <dependency><groupId>org.slf4j</groupId><artifactId>slf4j-simple</artifactId><version>1.7.36</version></dependency>
  </dependencies>
</project>
"""

# The parent of the broker's process. Its standard input ends when the process of the tests does, however that dies, and
# takes the broker with it. PR_SET_PDEATHSIG would not do: it fires when the *thread* that started the broker ends.
KEEPER = """\
import subprocess, sys, threading
child = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL, stdout=sys.stderr)
print(child.pid, flush=True)
threading.Thread(target=lambda: (sys.stdin.read(), child.kill()), daemon=True).start()
child.wait()
"""

# Small coordinators and short waits: a test has a few clients, and waits for every one of these.
SETTINGS = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "inter.broker.listener.name": "PLAINTEXT",
    "auto.create.topics.enable": "false",
    "default.replication.factor": "1",
    "min.insync.replicas": "1",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "5",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "5",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    "broker.session.timeout.ms": "2000",
    "broker.heartbeat.interval.ms": "300",
    "log.cleaner.dedupe.buffer.size": str(16 << 20),  # allocated at once; 128 MB otherwise
}

UNHURRIED = {"broker.session.timeout.ms": "30000"}
"""For brokers that nobody kills: one whose machine stands still for a while is not to be taken for dead."""


def forgetful(session_ms: int, heartbeat_ms: int) -> dict[str, str]:
    """For a broker that tells its controller too seldom that it is there: it is left out from the session to the next
    heartbeat, again and again, as one is whose machine stands still. Who asks it meanwhile is told of no broker at all.
    """
    return {"broker.session.timeout.ms": str(session_ms), "broker.heartbeat.interval.ms": str(heartbeat_ms)}


class BrokerError(Exception):
    """The broker did not do what it was told; the message ends with the tail of its log."""


def missing() -> str | None:
    """Why a broker cannot run here, if so."""
    needed = ["java", "openssl"] if _cache().is_dir() else ["java", "openssl", "mvn"]
    absent = [program for program in needed if shutil.which(program) is None]
    return f"a real Kafka needs {' and '.join(absent)} on the PATH" if absent else None


def jars() -> Path:
    """The directory of Kafka's jars, fetched once per user."""
    cache = _cache()
    cache.parent.mkdir(parents=True, exist_ok=True)
    with (cache.parent / "lock").open("w") as lock:
        # Maven's own repository does not like two processes that fetch at once, so the second waits.
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not cache.is_dir():
            _fetch(cache)
    return cache


def _cache() -> Path:
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "speciate-tests" / f"kafka-{VERSION}"


def _fetch(cache: Path) -> None:
    """Fill the cache in one step, so that it exists only if it is complete."""
    with tempfile.TemporaryDirectory(dir=cache.parent) as folder:
        pom, libs = Path(folder) / "pom.xml", Path(folder) / "libs"
        pom.write_text(POM)
        _run("mvn", "-q", "-B", "-f", str(pom), "dependency:copy-dependencies", f"-DoutputDirectory={libs}")
        libs.rename(cache)


def _run(*command: str, cwd: Path | None = None) -> None:
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=cwd, check=False, timeout=600
    )
    if done.returncode != 0:
        raise BrokerError(f"{command[0]} ended with {done.returncode}: {done.stdout[-4000:]}")


class Broker:
    """One Kafka with its own directory and ports, the same ones after every restart.

    `servers` is the listener without a password. `sasl` and `tls` add `sasl_servers`, `tls_servers` and, together,
    `sasl_tls_servers`. With `acl`, clients without a name have all rights, and `USER` has those that `grant` gave. With
    `properties={"ssl.client.auth": "required"}` TLS clients must show `cert_file` and `key_file`.
    """

    def __init__(
        self,
        directory: Path,
        *,
        properties: Mapping[str, str] | None = None,
        sasl: bool = False,
        tls: bool = False,
        acl: bool = False,
    ) -> None:
        self.directory = directory
        self.log = directory / "broker.log"
        self.ca_file, self.cert_file, self.key_file = (directory / "tls" / name for name in CERTIFICATES)
        self._keeper: subprocess.Popen[str] | None = None
        self._pid = 0
        ports = dict(zip(("PLAINTEXT", "CONTROLLER", "SASL_PLAINTEXT", "SSL", "SASL_SSL"), free_ports(5), strict=True))
        self.servers, _, self.sasl_servers, self.tls_servers, self.sasl_tls_servers = (
            f"127.0.0.1:{port}" for port in ports.values()
        )
        self._sasl, self._tls = sasl, tls
        self._settings = _settings(directory, ports, sasl=sasl, tls=tls, acl=acl) | dict(properties or {})

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    @property
    def pid(self) -> int:
        """Of the broker's own process, for signals."""
        if not self.alive:
            raise BrokerError("the broker is not running")
        return self._pid

    @property
    def alive(self) -> bool:
        """Whether its process exists; a paused one does."""
        return self._keeper is not None and self._keeper.poll() is None

    def start(self) -> None:
        """Return once a client sees the broker and a leader for every partition it has."""
        if self.alive:
            raise BrokerError(f"the broker runs already, as process {self._pid}")
        self.kill()  # closes what is left of one that died by itself
        if not (self.directory / "data" / "meta.properties").exists():
            self._format()
        # No optimising compiler: it would take the processors from the tests for as long as most brokers live.
        java = ["java", "-Xms64m", "-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", f"{jars()}/*"]
        command = [*java, "kafka.Kafka", str(self.directory / "server.properties")]
        with self.log.open("a") as log:
            self._keeper = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", KEEPER, *command],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,  # Ctrl-C is for the tests
            )
        self._pid = int(self._keeper.stdout.readline())
        try:
            _blocking(self._until_ready())
        except BaseException:
            self.kill()
            raise

    def stop(self) -> None:
        """Ask it to end and wait."""
        if self.alive:
            self.resume()  # a paused process would not hear it
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """Kill -9; whatever it did not write is lost."""
        self._end(signal.SIGKILL)

    def restart(self) -> None:
        """Stop it, unless it is dead already, and start it on the same ports and data."""
        self.stop()
        self.start()

    def pause(self) -> None:
        """Let connections stand and answer nothing."""
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """Undo `pause`."""
        os.kill(self.pid, signal.SIGCONT)

    def create_topic(self, name: str, partitions: int = 1, config: Mapping[str, str] | None = None) -> None:
        """Return once every partition has a leader."""
        _blocking(_create_topic(self.servers, name, partitions, dict(config or {})))

    def delete_topic(self, name: str) -> None:
        """Return once nobody is told of it any more."""
        _blocking(_delete_topic(self.servers, name))

    def produce(self, topic: str, records: Sequence[Record]) -> list[RecordMetadata]:
        """Write (partition, key, value, headers) in order and return once all of them are acknowledged."""
        return _blocking(_produce(self.servers, topic, records))

    def read_all(self, topic: str, isolation: str = "read_committed") -> dict[int, list[ConsumerRecord]]:
        """Every record of every partition up to the end as of now, without a consumer group.

        Unless it is to read what is not committed, it waits for transactions that are open: a writer is told that its
        commit is done a moment before readers see it.
        """
        return _blocking(_read_all(self.servers, topic, isolation, settled=isolation == "read_committed"))

    def read_so_far(self, topic: str) -> dict[int, list[ConsumerRecord]]:
        """What can be seen now of what is committed; for those who ask again and again, or in a transaction."""
        return _blocking(_read_all(self.servers, topic, "read_committed", settled=False))

    def end_offsets(self, topic: str, isolation: str = "read_uncommitted") -> dict[int, int]:
        """The end of every partition; with "read_committed" the start of the first open transaction, if one is open."""
        return _blocking(_end_offsets(self.servers, topic, isolation))

    def settle(self, *topics: str) -> None:
        """Return once readers see all that was committed until now."""
        for topic in topics:
            _blocking(_settle(self.servers, topic))

    def grant(self, resource: str, name: str, operation: str) -> None:
        """Give `USER` a right: on a "topic", "group" or "transactional_id" to "all", "read", "write" or "describe"."""
        _blocking(_grant(self.servers, RESOURCES[resource], name, OPERATIONS[operation]))

    def times_left_out(self) -> int:
        """How often its controller took it for gone."""
        return self.log.read_text(errors="replace").count("Fencing broker 1 because its session has timed out")

    def _format(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        if self._tls:
            _make_certificates(self.ca_file.parent)
        properties = self.directory / "server.properties"
        properties.write_text("".join(f"{name}={value}\n" for name, value in self._settings.items()))
        users = ["--add-scram", f"SCRAM-SHA-256=[name={USER},password={PASSWORD}]"] if self._sasl else []
        tool = ["java", "-XX:TieredStopAtLevel=1", "-cp", f"{jars()}/*", "kafka.tools.StorageTool", "format"]
        _run(*tool, "-t", "MkU3OEVBNTcwNTJENDM2Qg", "-c", str(properties), *users)

    def _end(self, how: signal.Signals) -> None:
        if self._keeper is None:
            return
        with contextlib.suppress(ProcessLookupError):  # it may die by itself between the two
            if self.alive:
                os.kill(self._pid, how)
        try:
            self._keeper.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.kill()
            raise BrokerError(f"the broker did not end within {PATIENCE:.0f} s of {how.name}: {self._tail()}") from None
        # Only now: the end of its input is what makes the keeper kill the broker.
        self._keeper.stdin.close()
        self._keeper.stdout.close()
        self._keeper = None

    async def _until_ready(self) -> None:
        deadline = time.monotonic() + PATIENCE
        while not await _ready(self.servers):
            if not self.alive:
                raise BrokerError(f"the broker died while it started: {self._tail()}")
            if time.monotonic() > deadline:
                raise BrokerError(f"the broker did not answer within {PATIENCE:.0f} s: {self._tail()}")
            await asyncio.sleep(0.1)

    def _tail(self) -> str:
        return "\n" + "\n".join(self.log.read_text(errors="replace").splitlines()[-40:])


def read_topic(servers: str, topic: str) -> dict[int, list[ConsumerRecord]]:
    """As `Broker.read_all`, of a broker that somebody else has started."""
    return _blocking(_read_all(servers, topic, "read_committed", settled=True))


def free_ports(count: int) -> list[int]:
    """Ports below those that outgoing connections get.

    From among those, a client that reconnects to a dead broker could be given the broker's own port, and keep it.
    """
    with contextlib.ExitStack() as stack:
        found: list[int] = []
        while len(found) < count:
            candidate = stack.enter_context(socket.socket())
            with contextlib.suppress(OSError):
                candidate.bind(("127.0.0.1", random.SystemRandom().randrange(12_000, 32_000)))
                found.append(candidate.getsockname()[1])
        return found


def _settings(directory: Path, ports: Mapping[str, int], *, sasl: bool, tls: bool, acl: bool) -> dict[str, str]:
    wanted = {"SASL_PLAINTEXT": sasl, "SSL": tls, "SASL_SSL": sasl and tls}
    listeners = {name: f"{name}://127.0.0.1:{port}" for name, port in ports.items() if wanted.get(name, True)}
    names = {name: "PLAINTEXT" if name == "CONTROLLER" else name for name in listeners}
    found = {
        **SETTINGS,
        "log.dirs": str(directory / "data"),
        "listeners": ",".join(listeners.values()),
        "advertised.listeners": ",".join(listeners[name] for name in listeners if name != "CONTROLLER"),
        "listener.security.protocol.map": ",".join(f"{name}:{protocol}" for name, protocol in names.items()),
        "controller.quorum.voters": f"1@127.0.0.1:{ports['CONTROLLER']}",
    }
    if sasl:
        found |= _sasl_settings([name for name in listeners if name.startswith("SASL")])
    if tls:
        found |= _tls_settings(directory / "tls")
    if acl:
        found |= {
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS",  # the clients of the listener without a password
        }
    return found


def _sasl_settings(listeners: Sequence[str]) -> dict[str, str]:
    modules = "org.apache.kafka.common.security"
    found = {"sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256"}
    for listener in listeners:
        prefix = f"listener.name.{listener.lower()}"
        found |= {
            f"{prefix}.plain.sasl.jaas.config": f'{modules}.plain.PlainLoginModule required user_{USER}="{PASSWORD}";',
            f"{prefix}.scram-sha-256.sasl.jaas.config": f"{modules}.scram.ScramLoginModule required;",
        }
    return found


def _tls_settings(directory: Path) -> dict[str, str]:
    return {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(directory / "broker.pem"),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(directory / CERTIFICATES[0]),
    }


CERTIFICATES = ("ca.pem", "client.pem", "client.key")
# Everything that Python's strict verification looks at.
OPENSSL = """\
[req]
distinguished_name = name
prompt = no
[name]
CN = speciate tests
[authority]
basicConstraints = critical, CA:TRUE
keyUsage = critical, keyCertSign
subjectKeyIdentifier = hash
[party]
subjectAltName = IP:127.0.0.1, DNS:localhost
authorityKeyIdentifier = keyid
"""


def _make_certificates(directory: Path) -> None:
    """An authority, and a broker and a client that it vouches for."""
    directory.mkdir()
    (directory / "openssl.cnf").write_text(OPENSSL)
    request = "openssl req -config openssl.cnf -nodes -newkey ec -pkeyopt ec_paramgen_curve:prime256v1"
    sign = "openssl x509 -req -days 2 -extfile openssl.cnf -extensions party -CA ca.pem -CAkey ca.key -CAcreateserial"
    commands = [f"{request} -x509 -days 2 -extensions authority -keyout ca.key -out ca.pem"]
    for party in ("broker", "client"):
        commands.append(f"{request} -keyout {party}.key -out {party}.csr -subj /CN={party}")
        commands.append(f"{sign} -in {party}.csr -out {party}.pem")
    for command in commands:
        _run(*command.split(), cwd=directory)
    keystore = directory / "broker.pem"
    keystore.write_text((directory / "broker.key").read_text() + keystore.read_text())


def _blocking(work: Coroutine[Any, Any, T]) -> T:
    """Run it in a thread of its own: the caller's may have a running loop."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, work).result()


@contextlib.asynccontextmanager
async def started(client: Client) -> AsyncIterator[Client]:
    """What `async with client` does, but a client that could not start is closed as well: aiokafka warns otherwise."""
    try:
        await client.start()
        yield client
    finally:
        await (client.close() if isinstance(client, AIOKafkaAdminClient) else client.stop())


@contextlib.asynccontextmanager
async def _admin(servers: str) -> AsyncIterator[AIOKafkaAdminClient]:
    """An admin client that knows a broker to ask.

    A broker that stood still is left out by its controller until that hears of it again; whoever connects meanwhile is
    told of no broker at all.
    """
    async with asyncio.timeout(PATIENCE):
        while True:
            async with started(AIOKafkaAdminClient(bootstrap_servers=servers)) as admin:
                if admin._client.cluster.brokers():
                    yield admin
                    return
            await asyncio.sleep(0.05)


async def _ready(servers: str) -> bool:
    host, port = servers.split(":")
    try:
        # aiokafka would log an error for every attempt.
        _, writer = await asyncio.open_connection(host, int(port))
        writer.close()
        await writer.wait_closed()
        async with started(AIOKafkaAdminClient(bootstrap_servers=servers)) as admin:
            cluster = await admin.describe_cluster()
            return bool(cluster["brokers"]) and _led(await admin.describe_topics())
    except (OSError, KafkaError):
        return False


def _led(topics: Sequence[Mapping[str, Any]]) -> bool:
    return all(
        topic["error_code"] == 0 and all(partition["leader"] >= 0 for partition in topic["partitions"])
        for topic in topics
    )


async def _create_topic(servers: str, name: str, partitions: int, config: dict[str, str]) -> None:
    async with _admin(servers) as admin:
        wanted = NewTopic(name, partitions, 1, topic_configs=config)
        ((_, code, message),) = (await admin.create_topics([wanted])).topic_errors
        while "All brokers are currently fenced" in (message or ""):
            await asyncio.sleep(0.05)
            ((_, code, message),) = (await admin.create_topics([wanted])).topic_errors
        if code != 0:
            raise for_code(code)(f"{name}: {message}")
        while not _led(await admin.describe_topics([name])):  # noqa: ASYNC110 - only asking tells
            await asyncio.sleep(0.02)


async def _delete_topic(servers: str, name: str) -> None:
    async with _admin(servers) as admin:
        ((_, code),) = (await admin.delete_topics([name])).topic_error_codes
        if code != 0:
            raise for_code(code)(name)
        while name in await admin.list_topics():  # noqa: ASYNC110 - only asking tells
            await asyncio.sleep(0.02)


async def _produce(servers: str, topic: str, records: Sequence[Record]) -> list[RecordMetadata]:
    async with (
        asyncio.timeout(PATIENCE),
        started(AIOKafkaProducer(bootstrap_servers=servers, acks="all", enable_idempotence=True)) as producer,
    ):
        sent = [
            await producer.send(topic, value, key, partition=partition, headers=list(headers))
            for partition, key, value, headers in records
        ]
        return [await future for future in sent]


@contextlib.asynccontextmanager
async def _reader(
    servers: str, topic: str, isolation: str
) -> AsyncIterator[tuple[AIOKafkaConsumer, dict[TopicPartition, int]]]:
    """A consumer at the beginning of every partition of a topic, and the ends it is to read to."""
    options = {"auto_offset_reset": "earliest", "enable_auto_commit": False}
    async with (
        asyncio.timeout(PATIENCE),
        started(AIOKafkaConsumer(bootstrap_servers=servers, isolation_level=isolation, **options)) as consumer,
    ):
        async with _admin(servers) as admin:
            (described,) = await admin.describe_topics([topic])
        if described["error_code"] != 0:
            raise for_code(described["error_code"])(topic)
        partitions = sorted(TopicPartition(topic, found["partition"]) for found in described["partitions"])
        consumer.assign(partitions)
        yield consumer, await consumer.end_offsets(partitions)


async def _settle(servers: str, topic: str) -> None:
    least = await _end_offsets(servers, topic, "read_uncommitted")
    async with _reader(servers, topic, "read_committed") as (consumer, bounds):
        ends = bounds
        while any(end < least[place.partition] for place, end in ends.items()):
            await asyncio.sleep(0.01)
            ends = await consumer.end_offsets(list(bounds))


async def _read_all(servers: str, topic: str, isolation: str, *, settled: bool) -> dict[int, list[ConsumerRecord]]:
    if settled:
        await _settle(servers, topic)
    async with _reader(servers, topic, isolation) as (consumer, ends):
        found: dict[int, list[ConsumerRecord]] = {partition.partition: [] for partition in ends}
        # Positions, not records, say when the end is reached: markers and aborted records have offsets too.
        while behind := [place for place, end in ends.items() if await consumer.position(place) < end]:
            for place, records in (await consumer.getmany(*behind, timeout_ms=100)).items():
                found[place.partition] += [record for record in records if record.offset < ends[place]]
        return found


async def _end_offsets(servers: str, topic: str, isolation: str) -> dict[int, int]:
    async with _reader(servers, topic, isolation) as (_, ends):
        return {partition.partition: end for partition, end in ends.items()}


# Kafka's numbers for them.
RESOURCES = {"topic": 2, "group": 3, "transactional_id": 5}
OPERATIONS = {"all": 2, "read": 3, "write": 4, "describe": 8}
ANY, LITERAL, ALLOW = 1, 3, 3


async def _grant(servers: str, resource: int, name: str, operation: int) -> None:
    user = f"User:{USER}"
    async with _admin(servers) as admin:
        created = await admin._send_request(
            CreateAclsRequest(resource, name, LITERAL, user, "*", operation, ALLOW),
        )
        ((code, message),) = created.creation_responses
        if code != 0:
            raise for_code(code)(message)
        # The controller has it; a client is refused until the broker has it too.
        wanted = DescribeAclsRequest(resource, name, LITERAL, user, "*", operation, ALLOW)
        while not (await admin._send_request(wanted)).resources:  # noqa: ASYNC110 - only asking tells
            await asyncio.sleep(0.02)
