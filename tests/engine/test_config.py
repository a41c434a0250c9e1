"""From a TOML file and overrides to checked options: every mistake is named with its place."""

import dataclasses
import itertools
import os
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest

from fabricate import distribution, working
from speciate.bundle import write_bundle
from speciate.config import FOLD_SECTIONS, HEAD_SECTIONS, SECTION_STAGES, _check_apart, choose, load, parse, resolve
from speciate.errors import BundleError, ConfigError, PluginError
from speciate.hooks import STAGES
from speciate.plugins import Plugins
from speciate.stages import Seat
from speciate_schemas import Card, HeadState, ModelOptions, PipelineConfig, Strict, SupportCard, decode, encode

TREE: dict[str, Any] = {
    "source": {"plugin": "made"},
    "support": {"plugin": "made", "path": "known"},
    "density": {"plugin": "made", "scale": 1},
    "policy": {"plugin": "made"},
    "sink": {"plugin": "made"},
    "dead_letters": {"plugin": "made"},
    "store": {"plugin": "made"},
}
FILE = "\n".join(f'[{section}]\nplugin = "made"' for section in TREE)


@pytest.fixture(scope="module")
def plugins(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plugins]:
    """One plugin a stage, all called `made`, from a package made up for the test."""
    folder = tmp_path_factory.mktemp("made")
    distribution(
        folder, "made-up", {f"{stage}.made": (f"made_{stage}", working(stage)) for stage in STAGES}, version="4.2"
    )
    sys.path.insert(0, str(folder))
    yield Plugins()
    sys.path.remove(str(folder))
    for stage in STAGES:
        sys.modules.pop(f"made_{stage}", None)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "pipeline.toml"
    file.write_text(FILE)
    return file


def test_a_file_is_read_as_it_is(path: Path) -> None:
    assert load(path) == parse({**TREE, "support": {"plugin": "made"}, "density": {"plugin": "made"}})


def without(*sections: str) -> dict[str, Any]:
    return {name: value for name, value in TREE.items() if name not in sections}


@pytest.mark.parametrize("section", ["source", "sink"])
def test_a_section_nobody_can_do_without_is_named(section: str) -> None:
    with pytest.raises(ConfigError, match=f"missing required field `{section}`"):
        parse(without(section))


@pytest.mark.parametrize("section", HEAD_SECTIONS)
def test_a_section_that_deciding_takes_is_named(plugins: Plugins, section: str) -> None:
    with pytest.raises(ConfigError, match=rf"no \[{section}\]: a pipeline that decides needs one"):
        resolve(parse(without(section)), plugins)


LEFT_OVER = ("support", "policy", "dead_letters")
"""What means nothing without a density."""


@pytest.mark.parametrize(
    "left", [names for count in (1, 2, 3) for names in itertools.combinations(LEFT_OVER, count)], ids="+".join
)
def test_a_head_without_its_density_is_told_with_both_ways_out(plugins: Plugins, left: tuple[str, ...]) -> None:
    missing = [name for name in LEFT_OVER if name not in left]
    with pytest.raises(ConfigError) as caught:
        resolve(parse(without("density", *missing)), plugins)
    message = str(caught.value)
    assert f"has [{left[0]}] but no [density]: add one" in message
    assert f"leave out {', '.join(f'[{name}]' for name in left)} to hand events on" in message


@pytest.mark.parametrize("store", [True, False])
def test_without_a_head_events_are_handed_on(plugins: Plugins, store: bool) -> None:
    tree = without("density", *LEFT_OVER, *([] if store else ["store"]))
    resolved = resolve(parse(tree), plugins)
    assert not resolved.decides
    assert set(resolved.sections) == set(tree)
    assert resolve(parse(TREE), plugins).decides


class Seated(NamedTuple):
    options: Strict
    seat: Seat


def test_a_stage_gets_the_seat_if_it_takes_one_and_one_of_its_own_otherwise(plugins: Plugins) -> None:
    chosen = resolve(parse(TREE), plugins)["sink"]
    seated = replace(chosen, provider=replace(chosen.provider, create_at=Seated))
    seat = Seat(3, 5)
    assert seated.create(seat).seat is seat
    alone = seated.create().seat
    assert (alone.number, alone.count, alone.common) == (0, 1, {})


@pytest.mark.parametrize("count", [2, 9])
def test_a_stage_that_cannot_keep_several_tasks_apart_is_refused(plugins: Plugins, count: int) -> None:
    chosen = resolve(parse(TREE), plugins)["sink"]
    with pytest.raises(ConfigError, match=f"sink 'made' cannot keep {count} tasks apart"):
        chosen.create(Seat(1, count))
    assert chosen.create(Seat(0, 1)) is chosen.options


