"""Finding plugins: each kind of broken package gets one clear sentence and disturbs nobody else."""

import shutil
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import distributions, entry_points
from pathlib import Path

import pytest

from fabricate import distribution, working
from speciate.errors import PluginError
from speciate.hooks import STAGES, Provider
from speciate.plugins import PluginInfo, Plugins

REPOSITORY = Path(__file__).parents[2]

WRONG_SIGNATURE = working("density").replace("def speciate_density():", "def speciate_density(colour):")
MISSPELT = working("densty")
NO_PROVIDER = """
from speciate.hooks import hookimpl

@hookimpl
def speciate_density():
    return {"options": None}
"""
TWICE = working("density") + "\n@hookimpl(specname='speciate_density')\ndef again():\n    return speciate_density()\n"
RAISES = NO_PROVIDER.replace('return {"options": None}', 'raise OSError("no licence file")')
EXITS = NO_PROVIDER.replace('return {"options": None}', "raise SystemExit(3)")
UNFINDABLE = working("density", ', requires=("nosuch_package.part",), install="bad-plugin[all]"')
NOT_STRICT = working("density").replace("class Options(Strict, frozen=True)", "class Options(msgspec.Struct)")
NO_OPTIONS = working("density").replace("options=Options", "options=None")
MISSING_EXTRA = working("density", ', requires=("json", "nosuch_module"), install="bad-plugin[extra]"')
MISSING_PLAIN = working("density", ', requires=("nosuch_module",)')

