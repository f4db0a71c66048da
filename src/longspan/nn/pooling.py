"""Sequences of half the length (Funnel-Transformer, arXiv 2006.03236, section 2.3): neighbours as their mean.

Any length: a last one without a neighbour stands for itself. Padding comes last and counts nowhere.
"""

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F


class Pooling(NamedTuple):
    """How a sequence becomes one of half the length."""

    separate_first: bool
    """Whether the first state, often that of a token for the whole text, stays by itself."""

    def pool(self, x: Tensor, is_padding: Tensor | None = None) -> Tensor:
        """The mean of each pair.

        Args:
            x: [batch, length, size].
            is_padding: [batch, length] bool.

        Returns:
            [batch, half of the length, size]; 0 where both were padding.
        """
        real = x.new_ones(x.shape[:2]) if is_padding is None else (~is_padding).to(x.dtype)
        return self._pairs(x * real[..., None]).sum(2) / self._pairs(real[..., None]).sum(2).clamp_min(1)

    def first(self, x: Tensor) -> Tensor:
        """[batch, length, ...] -> [batch, half of the length, ...]: the first of each pair."""
        return torch.cat([x[:, :1], x[:, 1::2]], 1) if self.separate_first else x[:, ::2]

    def spread(self, x: Tensor, length: int, times: int = 1) -> Tensor:
        """Every state at all places that it was made of.

        Args:
            x: [batch, pooled length, ...].
            length: before it was pooled.
            times: how often it was pooled.

        Returns:
            [batch, length, ...].
        """
        if self.separate_first:
            x = torch.cat([x[:, :1], x[:, 1:].repeat_interleave(2**times, 1)], 1)
        else:
            x = x.repeat_interleave(2**times, 1)
        return x[:, :length]

    def _pairs(self, x: Tensor) -> Tensor:
        """[batch, length, size] -> [batch, half of the length, 2, size]."""
        front = int(self.separate_first)
        return F.pad(x, (0, 0, front, (x.shape[1] + front) % 2)).unflatten(1, (-1, 2))
