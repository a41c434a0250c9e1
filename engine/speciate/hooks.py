"""The hooks: one a stage. A plugin module implements one of them and is named by an entry point.

In the package's metadata, group `speciate`, the entry point `"density.mine" = "my_package.my_density"` announces a
density called `mine`. The module then says, with the stage's hook, how it is configured and made:

    @hookimpl
    def speciate_density() -> Provider[Density]:
        return Provider(options=MyOptions, create=MyDensity)
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
import pluggy

from speciate.stages import Density, Encoder, Policy, Seat, Share, Sink, Source, StateStore, Trainer, Vector
from speciate_schemas import Control, Position, Strict

PROJECT = "speciate"

hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)

StageT_co = TypeVar("StageT_co", covariant=True)


class Evidence(NamedTuple):
    """What a policy weighs of one event: the arguments of `Policy.weigh`."""

    log_density: Vector
    counts: npt.NDArray[np.int64]
    log_birth: float


class Held(NamedTuple):
    """Evidence of labelled events held out of the support set, by a density fitted to the rest of it."""

    known: Sequence[Evidence] = ()
    """Of events whose class has other events in that rest."""
    novel: Sequence[Evidence] = ()
    """Of events of classes that were held out whole."""


@dataclass(frozen=True, kw_only=True)
class Provider(Generic[StageT_co]):
    """How a plugin is configured and made."""

    options: type[Strict]
    """Its options: a struct deriving from `speciate_schemas.Strict`, each field with a description."""
    create: Callable[[Any], StageT_co]
    """Makes the stage from an instance of `options`. Light: what is heavy is loaded on use."""
    create_at: Callable[[Any, Seat], StageT_co] | None = None
    """Makes the stage for one task of several, if it can keep them apart; then it is used instead of `create`."""
    share: Callable[[Any, bool], Share | None] | None = None
    """For a source whose input several workers can share: how. True asks for all partitions in one task. None if the
    options ask for no sharing: then one process has it all."""
    send: Callable[[Any, int, Control], Awaitable[str]] | None = None
    """For a source that control events can be sent to from outside: sends one to the task of a number, and says where
    it is."""
    unsendable: Callable[[Any], str] | None = None
    """For a source with `send`: why nothing can be sent with these options; empty if it can."""
    tasks: Callable[[Any, bool], Awaitable[int]] | None = None
    """For a source that `share` splits: how many tasks there are, without joining. True asks for all partitions in
    one task."""
    behind: Callable[[Any, Seat, Position | None], Awaitable[int | None]] | None = None
    """For a source whose end can be looked up: about how many records of a task's input come after a position (None:
    all of them); None if it cannot tell."""
    files: tuple[str, ...] = ()
    """For an encoder: the options that name files it reads; a model bundle takes copies of them along."""
    training: type[Strict] | None = None
    """For an encoder that can be trained: the options of `[training]`, as `options` is those of its own section."""
    trainer: Callable[[Any, Any, Path], Trainer] | None = None
    """For an encoder that can be trained: makes a trainer from its options, those of `[training]`, and a folder in
    which it finds again whatever it has kept there before. Without `[training]` there are none of those: it will not be
    asked to train, but for features and to save the encoder as it is."""
    requires: tuple[str, ...] = ()
    """Modules that must be importable for it to work."""
    install: str = ""
    """What to give to pip when one of them is missing, such as `speciate[parquet]`."""
    suffixes: tuple[str, ...] = ()
    """For a source that reads files, or a store that keeps them: the file name endings it understands; a slash for a
    folder."""
    tune: Callable[[Any, Held], Sequence[Any]] | None = None
    """For a policy with options that can be `"auto"`: the options to try, given those written and what was held out,
    ordered by how readily they give birth. None at all if nothing is `"auto"`. Where nothing novel could be held out,
    just one: what to fall back on."""


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
