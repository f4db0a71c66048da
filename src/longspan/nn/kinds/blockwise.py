"""Blockwise attention (BlockBERT, arXiv 1911.02972): a block of queries sees one block of keys.

The text is cut into blocks. Block i sees block i + shift, counted around; most heads have shift 0, a few each
of the others. Blocks are shares of the longest input, so that a text's blocks do not depend on its padding; a
head whose block is beyond the text reads nothing. Refused is causality: a shifted block lies in the future
for some.
"""

from dataclasses import dataclass
from math import ceil
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from longspan.checks import at_least
from longspan.nn.kinds.kind import Call, Kind, LayerShape
from longspan.nn.kinds.patterned import all_padding_to_zero


@dataclass(frozen=True, kw_only=True, slots=True)
class BlockwiseSettings:
    """Of blockwise attention."""

    blocks: int = 2
    """That the longest input is cut into: the paper's n."""
    heads_by_shift: tuple[int, ...] = ()
    """Heads with shift 0, 1, ...; () gives a sixth of the heads to each shift but 0 (10:2 and 8:2:2 of
    12)."""

    def __post_init__(self) -> None:
        at_least(1, blocks=self.blocks)
        if len(self.heads_by_shift) not in (0, self.blocks):
            raise ValueError(
                f"heads_by_shift is {self.heads_by_shift}; it must have one number for each of "
                f"{self.blocks} blocks"
            )


class Blockwise(Kind):
    """Blocks of queries, each with one block of keys."""

    name = "blockwise"
    Settings = BlockwiseSettings
    counts_from_start = True
    cannot = {
        "causal": "the blocks that heads look at come after a token for some shifts",
        "cache": "blocks are shares of the whole input",
        "cross-length": "blocks are shares of the whole input",
        "relative": "blocks are read apart from their positions",
        "learned": "blocks are read apart from their positions",
        "usage": "blocks are read apart",
    }

    settings: BlockwiseSettings

    def __init__(self, shape: LayerShape, settings: Any) -> None:
        super().__init__(shape, settings)
        blocks, heads = settings.blocks, shape.heads
        few = max(1, heads // 6)
        counts = settings.heads_by_shift or (heads - few * (blocks - 1), *(few,) * (blocks - 1))
        if sum(counts) != heads or min(counts) < 0:
            raise ValueError(f"heads_by_shift is {counts}; it must add up to {heads} heads, none below 0")
        self.shifts = [shift for shift, count in enumerate(counts) for _ in range(count)]
        """Of each head."""
        self.size = ceil(shape.max_length / blocks)

    def forward(self, q: Tensor, k: Tensor, v: Tensor, call: Call) -> Tensor:
        """See `Kind.forward`."""
        batch, heads, length, _ = q.shape
        if length > self.size * self.settings.blocks:
            raise ValueError(
                f"the input has {length} tokens; blocks are for max_position_embeddings = "
                f"{self.shape.max_length}"
            )
        blocks = self.settings.blocks
        q_blocks, k_blocks, v_blocks = (self._blocks(x) for x in (q, k, v))
        hidden = q.new_zeros(batch, length, dtype=torch.bool) if call.is_padding is None else call.is_padding
        hidden = F.pad(hidden, (0, blocks * self.size - length), value=True).view(batch, 1, blocks, self.size)
        here = ceil(length / self.size)  # blocks beyond the text have no queries
        at = (torch.tensor(self.shifts)[:, None] + torch.arange(here)) % blocks  # [heads, blocks]
        head = torch.arange(heads)[:, None]
        seen = ~hidden.expand(-1, heads, -1, -1)[:, head, at]  # [batch, heads, blocks, size]
        out = _dense(q_blocks[:, :, :here], k_blocks[:, head, at], v_blocks[:, head, at], seen, call.dropout)
        out = out.flatten(2, 3)[:, :, :length]
        return all_padding_to_zero(out, call.is_padding, 0)

    def _blocks(self, x: Tensor) -> Tensor:
        """[B, H, N, D] -> [B, H, blocks, size, D]."""
        whole = self.size * self.settings.blocks
        return F.pad(x, (0, 0, 0, whole - x.shape[2])).unflatten(2, (self.settings.blocks, self.size))


def _dense(q: Tensor, k: Tensor, v: Tensor, seen: Tensor, dropout: float) -> Tensor:
    """Attention within blocks, [B, H, blocks, size, D]; a block where nothing is seen reads 0."""
    is_empty = ~seen.any(-1)
    mask = (seen | is_empty[..., None])[..., None, :].flatten(1, 2)
    q, k, v = (x.flatten(1, 2) for x in (q, k, v))
    whole = None if bool(mask.all()) else mask
    out = F.scaled_dot_product_attention(q, k, v, attn_mask=whole, dropout_p=dropout)
    return out.masked_fill(is_empty.flatten(1, 2)[..., None, None], 0.0).unflatten(1, is_empty.shape[1:])
