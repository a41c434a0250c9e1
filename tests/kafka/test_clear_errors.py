"""What a user is told when something is wrong: one line that says what and what to do, and the right exit code."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from aiokafka import TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, RecordsToDelete
from broker import PASSWORD, UNHURRIED, Broker, _blocking, _make_certificates, started
from old_broker import OldBroker
from pipelines import (
    DECIDE,
    Bench,
    Worker,
    check_exactly_once,
    events,
    messages,
    speciate,
    write_support,
)

from speciate_plugins.kafka.connection import KafkaConnection
from speciate_plugins.kafka.producer import Transaction

LOGIN = 'sasl = "{how}"\nusername = "robot"\npassword_file = "{folder}/password"'
SOON = 60.0
"""Seconds until one is told, on a busy machine."""
CALM = ("-s", "source.session_timeout_ms=30000")
"""For a run that takes some seconds: if the machine stands still meanwhile, aiokafka tells of its session as well."""
YOURS, STATE, WORLD = 2, 3, 4
"""Exit codes: the operator's to mend, the state does not fit, the world refused."""


def told(config: Path, code: int, *options: str) -> str:
    """The one line that a run ends with; what goes before are lines of the log, and none of them tells of an error.

    But for one of aiokafka: a broker whose first group this is has to make room for groups first.
    """
    done = speciate("run", config, *options, code=code, seconds=SOON)
    *before, last = done.stderr.splitlines()
    for line in before:
        one = json.loads(line)
        assert one["level"] in {"info", "warning"} or "Group Coordinator" in one["message"], done.stderr
    assert last.startswith("speciate: error: "), done.stderr
    assert done.stdout == ""
    return last.removeprefix("speciate: error: ")


