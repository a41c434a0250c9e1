"""A model bundle: what `speciate fit` writes and a pipeline takes, and the card that tells where it comes from."""

from typing import Annotated, Literal

import msgspec

from speciate_schemas.config import Section, Strict

Sha256 = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]
FileName = Annotated[
    str,
    # A plain name: a bundle never names anything outside of itself.
    msgspec.Meta(pattern=r"^[A-Za-z0-9_-][A-Za-z0-9._-]*$", max_length=100),
]


class Epoch(Strict, frozen=True):
    """One pass over the training images."""

    number: Annotated[int, msgspec.Meta(ge=1, description="From 1.")]
    learning_rate: Annotated[float, msgspec.Meta(description="At its end.")]
    loss: Annotated[float, msgspec.Meta(description="Mean over the images trained on.")]
    held_loss: Annotated[float | None, msgspec.Meta(description="Mean over the images held out; null without any.")]
    held_accuracy: Annotated[float | None, msgspec.Meta(description="Share of those that the classifier had right.")]


class TrainingReport(Strict, frozen=True):
    """How an encoder was trained."""

    options: Annotated[Section, msgspec.Meta(description="The options of `[training]`, defaults filled in.")]
    epochs: Annotated[list[Epoch], msgspec.Meta(description="All passes that were made, in order.")]
    kept_epoch: Annotated[int, msgspec.Meta(ge=0, description="The epoch whose weights were kept.")]
    stopped_early: Annotated[bool, msgspec.Meta(description="Whether what was held out got no better any more.")]
    images: Annotated[int, msgspec.Meta(description="Images trained on, without those held out.")]
    held_out: Annotated[int, msgspec.Meta(description="Images held out.")]
    classes: Annotated[int, msgspec.Meta(description="Classes told apart.")]
    parameters: Annotated[int, msgspec.Meta(description="Numbers that were trained, without the classifier's.")]
    trunk_seconds: Annotated[float, msgspec.Meta(description="Spent on what is computed once an image.")]
    training_seconds: Annotated[float, msgspec.Meta(description="Spent on the epochs.")]


class SupportCard(Strict, frozen=True):
    """What a model was fitted to."""

    source: Annotated[Section, msgspec.Meta(description="Where the labelled events came from.")]
    events: Annotated[int, msgspec.Meta(description="Labelled events, all of them.")]
    classes: Annotated[dict[str, int], msgspec.Meta(description="Events of each class.")]
    sha256: Annotated[Sha256, msgspec.Meta(description="Of ids, labels and bytes, in order.")]


class Card(Strict, frozen=True):
    """Where a model comes from, for whoever has to trust it."""

    support: Annotated[SupportCard, msgspec.Meta(description="What it was fitted to.")]
    training: Annotated[TrainingReport | None, msgspec.Meta(description="Null if the encoder was left as it was.")]
    estimated: Annotated[dict[str, float], msgspec.Meta(description="Numbers the density estimated from the support.")]
    estimated_frozen: Annotated[
        dict[str, float],
        msgspec.Meta(description="The same from the features before training; empty without training."),
    ]
    policy: Annotated[Section, msgspec.Meta(description="The policy's options as they are used, tuned ones included.")]
    versions: Annotated[dict[str, str], msgspec.Meta(description="Of the packages that made it.")]
    hardware: Annotated[dict[str, str], msgspec.Meta(description="The machine, as far as it tells.")]
    created: Annotated[str, msgspec.Meta(description="When, in UTC.")]
    seconds: Annotated[float, msgspec.Meta(description="How long it took, without what earlier attempts had done.")]


class SealedFile(Strict, frozen=True):
    """How to tell that a file of the bundle is whole."""

    bytes: Annotated[int, msgspec.Meta(ge=0, description="Its size.")]
    sha256: Annotated[Sha256, msgspec.Meta(description="Of its bytes.")]


class BundleManifest(Strict, frozen=True):
    """The file `bundle.json` of a bundle: what is in it and how to tell that it is whole."""

    sha256: Annotated[Sha256, msgspec.Meta(description="Of this very file, with zeros in this place.")]
    encoder: Annotated[
        Section | None, msgspec.Meta(description="The encoder, without the options that name files; null for none.")
    ]
    encoder_files: Annotated[
        dict[str, FileName], msgspec.Meta(description="The encoder's options that name files of the bundle.")
    ]
    dimension: Annotated[int, msgspec.Meta(ge=1, description="Length of a feature vector.")]
    files: Annotated[dict[FileName, SealedFile], msgspec.Meta(description="Every file that is used.")]
    fingerprint: Annotated[
        Sha256, msgspec.Meta(description="Of encoder, dimension and files: what decisions depend on.")
    ]
    plugins: Annotated[dict[str, str], msgspec.Meta(description="Versions of the plugins that made it.")]
    card: Annotated[Card, msgspec.Meta(description="Where it comes from.")]
    type: Annotated[Literal["bundle.v1"], msgspec.Meta(description="What the file holds, and in which version.")] = (
        "bundle.v1"
    )