BAD = {
    "misspelt hook": (MISSPELT, ["speciate_densty"]),
    "wrong signature": (WRONG_SIGNATURE, ["colour", "speciate_density"]),
    "import error": (
        "import nosuch_module_at_all",
        ["cannot be imported", "nosuch_module_at_all", "uninstall bad-one"],
    ),
    "syntax error": ("def (", ["cannot be imported", "SyntaxError"]),
    "exit on import": ("raise SystemExit('bye')", ["cannot be imported", "SystemExit: bye"]),
    "no module": (None, ["cannot be imported", "No module named 'bad_one'"]),
    "no hook": ("x = 1", ["must implement speciate_density() returning a Provider, got nothing"]),
    "another stage's hook": (working("policy"), ["must implement speciate_density()", "got nothing"]),
    "no provider": (NO_PROVIDER, ["must implement speciate_density() returning a Provider, got {'options': None}"]),
    "two hooks": (TWICE, ["must implement speciate_density()"]),
    "hook raises": (RAISES, ["fails in speciate_density()", "OSError: no licence file"]),
    "options that are not strict": (NOT_STRICT, ["deriving from speciate_schemas.Strict", "bad_one.Options"]),
    "no options": (NO_OPTIONS, ["deriving from speciate_schemas.Strict, got None"]),
    "hook exits": (EXITS, ["fails in speciate_density()", "SystemExit: 3"]),
    "missing extra": (MISSING_EXTRA, ["needs nosuch_module: pip install 'bad-plugin[extra]'"]),
    "missing module": (MISSING_PLAIN, ["needs nosuch_module: pip install 'nosuch_module'"]),
    "missing package": (UNFINDABLE, ["needs nosuch_package.part: pip install 'bad-plugin[all]'"]),
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder on the path where distributions can be put; what is imported from it is forgotten afterwards."""
    monkeypatch.syspath_prepend(tmp_path)
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if (getattr(sys.modules[name], "__file__", None) or "").startswith(str(tmp_path)):
            del sys.modules[name]


@pytest.fixture
def good(folder: Path) -> PluginInfo:
    """A plugin without fault, which all the broken ones must leave alone."""
    distribution(folder, "good-one", {"density.good": ("good_one", working("density"))}, "2.1")
    return PluginInfo("density", "good", "good-one", "2.1", "good_one")


def problems(plugins: Plugins, package: str) -> list[str | None]:
    return [report.problem for report in plugins.survey() if report.plugin.package == package]


def test_a_good_plugin_is_found_and_made(good: PluginInfo) -> None:
    plugins = Plugins()
    assert plugins.info("density", "good") == good
    provider = plugins.provider("density", "good")
    assert isinstance(provider, Provider)
    assert provider.create(provider.options(path="there")).path == "there"
    assert plugins.provider("density", "good") is provider
    assert "good" in plugins.names("density")
    assert problems(plugins, "good-one") == [None]


@pytest.mark.parametrize("case", BAD)
def test_a_broken_plugin_is_told_in_one_sentence_and_disturbs_nobody(case: str, folder: Path, good: PluginInfo) -> None:
    source, fragments = BAD[case]
    distribution(folder, "bad-one", {"density.bad": ("bad_one", source)})
    plugins = Plugins()
    with pytest.raises(PluginError) as caught:
        plugins.provider("density", "bad")
    (problem,) = problems(plugins, "bad-one")
    for message in (str(caught.value), str(problem)):
        assert all(fragment in message for fragment in fragments), message
        assert "\n" not in message
    assert "density 'bad'" in str(caught.value)
    assert plugins.provider("density", "good").options().scale == 2.5
    assert problems(plugins, "good-one") == [None]


def test_two_packages_with_one_name_are_both_named(folder: Path, good: PluginInfo) -> None:
    for package in ("first-one", "other-one"):
        module = package.replace("-", "_")
        distribution(folder, package, {"density.same": (module, working("density"))})
    plugins = Plugins()
    with pytest.raises(PluginError, match=r"'same' is provided twice, by first-one 1\.0 .* and other-one 1\.0"):
        plugins.provider("density", "same")
    assert all("provided twice" in str(problem) for problem in problems(plugins, "first-one"))
    assert plugins.names("density").count("same") == 1
    assert plugins.provider("density", "good")


def test_one_name_in_two_stages_is_no_conflict(folder: Path) -> None:
    for stage in ("density", "policy"):
        distribution(folder, f"one-{stage}", {f"{stage}.same": (f"one_{stage}", working(stage))})
    assert Plugins().provider("density", "same") is not Plugins().provider("policy", "same")


def test_one_distribution_seen_twice_is_no_conflict(
    folder: Path, good: PluginInfo, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = folder / "copy"
    copy.mkdir()
    for path in list(folder.glob("good_one*")):
        (shutil.copytree if path.is_dir() else shutil.copy)(path, copy / path.name)
    monkeypatch.syspath_prepend(copy)
    assert Plugins().info("density", "good") == good
    doubled = [entry for found in distributions(name="good-one") for entry in found.entry_points]
    assert len(doubled) == 2, "the point of the test: both copies are seen"
    assert Plugins(doubled).info("density", "good") == good


@pytest.mark.parametrize("name", ["good", "densty.good", "density.", ".good"])
def test_a_malformed_entry_point_is_reported_and_harmless(name: str, folder: Path, good: PluginInfo) -> None:
    distribution(folder, "bad-one", {name: ("bad_one", working("density"))})
    plugins = Plugins()
    (problem,) = problems(plugins, "bad-one")
    assert problem is not None
    assert "'stage.name'" in problem
    assert repr(name) in problem
    assert plugins.provider("density", "good")


def test_metadata_that_was_half_removed_is_harmless(folder: Path, good: PluginInfo) -> None:
    distribution(folder, "bad-one", {"density.bad": ("bad_one", working("density"))})
    (folder / "bad_one-1.0.dist-info" / "METADATA").unlink()
    plugins = Plugins()
    assert plugins.provider("density", "good")
    assert problems(plugins, "unknown") == [None]


MALFORMED = {
    "no section": b"density.bad = bad_one\n",
    "no equals sign": b"[speciate]\ndensity.bad\n",
    "not UTF-8": b"[speciate]\ndensity.b\xff\xfed = bad_one\n",
    "nothing": b"",
}


@pytest.mark.parametrize("case", MALFORMED)
def test_metadata_that_cannot_be_read_hides_nobody_else(case: str, folder: Path, good: PluginInfo) -> None:
    distribution(folder, "bad-one", {"density.bad": ("bad_one", working("density"))})
    (folder / "bad_one-1.0.dist-info" / "entry_points.txt").write_bytes(MALFORMED[case])
    plugins = Plugins()
    assert plugins.provider("density", "good")
    assert plugins.provider("density", "nearest-mean")
    assert problems(plugins, "good-one") == [None]
    assert all(problems(plugins, "bad-one")), "what could be read of it is told as broken"


def test_looking_around_imports_nothing(folder: Path, good: PluginInfo) -> None:
    plugins = Plugins()
    plugins.names("density")
    plugins.info("density", "good")
    assert "good_one" not in sys.modules


def test_an_unknown_name_suggests_the_nearest(folder: Path, good: PluginInfo) -> None:
    with pytest.raises(PluginError, match=r"unknown density 'goood': did you mean 'good'\? installed are .*good"):
        Plugins().provider("density", "goood")
    with pytest.raises(PluginError, match="unknown density 'zzzzzz': installed are"):
        Plugins().provider("density", "zzzzzz")
    with pytest.raises(PluginError, match="unknown policy 'x': installed are none"):
        Plugins([]).provider("policy", "x")


def test_the_survey_lists_all_even_the_broken(folder: Path, good: PluginInfo) -> None:
    for number, (source, _) in enumerate(BAD.values()):
        distribution(folder, f"bad-{number}", {f"density.bad{number}": (f"bad_{number}", source)})
    survey = Plugins().survey()
    stages = [entry for entry in entry_points(group="speciate") if not entry.name.startswith("catalogue.")]
    assert len(survey) == len(stages)
    ours = {report.plugin.name: report.problem for report in survey if report.plugin.package.startswith("bad-")}
    assert set(ours) == {f"bad{number}" for number in range(len(BAD))}
    assert all(ours.values())


def declared() -> dict[str, str]:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    entries = project["entry-points"]["speciate"]
    return {name: value for name, value in entries.items() if not name.startswith("catalogue.")}


def test_our_own_distribution_announces_what_the_project_file_declares() -> None:
    own = {report.plugin for report in Plugins().survey() if report.plugin.package == "speciate"}
    assert {f"{info.stage}.{info.name}": info.module for info in own} == declared()


@pytest.mark.parametrize("name", [name for name in declared() if not name.startswith("command.")])
def test_each_of_our_own_plugins_resolves(name: str) -> None:
    stage, _, plugin = name.partition(".")
    assert stage in STAGES
    assert Plugins().provider(stage, plugin).options.__doc__
