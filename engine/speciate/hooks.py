"""The hooks: one a stage. A plugin module implements one of them and is named by an entry point.

In the package's metadata, group `speciate`, the entry point `"density.mine" = "my_package.my_density"` announces a
density called `mine`. The module then says, with the stage's hook, how it is configured and made:

    @hookimpl
    def speciate_density() -> Provider[Density]:
        return Provider(options=MyOptions, create=MyDensity)
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import pluggy

from speciate.stages import Density, Encoder, Policy, Sink, Source, StateStore
from speciate_schemas import Strict

PROJECT = "speciate"

hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)

StageT_co = TypeVar("StageT_co", covariant=True)


@dataclass(frozen=True, kw_only=True)
class Provider(Generic[StageT_co]):
    """How a plugin is configured and made."""

    options: type[Strict]
    """Its options: a struct deriving from `speciate_schemas.Strict`, each field with a description."""
    create: Callable[[Any], StageT_co]
    """Makes the stage from an instance of `options`. Light: what is heavy is loaded on use."""
    requires: tuple[str, ...] = ()
    """Modules that must be importable for it to work."""
    install: str = ""
    """What to give to pip when one of them is missing, such as `speciate[parquet]`."""
    suffixes: tuple[str, ...] = ()
    """For a source that reads files: the file name endings it understands."""


@hookspec
def speciate_source() -> Provider[Source]:
    """Provide a source: where events come from."""
    raise NotImplementedError


@hookspec
def speciate_encoder() -> Provider[Encoder]:
    """Provide an encoder: images to feature vectors."""
    raise NotImplementedError


@hookspec
def speciate_density() -> Provider[Density]:
    """Provide a density: how likely an event is under each category, and under a new one."""
    raise NotImplementedError


@hookspec
def speciate_policy() -> Provider[Policy]:
    """Provide a policy: from evidence to a decision."""
    raise NotImplementedError


@hookspec
def speciate_sink() -> Provider[Sink]:
    """Provide a sink: where answers and dead letters go."""
    raise NotImplementedError


@hookspec
def speciate_store() -> Provider[StateStore]:
    """Provide a state store: where commits and snapshots are kept."""
    raise NotImplementedError


STAGES = ("source", "encoder", "density", "policy", "sink", "store")
