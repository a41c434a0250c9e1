"""Which topics a configuration needs; `tests/kafka/test_tools.py` creates them."""

from typing import Any

import pytest
from click.testing import CliRunner

from speciate import cli
from speciate.config import Resolved, parse, resolve
from speciate.errors import ConfigError
from speciate.plugins import installed
from speciate_plugins.kafka.inspection import Topic
from speciate_plugins.kafka.needed import Needed, input_partitions, kafka_sections, needed_topics

MEBI = 1 << 20
DEFAULT = 1_048_588
SERVERS = {"plugin": "kafka", "servers": ["broker:9092"]}
DECIDES: dict[str, Any] = {
    "source": {**SERVERS, "topics": ["in"], "group": "g", "control": "control"},
    "support": {"plugin": "npz", "paths": ["support.npz"]},
    "density": {"plugin": "nearest-mean"},
    "policy": {"plugin": "dp", "alpha": 1.0},
    "sink": {**SERVERS, "topic": "answers", "births": "births"},
    "dead_letters": {**SERVERS, "topic": "dead"},
    "store": {**SERVERS, "topic": "state"},
}
EVERY = ["in", "control", "answers", "births", "dead", "state"]


def resolved(**changes: Any) -> Resolved:
    sections = {**DECIDES, **changes}
    return resolve(parse({name: one for name, one in sections.items() if one is not None}), installed())


def source(**changes: Any) -> dict[str, Any]:
    return {**DECIDES["source"], **changes}


def needed(one: Resolved, asked: int | None = None, there: dict[str, int] | None = None) -> dict[str, Needed]:
    counts = {section: there or {} for section in ("source", "support")}
    topics = needed_topics(one, input_partitions(one, asked, counts), counts, asked=asked is not None)
    assert len({topic.place for topic in topics}) == len(topics)
    return {topic.name: topic for topic in topics}


def partitions(found: dict[str, Needed]) -> dict[str, int]:
    return {name: topic.partitions for name, topic in found.items()}


@pytest.mark.parametrize(
    ("asked", "there", "count"),
    [(None, {}, 1), (4, {}, 4), (None, {"in": 3}, 3), (3, {"in": 3}, 3), (None, {"other": 9}, 1)],
)
def test_one_partition_a_task(asked: int | None, there: dict[str, int], count: int) -> None:
    assert partitions(needed(resolved(), asked, there)) == dict.fromkeys(EVERY, count)


@pytest.mark.parametrize(
    "changes",
    [{"run": {"universe": "shared"}}, {"source": {**SERVERS, "topics": ["in"], "control": "control"}}],
    ids=["shared", "no group"],
)
def test_one_task_has_one_partition_of_all_but_the_input(changes: dict[str, Any]) -> None:
    found = needed(resolved(**changes), 4)
    assert partitions(found) == {**dict.fromkeys(EVERY, 1), "in": 4}
    # Whoever reads them all does not care how many they are, unless someone asks for a number.
    assert found["in"].rule == "exactly"
    assert needed(resolved(**changes), None, {"in": 3})["in"].rule == "any"


def test_what_large_events_and_snapshots_need() -> None:
    found = needed(resolved(run={"max_event_bytes": 5 * MEBI}))
    assert found["dead"].settings == found["in"].settings == {"max.message.bytes": str(6 * MEBI)}
    assert found["state"].settings == {"cleanup.policy": "compact", "max.message.bytes": str(2 * MEBI)}
    assert found["answers"].settings == found["births"].settings == found["control"].settings == {}


def test_a_pipeline_without_a_head() -> None:
    bare = dict.fromkeys(("support", "density", "policy", "dead_letters", "store"))
    found = needed(resolved(**bare, source=source(control=None), sink={**SERVERS, "topic": "features"}), 3)
    assert partitions(found) == {"in": 3, "features": 3}
    assert found["features"].settings == {"max.message.bytes": str(17 * MEBI)}, "images and dead letters go there too"
    feed = resolved(
        **bare, source={"plugin": "eventlog", "paths": ["stream.log"]}, sink={**SERVERS, "topic": "features"}
    )
    assert partitions(needed(feed)) == {"features": 1}
    with pytest.raises(ConfigError, match=r"--partitions 2 is for the topics of a Kafka \[source\], but .* 'eventlog'"):
        needed(feed, 2)


def test_a_sink_that_deals_events_among_partitions_takes_any_number() -> None:
    bare = dict.fromkeys(("support", "density", "policy", "dead_letters", "store"))
    keyed = {**SERVERS, "plugin": "kafka-keyed", "topic": "dealt"}
    feed = resolved(**bare, source={"plugin": "eventlog", "paths": ["stream.log"]}, sink=keyed)
    assert partitions(needed(feed, 4)) == {"dealt": 4}
    assert needed(feed)["dealt"].misfit(Topic(7, None, None)) is None
    assert needed(feed, 4)["dealt"].misfit(Topic(7, None, None)) is not None
    read = resolved(**bare, source=source(control=None), sink=keyed)
    assert needed(read, 4)["dealt"].misfit(Topic(7, None, None)) is None
    assert needed(read)["dealt"].settings == {"max.message.bytes": str(17 * MEBI)}


