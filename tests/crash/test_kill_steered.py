"""Kill -9 while control events come from outside: crash and resume equals never crashed."""

import os
import random
import shutil
import signal
import subprocess
import time
from itertools import count
from pathlib import Path

from schedule import COMMAND, outputs, run_to_end
from stream import write_stream

from speciate_plugins.stores.directory import DirectoryOptions, DirectoryStore
from speciate_schemas import MergeCategories, RenameCategory, UndoLast, encode

EVENTS, KILLS = 5000, 5
OFTEN = ("-s", "commit.snapshot_events=40")
"""So often that some are saved between the kills, of which the next process goes on."""


def test_killed_while_it_is_steered_it_ends_as_if_nothing_had_happened(tmp_path: Path):
    config, moments = write_stream(tmp_path, events=EVENTS, seed=21), random.Random(21)
    state, numbers = tmp_path / "out" / "state", count()
    store = DirectoryStore(DirectoryOptions(path=str(state)))
    for _ in range(KILLS):
        process = subprocess.Popen([*COMMAND, "run", str(config), "--pace", "200", *OFTEN], stdout=subprocess.DEVNULL)
        wait_until_open(state, process)
        for _ in range(4):
            time.sleep(moments.uniform(0.0, 0.15))
            store.send(some_control(next(numbers), moments))
        time.sleep(moments.uniform(0.0, 0.3))
        assert process.poll() is None, "the stream ended before the kill: the schedule proved nothing"
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    placed = store.load_places()
    assert placed, "none was taken in by those that were killed: the schedule proved nothing"
    assert max(store.snapshots()) > 0, "none was saved by those that were killed: the schedule proved nothing"
    run_to_end(config, *OFTEN)
    assert store.load_places()[: len(placed)] == placed
    found = outputs(tmp_path)
    (tmp_path / "out").rename(tmp_path / "killed")
    state.mkdir(parents=True)
    for name in ("controls.log", "places.json"):
        shutil.copy(tmp_path / "killed" / "state" / name, state)
    run_to_end(config, *OFTEN)
    assert outputs(tmp_path) == found
    answers = (tmp_path / "out" / "answers.jsonl").read_bytes()
    assert answers.count(b"\n") == EVENTS + KILLS * 4
    assert [answers.count(b'"controls@%d"' % number) for number in range(KILLS * 4)] == [1] * KILLS * 4


def some_control(number: int, moments: random.Random) -> bytes:
    name, category = f"by hand {number}", moments.randrange(12)
    merge = MergeCategories(id=name, keep=category, absorb=moments.randrange(12, 20))
    return encode(moments.choice([RenameCategory(id=name, category=category, label=name), merge, UndoLast(id=name)]))


def wait_until_open(state: Path, process: subprocess.Popen[bytes]) -> None:
    """Wait until the process holds the lock of the state and has begun."""
    lock = state / "lock"
    while not lock.exists() or lock.read_text().strip() != str(process.pid) or not (state / "commit.json").exists():
        assert process.poll() is None
        time.sleep(0.002)
