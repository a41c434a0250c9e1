"""A broker that is away: killed, frozen, or not there to begin with. It costs time and nothing else."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest
from broker import Broker, forgetful, free_ports
from pipelines import DECIDE, Answers, Bench, Worker, check_exactly_once, events, messages, speciate, write_support

AWAY_SECONDS = 60.0 if os.environ.get("SPECIATE_LONG") == "1" else 20.0
FROZEN_SECONDS = 15.0
LEAVING_SECONDS = 30.0
"""How long a worker may take to end while the broker is away."""
GROWTH = 30 << 20
LINES = 200
EACH = 300
SLOW = "run.pace=30"
"""Events a second of each partition, so that they flow when the broker goes."""


@pytest.fixture(scope="module")
def mortal(kafka_runs_here: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker to be killed."""
    with Broker(tmp_path_factory.mktemp("mortal")) as one:
        yield one


@dataclass
class Outage:
    """What two pipelines did while the broker was dead: the worker of one stayed, that of the other was stopped."""

    stayed: Worker
    left: Worker
    exit_code: int = -1
    exit_seconds: float = 0.0
    memory: list[int] = field(default_factory=list)
    """Of the worker that stayed: before, and then every second."""
    answers: dict[str, Answers] = field(default_factory=dict)


def flowing(*benches: Bench) -> list[Path]:
    """Of each a worker in the midst of its work; the configurations."""
    configs = []
    for bench in benches:
        write_support(bench.folder)
        configs.append(bench.make(DECIDE, 2))
        for partition in range(2):
            bench.feed(messages(events(partition, EACH), partition))
    for bench, config in zip(benches, configs, strict=True):
        bench.start(config, "-s", SLOW)
    for bench in benches:
        found = bench.until_answered(10, 10)
        assert max(map(len, found.values())) < EACH, "they ran dry before the broker could be killed"
    return configs


def resident(worker: Worker) -> int:
    return psutil.Process(worker.pid).memory_info().rss


@pytest.fixture(scope="module")
def outage(mortal: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Outage]:
    """Kill the broker, stop one worker, bring the broker back, and see everything answered."""
    folder = tmp_path_factory.mktemp("outage")
    with Bench(mortal, folder / "stays", "stays") as stays, Bench(mortal, folder / "leaves", "leaves") as leaves:
        _, config = flowing(stays, leaves)
        (stayed,), (left,) = stays.workers, leaves.workers
        found = Outage(stayed, left, memory=[resident(stayed)])
        mortal.kill()
        began = time.monotonic()
        watch(found, began, until=began + 3.0)
        left.send(signal.SIGTERM)
        asked = time.monotonic()
        while left.code is None and time.monotonic() < asked + 2 * LEAVING_SECONDS:
            watch(found, began, until=time.monotonic() + 0.2)
        found.exit_code, found.exit_seconds = left.wait(1.0), time.monotonic() - asked
        watch(found, began, until=began + AWAY_SECONDS)
        assert stayed.code is None, stayed.tail()
        mortal.start()
        leaves.start(config)
        for bench in (stays, leaves):
            found.answers[bench.topic] = bench.until_answered(EACH, EACH)
        yield found


def watch(found: Outage, began: float, until: float) -> None:
    """Note the memory of the worker that stays, once a second."""
    while time.monotonic() < until and found.stayed.code is None:
        if time.monotonic() - began > len(found.memory):
            found.memory.append(resident(found.stayed))
        time.sleep(0.1)


def test_a_worker_waits_for_the_broker_and_goes_on_by_itself(outage: Outage) -> None:
    assert outage.stayed.code is None, outage.stayed.tail()
    check_exactly_once(outage.answers["stays"], [EACH, EACH])


def test_waiting_takes_no_memory(outage: Outage) -> None:
    assert len(outage.memory) >= AWAY_SECONDS / 2
    assert max(outage.memory) - outage.memory[0] < GROWTH, [size >> 20 for size in outage.memory]


def test_waiting_is_told_but_not_at_length(outage: Outage) -> None:
    lines = outage.stayed.lines()
    assert len(lines) < LINES, outage.stayed.tail()
    assert outage.stayed.lines("Unable connect"), outage.stayed.tail()


def test_a_worker_can_be_stopped_meanwhile_and_loses_nothing(outage: Outage) -> None:
    assert outage.exit_code == 0, outage.left.tail()
    assert outage.exit_seconds < LEAVING_SECONDS, outage.left.tail()
    check_exactly_once(outage.answers["leaves"], [EACH, EACH])


def test_a_frozen_broker_costs_only_time(mortal: Broker, topic: str, tmp_path: Path) -> None:
    with Bench(mortal, tmp_path, topic) as bench:
        flowing(bench)
        (worker,) = bench.workers
        mortal.pause()
        try:
            time.sleep(FROZEN_SECONDS)  # so long it is away: there is nothing to wait for
            assert worker.code is None, worker.tail()
        finally:
            mortal.resume()
        check_exactly_once(bench.until_answered(EACH, EACH), [EACH, EACH])
        assert len(worker.lines()) < LINES, worker.tail()
        assert worker.stop() == 0, worker.tail()


def test_a_broker_that_is_left_out_now_and_then_costs_only_time(
    make_broker: Callable[..., Broker], topic: str, tmp_path: Path
) -> None:
    broker = make_broker(properties=forgetful(session_ms=4000, heartbeat_ms=6500))
    with Bench(broker, tmp_path, topic) as bench:
        flowing(bench)
        before = broker.times_left_out()
        bench.until(lambda: broker.times_left_out() > before, "the broker is left out")
        for partition in range(2):
            bench.feed(messages(events(2 + partition, EACH), partition))
        check_exactly_once(bench.until_answered(2 * EACH, 2 * EACH), [2 * EACH, 2 * EACH])
        (worker,) = bench.workers
        assert len(worker.lines()) < LINES, worker.tail()
        assert worker.stop() == 0, worker.tail()


def nobody_there(folder: Path, group: str) -> tuple[Path, str]:
    """A configuration for a broker that does not run, and its address."""
    write_support(folder)
    servers = f"127.0.0.1:{free_ports(1)[0]}"
    config = folder / "pipeline.toml"
    text = DECIDE.replace('group = "{topic}"\n', group)
    config.write_text(text.format(servers=servers, topic="any", folder=folder))
    return config, servers


@pytest.mark.parametrize("command", ["topics list", "inspect"])
def test_a_command_does_not_wait_for_a_broker(tmp_path: Path, command: str) -> None:
    config, servers = nobody_there(tmp_path, 'group = "any"\n')
    (line,) = speciate(*command.split(), config, code=4).stderr.splitlines()
    assert line == f"speciate: error: cannot connect to {servers}: Connection refused"
