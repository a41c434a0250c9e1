"""Pipelines on Kafka in all the ways they can be put together, with kill -9 on the way."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from broker import Broker
from pipelines import (
    CLASSES,
    DECIDE,
    HEAD,
    KEEPING,
    KNOWN,
    SINK,
    SIZE,
    SOURCE,
    Bench,
    Worker,
    answer_of,
    assignments,
    check_exactly_once,
    controls,
    events,
    kinds,
    messages,
    picture,
    rejections,
    speciate,
    vector,
    write_picture_support,
    write_support,
)

from speciate.pipeline import run
from speciate_schemas import Answer, Assignment, FeatureEvent, RenameCategory, encode
from speciate_schemas.codec import decoder
from speciate_schemas.framing import pack

ENCODER = f"""
[encoder]
plugin = "thumbnail"
size = {SIZE}
"""
FILES = """
[source]
plugin = "eventlog"
paths = ["{place}/stream.log"]
[sink]
plugin = "jsonl"
path = "{place}/answers.jsonl"
[dead_letters]
plugin = "eventlog"
path = "{place}/dead.log"
[store]
plugin = "directory"
path = "{place}/state"
"""
SLOW = "run.pace=60"
"""Events a second, for a kill to fall between the first and the last."""


@pytest.fixture
def bench(broker: Broker, topic: str, tmp_path: Path) -> Iterator[Bench]:
    with Bench(broker, tmp_path, topic) as one:
        write_support(tmp_path)
        yield one


def told(found: Sequence[Answer]) -> list[tuple[Any, ...]]:
    """What the answers say, without where their inputs lay."""
    return [
        (one.id, one.stream, one.category, one.label, one.birth)
        if isinstance(one, Assignment)
        else (one.id, one.stream, type(one).__name__)
        for one in found
    ]


def folded(folder: Path, name: str, found: Sequence[FeatureEvent]) -> tuple[list[Answer], Path]:
    """The answers of a run over a file that nothing disturbs, and its configuration."""
    place = folder / name
    place.mkdir()
    (place / "stream.log").write_bytes(b"".join(pack(encode(one)) for one in found))
    config = place / "pipeline.toml"
    config.write_text((FILES + HEAD).format(folder=folder, place=place))
    run(config)
    read = decoder(Answer, "json")
    return [read(line) for line in (place / "answers.jsonl").read_bytes().splitlines()], config


def test_encoders_and_heads_apart_answer_as_one_process_would(bench: Bench) -> None:
    write_picture_support(bench.folder)
    frames = SOURCE + 'payload = "image"\n' + ENCODER
    encode_config = bench.make(
        frames.replace('group = "{topic}"', 'group = "{topic}-encoders"') + SINK.replace("-answers", "-features"),
        2,
        "encode.toml",
    )
    decide_config = bench.make(DECIDE.replace("{topic}-in", "{topic}-features"), 2, "decide.toml")
    alone = (frames + SINK + HEAD + KEEPING).replace('group = "{topic}"', 'group = "{topic}-alone"')
    for kind in ("answers", "dead", "state"):
        alone = alone.replace(f"-{kind}", f"-alone-{kind}")
    alone_config = bench.make(alone, 2, "alone.toml")
    rng = np.random.default_rng(1)
    each, bad = 90, {7: b"no picture", 40: picture(rng, 1)[:-60], 77: b""}
    sent = [
        (partition, f"camera-{number % 3}".encode(), bad.get(number, picture(rng, int(rng.integers(4)))), ())
        for number in range(each)
        for partition in range(2)
    ]
    encoders = [bench.start(encode_config, "-s", SLOW) for _ in range(2)]
    bench.start(decide_config)
    bench.feed(sent)
    bench.until(
        lambda: min(map(len, bench.broker.read_so_far(f"{bench.topic}-features").values())) > 10, "some are encoded"
    )
    encoders[0].kill()
    bench.start(encode_config, "-s", SLOW)
    apart = bench.until_answered(each, each)
    speciate("run", alone_config, "-s", "source.follow=false")
    together = bench.answers("alone-answers")
    check_exactly_once(apart, [each, each])
    letters, alone_letters = bench.dead_letters(), bench.dead_letters("alone-dead")
    for partition in range(2):
        assert told(apart[partition]) == told(together[partition])
        assert kinds(apart[partition]) == {"Assignment": each - len(bad), "Rejection": len(bad)}
        assert [bytes(one.original) for one in letters[partition]] == list(bad.values())
        assert [(one.stage, one.error, one.origin, bytes(one.original)) for one in letters[partition]] == [
            (one.stage, one.error, one.origin, bytes(one.original)) for one in alone_letters[partition]
        ]


def test_streams_have_categories_of_their_own(bench: Bench) -> None:
    config = bench.make(DECIDE + '[run]\nuniverse = "stream"\n', 2)
    each = 120
    sent = {partition: events(partition, each, streams=3) for partition in range(2)}
    bench.feed([message for partition, found in sent.items() for message in messages(found, partition)])
    first = bench.start(config, "-s", SLOW)
    bench.until_answered(20, 20)
    first.kill()
    bench.start(config)
    answers = bench.until_answered(each, each)
    check_exactly_once(answers, [each, each])
    for partition, found in sent.items():
        for camera in range(3):
            name = f"camera-{camera}"
            alone, _ = folded(bench.folder, f"{partition}-{name}", [one for one in found if one.stream == name])
            assert told([one for one in answers[partition] if one.stream == name]) == told(alone)


def owner_of(workers: Sequence[Worker]) -> Callable[[], Worker | None]:
    """Finds the one that has taken the only task."""
    return lambda: next((one for one in workers if one.code is None and one.lines("task taken over")), None)


def check_fold(bench: Bench, config: Path, answers: Sequence[Answer], sent: Mapping[str, FeatureEvent]) -> None:
    """The answers, and the state behind them, are those of one fold over the inputs in the order of their answers."""
    expected, file_config = folded(bench.folder, "folded", [sent[one.id] for one in answers])
    assert told(answers) == told(expected)
    assert [one.head_version for one in answers] == [one.head_version for one in expected]
    assert all(worker.code is not None or worker.stop() == 0 for worker in bench.workers)
    found, wanted = (
        json.loads(speciate("inspect", path, "--json").stdout)["categories"] for path in (config, file_config)
    )
    assert found == wanted


def test_one_universe_of_several_partitions_is_taken_over(bench: Bench) -> None:
    # Until the kill one and the same has it, even if the machine stands still for a while.
    text = DECIDE.replace("session_timeout_ms = 3000", "session_timeout_ms = 8000")
    config = bench.make(text + '[run]\nuniverse = "shared"\n', 3)
    each = 60
    sent = {partition: events(partition, each, streams=2) for partition in range(3)}
    workers = [bench.start(config, "-s", SLOW) for _ in range(2)]
    bench.feed([message for partition, found in sent.items() for message in messages(found, partition)])
    bench.until_answered(30)
    owner = bench.until(owner_of(workers), "one has the task")
    assert sum(bool(one.lines("task taken over")) for one in workers) == 1
    owner.kill()
    answers = bench.until_answered(3 * each)
    check_exactly_once(answers, [3 * each])
    (heir,) = [one for one in workers if one is not owner]
    # All may have been answered before the kill; it is missed all the same.
    (taken,) = bench.until(lambda: heir.lines("task taken over"), "the other takes over")
    assert taken["sequence"] >= 30
    for partition, found in sent.items():
        there = [one for one in answers[0] if one.origin.startswith(f"{bench.topic}-in/{partition}@")]
        assert [one.id for one in there] == [one.id for one in found]
    check_fold(bench, config, answers[0], {one.id: one for found in sent.values() for one in found})


def test_who_stands_by_need_not_restore(bench: Bench) -> None:
    config = bench.make(DECIDE + "[run]\nstandby = 1\n")
    found = events(1, 220)
    owner = bench.start(config)
    bench.until(owner_of([owner]), "the first has the task")
    heir = bench.start(config)
    bench.until(lambda: heir.lines("standing by"), "the second stands by")
    bench.feed(messages(found[:150]))
    bench.until_answered(150)
    bench.feed(messages(found[150:180]))
    owner.kill()
    check_exactly_once(bench.until_answered(180), [180])
    # All may have been answered before the kill; it is missed all the same.
    (taken,) = bench.until(lambda: heir.lines("task taken over"), "the other takes over")
    assert (taken["task"], taken["followed"], taken["folded_again"]) == (0, True, 0)
    assert taken["sequence"] >= 150
    bench.feed(messages(found[180:200]))
    bench.until_answered(200)
    assert heir.stop() == 0
    # What it went on with was the very state: a run that restores goes on in the same way.
    bench.start(config)
    bench.feed(messages(found[200:]))
    answers = bench.until_answered(220)
    check_fold(bench, config, answers[0], {one.id: one for one in found})


def test_control_events_are_applied_once_and_in_order(bench: Bench) -> None:
    config = bench.make(DECIDE.replace("session_timeout_ms", 'control = "{topic}-control"\nsession_timeout_ms'))
    bench.feed(messages(events(1, 60)))
    first = bench.start(config)
    before = bench.until_answered(60)[0]
    born = sorted({one.category for one in assignments(before) if one.birth})
    assert len(born) == CLASSES - KNOWN
    speciate("category", "rename", config, 0, "cat")
    speciate("category", "merge", config, born[0], born[1])
    speciate("category", "forget", config, born[2])
    refused = RenameCategory(id="no such", category=999, label="ghost")
    bench.feed([(0, None, encode(refused), ())], "control")
    first.kill()
    bench.start(config)
    bench.until_answered(64)
    bench.feed([(0, None, encode(RenameCategory(id="last", category=1, label="dog")), ())], "control")
    bench.until_answered(65)
    bench.workers[-1].kill()
    bench.feed(messages(events(1, 60, first=60)))
    bench.start(config)
    answers = bench.until_answered(125)
    check_exactly_once(answers, [125])
    applied = [type(one.control).__name__ for one in controls(answers[0])]
    assert applied == ["RenameCategory", "MergeCategories", "ForgetCategory", "RenameCategory"]
    (rejection,) = rejections(answers[0])
    assert (rejection.id, rejection.stage, rejection.error) == ("no such", "control", "UnknownCategoryError")
    after = assignments(answers[0])[60:]
    assert {one.label for one in after if one.category == 0} == {"cat"}
    assert {one.label for one in after if one.category == 1} == {"dog"}
    assert not {born[1], born[2]} & {one.category for one in after}


def test_at_least_once_repeats_what_it_said(bench: Bench) -> None:
    config = bench.make(
        DECIDE.replace('topic = "{topic}-answers"', 'topic = "{topic}-answers"\ndelivery = "at-least-once"')
    )
    count = 200
    bench.feed(messages(events(1, count)))
    for enough in (30, 80):
        worker = bench.start(config, "-s", SLOW)
        bench.until_answered(enough)
        worker.kill()
    bench.start(config)

    def all_there() -> list[Any]:
        records = bench.broker.read_so_far(f"{bench.topic}-answers")[0]
        return records if {answer_of(one).sequence for one in records} >= set(range(count)) else []

    records = bench.until(all_there, "all are answered")
    said: dict[int, set[bytes]] = {}
    for record in records:
        said.setdefault(answer_of(record).sequence, set()).add(record.value)
    assert said.keys() == set(range(count))
    assert {len(values) for values in said.values()} == {1}
    expected, _ = folded(bench.folder, "folded", events(1, count))
    assert told([msgspec.json.decode(said[number].pop(), type=Answer) for number in range(count)]) == told(expected)


def cloud_event(number: int, features: np.ndarray, kind: str) -> tuple[Any, ...]:
    """A CloudEvent in binary mode."""
    attributes = {
        "specversion": "1.0",
        "id": f"cloud-{number}",
        "source": "//plant/7",
        "type": "frame",
        "subject": "gate",
    }
    value = json.dumps(features.tolist()).encode() if kind == "application/json" else features.tobytes()
    return (
        0,
        None,
        value,
        (*((f"ce_{name}", text.encode()) for name, text in attributes.items()), ("content-type", kind.encode())),
    )


def test_bare_vectors_and_cloudevents_of_all_topics_of_a_pattern(bench: Bench) -> None:
    for name in ("left", "right"):
        bench.broker.create_topic(f"{bench.topic}-in-{name}")
    source = SOURCE.replace('topics = ["{topic}-in"]', 'pattern = "{topic}-in-.*"\npayload = "float32"')
    births = SINK + 'births = "{topic}-births"\nformat = "msgpack"\n'
    config = bench.write(source + births + HEAD + KEEPING)
    speciate("topics", "create", config)
    rng = np.random.default_rng(2)
    vectors = [vector(rng, number % CLASSES) for number in range(40)]
    left = [(0, b"door", found.tobytes(), ()) for found in vectors[:20]]
    right = [
        cloud_event(number, found, ["application/json", "application/octet-stream"][number % 2])
        for number, found in enumerate(vectors[20:])
    ]
    bench.start(config)
    bench.feed(left, "in-left")
    bench.feed([*right, (0, None, b"odd", ())], "in-right")
    answers = bench.until_answered(41)
    check_exactly_once(answers, [41])
    found = assignments(answers[0])
    bare = [one for one in found if one.origin.startswith(f"{bench.topic}-in-left/")]
    assert [(one.id, one.stream) for one in bare] == [(f"{bench.topic}-in-left/0/{n}", "door") for n in range(20)]
    cloudy = [one for one in found if one.origin.startswith(f"{bench.topic}-in-right/")]
    assert [(one.id, one.stream) for one in cloudy] == [(f"cloud-{n}", "gate") for n in range(20)]
    assert [one.category for one in bare] == [one.category for one in cloudy]
    (rejection,) = rejections(answers[0])
    assert rejection.origin == f"{bench.topic}-in-right/0@20"
    born = bench.answers("births")[0]
    assert born == [one for one in found if one.birth]
    assert len(born) == CLASSES - KNOWN
