"""The command line on Kafka, as a user has it: topics, feeding, running, looking, controlling, recording."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from aiokafka import AIOKafkaConsumer
from broker import Broker, started
from click.testing import CliRunner, Result

from speciate import cli
from speciate.config import choose
from speciate.plugins import installed
from speciate_schemas import Array, FeatureEvent, ImageEvent, decode, encode
from speciate_schemas.framing import pack

DIMENSION, EACH = 6, 30
PNG = b"\x89PNG\r\n\x1a\n"

HEAD = """
[support]
plugin = "npz"
paths = ["{folder}/support.npz"]
[density]
plugin = "nearest-mean"
[policy]
plugin = "dp"
alpha = 1e-3
[commit]
events = 20
interval_ms = 50
"""

SHARED = (
    """
[source]
plugin = "kafka"
servers = ["{servers}"]
topics = ["{topic}-in"]
group = "{topic}"
control = "{topic}-control"
follow = false
session_timeout_ms = 2000
[sink]
plugin = "kafka"
servers = ["{servers}"]
topic = "{topic}-answers"
births = "{topic}-births"
[dead_letters]
plugin = "kafka"
servers = ["{servers}"]
topic = "{topic}-dead"
[store]
plugin = "kafka"
servers = ["{servers}"]
topic = "{topic}-state"
"""
    + HEAD
)

FEED = """
[source]
plugin = "eventlog"
paths = ["{folder}/stream.log"]
[sink]
plugin = "kafka"
servers = ["{servers}"]
topic = "{topic}-in"
"""


def speciate(*args: Any, code: int = 0, answer: str | None = None) -> Result:
    """Run a command in this process."""
    result = CliRunner().invoke(cli.group, [str(arg) for arg in args], prog_name="speciate", input=answer)
    assert result.exit_code == code, result.output
    return result


def told(*args: Any, **more: Any) -> Any:
    return json.loads(speciate(*args, "--json", **more).stdout)


def events(seed: int, count: int = EACH) -> list[FeatureEvent]:
    """Of two known classes, and of a third."""
    rng = np.random.default_rng(seed)
    return [
        FeatureEvent(id=f"{seed}-{n}", stream=f"camera-{n % 2}", features=Array.of(_vector(rng, n % 3)))
        for n in range(count)
    ]


def _vector(rng: np.random.Generator, kind: int) -> np.ndarray:
    return (rng.normal(size=DIMENSION) + 20.0 * kind).astype(np.float32)


Write = Callable[..., Path]


@pytest.fixture
def write(broker: Broker, topic: str, tmp_path: Path) -> Write:
    """Write a configuration for the broker and the topics of this test."""
    rng = np.random.default_rng(7)
    kinds = np.repeat([0, 1], 20)
    np.savez(tmp_path / "support.npz", features=np.stack([_vector(rng, kind) for kind in kinds]), labels=kinds)

    def configuration(text: str, name: str = "pipeline.toml") -> Path:
        path = tmp_path / name
        path.write_text(text.format(servers=broker.servers, topic=topic, folder=tmp_path))
        return path

    return configuration


def fill(broker: Broker, topic: str, found: Sequence[FeatureEvent], partition: int = 0) -> None:
    broker.produce(topic, [(partition, one.stream.encode(), encode(one), ()) for one in found])


def states(rows: Sequence[dict[str, Any]]) -> dict[str, tuple[int, str]]:
    return {row["topic"].rpartition("-")[2]: (row["partitions"], row["state"]) for row in rows}


def test_topics_are_created_listed_and_deleted(broker: Broker, topic: str, write: Write) -> None:
    config = write(SHARED)
    needed = ("in", "control", "answers", "births", "dead", "state")
    assert states(told("topics", "list", config)) == dict.fromkeys(needed, (1, "missing"))
    assert states(told("topics", "create", config, "--partitions", 2)) == dict.fromkeys(needed, (2, "created"))
    again = told("topics", "create", config)
    assert states(again) == dict.fromkeys(needed, (2, "there"))
    assert [row["remarks"] for row in again] == [[]] * len(needed)
    assert {row["replication"] for row in again} == {1}
    refused = speciate("topics", "create", config, "--partitions", 3, code=2).stderr
    assert f"topic '{topic}-in' for [source] has 2 partitions instead of 3: ask for --partitions 2" in refused
    alone = told("topics", "list", config, "-s", 'run.universe="shared"')
    assert [bool(row["remarks"]) for row in alone] == [False, True, True, False, False, False]
    assert "nothing was deleted" in speciate("topics", "delete", config, code=2, answer="n\n").stderr
    gone = told("topics", "delete", config, "--yes")
    assert states(gone) == dict.fromkeys(needed[1:], (2, "deleted"))
    text = speciate("topics", "list", config).stdout
    assert text.count("missing") == len(needed) - 1
    assert text.count("there") == 1
    assert states(told("topics", "delete", config, "--inputs", "--yes"))["in"] == (2, "deleted")


def test_topics_in_use_are_not_deleted(broker: Broker, topic: str, write: Write) -> None:
    config = write(SHARED)
    speciate("topics", "create", config)

    async def refused() -> str:
        member = AIOKafkaConsumer(f"{topic}-in", group_id=topic, bootstrap_servers=broker.servers)
        async with started(member):
            return (await asyncio.to_thread(speciate, "topics", "delete", config, "--yes", code=2)).stderr

    assert f"group '{topic}' has workers that are running (1): stop them first" in asyncio.run(refused())
    speciate("topics", "delete", config, "--yes")


def test_a_recording_is_fed_into_a_topic_and_decided_from_there(broker: Broker, topic: str, write: Write) -> None:
    feed = write(FEED, "feed.toml")
    (feed.parent / "stream.log").write_bytes(b"".join(pack(encode(one)) for one in events(1)) + pack(b"no event"))
    assert states(told("topics", "create", feed)) == {"in": (1, "created")}
    report = told("run", feed)
    assert (report["tally"]["forwarded"], report["tally"]["rejected"]) == (EACH, 1)
    assert told("run", feed)["answered"] == 0, "all of it is there already"
    found = told("inspect", feed)
    assert (found["committed_sequence"], found["categories"]) == (EACH + 1, [])
    there = broker.read_all(f"{topic}-in")[0]
    assert [decode(one.value, FeatureEvent).id for one in there[:-1]] == [one.id for one in events(1)]
    config = write(SHARED)
    assert states(told("topics", "create", config))["in"] == (1, "there")
    report = told("run", config)
    assert (report["tally"]["assigned"], report["tally"]["rejected"]) == (EACH, 1)
    assert len(broker.read_all(f"{topic}-births")[0]) == report["tally"]["births"] > 0
    broker.settle(f"{topic}-answers", f"{topic}-state")
    found = told("inspect", config)
    assert (found["committed_sequence"], found["snapshot_sequence"], found["lag"]) == (EACH + 1, EACH + 1, 0)
    assert found["outcomes"] == report["tally"]


def test_tasks_are_shown_and_their_categories_changed(broker: Broker, topic: str, write: Write) -> None:
    config = write(SHARED)
    speciate("topics", "create", config, "--partitions", 2)
    assert "holds no state yet" in speciate("inspect", config, code=3).stderr
    for partition in range(2):
        fill(broker, f"{topic}-in", events(partition, 30 + 6 * partition), partition)
    told("run", config)
    broker.settle(f"{topic}-answers", f"{topic}-state")
    tasks = told("inspect", config)["tasks"]
    assert [(one["partition"], one["committed_sequence"], one["lag"]) for one in tasks] == [(0, 30, 0), (1, 36, 0)]
    assert all(one["snapshot_sequence"] == one["committed_sequence"] for one in tasks)
    assert [one["source_position"][:3] for one in tasks] == [[f"{topic}-control", n, 0] for n in range(2)]
    assert {one["born"] for one in tasks} == {1}
    assert "there are 2 tasks" in speciate("category", "rename", config, 2, "bird", code=2).stderr
    assert "--partition 2" in speciate("category", "rename", config, 2, "bird", "--partition", 2, code=2).stderr
    sent = told("category", "rename", config, 2, "bird", "--partition", 1)
    assert (sent["partition"], sent["place"]) == (1, f"{topic}-control/1@0")
    assert f"in {topic}-control/0@0" in speciate("category", "merge", config, 0, 1, "--partition", 0).stdout
    fill(broker, f"{topic}-in", events(5, 3))
    assert [one["lag"] for one in told("inspect", config)["tasks"]] == [4, 1]
    told("run", config)
    broker.settle(f"{topic}-answers", f"{topic}-state")
    lines = speciate("inspect", config).stdout.splitlines()
    assert lines[0].split() == ["partition", "committed", "snapshot", "position", "lag", "categories"]
    assert [line.split()[0] for line in lines[2:4]] == ["0", "1"]
    assert ["1", "2", "bird", "born", "12"] in [line.split() for line in lines]
    one = told("inspect", config, "--partition", 0)
    assert [category["id"] for category in one["categories"]][:2] == [0, 2]
    assert "numbered from 0 to 1" in speciate("inspect", config, "--partition", 2, code=2).stderr


def test_categories_of_streams(broker: Broker, topic: str, write: Write) -> None:
    config = write(SHARED + '[run]\nuniverse = "stream"\n')
    speciate("topics", "create", config)
    fill(broker, f"{topic}-in", events(1))
    told("run", config)
    assert "name it with --stream" in speciate("category", "forget", config, 1, code=2).stderr
    speciate("category", "forget", config, 1, "--stream", "camera-1")
    told("run", config)
    broker.settle(f"{topic}-answers", f"{topic}-state")
    found = told("inspect", config)["categories"]
    assert [(one["stream"], one["id"]) for one in found] == [
        *(("camera-0", number) for number in (0, 1, 2)),
        *(("camera-1", number) for number in (0, 2)),
    ]
    assert speciate("inspect", config).stdout.split()[:2] == ["stream", "category"]


def test_a_recording_is_dealt_among_partitions(broker: Broker, topic: str, write: Write) -> None:
    feed = write(FEED.replace('[sink]\nplugin = "kafka"', '[sink]\nplugin = "kafka-keyed"'))
    (feed.parent / "stream.log").write_bytes(b"".join(pack(encode(one)) for one in events(1)))
    assert states(told("topics", "create", feed, "--partitions", 3)) == {"in": (3, "created")}
    assert told("run", feed)["tally"]["forwarded"] == EACH
    assert told("run", feed)["answered"] == 0
    assert told("inspect", feed)["committed_sequence"] == EACH
    there = broker.read_all(f"{topic}-in")
    streams = [{decode(one.value, FeatureEvent).stream for one in found} for found in there.values()]
    assert sorted(stream for found in streams for stream in found) == ["camera-0", "camera-1"]
    assert sum(len(found) for found in there.values()) == EACH


@pytest.mark.parametrize("store", ["directory", "kafka"])
def test_a_recording_is_decided_into_topics(broker: Broker, topic: str, write: Write, store: str) -> None:
    where = 'path = "{folder}/state"' if store == "directory" else 'servers = ["{servers}"]\ntopic = "{topic}-state"'
    letters = '[dead_letters]\nplugin = "kafka"\nservers = ["{servers}"]\ntopic = "{topic}-dead"\n'
    config = write(FEED + letters + f'[store]\nplugin = "{store}"\n{where}\n' + HEAD)
    log = config.parent / "stream.log"
    log.write_bytes(b"".join(pack(encode(one)) for one in events(1)) + pack(bytes(3 << 20)))
    speciate("topics", "create", config)
    assert told("run", config)["tally"]["rejected"] == 1
    with log.open("ab") as more:
        more.write(b"".join(pack(encode(one)) for one in events(2)))
    assert told("run", config)["answered"] == EACH
    assert len(broker.read_all(f"{topic}-in")[0]) == 2 * EACH + 1
    assert [len(found) for found in broker.read_all(f"{topic}-dead").values()] == [1]
    if store == "kafka":
        broker.settle(f"{topic}-state")
    found = told("inspect", config)
    assert found["committed_sequence"] == found["snapshot_sequence"] == 2 * EACH + 1
    assert found["lag"] is None
    if store == "directory":
        speciate("category", "forget", config, 1)
        assert told("run", config)["tally"]["controls"] == 1
    else:
        assert "takes no control events from outside" in speciate("category", "forget", config, 1, code=2).stderr


def recorded(path: Path) -> list[Any]:
    """The events of a recording."""

    async def read() -> list[Any]:
        source = choose(installed(), "source", {"plugin": "eventlog", "paths": [str(path)]}, "source").create()
        await source.open(None, 0)
        found = []
        while records := await source.read(100):
            found += [record.event for record in records]
        await source.close()
        return found

    return asyncio.run(read())


def test_all_partitions_of_a_topic_are_recorded(broker: Broker, topic: str, tmp_path: Path) -> None:
    broker.create_topic(topic, 3)
    sent = {partition: events(partition, 4) for partition in range(3)}
    for partition, found in sent.items():
        fill(broker, topic, found, partition)
    broker.produce(topic, [(0, None, b"no event", ())])
    source = ["--plugin", "kafka", "-s", f'servers=["{broker.servers}"]', "-s", f'topics=["{topic}"]']
    done = told("record", *source, "-s", "follow=false", "--to", tmp_path / "stream.log")
    assert (done["events"], done["damaged"]) == (13, 1)
    there = [one for one in recorded(tmp_path / "stream.log") if one is not None]
    for partition, found in sent.items():
        assert [one for one in there if one.id.startswith(f"{partition}-")] == found
    missing = speciate("record", *source[:-1], 'topics=["nowhere"]', "--to", tmp_path / "other.log", code=2).stderr
    assert "topic 'nowhere' does not exist" in missing
    assert not (tmp_path / "other.log").exists()


def test_images_are_recorded_until_ctrl_c(broker: Broker, topic: str, tmp_path: Path) -> None:
    broker.create_topic(topic)
    broker.produce(topic, [(0, b"door", PNG + bytes([number]), ()) for number in range(3)])
    log = tmp_path / "frames.log"
    command = [sys.executable, "-m", "speciate.cli", "record", "--plugin", "kafka", "--to", str(log)]
    options = [f'servers=["{broker.servers}"]', f'topics=["{topic}"]', "payload=image"]
    process = subprocess.Popen(
        [*command, *(part for option in options for part in ("-s", option))],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
    )
    try:
        deadline = time.monotonic() + 60
        while not (log.exists() and log.stat().st_size) and time.monotonic() < deadline:
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        stdout, stderr = process.communicate(timeout=30)
    finally:
        process.kill()
    assert process.returncode == 0, stderr
    assert stdout.startswith(b"3 inputs, ")
    found = recorded(log)
    assert all(isinstance(one, ImageEvent) for one in found)
    assert [bytes(one.image) for one in found] == [PNG + bytes([number]) for number in range(3)]
    assert {(one.stream, one.media_type) for one in found} == {("door", "image/png")}
