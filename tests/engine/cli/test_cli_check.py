"""`speciate check`."""

import json
from pathlib import Path

import pytest

CONFIG = """
[source]
plugin = "file"
path = "a.log"
[support]
plugin = "plain"
[density]
plugin = "plain"
[policy]
plugin = "plain"
[sink]
plugin = "plain"
[dead_letters]
plugin = "plain"
[store]
plugin = "plain"
"""


@pytest.fixture
def config(world, speciate):
    path = Path("pipeline.toml")
    path.write_text(CONFIG, "utf-8")
    return path


def test_the_table_has_every_section_and_option(speciate, config):
    result = speciate("check", config)
    assert result.exit_code == 0, result.output
    for part in ("source", "file", "unknown unknown", 'path = "a.log"', "depth = 3", "batch_events = 256", "commit"):
        assert part in result.output
    assert "note" not in result.output  # not set: nothing to show
    assert result.output.endswith("pipeline.toml is sound\n")


def test_json_and_overrides(speciate, config):
    result = speciate("check", config, "--json", "-s", "source.depth=7", "--set", "run.pace=original")
    sections = json.loads(result.output)
    assert sections["source"] == {
        "plugin": "file",
        "package": "unknown",
        "version": "unknown",
        "options": {"path": "a.log", "depth": 7, "note": None},
    }
    assert sections["run"]["options"]["pace"] == "original"
    assert list(sections) == [
        "source",
        "support",
        "density",
        "policy",
        "sink",
        "dead_letters",
        "store",
        "run",
        "commit",
    ]


@pytest.mark.parametrize(
    ("override", "says"),
    [
        ("source.depth=0", "[source] source 'file': Expected `int` >= 1 - at `depth`"),
        ("source.dept=1", "has no key 'dept'"),
        ("source.plugin=fiel", "unknown source 'fiel': did you mean 'file'?"),
        ("source.plugin=lacking", "source 'lacking' needs no_such_module: pip install 'speciate[lacking]'"),
        ("sink.plugin=broken", "cannot be imported"),
        ("run.batch=1", "[run] has no key 'batch'"),
        ("nonsense", "must look like section.key=value"),
    ],
)
def test_whatever_is_wrong_is_named(speciate, config, override, says):
    result = speciate("check", config, "--set", override)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.startswith("speciate: error: ")
    assert result.stderr.count("\n") == 1
    assert says in result.stderr


def test_a_file_that_is_not_toml(speciate, config):
    config.write_text("[source", "utf-8")
    result = speciate("check", config)
    assert result.exit_code == 2
    assert "pipeline.toml is not valid TOML" in result.stderr
