"""Fitting: a labelled support set becomes a model bundle.

Images go through the encoder, which is trained on them first where `[training]` asks for it; features are taken as they
are. The head is then calibrated on the features and both are written as one bundle. What takes long is kept in a folder
beside the bundle until it is there, so that a fit that was killed goes on where it was.
"""

import math
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from speciate.bundle import check_free, is_bundle, write_bundle
from speciate.config import Chosen, choose
from speciate.encoding import importing
from speciate.errors import ConfigError, SupportError
from speciate.head import Head
from speciate.intake import ChangedError, Intake, Untrained
from speciate.plugins import Plugins
from speciate.stages import Source, Trainer, Watch
from speciate.support import check_support, labelled
from speciate.surroundings import hardware, versions
from speciate.threads import in_thread
from speciate.trees import checked
from speciate.workplace import Workplace, remove_work
from speciate_schemas import (
    Array,
    BundleManifest,
    Card,
    FeatureEvent,
    FitConfig,
    HeadState,
    Strict,
    SupportCard,
    TrainingReport,
)

Phase = Callable[[str], AbstractContextManager[Watch]]
"""Shows one part of the work: called with its name, it yields whom to tell how far it is."""


@dataclass(frozen=True)
class Plan:
    """A fit whose every key has been checked."""

    support: Chosen
    density: Chosen
    policy: Chosen
    encoder: Chosen | None
    training: Strict | None
    plugins: Plugins

    @classmethod
    def of(cls, config: FitConfig, plugins: Plugins) -> "Plan":
        """Find every section's plugin and check its options."""
        encoder = None if config.encoder is None else choose(plugins, "encoder", config.encoder, "encoder")
        return cls(
            support=choose(plugins, "source", config.support, "support"),
            density=choose(plugins, "density", config.density, "density"),
            policy=choose(plugins, "policy", config.policy, "policy"),
            encoder=encoder,
            training=_training(config, encoder),
            plugins=plugins,
        )

    @property
    def recipe(self) -> dict[str, Any]:
        """What kept work depends on."""
        if self.encoder is None:
            return {}
        options = {"plugin": self.encoder.name, **msgspec.to_builtins(self.encoder.options)}
        training = None if self.training is None else msgspec.to_builtins(self.training)
        return {"encoder": options, "training": training, "versions": self._versions("encoder")}

    @property
    def versions(self) -> dict[str, str]:
        """The versions of everything the model depends on."""
        return self._versions("encoder", "density", "policy")

    def _versions(self, *stages: str) -> dict[str, str]:
        chosen = [one for one in (self.encoder, self.density, self.policy) if one is not None and one.stage in stages]
        return versions([(one.stage, one.name) for one in chosen], self.plugins)


@dataclass
class Encoded:
    """The support set as features, and what became of the encoder."""

    features: npt.NDArray[Any]
    files: dict[str, Path]
    """The encoder's options that name files, and those files."""
    options: Strict | None = None
    """The encoder's, as its features were made with them."""
    frozen: npt.NDArray[Any] | None = None
    """The features before training; None without training."""
    report: TrainingReport | None = None


def _training(config: FitConfig, encoder: Chosen | None) -> Strict | None:
    if config.training is None:
        return None
    if encoder is None:
        raise ConfigError("there is [training] but no [encoder]: say which encoder is to be trained, or leave it out")
    if encoder.provider.training is None:
        raise ConfigError(f"encoder {encoder.name!r} cannot be trained: leave out [training], or use one that can")
    return checked(config.training, encoder.provider.training, f"[training] of encoder {encoder.name!r}")


async def fit(config: FitConfig, out: Path, plugins: Plugins, phase: Phase) -> BundleManifest:
    """Fit a model and write it as a bundle at a path where there is nothing yet."""
    await in_thread(None, _check_free, out)
    folder = _workplace_of(out)
    began = time.perf_counter()
    plan = await _plan(config, plugins)
    with Workplace(folder, plan.recipe) as work:
        try:
            intake, taker = await _take_in(plan, work, phase)
        except ChangedError:
            await in_thread(None, work.clear)
            intake, taker = await _take_in(plan, work, phase)
        encoded = await in_thread(None, _encode, plan, intake, taker, work, phase)
        with phase("calibrating") as watch:
            watch(0, 1, plan.policy.name)
            head = await in_thread(None, _calibrated, plan, encoded.features, intake.labels, watch)
            frozen = await in_thread(None, _estimated_before, plan, encoded, intake.labels)
            watch(1, 1, plan.policy.name)
        card = Card(
            support=SupportCard(
                source=config.support,
                events=len(intake.labels),
                classes=dict(sorted(Counter(intake.labels).items())),
                sha256=intake.sha256,
            ),
            training=encoded.report,
            estimated=_scalars(head.shared),
            estimated_frozen=frozen,
            policy=head.policy_options,
            versions=plan.versions,
            hardware=hardware(),
            created=datetime.now(UTC).isoformat(timespec="seconds"),
            seconds=time.perf_counter() - began,
        )
        manifest = await in_thread(None, _write, plan, out, encoded, head, card)
        await in_thread(None, remove_work, folder)
    return manifest


