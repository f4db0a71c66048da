"""Linformer (arXiv 2006.04768): keys and values of n positions become those of k summaries.

Heads share what makes the summaries as section 4 of the paper has it: not at all, by head, by key and value,
or by layer. Padded positions count for nothing, and an input shorter than the longest uses the first columns.
Refused are causality, for every summary mixes all positions, and lengths beyond the one that it has weights
for.
"""

from dataclasses import dataclass
from math import ceil
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from longspan.checks import at_least
from longspan.nn.kinds.kind import Call, Drawn, Kind, LayerShape
from longspan.nn.kinds.patterned import all_padding_to_zero


@dataclass(frozen=True, kw_only=True, slots=True)
class LinformerSettings:
    """Of Linformer."""

    rank: int = 256
    """Summaries that keys and values become: the paper's k."""
    ranks: tuple[int, ...] = ()
    """One for each layer instead: the paper's non-uniform projected dimension."""
    sharing: Literal["none", "headwise", "key-value", "layerwise"] = "headwise"
    """Who shares a projection: nobody; the heads of a layer; also its keys and values; also all layers."""
    projection: Literal["linear", "mean", "max", "conv"] = "linear"
    """What makes a summary: weights over all positions, or neighbours pooled or convolved."""
    frozen: bool = False
    """Leave linear and convolved projections as they were drawn."""

    def __post_init__(self) -> None:
        at_least(1, rank=self.rank)
        for rank in self.ranks:
            at_least(1, ranks=rank)
        if self.ranks and self.sharing == "layerwise" and len(set(self.ranks)) > 1:
            raise ValueError(
                f"ranks is {self.ranks} with sharing 'layerwise'; layers that share a projection "
                "have one rank"
            )

    def rank_of(self, shape: LayerShape) -> int:
        """Of a layer, no more than positions."""
        if self.ranks and len(self.ranks) != shape.layers:
            raise ValueError(
                f"ranks has {len(self.ranks)} items; it must have one for each of {shape.layers} layers"
            )
        rank = self.ranks[shape.layer] if self.ranks else self.rank
        return min(rank, shape.max_length)