@pytest.fixture(scope="module")
def guarded(kafka_runs_here: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker with every listener, where `USER` may only do what a test grants."""
    with Broker(tmp_path_factory.mktemp("guarded"), sasl=True, tls=True, acl=True, properties=UNHURRIED) as one:
        yield one


@pytest.fixture
def bench(broker: Broker, topic: str, tmp_path: Path) -> Iterator[Bench]:
    with Bench(broker, tmp_path, topic) as one:
        write_support(tmp_path)
        yield one


@pytest.fixture
def strict(guarded: Broker, topic: str, tmp_path: Path) -> Iterator[Bench]:
    """On the guarded broker, where all topics are made by one who may."""
    with Bench(guarded, tmp_path, topic) as one:
        write_support(tmp_path)
        one.make(DECIDE)
        yield one


def logged_in(bench: Bench, *, how: str = "plain", password: str = PASSWORD, servers: str | None = None) -> Path:
    """The configuration of one who logs in."""
    (bench.folder / "password").write_text(f"{password}\n")
    address = servers or bench.broker.sasl_servers
    text = DECIDE.replace('servers = ["{servers}"]', f'servers = ["{address}"]\n{LOGIN.replace("{how}", how)}')
    return bench.write(text, "user.toml")


def grant_all_but(bench: Bench, *left_out: str) -> None:
    """Every right that a run needs, by what it is for, but some."""
    name = bench.topic
    needed = {
        "in": ("topic", f"{name}-in"),
        "answers": ("topic", f"{name}-answers"),
        "dead": ("topic", f"{name}-dead"),
        "state": ("topic", f"{name}-state"),
        "group": ("group", name),
        "writer": ("transactional_id", f"speciate-{name}-answers-0"),
        "keeper": ("transactional_id", f"speciate-{name}-state-0"),
    }
    for use, (resource, found) in needed.items():
        if use not in left_out:
            bench.broker.grant(resource, found, "all")


@pytest.mark.parametrize("how", ["plain", "scram-sha-256"])
def test_a_wrong_password(strict: Bench, how: str) -> None:
    config = logged_in(strict, how=how, password="hunter2")
    line = told(config, YOURS)
    assert f"cannot connect to {strict.broker.sasl_servers}: the brokers refuse user 'robot'" in line
    assert f"password_file = '{strict.folder}/password'" in line
    assert "check both" in line
    assert "hunter2" not in line


def test_tls_with_the_wrong_authority(strict: Bench, tmp_path: Path) -> None:
    _make_certificates(tmp_path / "others")
    tls = f'servers = ["{strict.broker.tls_servers}"]\ntls = true\nca_file = "{tmp_path}/others/ca.pem"'
    config = strict.write(DECIDE.replace('servers = ["{servers}"]', tls), "tls.toml")
    line = told(config, YOURS)
    assert f"cannot connect to {strict.broker.tls_servers}: TLS failed: " in line
    assert "certificate verify failed" in line
    assert f"check ca_file = '{tmp_path}/others/ca.pem'" in line


def test_who_has_all_rights_is_let_in(strict: Bench) -> None:
    """What the others are told is for want of one right, and of nothing else."""
    grant_all_but(strict)
    strict.feed(messages(events(1, 5)))
    speciate("run", logged_in(strict), "-s", "source.follow=false")
    assert len(strict.answers()[0]) == 5


@pytest.mark.parametrize(
    ("missing", "wanted"),
    [
        ("in", "there is no topic '{topic}-in', or we may not see it"),
        ("answers", "topic '{topic}-answers' does not exist, or we may not see it"),
        ("dead", "topic '{topic}-dead' does not exist, or we may not see it"),
        ("state", "topic '{topic}-state' does not exist, or we may not see it"),
        ("group", "user 'robot' has no rights on the group '{topic}': grant Read"),
        ("writer", "user 'robot' has no rights on the transactional id 'speciate-{topic}-answers-0': grant Describe"),
        ("keeper", "user 'robot' has no rights on the transactional id 'speciate-{topic}-state-0': grant Describe"),
    ],
)
def test_a_right_that_is_missing(strict: Bench, missing: str, wanted: str) -> None:
    grant_all_but(strict, missing)
    line = told(logged_in(strict), YOURS)
    assert wanted.format(topic=strict.topic) in line
    remedies = {"writer": 'or set delivery = "at-least-once"', "keeper": '[store] plugin = "directory"'}
    assert remedies.get(missing, "") in line


@pytest.mark.parametrize("missing", ["in", "answers", "dead", "state"])
def test_a_topic_that_may_only_be_seen(strict: Bench, missing: str) -> None:
    grant_all_but(strict, missing)
    strict.broker.grant("topic", f"{strict.topic}-{missing}", "describe")
    strict.feed([*messages(events(1, 5)), (0, None, b"poison", ())])
    line = told(logged_in(strict), YOURS)
    right = "Read" if missing == "in" else "Write"
    assert f"user 'robot' has no rights on topic '{strict.topic}-{missing}'" in line
    assert right in line


@pytest.mark.parametrize(
    ("missing", "wanted"),
    [
        ("in", "there is no topic '{topic}-in', or we may not see it"),
        ("answers", "topic '{topic}-answers' does not exist, or we may not see it"),
        ("dead", "topic '{topic}-dead' does not exist, or we may not see it"),
        ("state", "topic '{topic}-state' does not exist, or we may not see it"),
    ],
)
def test_a_topic_that_is_missing(bench: Bench, missing: str, wanted: str) -> None:
    for name in {"in", "answers", "dead", "state"} - {missing}:
        bench.broker.create_topic(f"{bench.topic}-{name}")
    line = told(bench.write(DECIDE), YOURS)
    assert wanted.format(topic=bench.topic) in line
    assert "`speciate topics create CONFIG`" in line


def test_a_broker_without_transactions(tmp_path: Path) -> None:
    write_support(tmp_path)
    with OldBroker(["old-in", "old-answers", "old-dead", "old-state"]) as old:
        config = tmp_path / "pipeline.toml"
        text = DECIDE.replace('group = "{topic}"\nsession_timeout_ms = 3000\n', "")
        config.write_text(text.format(servers=old.servers, topic="old", folder=tmp_path))
        line = told(config, YOURS)
    assert "do not know what exactly-once output needs" in line
    assert 'set delivery = "at-least-once"' in line


async def test_a_broker_without_transactions_is_written_to_at_least_once() -> None:
    """What the message above advises to helps."""
    with OldBroker(["old"]) as old:
        writer = Transaction(KafkaConnection(servers=[old.servers]), "any", delivery="at-least-once")
        await writer.init()
        await writer.close()


Change = Callable[[Bench], Any]


def delete_records(bench: Bench, name: str, end: int | None = None) -> None:
    """As if what is in partition 0 of a topic, up to an offset or all of it, had expired."""

    async def delete() -> None:
        async with started(AIOKafkaAdminClient(bootstrap_servers=bench.broker.servers)) as admin:
            place = TopicPartition(f"{bench.topic}-{name}", 0)
            await admin.delete_records({place: RecordsToDelete(-1 if end is None else end)})

    _blocking(delete())


def make_anew(bench: Bench, name: str) -> None:
    """Delete a topic and create it again."""
    bench.broker.delete_topic(f"{bench.topic}-{name}")
    bench.broker.create_topic(f"{bench.topic}-{name}")


def killed_between_snapshots(bench: Bench) -> Path:
    """A pipeline that has answered more than it has saved."""
    config = bench.make(DECIDE)
    bench.feed(messages(events(1, 150)))
    worker: Worker = bench.start(config, "-s", "commit.snapshot_events=100000")
    bench.until_answered(150)
    worker.kill()
    return config


@pytest.mark.parametrize(
    ("change", "code", "wanted"),
    [
        (
            lambda bench: delete_records(bench, "in", 50),
            WORLD,
            "{topic}-in/0: offset 0 is needed next, but the oldest that is kept is 50: it expired",
        ),
        (
            lambda bench: make_anew(bench, "in"),
            WORLD,
            "{topic}-in/0: offset 0 was answered before and is needed again, but the log ends at 0: the topic was",
        ),
        (lambda bench: delete_records(bench, "answers", 50), STATE, "holds offsets 50 to"),
    ],
    ids=["input-expired", "input-anew", "answers-expired"],
)
def test_what_is_needed_again_and_is_gone(bench: Bench, change: Change, code: int, wanted: str) -> None:
    config = killed_between_snapshots(bench)
    change(bench)
    line = told(config, code, *CALM, "-s", "source.stuck_ms=4000")
    assert wanted.format(topic=bench.topic) in line
    assert "restore it" in line or "restore the topic" in line
    assert "start over with new" in line


def test_a_state_that_was_made_anew_is_learnt_again(bench: Bench) -> None:
    """It is no error: all that it was made of is still there."""
    config = killed_between_snapshots(bench)
    make_anew(bench, "state")
    bench.feed(messages(events(1, 50, first=150)))
    done = speciate("run", config, "-s", "source.follow=false")
    assert "no whole snapshot is left: learning all over again" in done.stderr
    check_exactly_once(bench.answers(), [200])


def test_answers_that_were_made_anew(bench: Bench) -> None:
    config = bench.make(DECIDE)
    bench.feed(messages(events(1, 150)))
    speciate("run", config, "-s", "source.follow=false")
    make_anew(bench, "answers")
    line = told(config, STATE, *CALM)
    assert "is of record 150, but the output answers only 0" in line


def test_dead_letters_of_another_kind(bench: Bench) -> None:
    bench.make(DECIDE)
    there = '[dead_letters]\nplugin = "kafka"\nservers = ["{servers}"]\ntopic = "{topic}-dead"\n'
    assert there in DECIDE
    other = DECIDE.replace(there, '[dead_letters]\nplugin = "eventlog"\npath = "{folder}/dead.log"\n')
    line = told(bench.write(other), YOURS)
    assert "cannot be committed together: use the same kind of sink for both" in line


def test_fresh_with_a_group(bench: Bench) -> None:
    line = told(bench.make(DECIDE), YOURS, "--fresh")
    assert "--fresh cannot empty what several workers share: start over with new outputs and state" in line


@pytest.mark.parametrize(
    ("name", "count", "code", "wanted"),
    [
        ("answers", 1, STATE, "topic '{topic}-answers' has 1 partitions, but there are 2 tasks"),
        ("answers", 3, STATE, "topic '{topic}-answers' has 3 partitions, but there are 2 tasks"),
        ("dead", 1, YOURS, "topic '{topic}-dead' has 1 partitions, but there are 2 tasks: give it 2"),
        ("state", 1, YOURS, "topic '{topic}-state' has 1 partitions, but there are 2 tasks: give it 2"),
        ("control", 1, YOURS, "control = '{topic}-control' has 1 partitions, but it needs one for each task"),
    ],
)
def test_numbers_of_partitions_that_do_not_fit(bench: Bench, name: str, count: int, code: int, wanted: str) -> None:
    for topic in ("in", "answers", "dead", "state", "control"):
        bench.broker.create_topic(f"{bench.topic}-{topic}", count if topic == name else 2)
    config = bench.write(DECIDE.replace("session_timeout_ms", 'control = "{topic}-control"\nsession_timeout_ms'))
    assert wanted.format(topic=bench.topic) in told(config, code)
