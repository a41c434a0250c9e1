"""`speciate plugins`."""

import json

from speciate.hooks import STAGES


def test_the_table_tells_what_to_do(world, speciate):
    result = speciate("plugins")
    assert result.exit_code == 0
    lines = {tuple(line.split()[:2]): line for line in result.output.splitlines() if line.strip()}
    assert lines["file", "source"].split() == ["file", "source", "unknown", "unknown", "yes"]
    assert "needs no_such_module: pip install 'speciate[lacking]'" in lines["lacking", "source"]
    assert "cannot be imported" in lines["broken", "sink"]


def test_json_is_for_programs(world, speciate):
    rows = {(row["stage"], row["name"]): row for row in json.loads(speciate("plugins", "--json").output)}
    assert rows["source", "file"] == {
        "stage": "source",
        "name": "file",
        "package": "unknown",
        "version": "unknown",
        "usable": True,
        "problem": None,
    }
    lacking = rows["source", "lacking"]
    assert not lacking["usable"]
    assert lacking["problem"] == "needs no_such_module: pip install 'speciate[lacking]'"
    assert len(rows) == len(world.survey())


def test_one_stage(world, speciate):
    rows = json.loads(speciate("plugins", "--json", "--stage", "source").output)
    assert [row["name"] for row in rows] == ["file", "lacking", "plain"]


def test_help_names_every_stage(speciate):
    text = speciate("plugins", "--help").output
    assert all(stage in text for stage in STAGES)


def test_all_built_in_plugins_are_usable(speciate):
    rows = json.loads(speciate("plugins", "--json").output)
    ours = [row for row in rows if row["package"] == "speciate"]
    assert {row["stage"] for row in ours} == {*STAGES, "command"}
    assert [row for row in ours if not row["usable"]] == []
