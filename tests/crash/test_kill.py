"""Crash and resume equals never crashed: a short schedule here, the long one is `python tests/crash/schedule.py`."""

from pathlib import Path

import pytest
from schedule import compare


@pytest.mark.parametrize(
    ("seed", "damage", "sink"),
    [(11, "none", "jsonl"), (12, "truncate", "eventlog"), (13, "flip", "jsonl")],
)
def test_killed_runs_leave_the_bytes_of_an_uninterrupted_one(tmp_path: Path, seed: int, damage: str, sink: str):
    toll = compare(tmp_path, kills=12, events=2400, seed=seed, damage=damage, sink=sink)
    assert toll.kills == 12
    assert len(toll.commits_seen) > 3, "the kills did not fall into the work: the schedule proved nothing"
    if damage != "none":
        assert toll.damaged > 0, "no snapshot was damaged: the schedule proved nothing"
