"""A real Kafka for the tests of this folder."""

import os
import re
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from broker import UNHURRIED, Broker, missing


@pytest.fixture(scope="session")
def kafka_runs_here() -> None:
    """Skip what needs Kafka, but not where it must run: a skip nobody sees would be a check nobody makes."""
    reason = missing()
    if reason and os.environ.get("CI") == "true":
        pytest.fail(reason)
    if reason:
        pytest.skip(reason)


@pytest.fixture(scope="session")
def broker(kafka_runs_here: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """The broker that tests share, and leave alone."""
    with Broker(tmp_path_factory.mktemp("kafka"), properties=UNHURRIED) as shared:
        yield shared


@pytest.fixture(scope="session")
def victim(kafka_runs_here: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """Dead or alive, for `mortal` to revive."""
    one = Broker(tmp_path_factory.mktemp("mortal"))
    yield one
    one.kill()


@pytest.fixture
def mortal(victim: Broker) -> Iterator[Broker]:
    """The broker that tests kill and pause, alive again for each of them."""
    if not victim.alive:
        victim.start()
    yield victim
    if victim.alive:
        victim.resume()


@pytest.fixture
def make_broker(kafka_runs_here: None, tmp_path: Path) -> Iterator[Callable[..., Broker]]:
    """Start brokers of the test's own, as it wants them configured; they end with the test."""
    made: list[Broker] = []

    def make(**options: Any) -> Broker:
        made.append(Broker(tmp_path / f"kafka-{len(made)}", **options))
        made[-1].start()
        return made[-1]

    yield make
    for each in made:
        each.kill()


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A name no other test has, on the shared broker too."""
    return f"{re.sub(r'[^a-zA-Z0-9]+', '-', request.node.name)}-{uuid.uuid4().hex[:8]}"
