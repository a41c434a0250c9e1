"""Which logs the task of a seat reads, and the options that say so."""

from typing import Any

import msgspec
import pytest

from speciate.errors import ConfigError, StateMismatchError
from speciate.stages import Seat
from speciate_plugins.kafka.options import KafkaSourceOptions, Start, read_start
from speciate_plugins.kafka.positions import Log
from speciate_plugins.kafka.seating import choose_logs

COUNTS = {"a": 2, "b": 2, "ab": 3, "control": 2, "single": 1, "__consumer_offsets": 50}


def options(**changes: Any) -> KafkaSourceOptions:
    return msgspec.convert({"servers": ["localhost:9092"], **changes}, KafkaSourceOptions)


def test_the_only_task_has_all_partitions() -> None:
    logs = choose_logs(options(topics=["b", "ab"], control="single"), Seat(), COUNTS)
    assert logs.data == (Log("ab", 0), Log("ab", 1), Log("ab", 2), Log("b", 0), Log("b", 1))
    assert logs.control == Log("single", 0)
    assert logs.all == (*logs.data, logs.control)


def test_one_task_of_several_has_its_number() -> None:
    logs = choose_logs(options(topics=["b", "a"], control="control"), Seat(1, 2), COUNTS)
    assert logs.all == (Log("a", 1), Log("b", 1), Log("control", 1))


def test_a_pattern_fits_whole_names_but_neither_control_nor_kafkas_own() -> None:
    assert choose_logs(options(pattern="."), Seat(1, 2), COUNTS).all == (Log("a", 1), Log("b", 1))
    everything = choose_logs(options(pattern=".*", control="single"), Seat(), COUNTS)
    assert {log.topic for log in everything.data} == {"a", "b", "ab", "control"}


def test_what_does_not_fit() -> None:
    for changes, seat, error, message in (
        ({"topics": ["a", "ab"]}, Seat(0, 2), StateMismatchError, "'ab' has 3 partitions, but there are 2 tasks"),
        ({"topics": ["a"], "control": "control"}, Seat(), ConfigError, "has 2 partitions, but it needs one for each"),
        ({"topics": ["a"], "control": "single"}, Seat(0, 2), ConfigError, "has 1 partitions"),
        ({"topics": ["none"]}, Seat(), ConfigError, "there is no topic 'none'"),
        ({"topics": ["a"], "control": "none"}, Seat(), ConfigError, "control: there is no topic 'none'"),
        ({"pattern": "none"}, Seat(), ConfigError, "fits no topic"),
    ):
        with pytest.raises(error, match=message):
            choose_logs(options(**changes), seat, COUNTS)


def test_options_refuse_what_cannot_be() -> None:
    for changes, problem in (
        ({}, "give either topics"),
        ({"topics": []}, "give either topics"),
        ({"topics": ["a"], "pattern": "a"}, "give either topics"),
        ({"pattern": "["}, "is no regular expression"),
        ({"topics": ["a", "a"]}, "twice"),
        ({"topics": ["a b"]}, "is no name of a topic"),
        ({"topics": ["a"], "control": ""}, "is no name of a topic"),
        ({"topics": ["a"], "control": "a"}, "also one of topics"),
        ({"topics": ["a"], "group": ""}, "group is empty"),
        ({"topics": ["a"], "start": -1}, "0 or more"),
        ({"topics": ["a"], "start": "yesterday"}, 'must be "earliest"'),
        ({"topics": ["a"], "start": "2026-01-31T12:00:00"}, "names no time zone"),
        ({"topics": ["a"], "start": "1960-01-31T12:00:00Z"}, "before 1970"),
        ({"topics": ["a"], "start": True}, "Expected `int"),
        ({"topics": ["a"], "servers": ["nowhere"]}, "must look like host:port"),
    ):
        with pytest.raises(msgspec.ValidationError, match=problem):
            options(**changes)


def test_where_reading_begins() -> None:
    assert read_start("earliest") == Start("earliest")
    assert read_start("latest") == Start("latest")
    assert read_start(17) == Start("offset", 17)
    assert read_start("1970-01-01T00:01:00.5Z") == read_start("1970-01-01T01:01:00.5+01:00") == Start("time", 60_500)