def _check_free(out: Path) -> None:
    """Nothing is written over. A fit that was cut off at its very end has left its work beside a whole bundle."""
    if out.name and is_bundle(out):
        remove_work(_workplace_of(out))
    check_free(out)


def _workplace_of(out: Path) -> Path:
    return out.with_name(f"{out.name}.part")


async def _plan(config: FitConfig, plugins: Plugins) -> Plan:
    """What is to be done; whoever has features already needs no encoder, nor anything it is made of."""
    support = choose(plugins, "source", config.support, "support")
    if await _has_features(support.create()):
        config = msgspec.structs.replace(config, encoder=None, training=None)
    return Plan.of(config, plugins)


async def _has_features(source: Source) -> bool:
    if not source.replayable:
        raise ConfigError("[support] can be read only once: record it with `speciate record`, and fit the recording")
    await source.open(None, 0)
    try:
        records = await source.read(1)
    finally:
        await source.close()
    # An empty set needs no encoder to be refused.
    return not records or isinstance(labelled(records[0])[0], FeatureEvent)


async def _take_in(plan: Plan, work: Workplace, phase: Phase) -> tuple[Intake, Trainer | Untrained | None]:
    """Read the support set; images are given to the encoder or its trainer."""
    taker = await in_thread(None, _taker, plan, work)
    intake = Intake(taker, work)
    with phase("taking in") as watch:
        await intake.read(plan.support.create(), watch)
    return intake, taker


def _taker(plan: Plan, work: Workplace) -> Trainer | Untrained | None:
    if plan.encoder is None:
        return None
    provider = plan.encoder.provider
    if provider.trainer is None:
        return Untrained(plan.encoder.create())
    # Without [training] too: a trainer also knows how to save an encoder.
    with importing():
        return provider.trainer(plan.encoder.options, plan.training, work.trainer)


def _encode(plan: Plan, intake: Intake, taker: Trainer | Untrained | None, work: Workplace, phase: Phase) -> Encoded:
    """Train the encoder, if that is wanted, and have it give the features of the support set."""
    if plan.encoder is None or taker is None:
        return Encoded(np.stack(intake.vectors), {})
    named = {option: getattr(plan.encoder.options, option) for option in plan.encoder.provider.files}
    files = {option: Path(name) for option, name in named.items() if name is not None}
    if isinstance(taker, Untrained):
        return Encoded(taker.frozen_features(), files, plan.encoder.options)
    frozen, report = taker.frozen_features(), None
    if plan.training is not None:
        classes = check_support(frozen, intake.labels)[2]
        with phase("training") as watch:
            report = taker.train(classes, watch)
    files |= {option: work.trainer / name for option, name in taker.save(work.trainer).items()}
    if report is None:
        return Encoded(frozen, files, taker.options)
    return Encoded(taker.features(), files, taker.options, frozen, report)


def _calibrated(plan: Plan, features: npt.NDArray[Any], labels: list[str], watch: Watch) -> HeadState:
    head = Head(plan.density, plan.policy)
    head.calibrate(features, labels, watch)
    return head.state()


def _estimated_before(plan: Plan, encoded: Encoded, labels: list[str]) -> dict[str, float]:
    """What the density would have estimated without training: it tells what training did to the features."""
    if encoded.frozen is None:
        return {}
    matrix, _, classes = check_support(encoded.frozen, labels)
    density = plan.density.create()
    try:
        density.fit(matrix, classes)
    except SupportError:
        return {}  # the card can do without
    return _scalars(density.export_state().shared)


def _scalars(shared: Mapping[str, Array]) -> dict[str, float]:
    """The single numbers of a density's state; JSON has no others than finite ones."""
    found = {key: float(array.numpy()) for key, array in shared.items() if not array.shape}
    return {key: value for key, value in found.items() if math.isfinite(value)}


def _write(plan: Plan, out: Path, encoded: Encoded, head: HeadState, card: Card) -> BundleManifest:
    encoder = None
    if plan.encoder is not None:
        options = msgspec.to_builtins(encoded.options)
        kept = {key: value for key, value in options.items() if key not in encoded.files}
        encoder = {"plugin": plan.encoder.name, **kept}
    used = [one for one in (plan.encoder, plan.density, plan.policy) if one is not None]
    return write_bundle(
        out,
        encoder=encoder,
        files=encoded.files,
        head=head,
        card=card,
        plugins={one.key: one.version for one in used},
    )
