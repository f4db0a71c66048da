"""What heads say of places that a token marks, a title or a sentence; parts that tasks share.

What is said of a place rests on its marker, as in the paper, and beside it on its words and on how they agree
with the question's. A marker that sees every token has to learn first which of them are its own; words tell
from the start, so that some hundred examples teach what else takes many thousands.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

UNKNOWN = -1
"""For a target that nobody knows, and for a place that is none."""


class PlaceStates(nn.Module):
    """The states of places: of each its marker, the mean of its words, and how that agrees with a context.

    Args:
        hidden_size: of the encoder.
    """

    def __init__(self, hidden_size: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(hidden_size)

    def forward(self, hidden: Tensor, marker_at: Tensor, inside: Tensor, in_context: Tensor) -> Tensor:
        """[batch, places, 3 * hidden_size].

        Args:
            hidden: [batch, length, hidden_size].
            marker_at: [batch, places], negative where there is none; the first token's state stands for it.
            inside: bool [batch, places, length], the tokens of each place.
            in_context: bool [batch, length], the tokens that places are compared with.
        """
        marker = hidden.gather(1, marker_at.clamp(min=0)[:, :, None].expand(-1, -1, hidden.shape[-1]))
        words = self.norm(_means(hidden, inside))
        context = self.norm(_means(hidden, in_context[:, None]))
        return torch.cat([marker, words, words * context], -1)


def classifier(inputs: int, hidden_size: int, outputs: int) -> nn.Module:
    """Two layers."""
    return nn.Sequential(nn.Linear(inputs, hidden_size), nn.GELU(), nn.Linear(hidden_size, outputs))


def from_marker_to_marker(marker_at: Tensor, is_inside: Tensor) -> Tensor:
    """bool [batch, places, length]: the tokens from each marker to the next one.

    Args:
        marker_at: [batch, places] int64, in their order, negative where there is none.
        is_inside: bool [batch, length], the tokens that are in any place.
    """
    number = torch.arange(marker_at.shape[1], device=marker_at.device)
    is_marker = torch.zeros_like(is_inside, dtype=torch.int64)
    is_marker.scatter_add_(1, marker_at.clamp(min=0), (marker_at >= 0).long())
    place = is_marker.cumsum(1) - 1
    return (place[:, None] == number[:, None]) & is_inside[:, None]


def yes_or_no_loss(logits: Tensor, is_right: Tensor) -> Tensor:
    """[] fp32: the sum of the binary cross entropies of places whose target is known.

    Args:
        logits: [batch, places].
        is_right: [batch, places]: 1, 0, or `UNKNOWN`.
    """
    known = is_right != UNKNOWN
    each = F.binary_cross_entropy_with_logits(logits, is_right.clamp(min=0).float(), reduction="none")
    return torch.where(known, each, 0.0).sum()


def _means(hidden: Tensor, inside: Tensor) -> Tensor:
    """[batch, places, hidden_size]: the mean of the states of each place.

    Args:
        hidden: [batch, length, hidden_size].
        inside: bool [batch, places, length]; a place without tokens gets 0.
    """
    return inside.to(hidden.dtype) @ hidden / inside.sum(-1, keepdim=True).clamp(min=1)
