"""Reading TOML, overriding it and checking its keys, as a user meets them: every mistake is named with its place."""

from pathlib import Path
from typing import Any

import pytest

from speciate.config import load
from speciate.errors import ConfigError

FILE = "\n".join(f'[{section}]\nplugin = "made"' for section in ("source", "sink"))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "pipeline.toml"
    file.write_text(FILE)
    return file


@pytest.mark.parametrize(
    ("override", "value"),
    [
        ("sink.path=7", 7),
        ("sink.path=7.5", 7.5),
        ("sink.path=true", True),
        ('sink.path="7"', "7"),
        ("sink.path='C:\\x'", "C:\\x"),
        ("sink.path=[1, 2]", [1, 2]),
        ('sink.path={a = "b"}', {"a": "b"}),
        ("sink.path=answers.jsonl", "answers.jsonl"),
        ("sink.path=/tmp/a=b", "/tmp/a=b"),
        ("sink.path=two words", "two words"),
        ("sink.path=", ""),
        (" sink.path =x", "x"),
        ("sink.path=1\nextra = 2", "1\nextra = 2"),
    ],
)
def test_an_override_is_toml_or_the_text_it_is(path: Path, override: str, value: Any) -> None:
    taken = load(path, [override]).sink["path"]
    assert taken == value
    assert type(taken) is type(value)


def test_overrides_reach_any_depth_make_sections_and_the_last_one_counts(path: Path) -> None:
    config = load(path, ["run.batch_events=1", "run.batch_events=2", "encoder.plugin=made", "sink.deep.er.key=3"])
    assert config.run.batch_events == 2
    assert config.encoder == {"plugin": "made"}
    assert config.sink["deep"] == {"er": {"key": 3}}


@pytest.mark.parametrize("override", ["sink.path", "=1", "sink..path=1", ".=1", "sink.=1", ""])
def test_an_override_that_is_none_is_shown(path: Path, override: str) -> None:
    with pytest.raises(ConfigError, match=r"must look like section\.key=value") as caught:
        load(path, [override])
    assert repr(override) in str(caught.value)


def test_an_override_through_a_value_is_refused(path: Path) -> None:
    with pytest.raises(ConfigError, match="'plugin' is a value, not a section"):
        load(path, ["sink.plugin.name=1"])


@pytest.mark.parametrize(
    ("override", "fragments"),
    [
        ("run.batch_evnts=1", ["'batch_evnts'", "[run]", "did you mean 'batch_events'?"]),
        ("commmit.events=1", ["'commmit'", "did you mean 'commit'?"]),
        ("run.batch_events=many", ["`int`", "`str`", "`run.batch_events`"]),
        ("run.batch_events=0", [">= 1", "`run.batch_events`"]),
        ("run.overflow=explode", ["'explode'", "`run.overflow`"]),
        ("run.pace=0", ["`run.pace`"]),
        ("commit.snapshots_kept=1", [">= 2", "`commit.snapshots_kept`"]),
        ("run=1", ["`object`", "`run`"]),
        ("source=text", ["`object`", "`source`"]),
    ],
)
def test_a_wrong_key_or_value_of_the_engine_is_named(path: Path, override: str, fragments: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        load(path, [override])
    assert all(fragment in str(caught.value) for fragment in [*fragments, str(path)]), caught.value
    assert "$" not in str(caught.value)


@pytest.mark.parametrize(
    ("content", "fragment"),
    [(b"[source", "not valid TOML"), (b'a = "\xff"', "not valid TOML"), (b"a = " + b"[" * 100_000, "not valid TOML")],
    ids=["syntax", "not UTF-8", "nested"],
)
def test_a_file_that_is_no_toml_is_named(path: Path, content: bytes, fragment: str) -> None:
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=fragment) as caught:
        load(path)
    assert str(path) in str(caught.value)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file"):
        load(tmp_path / "nothing.toml")
    with pytest.raises(ConfigError, match="Is a directory"):
        load(tmp_path)
