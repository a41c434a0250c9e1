"""From a TOML file and overrides to checked options, before anything runs."""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
from speciate_schemas import PipelineConfig, Strict

from speciate.errors import ConfigError
from speciate.hooks import Provider
from speciate.plugins import Plugins

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

FOLD_SECTIONS = ("support", "encoder", "density", "policy")
"""The sections that shape the state: a state made with others cannot be gone on with."""


@dataclass(frozen=True)
class Chosen:
    """A plugin chosen in a section, with its checked options."""

    stage: str
    name: str
    version: str
    provider: Provider[Any]
    options: Strict

    def create(self) -> Any:
        """Make the stage."""
        return self.provider.create(self.options)


@dataclass(frozen=True)
class Resolved:
    """A configuration whose every key has been checked."""

    config: PipelineConfig
    sections: dict[str, Chosen]

    def __getitem__(self, section: str) -> Chosen:
        return self.sections[section]

    @property
    def fold(self) -> dict[str, Any]:
        """What the state depends on, with defaults filled in: kept beside it and compared on resume."""
        chosen = {name: self.sections[name] for name in FOLD_SECTIONS if name in self.sections}
        sections = {name: {"plugin": one.name, **msgspec.to_builtins(one.options)} for name, one in chosen.items()}
        window = self.config.run.duplicate_window
        return {**sections, "run": {"duplicate_window": window}}

    @property
    def versions(self) -> dict[str, str]:
        """The version of the package behind each plugin in use."""
        return {f"{one.stage}.{one.name}": one.version for one in self.sections.values()}


def load(path: Path, overrides: Sequence[str] = ()) -> PipelineConfig:
    """Read a configuration file and apply `section.key=value` overrides."""
    try:
        with path.open("rb") as file:
            tree = tomllib.load(file)
    except OSError as error:
        raise ConfigError(f"cannot read the configuration {path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not valid TOML: {error}") from error
    for override in overrides:
        _override(tree, override)
    return parse(tree, str(path))


def parse(tree: Mapping[str, Any], where: str = "configuration") -> PipelineConfig:
    """Check the engine's own keys of a configuration given as nested mappings."""
    try:
        return msgspec.convert(tree, PipelineConfig)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{where}: {_readable(error)}") from error


def resolve(config: PipelineConfig, plugins: Plugins) -> Resolved:
    """Find every section's plugin and check its options."""
    sections = {}
    for name, stage in SECTION_STAGES.items():
        section = getattr(config, name)
        if section is not None:
            sections[name] = choose(plugins, stage, section, name)
    return Resolved(config, sections)


def choose(plugins: Plugins, stage: str, section: Mapping[str, Any], where: str) -> Chosen:
    """The plugin a section names, with its options checked by the plugin's own struct."""
    options = dict(section)
    name = options.pop("plugin", None)
    if not isinstance(name, str):
        raise ConfigError(
            f'[{where}] needs plugin = "name", got {name!r}; installed are {", ".join(plugins.names(stage))}'
        )
    provider = plugins.provider(stage, name)
    try:
        checked = msgspec.convert(options, provider.options)
    except msgspec.ValidationError as error:
        raise ConfigError(f"[{where}] {stage} {name!r}: {_readable(error)}") from error
    return Chosen(stage, name, plugins.info(stage, name).version, provider, checked)


def _override(tree: dict[str, Any], override: str) -> None:
    """Set one dotted key. The value is TOML; what is not valid TOML is taken as the text it is."""
    key, equals, text = override.partition("=")
    path = key.strip().split(".")
    if not equals or not all(path):
        raise ConfigError(f"override {override!r} must look like section.key=value")
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        value = text
    node = tree
    for part in path[:-1]:
        node = node.setdefault(part, {})
        if not isinstance(node, dict):
            raise ConfigError(f"override {override!r}: {part!r} is a value, not a section")
    node[path[-1]] = value


def _readable(error: msgspec.ValidationError) -> str:
    """Msgspec's message with the path as one would write it in the file."""
    return str(error).replace("`$.", "`").replace(" - at `$`", "")
