"""Hostile inputs between good ones: each gets one rejection and one dead letter, and nothing else changes."""

import random
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hostile import DIMENSION, KINDS, blob, good_event, long_name

from speciate.outcomes import MESSAGE_CHARACTERS
from speciate_schemas import Answer, Assignment, DeadLetter, Rejection, decode, encode
from speciate_schemas.framing import Frame, next_frame, pack

HOSTILE = 10_000
SEED = 20

CONFIG = """
source = {{ plugin = "eventlog", paths = ["{directory}/{name}.log"] }}
support = {{ plugin = "npz", paths = ["{directory}/support.npz"] }}
density = {{ plugin = "nearest-mean" }}
policy = {{ plugin = "dp", alpha = 1e-3 }}
sink = {{ plugin = "eventlog", path = "{directory}/{name}-answers.log" }}
dead_letters = {{ plugin = "eventlog", path = "{directory}/{name}-dead.log" }}
store = {{ plugin = "directory", path = "{directory}/{name}-state" }}
"""


def frames(path: Path) -> list[memoryview]:
    data, place, payloads = path.read_bytes(), 0, []
    while place < len(data):
        frame = next_frame(data, place, final=True)
        assert isinstance(frame, Frame)
        assert frame.damage is None
        payloads.append(frame.payload)
        place = frame.end
    return payloads


def run(directory: Path, name: str, payloads: list[bytes]) -> tuple[list, list[DeadLetter], str]:
    (directory / f"{name}.log").write_bytes(b"".join(map(pack, payloads)))
    config = directory / f"{name}.toml"
    config.write_text(CONFIG.format(directory=directory, name=name))
    command = [sys.executable, "-c", "from speciate.cli import main; main()", "run", str(config)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    answers = [decode(frame, Answer) for frame in frames(directory / f"{name}-answers.log")]
    dead = [decode(frame, DeadLetter) for frame in frames(directory / f"{name}-dead.log")]
    return answers, dead, done.stdout + done.stderr


@pytest.fixture(scope="module")
def fuzzed(tmp_path_factory: pytest.TempPathFactory):
    """A stream of good events with 10 000 hostile ones between them, run, and the good ones alone, run."""
    directory = tmp_path_factory.mktemp("fuzz")
    rng, dice = np.random.default_rng(SEED), random.Random(SEED)
    labels = np.repeat(np.arange(3), 20)
    np.savez(
        directory / "support.npz", features=rng.normal(size=(60, DIMENSION)) + 4.0 * labels[:, None], labels=labels
    )
    good = [encode(good_event(number, rng)) for number in range(2_000)]
    kinds = [dice.choice(list(KINDS)) for _ in range(HOSTILE - 106)]
    hostile = [(kind, KINDS[kind](number, dice)) for number, kind in enumerate(kinds)]
    hostile += [("long name", long_name(HOSTILE + number, dice)) for number in range(5)]
    hostile += [("50 MB", blob(HOSTILE, dice)), *(("duplicate id", dice.choice(good[:500])) for _ in range(100))]
    dice.shuffle(hostile)
    # Duplicates come behind what they repeat: the first good events stand at the front.
    mixed: list[tuple[str | None, bytes]] = [(None, payload) for payload in good[:500]]
    rest = [(None, payload) for payload in good[500:]]
    while rest or hostile:
        mixed.append(rest.pop(0) if (rest and dice.random() < 0.15) or not hostile else hostile.pop())
    return mixed, run(directory, "mixed", [payload for _, payload in mixed]), run(directory, "good", good)


def test_every_input_has_exactly_one_answer_in_order(fuzzed):
    mixed, (answers, _, _), _ = fuzzed
    assert [answer.sequence for answer in answers] == list(range(len(mixed)))


def test_hostile_inputs_are_rejected_and_good_ones_are_not(fuzzed):
    mixed, (answers, _, _), _ = fuzzed
    wrong = [
        (kind, answer)
        for (kind, _), answer in zip(mixed, answers, strict=True)
        if isinstance(answer, Assignment) != (kind is None)
    ]
    assert wrong == []
    assert Counter(kind is None for kind, _ in mixed) == {True: 2_000, False: HOSTILE}


def test_every_kind_was_there(fuzzed):
    mixed, _, _ = fuzzed
    assert {kind for kind, _ in mixed} == {None, "50 MB", "long name", "duplicate id", *KINDS}


def test_each_rejection_has_one_dead_letter_with_the_original_bytes(fuzzed):
    mixed, (answers, dead, _), _ = fuzzed
    rejections = [answer for answer in answers if isinstance(answer, Rejection)]
    assert [letter.sequence for letter in dead] == [answer.sequence for answer in rejections]
    for letter, rejection in zip(dead, rejections, strict=True):
        assert bytes(letter.original) == mixed[letter.sequence][1]
        assert (letter.stage, letter.error, letter.message) == (rejection.stage, rejection.error, rejection.message)
        assert rejection.dead_letter.endswith(f"mixed-dead.log#{letter.sequence}")
        assert 0 < len(rejection.message) <= MESSAGE_CHARACTERS + 1


def test_good_events_are_decided_as_if_they_were_alone(fuzzed):
    _, (answers, _, _), (alone, _, _) = fuzzed
    fields = ("id", "category", "label", "birth", "log_evidence", "margin", "probability", "drift", "head_version")

    def decisions(found: list) -> list[tuple]:
        return [tuple(getattr(one, field) for field in fields) for one in found if isinstance(one, Assignment)]

    assert decisions(answers) == decisions(alone)


def test_no_traceback_reaches_the_user(fuzzed):
    _, (_, _, printed), _ = fuzzed
    assert "Traceback" not in printed
    assert "unexpected" not in printed
