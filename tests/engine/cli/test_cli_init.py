"""`speciate init`: what it writes is explained, complete and sound."""

import re
import tomllib
from pathlib import Path

import pytest

from speciate.cli.init import render, template
from speciate.config import SECTION_STAGES, parse, resolve
from speciate.describe import describe
from speciate.plugins import installed
from speciate_schemas import CommitOptions, PipelineConfig, RunOptions

PLAIN = {"plugin": "plain"}
CHOICES = {
    "written": {
        **dict.fromkeys(("support", "density", "policy", "sink", "dead_letters", "store"), PLAIN),
        "source": {"plugin": "file", "path": "a.log"},
    },
    "commented": {"encoder": {"plugin": "file", "path": "b.log"}},
}


def uncomment(text):
    """Do what the header says: remove the # of every key and section, but of [model], which stands for others."""
    without_model = re.sub(r"^#\[model\]\n(#.*\n)*", "", text, flags=re.MULTILINE)
    return re.sub(r"^#(?=\S)", "", without_model, flags=re.MULTILINE)


def test_keys_come_with_type_default_and_description(world):
    text = render(CHOICES, world)
    assert '# Where events come from. Plugins: file, lacking, plain.\n[source]\nplugin = "file"\n' in text
    assert '# Where it is. (text, required)\npath = "a.log"\n' in text
    assert "# How deep. (integer ≥ 1)\n#depth = 3\n" in text
    assert "# Anything. (text)\n# note = not set\n" in text
    assert '#[encoder]\n#plugin = "file"\n' in text


def test_it_is_sound_as_it_is_and_with_everything_used(world):
    text = render(CHOICES, world)
    plain = resolve(parse(tomllib.loads(text)), world)
    assert "encoder" not in plain.sections
    full = resolve(parse(tomllib.loads(uncomment(text))), world)
    assert set(full.sections) == set(SECTION_STAGES)
    assert full.config.run == plain.config.run == RunOptions()
    assert full.config.commit == CommitOptions()


def test_a_plugin_that_lacks_something_says_so_in_its_place(world):
    choices = {**CHOICES, "commented": {"encoder": {"plugin": "lacking", "size": 8}}}
    text = render(choices, world)
    assert "#plugin = \"lacking\"\n# encoder 'lacking' needs no_such_module: pip install 'speciate[lacking]'\n" in text
    assert "\n#size = 8\n" in text
    assert resolve(parse(tomllib.loads(text)), world)


def test_an_existing_file_is_kept_without_force(speciate):
    Path("speciate.toml").write_text("mine", "utf-8")
    result = speciate("init")
    assert result.exit_code == 2
    assert "speciate.toml exists: choose another path, or replace it with --force" in result.stderr
    assert Path("speciate.toml").read_text("utf-8") == "mine"
    assert speciate("init", "--force").exit_code == 0
    assert Path("speciate.toml").read_text("utf-8") != "mine"


def test_a_directory_is_not_overwritten(speciate):
    Path("folder").mkdir()
    result = speciate("init", "folder", "--force")
    assert result.exit_code == 4
    assert result.stderr == "speciate: error: cannot write folder: Is a directory\n"


def test_with_the_built_in_plugins_check_passes(speciate):
    result = speciate("init", "pipeline.toml")
    assert result.exit_code == 0, result.stderr
    assert (
        result.output
        == "wrote pipeline.toml: edit the paths in [source] and [support], then run: speciate check pipeline.toml\n"
    )
    checked = speciate("check", "pipeline.toml")
    assert checked.exit_code == 0, checked.stderr


def test_with_everything_used_check_passes_too(speciate):
    speciate("init")
    Path("full.toml").write_text(uncomment(Path("speciate.toml").read_text("utf-8")), "utf-8")
    checked = speciate("check", "full.toml")
    assert checked.exit_code == 0, checked.stderr


@pytest.mark.parametrize("section", SECTION_STAGES)
def test_every_key_of_a_chosen_plugin_is_there(section):
    choices = template()
    values = (choices["written"] | choices["commented"])[section]
    text = render(choices, installed())
    for key in describe(installed().provider(SECTION_STAGES[section], values["plugin"]).options):
        assert re.search(rf"^#? ?{key.name} = ", text, re.MULTILINE), key


def test_every_key_of_the_engine_is_there():
    text = render(template(), installed())
    for key in [*describe(RunOptions), *describe(CommitOptions)]:
        assert (f"\n# {key.name} = not set\n" if key.default is None else f"\n#{key.name} = {key.default}\n") in text
    assert '\n#[model]\n# A bundle that `speciate fit` wrote. (text, required)\n#path = "a-model"\n' in text
    for key in describe(PipelineConfig):
        assert f"[{key.name}]\n" in text
