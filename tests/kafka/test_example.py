"""The recipe of examples/kafka, typed as it stands: its broker, its configurations, its commands."""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from broker import free_ports, read_topic

from speciate_schemas import Answer, decode

RECIPE = Path(__file__).parents[2] / "examples" / "kafka"
PATIENCE = 180.0


@pytest.fixture
def folder(tmp_path: Path, kafka_runs_here: None) -> Path:
    """A copy of the recipe on ports of its own: others on this machine may have the usual ones."""
    copy = tmp_path / "kafka"
    shutil.copytree(RECIPE, copy, ignore=shutil.ignore_patterns("broker", "demo"))
    ports = dict(zip(("9092", "9093"), map(str, free_ports(2)), strict=True))
    for path in (*copy.glob("*.toml"), copy / "broker.sh", copy / "README.md"):
        path.write_text(re.sub("9092|9093", lambda found: ports[found[0]], path.read_text()))
    return copy


def blocks(folder: Path) -> list[str]:
    return re.findall(r"^```sh\n(.*?)^```", (folder / "README.md").read_text(), re.MULTILINE | re.DOTALL)


def environment() -> dict[str, str]:
    """The commands of the environment that the tests run in come first."""
    return {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}


def type_in(folder: Path, block: str) -> str:
    done = subprocess.run(
        ["bash", "-e", "-c", block],
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, f"{block}\n{done.stdout}\n{done.stderr}"
    return done.stdout


class Terminal:
    """A command that goes on until it is interrupted."""

    def __init__(self, folder: Path, block: str, name: str) -> None:
        self.log = folder / f"{name}.log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                ["bash", "-c", f"exec {block.strip()}"], cwd=folder, env=environment(), stdout=log, stderr=log
            )

    def end(self, number: int = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.process.wait(PATIENCE)


@pytest.fixture
def terminals() -> Iterator[list[Terminal]]:
    opened: list[Terminal] = []
    yield opened
    for terminal in reversed(opened):
        if terminal.process.poll() is None:
            terminal.end(signal.SIGKILL)


def until(happened, what: str, *watched: Terminal):
    ends = time.monotonic() + PATIENCE
    while not (found := happened()):
        for terminal in watched:
            assert terminal.process.poll() is None, terminal.log.read_text()[-3000:]
        logs = "\n".join(terminal.log.read_text()[-2000:] for terminal in watched)
        assert time.monotonic() < ends, f"{what}\n{logs}"
        time.sleep(0.5)
    return found


def test_the_recipe_works_as_it_is_written(folder: Path, terminals: list[Terminal]):
    broker, prepare, decide, look, rename, make, encode = blocks(folder)
    servers = re.search(r'servers = \["(.*?)"\]', (folder / "decide.toml").read_text())[1]
    terminals.append(Terminal(folder, broker, "broker"))
    until(lambda: reachable(servers), "the broker does not start", terminals[0])
    assert "events" in type_in(folder, prepare)
    events = {number: len(records) for number, records in read_topic(servers, "events").items()}
    assert len(events) == 4
    recorded = np.load(folder / "demo" / "digits.npz")["split"]
    assert sum(events.values()) == (recorded == "stream").sum() > 0, "each recorded event is fed exactly once"
    assert max(events.values()) - min(events.values()) <= 1, "dealt out in turn"
    workers = [Terminal(folder, decide, f"worker-{number}") for number in range(2)]
    terminals += workers
    answers = until(
        lambda: (found := read_topic(servers, "assignments")) and counts(found) == events and found,
        "not all is answered",
        *workers,
    )
    decided = [decode(record.value, Answer, "json") for records in answers.values() for record in records]
    births = sum(len(records) for records in read_topic(servers, "births").values())
    assert births == sum(one.birth for one in decided) > 0
    assert f"{sum(events.values()):,} inputs" in type_in(folder, look)
    type_in(folder, rename)
    until(
        lambda: sum(len(records) for records in read_topic(servers, "assignments").values()) == len(decided) + 1,
        "the name is not answered for",
        *workers,
    )
    assert [worker.end() for worker in workers] == [0, 0]
    type_in(folder, make)
    terminals.append(Terminal(folder, encode, "encoder"))
    until(lambda: "task taken over" in terminals[-1].log.read_text(), "the encoder has no task", terminals[-1])
    assert terminals[-1].end() == 0


def counts(topic: dict[int, list]) -> dict[int, int]:
    return {number: len(records) for number, records in topic.items()}


def reachable(servers: str) -> bool:
    host, _, port = servers.rpartition(":")
    with socket.socket() as one:
        return one.connect_ex((host, int(port))) == 0
