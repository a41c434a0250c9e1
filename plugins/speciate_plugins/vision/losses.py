"""What training makes small."""

import torch
from torch import Tensor
from torch.nn import functional


def supervised_contrast(features: Tensor, classes: Tensor, temperature: float) -> Tensor:
    """Supervised contrastive loss of a batch: images of one class are to be nearer to each other than to the rest.

    The paper's equation in appendix H. An image alone of its class has no positives and adds nothing, but counts in
    the mean, which is over the batch.
    """
    directions = functional.normalize(features, dim=1)
    alike = directions @ directions.T / temperature
    itself = torch.eye(len(features), dtype=torch.bool, device=features.device)
    # Not minus infinity: in a batch of one there would be nothing else in the row, and its shares would be NaN.
    log_share = alike.masked_fill(itself, torch.finfo(alike.dtype).min).log_softmax(dim=1)
    positive = (classes[:, None] == classes[None, :]) & ~itself
    each = log_share.masked_fill(~positive, 0.0).sum(dim=1) / positive.sum(dim=1).clamp(min=1)
    return -each.mean()
