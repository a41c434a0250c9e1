"""Options of the training of an encoder. Nothing heavy is imported here."""

from typing import Annotated, Literal

import msgspec

from speciate_schemas import Strict

Loss = Literal["ce", "ce+supcon"]


class TrainingOptions(Strict, frozen=True):
    """Section `[training]` for the encoder `timm`."""

    blocks: Annotated[
        int,
        msgspec.Meta(ge=1, description="How many of the last blocks are trained, with all that follows them."),
    ] = 1
    loss: Annotated[
        Loss,
        msgspec.Meta(description="ce: cross-entropy; ce+supcon: supervised contrast is added to it."),
    ] = "ce"
    supcon_weight: Annotated[
        float, msgspec.Meta(ge=0, description="What the supervised contrast is multiplied with; λ in the paper.")
    ] = 0.1
    temperature: Annotated[
        float, msgspec.Meta(gt=0, description="τ of the supervised contrast; the paper does not tell its own.")
    ] = 0.07
    epochs: Annotated[int, msgspec.Meta(ge=1, description="Most passes over the images.")] = 100
    batch_images: Annotated[int, msgspec.Meta(ge=1, description="Images in a step.")] = 256
    learning_rate: Annotated[
        float,
        msgspec.Meta(
            gt=0,
            description="Of the encoder in the first epoch; it falls along half a cosine. The paper's 1.0 makes "
            "features of a small support set worse for whatever is not in it.",
        ),
    ] = 0.03
    final_learning_rate: Annotated[float, msgspec.Meta(ge=0, description="Of the last epoch.")] = 1e-4
    classifier_factor: Annotated[
        float,
        msgspec.Meta(gt=0, description="How many times faster the classifier learns, which begins with nothing."),
    ] = 10.0
    feature_length: Annotated[
        float,
        msgspec.Meta(
            gt=0,
            description="Features are scaled to this length for the classifier, and for nothing else: a small one asks "
            "for tighter classes.",
        ),
    ] = 8.0
    weight_decay: Annotated[float, msgspec.Meta(ge=0, description="Of everything that is trained.")] = 0.0
    mirror: Annotated[
        bool, msgspec.Meta(description="Show half of the images mirrored, others in each epoch. Takes twice the disk.")
    ] = True
    held_out: Annotated[
        float,
        msgspec.Meta(
            ge=0,
            le=0.5,
            description="Share of each class that is not trained on but tells when to stop; a class whose share is "
            "less than half an image is trained on as a whole.",
        ),
    ] = 0.1
    patience: Annotated[
        int, msgspec.Meta(ge=1, description="Stop after so many epochs in which what is held out got no better.")
    ] = 20
    seed: Annotated[int, msgspec.Meta(ge=0, description="Of what is held out, of the order and of the mirroring.")] = 0

    def __post_init__(self) -> None:
        if self.final_learning_rate > self.learning_rate:
            raise ValueError(
                f"final_learning_rate = {self.final_learning_rate:g} is more than learning_rate = "
                f"{self.learning_rate:g}: it must be at most that"
            )
