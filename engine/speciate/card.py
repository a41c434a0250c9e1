"""The card of a model, for people: what it was fitted to, how, and what came out."""

from collections.abc import Iterator, Mapping
from typing import Any

from speciate_schemas import BundleManifest, TrainingReport

MOST_CLASSES = 50
"""A longer list of classes is in `bundle.json`; a page is for reading."""

ESCAPES = {"\\": "\\\\", "|": "\\|", "`": "\\`", "<": "&lt;", "&": "&amp;"}
"""What would end a cell, or begin something else than text in it."""


def card_text(manifest: BundleManifest) -> str:
    """The card as Markdown."""
    return "\n".join(_lines(manifest))


def _lines(manifest: BundleManifest) -> Iterator[str]:
    card = manifest.card
    support = card.support
    yield from ("# A model of Speciate", "")
    yield f"Made on {card.created} in {card.seconds:.0f} s. Use it with `speciate run`, as `[model] path` or by itself."
    yield from ("", "## Support set", "")
    yield f"{support.events:,} labelled events of {len(support.classes):,} classes; SHA-256 `{support.sha256}`."
    yield from ("", "| class | events |", "|---|---|")
    yield from (f"| {_cell(name)} | {count:,} |" for name, count in list(support.classes.items())[:MOST_CLASSES])
    if len(support.classes) > MOST_CLASSES:
        yield f"| and {len(support.classes) - MOST_CLASSES:,} more | |"
    yield from ("", "## Encoder", "")
    if manifest.encoder is None:
        yield f"None: it takes features of {manifest.dimension:,} numbers."
    else:
        yield f"Gives {manifest.dimension:,} features an image."
        yield from ("", *_table(manifest.encoder))
    if card.training is not None:
        yield from ("", "## Training", "", *_training(card.training))
    yield from ("", "## Head", "", "Estimated from the support set:", "", *_estimates(manifest))
    yield from ("", "The policy's options:", "", *_table(card.policy))
    yield from ("", "## Made with", "", *_table({**card.versions, **card.hardware}), "")


def _training(training: TrainingReport) -> Iterator[str]:
    early = ", stopped early" if training.stopped_early else ""
    yield (
        f"{training.parameters:,} parameters trained on {training.images:,} images, {training.held_out:,} held out; "
        f"{len(training.epochs)} epochs{early}, the weights of epoch {training.kept_epoch} kept. "
        f"{training.trunk_seconds:.1f} s for what is computed once, {training.training_seconds:.1f} s for the epochs."
    )
    yield from ("", *_table(training.options))
    yield from ("", "| epoch | learning rate | loss | held-out loss | held-out accuracy |", "|---|---|---|---|---|")
    for one in training.epochs:
        accuracy = "" if one.held_accuracy is None else f"{one.held_accuracy:.1%}"
        held = "" if one.held_loss is None else f"{one.held_loss:.4f}"
        yield f"| {one.number} | {one.learning_rate:.4g} | {one.loss:.4f} | {held} | {accuracy} |"


def _estimates(manifest: BundleManifest) -> Iterator[str]:
    card = manifest.card
    if not card.estimated_frozen:
        yield from _table(card.estimated)
        return
    yield from ("| | before training | after |", "|---|---|---|")
    for key, value in card.estimated.items():
        before = card.estimated_frozen.get(key)
        yield f"| {_cell(key)} | {'' if before is None else f'{before:.6g}'} | {value:.6g} |"


def _table(values: Mapping[str, Any]) -> Iterator[str]:
    yield from ("| | |", "|---|---|")
    for key, value in values.items():
        yield f"| {_cell(key)} | {_cell(f'{value:.6g}' if isinstance(value, float) else str(value))} |"


def _cell(text: str) -> str:
    """Text that stays in its cell, whatever a class was called."""
    return "".join(ESCAPES.get(letter, letter) for letter in " ".join(text.splitlines()))