@pytest.mark.parametrize("section", [{}, {"plugin": 7}, {"plugin": ["made"]}, {"plugn": "made"}])
def test_a_section_without_a_plugin_lists_what_is_there(plugins: Plugins, section: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=r'\[sink\] needs plugin = "name", got .*; installed are .*made'):
        choose(plugins, "sink", section, "sink")


@pytest.mark.parametrize("section", SECTION_STAGES)
def test_an_unknown_plugin_suggests_the_nearest(plugins: Plugins, section: str) -> None:
    config = parse({**TREE, section: {"plugin": "maed"}})
    with pytest.raises(PluginError, match=rf"unknown {SECTION_STAGES[section]} 'maed': did you mean 'made'\?"):
        resolve(config, plugins)


@pytest.mark.parametrize(
    ("options", "fragments"),
    [
        ({"scal": 1}, ["'scal'", "did you mean 'scale'?"]),
        ({"scale": "big"}, ["`float`", "`str`", "`scale`"]),
        ({"scale": -1}, ["`scale`"]),
        ({"sizes": [1, "two"]}, ["`sizes[1]`"]),
    ],
)
def test_a_plugin_checks_its_own_options(plugins: Plugins, options: dict[str, Any], fragments: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        resolve(parse({**TREE, "dead_letters": {"plugin": "made", **options}}), plugins)
    assert str(caught.value).startswith("[dead_letters] sink 'made'")
    assert all(fragment in str(caught.value) for fragment in fragments), caught.value


def test_resolving_finds_every_section_and_leaves_out_what_is_not_there(plugins: Plugins) -> None:
    resolved = resolve(parse(TREE), plugins)
    assert set(resolved.sections) == set(TREE)
    assert resolved["density"].options.scale == 1.0  # type: ignore[attr-defined]
    assert resolved["density"].create() is resolved["density"].options
    assert resolved.versions == {f"{stage}.made": "4.2" for stage in STAGES if stage != "encoder"}


@pytest.mark.parametrize(
    ("output", "other", "path", "pattern"),
    [
        ("sink", "dead_letters", "out/a.jsonl", "out/a.jsonl"),
        ("sink", "dead_letters", "out/a.jsonl", "./out/../out/a.jsonl"),
        ("sink", "store", "out", "out/"),
        ("dead_letters", "store", "out", "out"),
        ("sink", "source", "in.jsonl", "in.jsonl"),
        ("dead_letters", "source", "in-2.jsonl", "in-*.jsonl"),
        ("sink", "source", "in[1].jsonl", "in[1].jsonl"),
        ("sink", "source", "a/b/c.jsonl", "**/*.jsonl"),
        ("sink", "source", "a/c.jsonl", "a/**/c.jsonl"),
        ("sink", "source", "c.jsonl", "**/c.jsonl"),
        ("sink", "source", "a/c.jsonl", "a/**"),
        ("sink", "source", "link/c.jsonl", "a/*.jsonl"),
        ("sink", "support", "known.jsonl", "known.*"),
        ("store", "support", "known", "known"),
    ],
)
def test_an_output_that_is_another_output_or_an_input_is_refused(
    *,
    plugins: Plugins,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    output: str,
    other: str,
    path: str,
    pattern: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a").mkdir()
    (tmp_path / "link").symlink_to("a")
    config = parse({**TREE, output: {"plugin": "made", "path": path}, other: {"plugin": "made", "path": pattern}})
    for changed in (config, msgspec.structs.replace(config, **{other: {"plugin": "made", "paths": ["x", pattern]}})):
        with pytest.raises(ConfigError, match=r"which .* uses too: choose another path") as caught:
            _check_apart(changed, None)
        assert all(f"[{name}]" in str(caught.value) for name in (output, other))
        assert os.path.realpath(path) in str(caught.value)
    with pytest.raises(ConfigError, match="uses too"):
        resolve(config, plugins)


@pytest.mark.parametrize(
    ("path", "pattern"),
    [
        ("out/a.jsonl", "*.jsonl"),
        ("out/a.jsonl", "out/*/a.jsonl"),
        ("out/in-1/answers.jsonl", "**/in-*.jsonl"),
        ("out/a.jsonl", "in/**/a.jsonl"),
        ("a.jsonl", "b.jsonl"),
        ("a1.jsonl", "a2.jsonl"),
    ],
)
def test_a_glob_reaches_into_folders_only_where_it_says_so(plugins: Plugins, path: str, pattern: str) -> None:
    outputs = {name: {"plugin": "made", "path": name} for name in ("dead_letters", "store")}
    source = {"plugin": "made", "path": pattern}
    resolve(parse({**TREE, **outputs, "sink": {"plugin": "made", "path": path}, "source": source}), plugins)


def test_every_section_of_the_configuration_has_a_stage() -> None:
    sections = set(PipelineConfig.__struct_fields__) - {"album", "run", "commit", "model"}
    assert set(SECTION_STAGES) == sections
    assert set(FOLD_SECTIONS) < sections
    assert set(SECTION_STAGES.values()) == set(STAGES)


def test_the_fold_holds_defaults_and_only_what_shapes_the_state(plugins: Plugins) -> None:
    tree = {**TREE, "run": {"duplicate_window": 5, "batch_events": 9}}
    defaults = {"plugin": "made", "path": "here", "scale": 2.5, "sizes": [3, 4]}
    assert resolve(parse(tree), plugins).fold == {
        "support": {**defaults, "path": "known"},
        "density": {**defaults, "scale": 1.0},
        "policy": defaults,
        "run": {"duplicate_window": 5, "universe": "partition"},
    }


def test_the_fold_compares_equal_to_what_a_snapshot_gives_back(plugins: Plugins) -> None:
    """Otherwise a resume would find its own state to be made by another configuration."""
    fold = resolve(parse(TREE), plugins).fold
    assert decode(encode(fold), dict[str, Any]) == fold


HEAD = HeadState(
    density="made",
    policy="made",
    density_options={"scale": 3.0},
    policy_options={"sizes": [7]},
    dimension=2,
    version=0,
    next_category=0,
    shared={},
    categories=[],
)
CARD = Card(
    support=SupportCard(source={}, events=0, classes={}, sha256="0" * 64),
    training=None,
    estimated={},
    estimated_frozen={},
    policy={},
    versions={},
    hardware={},
    created="",
    seconds=0.0,
)
MADE_BY = {f"{stage}.made": "4.2" for stage in ("encoder", "density", "policy")}


def write_model(path: Path, encoder: dict[str, Any] | None = None, plugins: dict[str, str] = MADE_BY) -> Path:
    (path.parent / "weights.bin").write_bytes(b"weights")
    files = {} if encoder is None or "path" in encoder else {"path": path.parent / "weights.bin"}
    write_bundle(path, encoder=encoder, files=files, head=HEAD, card=CARD, plugins=plugins)
    return path


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return write_model(tmp_path / "m", {"plugin": "made", "scale": 5.0})


def with_model(model: Path, **changes: Any) -> dict[str, Any]:
    return {**without(*FOLD_SECTIONS), "model": {"path": str(model)}, **changes}


def test_a_model_stands_in_for_encoder_density_and_policy(plugins: Plugins, model: Path) -> None:
    found = resolve(parse(with_model(model)), plugins)
    assert found.decides
    assert found.bundle is not None
    assert set(found.sections) == {"source", "sink", "dead_letters", "store", "encoder", "density", "policy"}
    options = {name: msgspec.to_builtins(found[name].options) for name in ("encoder", "density", "policy")}
    defaults = {"path": "here", "scale": 2.5, "sizes": (3, 4)}
    weights = str(model / "encoder-path.bin")
    assert options == {
        "encoder": {**defaults, "scale": 5.0, "path": weights},
        "density": {**defaults, "scale": 3.0},
        "policy": {**defaults, "sizes": (7,)},
    }
    assert found.fold == {
        "model": {"fingerprint": found.bundle.manifest.fingerprint},
        "run": {"duplicate_window": found.config.run.duplicate_window, "universe": "partition"},
    }


def test_options_of_a_models_encoder_may_be_others_here(plugins: Plugins, model: Path) -> None:
    tree = {**with_model(model), "model": {"path": str(model), "encoder": {"scale": 7.0}}}
    found = resolve(parse(tree), plugins)
    assert msgspec.to_builtins(found["encoder"].options)["scale"] == 7.0
    assert found.fold["model"]["scale"] == 7.0, "what was begun with other options is not gone on with"


@pytest.mark.parametrize("key", ["plugin", "path"])
def test_what_makes_a_models_encoder_what_it_is_cannot_be_changed(plugins: Plugins, model: Path, key: str) -> None:
    tree = {**with_model(model), "model": {"path": str(model), "encoder": {key: "other"}}}
    with pytest.raises(ConfigError, match=rf"\[model\.encoder\] {key} cannot be changed"):
        resolve(parse(tree), plugins)


def test_a_model_without_an_encoder_has_no_options_of_it(plugins: Plugins, tmp_path: Path) -> None:
    model = write_model(tmp_path / "m")
    tree = {**with_model(model), "model": {"path": str(model), "encoder": {"scale": 7.0}}}
    with pytest.raises(ConfigError, match=r"\[model\.encoder\] scale cannot be changed"):
        resolve(parse(tree), plugins)


def with_files(plugins: Plugins, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the made encoder say that its option `path` names a file."""
    provider = plugins.provider

    def changed(stage: str, name: str) -> Any:
        found = provider(stage, name)
        return dataclasses.replace(found, files=("path",)) if stage == "encoder" else found

    monkeypatch.setattr(plugins, "provider", changed)


def test_a_model_that_names_a_file_outside_of_itself_is_refused(
    plugins: Plugins, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_files(plugins, monkeypatch)
    model = write_model(tmp_path / "m", {"plugin": "made", "path": "/somewhere/else"})
    with pytest.raises(BundleError, match="names a file outside of itself as path"):
        resolve(parse(with_model(model)), plugins)


def test_no_output_is_a_file_of_the_encoder(plugins: Plugins, monkeypatch: pytest.MonkeyPatch) -> None:
    with_files(plugins, monkeypatch)
    tree = {**TREE, "encoder": {"plugin": "made", "path": "w"}, "sink": {"plugin": "made", "path": "./w"}}
    with pytest.raises(ConfigError, match=r"\[sink\] writes to .*, which \[encoder\] uses too"):
        resolve(parse(tree), plugins)


def test_a_model_of_features_has_no_encoder(plugins: Plugins, tmp_path: Path) -> None:
    assert "encoder" not in resolve(parse(with_model(write_model(tmp_path / "m"))), plugins).sections


@pytest.mark.parametrize("section", FOLD_SECTIONS)
def test_a_model_and_what_it_stands_for_are_refused_together(plugins: Plugins, model: Path, section: str) -> None:
    tree = with_model(model, **{section: {"plugin": "made"}})
    with pytest.raises(ConfigError, match=rf"has \[model\] and \[{section}\]: leave out \[{section}\]"):
        resolve(parse(tree), plugins)


@pytest.mark.parametrize("section", ["dead_letters", "store"])
def test_a_model_needs_what_a_head_needs(plugins: Plugins, model: Path, section: str) -> None:
    tree = {name: value for name, value in with_model(model).items() if name != section}
    with pytest.raises(ConfigError, match=rf"no \[{section}\]: a pipeline that decides needs one"):
        resolve(parse(tree), plugins)


@pytest.mark.parametrize("below", ["", "head.state"])
@pytest.mark.parametrize("section", ["sink", "dead_letters", "store"])
def test_nothing_is_written_into_a_model(plugins: Plugins, model: Path, section: str, below: str) -> None:
    with pytest.raises(ConfigError, match=rf"\[{section}\] writes to .*, which \[model\] uses too"):
        resolve(parse(with_model(model, **{section: {"plugin": "made", "path": str(model / below)}})), plugins)


def test_a_damaged_model_is_refused(plugins: Plugins, model: Path) -> None:
    (model / "encoder-path.bin").write_bytes(b"wieghts")
    with pytest.raises(BundleError, match=r"the bytes of encoder-path\.bin are not those that were written"):
        resolve(parse(with_model(model)), plugins)


@pytest.mark.parametrize(
    ("section", "message"),
    [({}, "`path`"), ({"path": ""}, r"`model\.path`"), ({"paht": "m"}, r"\[model\] has no key 'paht'.*'path'")],
)
def test_a_wrong_key_of_a_model_is_named(section: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parse({**without(*FOLD_SECTIONS), "model": section})


def test_a_model_whose_plugin_is_not_installed_is_told_with_its_path(plugins: Plugins, tmp_path: Path) -> None:
    model = write_model(tmp_path / "m", {"plugin": "unmade"})
    with pytest.raises(PluginError, match=r"unknown encoder 'unmade'") as caught:
        resolve(parse(with_model(model)), plugins)
    assert str(model) in str(caught.value)


@pytest.mark.parametrize("made_by", [{}, {**MADE_BY, "density.made": "4.1"}])
def test_a_model_made_by_another_version_is_told_and_used(
    plugins: Plugins, tmp_path: Path, made_by: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    resolve(parse(with_model(write_model(tmp_path / "same"))), plugins)
    assert caplog.text == ""
    resolve(parse(with_model(write_model(tmp_path / "m", plugins=made_by))), plugins)
    assert "the model was made by another version" in caplog.text


def test_a_model_is_a_configuration_with_the_usual_outputs(model: Path) -> None:
    source = {"plugin": "made", "paths": ["in"]}
    config = load(model, ["run.batch_events=3", "source.path=there"], source)
    assert config.model == ModelOptions(path=str(model))
    assert config.source == {**source, "path": "there"}
    assert config.run.batch_events == 3
    assert all((config.sink, config.dead_letters, config.store))
    with pytest.raises(ConfigError, match=r"says nothing of what to read: give INPUTs .* or -s source\.plugin"):
        load(model)


def test_a_source_given_replaces_the_section_whole(path: Path) -> None:
    assert load(path, [], {"plugin": "other"}).source == {"plugin": "other"}
    assert load(path).source == {"plugin": "made"}
