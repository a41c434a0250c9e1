"""Kill -9 at seeded random moments, damage on the way, then compare with a run that was never touched.

    python tests/crash/schedule.py --kills 200 --events 20000 --seed 1 --damage none

Exits with 0 if the outputs and the final state are byte for byte those of an uninterrupted run.
"""

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from stream import write_stream

COMMAND = (sys.executable, "-c", "from speciate.cli import main; main()")
LONGEST_LIFE = 0.4
"""Seconds a process works at most before it is killed; longer where it takes longer to start."""
STARTS = 0.6
"""How long that is, in starts."""
STARTUP_SHARE = 0.2
"""How often a process is killed while it starts, instead of while it restores, works and commits."""
TRIES = 4
SLOWER = 2
"""How many times slower the stream goes once it was outrun: a tester that is held up kills too late, so that the stream
ends before the schedule. Slower still, few kills would find two snapshots, of which one may be damaged."""
COMMITS_SHARE = 1 / 3
"""Of the kills, so many must leave different commits behind: if there are fewer, they did not fall into the work."""


class NothingProvedError(AssertionError):
    """The kills came at moments that prove nothing, though nothing is wrong with the pipeline."""


class OutrunError(NothingProvedError):
    """The stream ended before the schedule."""


@dataclass
class Toll:
    """What a schedule did."""

    kills: int = 0
    before_first_commit: int = 0
    damaged: int = 0
    commits_seen: set[bytes] = field(default_factory=set)

    def check_telling(self, damage: str) -> None:
        """Raise `NothingProvedError` unless the schedule was one that could have shown something."""
        if len(self.commits_seen) < self.kills * COMMITS_SHARE:
            raise NothingProvedError(f"{self.kills} kills left {len(self.commits_seen)} different commits behind")
        if damage != "none" and not self.damaged:
            raise NothingProvedError(f"{self.kills} kills, and there was never a snapshot to be damaged")


def run_to_end(config: Path, *options: str) -> None:
    """Run the pipeline until its source ends."""
    done = subprocess.run([*COMMAND, "run", str(config), *options], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise AssertionError(f"run ended with {done.returncode}: {done.stderr}")


def outputs(directory: Path) -> dict[str, bytes]:
    """Every byte a run leaves: answers, dead letters, the commit and the final snapshot."""
    out = directory / "out"
    newest = max((out / "state" / "snapshots").glob("*.snapshot"))
    files = [*sorted(path for path in out.rglob("answers*/*")), out / "dead-letters.log", out / "state" / "commit.json"]
    answers = [path for path in out.glob("answers.*") if path.is_file()]
    return {str(path.relative_to(directory)): path.read_bytes() for path in [*answers, *files, newest]}


def longest_life(config: Path) -> float:
    """Of processes on this machine, which may do other things too; of a pipeline that has nothing left to do."""
    began = time.monotonic()
    run_to_end(config)
    return max(LONGEST_LIFE, STARTS * (time.monotonic() - began))


def kill_and_resume(config: Path, *, kills: int, seed: int | str, damage: str, life: float, pace: float) -> Toll:
    """Start the pipeline and kill it, again and again, then let it end."""
    moments = random.Random(seed)
    toll = Toll()
    state = config.parent / "out" / "state"
    while toll.kills < kills:
        process = subprocess.Popen(
            [*COMMAND, "run", str(config), "--pace", str(pace)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        )
        if moments.random() >= STARTUP_SHARE:
            _wait_until_open(state, process)
        time.sleep(moments.uniform(0.0, life))
        if process.poll() is not None:
            _, error = process.communicate()
            if process.returncode != 0:
                raise AssertionError(f"run ended with {process.returncode}: {error.decode()}")
            raise OutrunError(f"the stream ended after {toll.kills} kills: it is too short or the pace too high")
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
        toll.kills += 1
        commit = state / "commit.json"
        if commit.exists():
            toll.commits_seen.add(commit.read_bytes())
        else:
            toll.before_first_commit += 1
        if damage != "none" and moments.random() < 0.5:
            toll.damaged += _damage_newest(state / "snapshots", damage, moments)
    run_to_end(config)
    toll.check_telling(damage)
    return toll


def _wait_until_open(state: Path, process: subprocess.Popen[bytes]) -> None:
    """Wait until the process holds the lock of the state: from here on it restores and works."""
    lock = state / "lock"
    while process.poll() is None:
        if lock.exists() and lock.read_text().strip() == str(process.pid):
            return
        time.sleep(0.002)


def _damage_newest(snapshots: Path, damage: str, moments: random.Random) -> int:
    """Truncate the newest snapshot or flip one of its bits; the one before it must do, so it is never the only one."""
    found = sorted(snapshots.glob("*.snapshot"))
    if len(found) < 2:
        return 0
    data = bytearray(found[-1].read_bytes())
    place = moments.randrange(len(data))
    if damage == "truncate":
        del data[place:]
    else:
        data[place] ^= 1 << moments.randrange(8)
    found[-1].write_bytes(bytes(data))
    return 1


def compare(directory: Path, *, kills: int, events: int, seed: int, damage: str, sink: str = "jsonl") -> Toll:
    """One whole experiment; raises AssertionError if a single byte differs."""
    config = write_stream(directory, events=events, seed=seed, sink=sink)
    run_to_end(config)
    expected, life = outputs(directory), longest_life(config)
    (directory / "out").rename(directory / "uninterrupted")
    # Slow enough that the stream outlives the schedule, fast enough that the kills are spread over most of it.
    pace = events / (kills * life / 2)
    slower = 1
    for tries in range(1, TRIES + 1):
        moments = seed if tries == 1 else f"{seed}, try {tries}"
        try:
            toll = kill_and_resume(config, kills=kills, seed=moments, damage=damage, life=life, pace=pace / slower)
            break
        except NothingProvedError as error:
            # It proves little, but it must have come to the end.
            _check_same(outputs(directory), expected)
            if tries == TRIES:
                raise
            slower = SLOWER if isinstance(error, OutrunError) else slower
            shutil.rmtree(directory / "out")
    _check_same(outputs(directory), expected)
    return toll


def _check_same(found: dict[str, bytes], expected: dict[str, bytes]) -> None:
    if found.keys() != expected.keys():
        raise AssertionError(f"files differ: {sorted(found)} instead of {sorted(expected)}")
    for name, data in expected.items():
        if found[name] != data:
            raise AssertionError(f"{name} differs from the uninterrupted run's")


def main() -> None:
    """Run one schedule from the command line and say what it did."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--events", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--damage", choices=("none", "truncate", "flip"), default="none")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        start = time.perf_counter()
        toll = compare(Path(directory), **vars(options))
    print(  # noqa: T201
        f"seed {options.seed}, damage {options.damage}: {toll.kills} kills over {options.events} events, "
        f"{toll.before_first_commit} before the first commit, {len(toll.commits_seen)} different commits left behind, "
        f"{toll.damaged} snapshots damaged, {time.perf_counter() - start:.0f} s: outputs and state are identical"
    )


if __name__ == "__main__":
    main()
