"""Memory and rate of replaying long streams: a thousandth, a tenth and all of a million events.

    python benchmarks/replay.py                     1 000 000 events of 64 features
    python benchmarks/replay.py --events 10000000

Features lie in an .npy file that is mapped, and assignments in another: what stays in memory are the categories, and a
few numbers an event, such as its label and its place in the order. Resident memory counts mapped pages of files too,
which the system takes back when it needs them; so what is printed is the memory that is the process's own.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

DIMENSION = 64
CLASSES = 50
BENCHMARK = """
title = "Made"
[data]
features = "features.npy"
arrays = "labels.npz"
[known]
first = 25
[support]
share = {share}
"""
METHOD = """
title = "Low rank"
[density]
plugin = "lowrank"
rank = 8
[policy]
plugin = "dp"
"""


def make(folder: Path, events: int) -> None:
    """Write a stream of round classes, a piece at a time."""
    rng = np.random.default_rng(0)
    centres = 6.0 * rng.normal(size=(CLASSES, DIMENSION))
    labels = rng.integers(0, CLASSES, size=events)
    kept = np.lib.format.open_memmap(folder / "features.npy", mode="w+", dtype=np.float32, shape=(events, DIMENSION))
    for start in range(0, events, 10_000):
        own = labels[start : start + 10_000]
        kept[start : start + len(own)] = centres[own] + rng.normal(size=(len(own), DIMENSION))
    np.savez(folder / "labels.npz", labels=labels)
    (folder / "bench.toml").write_text(BENCHMARK.format(share=min(0.5, 4000 / events)))
    (folder / "method.toml").write_text(METHOD)


def measure(folder: Path) -> tuple[float, float]:
    """Replay in a process of its own; the most memory of its own it had, in MB, and events a second."""
    command = [sys.executable, "-m", "speciate.cli", "replay", "./bench.toml", "./method.toml"]
    options = ["--data", ".", "--out", "run", "--batch", "256", "--json"]
    most = 0
    with (folder / "found.json").open("wb") as found:
        process = subprocess.Popen([*command, *options], cwd=folder, stdout=found, stderr=subprocess.DEVNULL)
        while process.poll() is None:
            most = max(most, own_memory(process.pid))
            time.sleep(0.05)
    timing = json.loads((folder / "found.json").read_text())["metrics"]["timing"]
    return most / 1e6, timing["events_per_second"]


def own_memory(process: int) -> int:
    """Bytes of memory that are not pages of a file; Linux tells."""
    try:
        lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("Anonymous:")), 0)


def main() -> None:
    """Print a line a length."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=1_000_000)
    options = parser.parse_args()
    for events in (options.events // 100, options.events // 10, options.events):
        with tempfile.TemporaryDirectory() as name:
            make(Path(name), events)
            memory, rate = measure(Path(name))
        print(f"{events:>12,} events: at most {memory:,.0f} MB, {rate:,.0f} events/s", flush=True)


if __name__ == "__main__":
    main()
