"""BigBird (arXiv 2007.14062): blocks that see their neighbours, a few blocks at random, and two that see all.

The first and the last block of a text see everything and are seen by all. Every other block sees the blocks
around it and random ones, drawn once from a seed, other ones for each head and layer. A block is never
counted twice, short texts are simply seen in full, and there may be no random blocks at all. Refused is
causality.
"""

from dataclasses import dataclass
from math import ceil
from typing import cast

import torch
from torch import Tensor
from torch.nn import functional as F

from longspan.attention.attend import attend, attend_global
from longspan.attention.pattern import Pattern
from longspan.checks import at_least
from longspan.nn.kinds.kind import Call, Kind


@dataclass(frozen=True, kw_only=True, slots=True)
class BigBirdSettings:
    """Of BigBird."""

    block: int = 64
    """Tokens of a block."""
    window_blocks: int = 3
    """Blocks around and with its own that a block sees; an odd number."""
    random_blocks: int = 3
    """Blocks besides, drawn at random."""
    seed: int = 0
    """Of the drawing."""

    def __post_init__(self) -> None:
        at_least(1, block=self.block, window_blocks=self.window_blocks)
        at_least(0, random_blocks=self.random_blocks, seed=self.seed)
        if self.window_blocks % 2 == 0:
            raise ValueError(f"window_blocks is {self.window_blocks}; it must be odd")


class BigBird(Kind):
    """Windows, random blocks and global ends, through `attend`."""

    name = "bigbird"
    Settings = BigBirdSettings
    counts_from_start = True
    cannot = {
        "causal": "the last block sees and is seen by all, and random blocks lie anywhere",
        "cache": "blocks at random are drawn for the whole input",
        "cross-length": "blocks are counted from the beginning of a text",
        "relative": "blocks are gathered away from their positions",
        "learned": "blocks are gathered away from their positions",
        "usage": "blocks are read apart",
    }

    settings: BigBirdSettings

    def forward(self, q: Tensor, k: Tensor, v: Tensor, call: Call) -> Tensor:
        """See `Kind.forward`. Examples with as many blocks are read together."""
        length = q.shape[2]
        is_padding = call.is_padding
        if is_padding is None:
            return self._read(q, k, v, q.new_zeros(len(q), length, dtype=torch.bool), call)
        lengths = (~is_padding).sum(1)
        counts = (lengths + self.settings.block - 1) // self.settings.block
        out = torch.zeros_like(q)
        for count in counts.unique().tolist():
            rows = (counts == count).nonzero()[:, 0]
            size = min(length, count * self.settings.block)
            if size:
                q_r, k_r, v_r = (x[rows, :, :size] for x in (q, k, v))
                read = self._read(q_r, k_r, v_r, is_padding[rows, :size], call)
                out = out.index_put((rows,), F.pad(read, (0, 0, 0, length - size)))
        return out

    def seen_blocks(self, blocks: int) -> Tensor:
        """[heads, blocks, blocks] bool: which blocks a block sees, in a text of so many."""
        at = torch.arange(blocks)
        side = self.settings.window_blocks // 2
        seen = (at[:, None] - at).abs() <= side
        seen = seen | (at == 0) | (at == blocks - 1) | (at == 0)[:, None] | (at == blocks - 1)[:, None]
        seen = seen.expand(self.shape.heads, -1, -1).clone()
        # A text's draw depends on its number of blocks alone.
        generator = torch.Generator().manual_seed(self.settings.seed * 1_000_003 + self.shape.layer)
        order = torch.rand(self.shape.heads, blocks, blocks, generator=generator, dtype=torch.float64)
        order = order.masked_fill(seen, -1.0)
        most = min(self.settings.random_blocks, blocks)
        if most:
            chosen = order.topk(most, dim=-1)
            seen.scatter_(2, chosen.indices, (chosen.values >= 0) | seen.gather(2, chosen.indices))
        return seen

    def _read(self, q: Tensor, k: Tensor, v: Tensor, is_padding: Tensor, call: Call) -> Tensor:
        """Examples that all have as many blocks."""
        batch, heads, length, dim = q.shape
        size = self.settings.block
        blocks = ceil(length / size)
        ends = [*range(min(size, length)), *range(max(size, (blocks - 1) * size), length)]
        positions = torch.tensor(ends, device=q.device).expand(batch, -1)
        rows = cast(
            Tensor,
            attend_global(
                q[:, :, ends],
                k,
                v,
                positions,
                is_padding=is_padding if bool(is_padding.any()) else None,
                dropout=call.dropout,
                impl=call.impl,
            ),
        )
        if blocks <= 2:
            return rows
        first = rows[:, :, :size]
        last = rows[:, :, size:]
        middle = self._middle(q, k, v, is_padding, blocks, call)
        return torch.cat([first, middle.reshape(batch, heads, -1, dim), last], 2)

    def _middle(self, q: Tensor, k: Tensor, v: Tensor, is_padding: Tensor, blocks: int, call: Call) -> Tensor:
        """[B, H, blocks - 2, size, D]: all blocks but the first and the last."""
        batch, heads, length, dim = q.shape
        size = self.settings.block
        index, is_none = self._table(blocks)
        index, is_none = index.to(q.device), is_none.to(q.device)
        slots = index.shape[2]
        missing = blocks * size - length
        hidden = F.pad(is_padding, (0, missing), value=True).view(batch, 1, blocks, size)
        q_m = F.pad(q, (0, 0, 0, missing)).unflatten(2, (blocks, size))[:, :, 1:-1]
        head = torch.arange(heads, device=q.device)[:, None, None]
        gathered = [F.pad(x, (0, 0, 0, missing)).unflatten(2, (blocks, size))[:, head, index] for x in (k, v)]
        hide = hidden.expand(-1, heads, -1, -1)[:, head, index] | is_none[None, ..., None]
        rows = batch * heads * (blocks - 2)
        # A block is an example of its own; its own keys come first, where `attend` looks for padded queries.
        out = attend(
            q_m.reshape(rows, 1, size, dim),
            gathered[0].reshape(rows, 1, slots * size, dim),
            gathered[1].reshape(rows, 1, slots * size, dim),
            Pattern(left=None, right=None),
            is_padding=hide.reshape(rows, slots * size) if bool(hide.any()) else None,
            dropout=call.dropout,
            impl=call.impl,
        )
        return cast(Tensor, out).view(batch, heads, blocks - 2, size, dim)

    def _table(self, blocks: int) -> tuple[Tensor, Tensor]:
        """[heads, blocks - 2, slots] the blocks that each middle block sees, its own first; and where is
        none."""
        seen = self.seen_blocks(blocks)[:, 1:-1]
        own = torch.arange(1, blocks - 1)[None, :, None]
        rank = seen.to(torch.int64).scatter(2, own.expand(len(seen), -1, 1), 2)
        slots = int(seen.sum(2).max())
        order = rank.sort(dim=2, descending=True, stable=True).indices[..., :slots]
        return order, ~seen.gather(2, order)
