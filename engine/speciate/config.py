"""From a TOML file and overrides to checked options, before anything runs."""

import os
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from fnmatch import fnmatch
from importlib.resources import files
from pathlib import Path
from typing import Any

from speciate.bundle import Bundle, is_bundle
from speciate.errors import BundleError, ConfigError, PluginError
from speciate.hooks import Provider
from speciate.logs import get_logger
from speciate.plugins import Plugins
from speciate.stages import Seat
from speciate.trees import apply_overrides, check_keys, checked, read_toml
from speciate_schemas import (
    AlbumOptions,
    CommitOptions,
    ModelOptions,
    PipelineConfig,
    RunOptions,
    Strict,
    decode,
    encode,
)

log = get_logger(__name__)

SECTION_STAGES = {
    "source": "source",
    "support": "source",
    "encoder": "encoder",
    "density": "density",
    "policy": "policy",
    "sink": "sink",
    "dead_letters": "sink",
    "store": "store",
}
"""Which stage a plugin named in a section must belong to."""

OWN_SECTIONS: dict[str, type[Strict]] = {
    "model": ModelOptions,
    "run": RunOptions,
    "commit": CommitOptions,
    "album": AlbumOptions,
}
"""The sections that name no plugin."""

FOLD_SECTIONS = ("support", "encoder", "density", "policy")
"""The sections that shape the state: a state made with others cannot be gone on with. A model stands in for them."""

HEAD_SECTIONS = ("support", "policy", "dead_letters", "store")
"""The sections that [density] needs; together they make a head, its state, and a place for what it cannot use."""

OUTPUT_SECTIONS = ("sink", "dead_letters", "store")
INPUT_SECTIONS = ("source", "support")


@dataclass(frozen=True)
class Chosen:
    """A plugin chosen in a section, with its checked options."""

    stage: str
    name: str
    version: str
    provider: Provider[Any]
    options: Strict

    @property
    def key(self) -> str:
        """Stage and name, as its entry point has them."""
        return f"{self.stage}.{self.name}"

    def create(self, seat: Seat | None = None) -> Any:
        """Make the stage, for one task of several where a seat says so."""
        if self.provider.create_at is not None:
            return self.provider.create_at(self.options, seat or Seat())
        if seat is not None and seat.count > 1:
            raise ConfigError(
                f"{self.stage} {self.name!r} cannot keep {seat.count} tasks apart: use one that can, such as those on "
                "the log the source reads, or read with one task only"
            )
        return self.provider.create(self.options)


@dataclass(frozen=True)
class Resolved:
    """A configuration whose every key has been checked."""

    config: PipelineConfig
    sections: dict[str, Chosen]
    bundle: Bundle | None = None
    """The model in use, verified; its encoder, density and policy are among the sections."""

    def __getitem__(self, section: str) -> Chosen:
        return self.sections[section]

    @property
    def fold(self) -> dict[str, Any]:
        """What the state depends on, with defaults filled in: kept beside it and compared on resume."""
        run = self.config.run
        own = {"run": {"duplicate_window": run.duplicate_window, "universe": run.universe}}
        if self.bundle is not None:
            changes = self.config.model.encoder if self.config.model else {}
            return {"model": {"fingerprint": self.bundle.manifest.fingerprint, **changes}, **own}
        # Through the codec, so that a tuple compares equal to the list a snapshot gives back.
        chosen = {name: self.sections[name] for name in FOLD_SECTIONS if name in self.sections}
        sections = {name: {"plugin": one.name, **decode(encode(one.options), dict)} for name, one in chosen.items()}
        return {**sections, **own}

    @property
    def decides(self) -> bool:
        """False for a pipeline without a head, which only hands events on."""
        return "density" in self.sections

    @property
    def versions(self) -> dict[str, str]:
        """The version of the package behind each plugin in use."""
        return {one.key: one.version for one in self.sections.values()}


def load(path: Path, overrides: Sequence[str] = (), source: Mapping[str, Any] | None = None) -> PipelineConfig:
    """Read a configuration file and apply `section.key=value` overrides.

    A model bundle is a configuration, too: itself, with the outputs a new one has. `source` replaces the section.
    """
    if not is_bundle(path):
        tree = read_toml(path, f"the configuration {path}", str(path))
    elif source is not None or any(override.startswith("source") for override in overrides):
        outputs = read_toml(files("speciate") / "data/model.toml", "the outputs", "model.toml")
        tree = {**outputs, "model": {"path": str(path)}}
    else:
        raise ConfigError(
            f"{path} is a model and says nothing of what to read: give INPUTs behind it where they are taken, or "
            "-s source.plugin=NAME and the options of that source"
        )
    return parse({**tree, **({} if source is None else {"source": source})}, str(path), overrides)


def parse(tree: Mapping[str, Any], where: str = "configuration", overrides: Sequence[str] = ()) -> PipelineConfig:
    """Check the engine's own keys of a configuration given as nested mappings, after overrides."""
    changed = deepcopy(dict(tree))
    apply_overrides(changed, overrides)
    check_keys(changed, PipelineConfig, where)
    for name, kind in OWN_SECTIONS.items():
        if isinstance(changed.get(name), dict):
            check_keys(changed[name], kind, f"{where}: [{name}]")
    return checked(changed, PipelineConfig, where)