def test_topics_of_a_pattern_must_be_there() -> None:
    one = resolved(source={**SERVERS, "pattern": "in-.*", "group": "g", "control": "in-control"})
    there = {"in-a": 2, "in-b": 2, "in-control": 2, "out": 5}
    assert [name for name in needed(one, None, there) if name.startswith("in-")] == ["in-a", "in-b", "in-control"]
    with pytest.raises(ConfigError, match=r"pattern = 'in-\.\*' fits no topic, and no name can be made from it"):
        needed(one, 2, {"in-control": 2})


def test_topics_of_the_input_must_agree_if_they_are_shared() -> None:
    there = {"in": 2, "also": 3}
    with pytest.raises(ConfigError, match="need the same number of partitions, but 'also' has 3, 'in' has 2"):
        needed(resolved(source=source(topics=["in", "also"])), None, there)
    alone = needed(resolved(source=source(topics=["in", "also"], group=None)), None, there)
    assert alone["in"].misfit(Topic(2, None, None)) is None


def test_a_support_set_in_kafka_has_as_many_partitions_as_it_has() -> None:
    found = needed(resolved(support={**SERVERS, "topics": ["known"], "follow": False}), 3)
    assert (found["known"].partitions, found["known"].rule) == (1, "any")
    both = needed(resolved(support={**SERVERS, "topics": ["in"], "follow": False}), 3)
    assert both["in"].use == "[support], [source]"


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"sink": {**SERVERS, "topic": "in"}}, r"\[sink\] and \[source\] have the same topic 'in'"),
        ({"dead_letters": {**SERVERS, "topic": "answers"}}, r"\[dead_letters\] and \[sink\] have the same topic"),
        ({"store": {**SERVERS, "topic": "births"}}, r"\[store\] and \[sink\] births have the same topic 'births'"),
    ],
)
def test_no_topic_is_written_by_two_or_read_by_another(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        needed(resolved(**changes))


def test_topics_of_the_same_name_on_other_servers_are_others() -> None:
    elsewhere = {"plugin": "kafka", "servers": ["elsewhere:9092"], "topic": "answers"}
    one = resolved(store=elsewhere)
    counts: dict[str, dict[str, int]] = {"source": {}}
    places = [topic.place for topic in needed_topics(one, 1, counts, asked=False) if topic.name == "answers"]
    assert places == [(("broker:9092",), "answers"), (("elsewhere:9092",), "answers")]


@pytest.mark.parametrize(
    ("name", "found", "says"),
    [
        ("answers", 2, None),
        ("answers", 3, "topic 'answers' for [sink] has 3 partitions instead of 2: delete it with"),
        ("in", 3, "topic 'in' for [source] has 3 partitions instead of 2: ask for --partitions 3"),
        ("control", 1, "topic 'control' for [source] control has 1 partitions instead of 2"),
        ("dead", 3, None),
        ("dead", 1, "topic 'dead' for [dead_letters] has 1 partitions instead of at least 2"),
        ("state", 3, None),
        ("births", 1, None),
    ],
)
def test_what_is_there_and_does_not_fit(name: str, found: int, says: str | None) -> None:
    misfit = needed(resolved(), 2)[name].misfit(Topic(found, None, None))
    assert misfit is None if says is None else says in (misfit or "")


def test_what_had_better_be_changed() -> None:
    found = needed(resolved())
    (limit,) = found["dead"].remarks(Topic(1, DEFAULT, "delete"))
    assert limit.startswith(f"max.message.bytes is {DEFAULT}: raise it to {17 * MEBI}")
    assert found["dead"].remarks(Topic(1, 17 * MEBI, "delete")) == []
    assert found["dead"].remarks(Topic(1, None, None)) == [], "nobody may know"
    (cleanup,) = found["state"].remarks(Topic(1, 3 * MEBI, "compact,delete"))
    assert cleanup.startswith("cleanup.policy is compact,delete: set it to compact")


def test_no_section_with_kafka() -> None:
    files = {
        "source": {"plugin": "eventlog", "paths": ["a.log"]},
        "sink": {"plugin": "jsonl", "path": "b"},
        "dead_letters": {"plugin": "jsonl", "path": "c"},
        "store": {"plugin": "directory", "path": "d"},
    }
    with pytest.raises(ConfigError, match="no section of the configuration uses Kafka, so it needs no topics"):
        kafka_sections(resolved(**files))


def test_nobody_there_is_one_line(tmp_path: Any) -> None:
    config = tmp_path / "feed.toml"
    config.write_text(
        '[source]\nplugin = "eventlog"\npaths = ["a.log"]\n'
        '[sink]\nplugin = "kafka"\nservers = ["127.0.0.1:1"]\ntopic = "features"\n'
    )
    done = CliRunner().invoke(cli.group, ["topics", "list", str(config)], prog_name="speciate")
    assert done.exit_code == 4
    assert done.stderr.startswith("speciate: error: cannot connect to 127.0.0.1:1: Connection refused")
    assert done.stderr.count("\n") == 1