class Summaries(Drawn):
    """Makes summaries of keys and values.

    Args:
        shape: of the layer.
        settings: of the kind.
    """

    def __init__(self, shape: LayerShape, settings: LinformerSettings) -> None:
        super().__init__()
        self.rank = settings.rank_of(shape)
        self.projection = settings.projection
        self.group = ceil(shape.max_length / self.rank)
        both = settings.sharing in ("none", "headwise")
        heads = shape.heads if settings.sharing == "none" else 1
        self.weight: nn.Parameter | None = None
        self.convolutions: nn.ModuleList | None = None
        if settings.projection == "linear":
            self.weight = nn.Parameter(torch.zeros(1 + both, heads, self.rank, shape.max_length))
        elif settings.projection == "conv":
            size = shape.heads * shape.head_dim if settings.sharing == "none" else shape.head_dim
            groups = shape.heads if settings.sharing == "none" else 1
            self.convolutions = nn.ModuleList(
                nn.Conv1d(size, size, self.group, stride=self.group, groups=groups) for _ in range(1 + both)
            )
        self.requires_grad_(not settings.frozen)

    def draw_weights(self) -> None:
        """As fairseq does it: uniform, with half the usual variance."""
        if self.weight is not None:
            bound = (3.0 / (self.weight.shape[2] + self.weight.shape[3])) ** 0.5
            nn.init.uniform_(self.weight, -bound, bound)

    @property
    def matrices(self) -> int:
        """How many projections there are, as the paper counts them."""
        return 0 if self.weight is None else self.weight.shape[0] * self.weight.shape[1]

    def forward(
        self, k: Tensor, v: Tensor, is_padding: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """Summaries of keys and of values.

        Args:
            k: [B, H, M, D].
            v: [B, H, M, D].
            is_padding: [B, M] bool.

        Returns:
            Both [B, H, rank, D], and [B, rank] bool, where a summary is of nothing; None for nowhere.
        """
        made = [self._summarised(x, which, is_padding) for which, x in enumerate((k, v))]
        if self.projection == "linear":
            return made[0], made[1], None
        real = k.new_ones(k.shape[0], k.shape[2], dtype=torch.bool) if is_padding is None else ~is_padding
        return made[0], made[1], ~self._grouped(real[:, None, :, None], False).any(3)[:, 0, :, 0]

    def _summarised(self, x: Tensor, which: int, is_padding: Tensor | None) -> Tensor:
        hidden = None if is_padding is None else is_padding[:, None, :, None]
        if self.projection == "max":
            x = x if hidden is None else x.masked_fill(hidden, -torch.inf)
            largest = self._grouped(x, -torch.inf).amax(3)
            return torch.where(largest == -torch.inf, 0.0, largest)
        x = x if hidden is None else x.masked_fill(hidden, 0.0)
        if self.weight is not None:
            weight = self.weight[min(which, len(self.weight) - 1)][..., : x.shape[2]]
            if len(weight) > 1:
                return weight @ x
            # One product for all heads, which stand beside each other in memory.
            return (weight @ x.transpose(1, 2).flatten(2)).unflatten(-1, (x.shape[1], -1)).transpose(1, 2)
        groups = self._grouped(x, 0.0)
        if self.convolutions is None:
            real = x.new_ones(1, 1, x.shape[2], 1) if hidden is None else (~hidden).to(x.dtype)
            return groups.sum(3) / self._grouped(real, 0.0).sum(3).clamp_min(1)
        convolution = self.convolutions[min(which, len(self.convolutions) - 1)]
        batch, heads, count, _, dim = groups.shape
        line = groups.flatten(2, 3).transpose(2, 3)  # [B, H, D, positions]
        one_for_all = convolution.in_channels == dim  # pyright: ignore[reportAttributeAccessIssue]
        out: Tensor = convolution(line.flatten(0, 1) if one_for_all else line.flatten(1, 2))
        return out.view(batch, heads, dim, count).transpose(2, 3)

    def _grouped(self, x: Tensor, fill: float | bool) -> Tensor:
        """[B, H, M, D] -> [B, H, groups, group, D]."""
        return F.pad(x, (0, 0, 0, -x.shape[2] % self.group), value=fill).unflatten(2, (-1, self.group))


class Linformer(Kind):
    """Attention to summaries: linear in the length."""

    name = "linformer"
    Settings = LinformerSettings
    counts_from_start = True
    cannot = {
        "causal": "every summary mixes all positions, so a token would see what comes after it; "
        "a mask over summaries is not causality",
        "cache": "its summaries are of the whole input",
        "cross-length": "it has weights for the positions of an input, and none before them",
        "relative": "summaries have no position, so there is no distance to them",
        "learned": "summaries have no position, so there is no distance to them",
        "rotary": "turned keys of different positions would be mixed",
        "usage": "what is looked at is summaries",
    }

    settings: LinformerSettings

    def __init__(self, shape: LayerShape, settings: Any) -> None:
        super().__init__(shape, settings)
        self.summaries = None if _is_shared(settings) else Summaries(shape, settings)

    @classmethod
    def shared(cls, shape: LayerShape, settings: Any) -> nn.Module | None:
        """With layerwise sharing, the one projection."""
        return Summaries(shape, settings) if _is_shared(settings) else None

    def forward(self, q: Tensor, k: Tensor, v: Tensor, call: Call) -> Tensor:
        """See `Kind.forward`."""
        if k.shape[2] > self.shape.max_length:
            raise ValueError(
                f"the input has {k.shape[2]} tokens; this linformer has weights for "
                f"max_position_embeddings = {self.shape.max_length}"
            )
        summaries = call.shared if self.summaries is None else self.summaries
        assert isinstance(summaries, Summaries)
        k, v, empty = summaries(k, v, call.is_padding)
        mask = None if empty is None else ~empty[:, None, None, :]
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=call.dropout)
        return all_padding_to_zero(out, call.is_padding, call.query_offset)


def _is_shared(settings: LinformerSettings) -> bool:
    return settings.sharing == "layerwise" and settings.projection in ("linear", "conv")