def resolve(config: PipelineConfig, plugins: Plugins) -> Resolved:
    """Find every section's plugin and check its options."""
    _check_complete(config)
    sections = {}
    for name, stage in SECTION_STAGES.items():
        section = getattr(config, name)
        if section is not None:
            sections[name] = choose(plugins, stage, section, name)
    _check_apart(config, sections.get("encoder"))
    if config.model is None:
        return Resolved(config, sections)
    bundle = Bundle.load(config.model.path)
    return Resolved(config, {**sections, **of_model(bundle, plugins, config.model.encoder)}, bundle)


def of_model(bundle: Bundle, plugins: Plugins, changes: Mapping[str, Any] | None = None) -> dict[str, Chosen]:
    """The plugins a model was fitted with, with the options it was fitted with, and changes to the encoder's."""
    head, encoder = bundle.head_state(), bundle.encoder_section()
    fixed = {"plugin", *bundle.manifest.encoder_files} & (changes or {}).keys()
    if fixed or (changes and encoder is None):
        raise ConfigError(
            f"[model.encoder] {min(fixed or changes or {})} cannot be changed: it belongs to {bundle.path}"
        )
    if encoder is not None:
        encoder |= changes or {}
    given = {
        "density": {"plugin": head.density, **head.density_options},
        "policy": {"plugin": head.policy, **head.policy_options},
        **({} if encoder is None else {"encoder": encoder}),
    }
    found = {stage: choose(plugins, stage, section, f"{stage} of {bundle.path}") for stage, section in given.items()}
    for option in found["encoder"].provider.files if "encoder" in found else ():
        if option not in bundle.manifest.encoder_files and getattr(found["encoder"].options, option) is not None:
            raise BundleError(f"the model {bundle.path} names a file outside of itself as {option}: fit it again")
    for one in found.values():
        made_by = bundle.manifest.plugins.get(one.key)
        if made_by != one.version:
            log.warning("the model was made by another version", plugin=one.name, made_by=made_by, now=one.version)
    return found


def _check_complete(config: PipelineConfig) -> None:
    """A head needs all its sections, and without one none of them means anything."""
    if config.model is not None:
        _check_model(config)
        return
    missing = [name for name in HEAD_SECTIONS if getattr(config, name) is None]
    if config.density is not None and missing:
        raise ConfigError(f"the configuration has no [{missing[0]}]: a pipeline that decides needs one")
    given = [name for name in HEAD_SECTIONS if name != "store" and getattr(config, name) is not None]
    if config.density is None and given:
        raise ConfigError(
            f"the configuration has [{given[0]}] but no [density]: add one, or leave out "
            f"{', '.join(f'[{name}]' for name in given)} to hand events on without deciding"
        )


def _check_model(config: PipelineConfig) -> None:
    """A model has all that shapes the head; what else a head needs must be there."""
    for name in FOLD_SECTIONS:
        if getattr(config, name) is not None:
            raise ConfigError(f"the configuration has [model] and [{name}]: leave out [{name}], the model has its own")
    for name in ("dead_letters", "store"):
        if getattr(config, name) is None:
            raise ConfigError(f"the configuration has no [{name}]: a pipeline that decides needs one")


def _check_apart(config: PipelineConfig, encoder: Chosen | None) -> None:
    """No output may be another output or an input: one would overwrite the other."""
    places = {name: _places(getattr(config, name) or {}) for name in (*OUTPUT_SECTIONS, *INPUT_SECTIONS)}
    if config.model is not None:
        path = os.path.realpath(config.model.path)
        places["model"] = [path, f"{path}/**"]
    if encoder is not None:
        named = [getattr(encoder.options, option) for option in encoder.provider.files]
        places["encoder"] = [os.path.realpath(one) for one in named if one is not None]
    for output in OUTPUT_SECTIONS:
        for other, taken in places.items():
            clash = [a for a in places[output] for b in taken if other != output and _matches(a, b)]
            if clash:
                raise ConfigError(f"[{output}] writes to {clash[0]}, which [{other}] uses too: choose another path")


def _places(section: Mapping[str, Any]) -> list[str]:
    """The files or folders a section names; by convention its plugin calls them `path` or `paths`."""
    paths = section.get("paths", [])
    named = [section.get("path"), *(paths if isinstance(paths, list) else [])]
    return [os.path.realpath(one) for one in named if isinstance(one, str)]


def _matches(path: str, pattern: str) -> bool:
    """Whether a path or glob stands for a path; `*` never reaches into a folder below, `**` does, or stays."""
    return path == pattern or _parts_match(Path(path).parts, Path(pattern).parts)


def _parts_match(parts: tuple[str, ...], wanted: tuple[str, ...]) -> bool:
    if not wanted:
        return not parts
    if wanted[0] == "**":
        return any(_parts_match(parts[skipped:], wanted[1:]) for skipped in range(len(parts) + 1))
    return bool(parts) and fnmatch(parts[0], wanted[0]) and _parts_match(parts[1:], wanted[1:])


def choose(plugins: Plugins, stage: str, section: Mapping[str, Any], where: str) -> Chosen:
    """The plugin a section names, with its options checked by the plugin's own struct."""
    options = dict(section)
    name = options.pop("plugin", None)
    if not isinstance(name, str):
        raise ConfigError(
            f'[{where}] needs plugin = "name", got {name!r}; installed are {", ".join(plugins.names(stage))}'
        )
    try:
        provider = plugins.provider(stage, name)
    except PluginError as error:
        raise PluginError(f"[{where}] {error}") from error
    found = checked(options, provider.options, f"[{where}] {stage} {name!r}")
    return Chosen(stage, name, plugins.info(stage, name).version, provider, found)
