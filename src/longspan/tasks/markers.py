"""What heads say at tokens that mark a place: a title, a sentence; parts that tasks share."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

UNKNOWN = -1
"""For a target that nobody knows, and for a place that is none."""


def states_at(hidden: Tensor, at: Tensor) -> Tensor:
    """[batch, places, hidden_size]: the states of some tokens; of the first one for negative places.

    Args:
        hidden: [batch, length, hidden_size].
        at: [batch, places].
    """
    return hidden.gather(1, at.long().clamp(min=0)[:, :, None].expand(-1, -1, hidden.shape[-1]))


def two_layers(hidden_size: int, outputs: int) -> nn.Module:
    """A classifier of states."""
    return nn.Sequential(nn.Linear(hidden_size, hidden_size), nn.GELU(), nn.Linear(hidden_size, outputs))


def yes_or_no_loss(logits: Tensor, is_right: Tensor) -> Tensor:
    """[] fp32: the sum of the binary cross entropies of places whose target is known.

    Args:
        logits: [batch, places].
        is_right: [batch, places]: 1, 0, or `UNKNOWN`.
    """
    known = is_right != UNKNOWN
    each = F.binary_cross_entropy_with_logits(logits, is_right.clamp(min=0).float(), reduction="none")
    return torch.where(known, each, 0.0).sum()
