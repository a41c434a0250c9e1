"""Finding plugins: by entry point, imported only when used, each problem told in one sentence."""

import importlib.util
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib.metadata import Distribution, EntryPoint, distributions
from pathlib import Path
from typing import Any

import pluggy

from speciate import hooks
from speciate.commands import Announced, load_command
from speciate.errors import PluginError
from speciate.hints import did_you_mean
from speciate.hooks import PROJECT, STAGES, Provider
from speciate.logs import get_logger
from speciate_schemas import Strict

log = get_logger(__name__)

UNKNOWN = "unknown"
COMMAND = "command"
"""What the entry point of a command begins with: no stage, but listed with them. `speciate.commands` finds it."""


@dataclass(frozen=True, order=True)
class PluginInfo:
    """What the metadata of an installed package says of one plugin, without importing it."""

    stage: str
    name: str
    package: str
    version: str
    module: str

    def __str__(self) -> str:
        return f"{self.stage} {self.name!r} of package {self.package} {self.version}"


@dataclass(frozen=True)
class PluginReport:
    """One plugin and whether it can be used here; `problem` says why not and what to do."""

    plugin: PluginInfo
    problem: str | None


class Plugins:
    """The plugins installed in this environment."""

    def __init__(self, found: Iterable[EntryPoint] | None = None) -> None:
        self._infos = sorted({_info(entry) for entry in (_discover() if found is None else found)})
        self._providers: dict[PluginInfo, Provider[Any]] = {}

    def names(self, stage: str) -> list[str]:
        """The names one can write after `plugin =` in a section of this stage."""
        return sorted({info.name for info in self._infos if info.stage == stage})

    def info(self, stage: str, name: str) -> PluginInfo:
        """The one plugin of this stage and name."""
        matches = [info for info in self._infos if (info.stage, info.name) == (stage, name)]
        if not matches:
            raise PluginError(self._unknown(stage, name))
        if len(matches) > 1:
            owners = " and ".join(f"{info.package} {info.version} ({info.module})" for info in matches)
            raise PluginError(f"{stage} {name!r} is provided twice, by {owners}: uninstall one of the packages")
        return matches[0]

    def provider(self, stage: str, name: str) -> Provider[Any]:
        """How to configure and make the plugin; checked to be whole and usable here."""
        provider = self._load(self.info(stage, name))
        missing = _missing(provider)
        if missing:
            raise PluginError(f"{stage} {name!r} {missing}")
        return provider

    def source_for(self, path: str) -> str | None:
        """The source that understands files of this name, if one says so; broken plugins have no say."""
        name = f"{path}/" if Path(path).is_dir() else path
        for plugin in self.names("source"):
            try:
                if name.endswith(self._load(self.info("source", plugin)).suffixes or ("\0",)):
                    return plugin
            except PluginError:
                continue
        return None

    def survey(self) -> list[PluginReport]:
        """Every plugin found and whether it is usable; never raises for a broken one."""
        return [PluginReport(info, self._problem(info)) for info in self._infos]

    def _problem(self, info: PluginInfo) -> str | None:
        if info.stage not in {*STAGES, COMMAND}:
            return f"its entry point must be called 'stage.name' with a stage of {', '.join(STAGES)}, not {info.name!r}"
        try:
            self.info(info.stage, info.name)
            if info.stage == COMMAND:
                load_command(Announced(info.name, info.module, info.package))
                return None
            return _missing(self._load(info)) or None
        except PluginError as error:
            return str(error)

    def _load(self, info: PluginInfo) -> Provider[Any]:
        if info not in self._providers:
            self._providers[info] = _load(info)
        return self._providers[info]

    def _unknown(self, stage: str, name: str) -> str:
        names = self.names(stage)
        return f"unknown {stage} {name!r}: {did_you_mean(name, names)}installed are {', '.join(names) or 'none'}"


@cache
def installed() -> Plugins:
    """The plugins of this environment, looked up once."""
    return Plugins()


def _discover() -> Iterator[EntryPoint]:
    """The entry points of our group. One package with unreadable metadata must not hide all the others."""
    seen: set[str] = set()
    for distribution in distributions():
        name = _said(distribution, "Name").lower().replace("_", "-")
        # The first of a name on the path is the one that is imported; another copy behind it does not count.
        if name in seen and name != UNKNOWN:
            continue
        seen.add(name)
        try:
            found = distribution.entry_points.select(group=PROJECT)
            # A catalogue is files, not a stage: `speciate.catalogue` finds it.
            yield from (entry for entry in found if not entry.name.startswith("catalogue."))
        except Exception as error:  # noqa: BLE001  # whatever a stranger's metadata makes the parser raise
            log.warning("the entry points of a package cannot be read", package=name, error=repr(error))


def _info(entry: EntryPoint) -> PluginInfo:
    stage, _, name = entry.name.partition(".")
    package, version = (_said(entry.dist, key) for key in ("Name", "Version"))
    if stage in {*STAGES, COMMAND} and name:
        return PluginInfo(stage, name, package, version, entry.value)
    return PluginInfo("?", entry.name, package, version, entry.value)


def _said(distribution: Distribution | None, key: str) -> str:
    """What a package's metadata says. Half removed it says nothing; that must not keep the others from being listed."""
    metadata = distribution.metadata if distribution is not None else None
    return metadata[key] if metadata is not None and key in metadata else UNKNOWN


def _load(info: PluginInfo) -> Provider[Any]:
    """Import the module and ask its hook. Each plugin gets a manager of its own: none can spoil another's."""
    hook = f"{PROJECT}_{info.stage}"
    try:
        module = EntryPoint(info.name, info.module, PROJECT).load()
    except (Exception, SystemExit) as error:
        raise PluginError(
            f"{info} cannot be imported: {type(error).__name__}: {error}; mend or uninstall {info.package}"
        ) from error
    manager = pluggy.PluginManager(PROJECT)
    manager.add_hookspecs(hooks)
    try:
        manager.register(module)
        manager.check_pending()
        results = getattr(manager.hook, hook)()
    except pluggy.PluginValidationError as error:
        reason = " ".join(str(error).split())
        raise PluginError(f"{info} does not implement the hooks rightly: {reason}") from error
    except (Exception, SystemExit) as error:
        raise PluginError(
            f"{info} fails in {hook}(): {type(error).__name__}: {error}; mend or uninstall {info.package}"
        ) from error
    if len(results) != 1 or not isinstance(results[0], Provider):
        got = repr(results[0]) if results else "nothing"
        raise PluginError(f"{info}: module {info.module} must implement {hook}() returning a Provider, got {got}")
    options = results[0].options
    if not (isinstance(options, type) and issubclass(options, Strict)):
        raise PluginError(
            f"{info}: its options must be a struct deriving from speciate_schemas.Strict, got {options!r}"
        )
    return results[0]


def _missing(provider: Provider[Any]) -> str:
    """What to install, if a required module is not there; otherwise nothing."""
    absent = [name for name in provider.requires if not _importable(name)]
    return f"needs {', '.join(absent)}: pip install '{provider.install or absent[0]}'" if absent else ""


def _importable(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except (ImportError, ValueError):
        # The package around it is missing too, or what stands in its place was not imported the usual way.
        return module in sys.modules
