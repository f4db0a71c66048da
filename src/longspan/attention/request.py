"""One call of the attention operation, checked: what every implementation receives.

`Request` holds the tensors in the public layout and answers the only question that matters, which
query sees which key (`Request.sees`). The checks that turn a user's arguments into a `Request` are
in `validation.py`; nothing here trusts or repairs anything.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from longspan.attention.pattern import Pattern


@dataclass(frozen=True, kw_only=True, slots=True)
class Request:
    """Queries, keys, values, and who sees whom. All tensors live on one device.

    Letters in shapes: B examples, H query heads, G key/value heads (G divides H), N queries,
    M keys, D head_dim, R the reach of the relative tables.
    """

    q: Tensor
    """[B, H, N, D]."""
    k: Tensor
    """[B, G, M, D]."""
    v: Tensor
    """[B, G, M, D]."""
    patterns: tuple[Pattern, ...]
    """One per query head."""
    offset: int | None
    """Position of the first of N neighbouring queries; None where ``positions`` says it."""
    positions: Tensor | None
    """[B, N] int64, ascending, -1 (at the end) for no query; None where ``offset`` says it."""
    is_global: Tensor | None
    """[B, M] bool: keys that every query sees (the past ones, in a causal pattern)."""
    is_padding: Tensor | None
    """[B, M] bool: keys nobody sees; a query at such a position comes out 0."""
    global_rows: Tensor | None
    """[B, H, most globals, D]: outputs of the queries at global positions, in place of local ones."""
    mutual_globals: bool
    """A query at a global position sees every key (the past ones, in a causal pattern). Then M is N."""
    document_starts: Tensor | None
    """[1 or B, documents + 1] int64, from 0 to M, not falling: nobody sees across a border."""
    scale: float
    """Factor on q . k (and on the relative term)."""
    dropout: float
    """Probability of dropping a pair; the survivors are scaled up."""
    seed: Tensor | None
    """[] int64 on the CPU; given when dropout > 0."""
    bias: Tensor | None
    """[H, 2R + 1], added to the scaled scores at offset key - query, clipped to [-R, R]."""
    position_query: Tensor | None
    """[B, H, N, D]: the queries of the relative term."""
    position_keys: Tensor | None
    """[H, 2R + 1, D]: adds scale * position_query . position_keys[offset], clipped to [-R, R]."""

    @property
    def compute_dtype(self) -> torch.dtype:
        """Softmax and accumulation run in fp32, or in fp64 for fp64 input."""
        return torch.float64 if self.q.dtype == torch.float64 else torch.float32

    @property
    def group_size(self) -> int:
        """Query heads that share one key/value head."""
        return self.q.shape[1] // max(self.k.shape[1], 1)

    def query_positions(self) -> Tensor:
        """[1 or B, N] int64."""
        if self.positions is not None:
            return self.positions
        assert self.offset is not None
        return torch.arange(self.q.shape[2], device=self.q.device)[None] + self.offset

    def document_of(self, position: Tensor) -> Tensor:
        """[1 or B, ...] positions -> a number for the document of each, unlike those of other rows.

        Positions are looked up one by one, without a table over all of them, for an implementation
        may ask again for each of many small pieces.
        """
        assert self.document_starts is not None
        rows, keys = self.document_starts.shape[0], self.k.shape[2]
        # The rows' starts, moved apart, make one rising list that every position can be looked up in.
        shift = torch.arange(rows, device=position.device) * (keys + 1)
        inside = position.clamp(0, max(keys - 1, 0)) + shift.view(-1, *(1,) * (position.dim() - 1))
        return torch.bucketize(inside, (self.document_starts + shift[:, None]).flatten(), right=True)

    def dead_queries(self) -> Tensor:
        """[1 or B, N] bool: padded or absent queries, or ones with rows of their own: not computed."""
        position = self.query_positions()
        dead = position < 0
        if self.is_padding is not None:
            dead = dead | take(self.is_padding, position)
        if self.is_global is not None and self.global_rows is not None:
            dead = dead | take(self.is_global, position)
        return dead

    def sees(self, pattern: Pattern, query: Tensor, key: Tensor, *, through_global: bool) -> Tensor:
        """Whether queries see keys, all but the dead queries considered.

        A pair is seen through the window or, when the key is global (or the query, where globals are
        mutual), through that; never through both, so that a joint softmax counts each key once.

        Args:
            pattern: the head's pattern.
            query: [1 or B, ..., N', 1] positions.
            key: [1 or B, ..., 1, M'] positions; a position outside [0, M) is never seen.
            through_global: ask for what global tokens add rather than for the window.

        Returns:
            bool, of the broadcast shape.
        """
        seen = (key >= 0) & (key < self.k.shape[2])
        if through_global:
            seen = seen & self._is_global_pair(query, key)
            if pattern.is_causal:
                seen = seen & (key <= query)
        else:
            seen = seen & pattern.allows(query, key)
            if self.is_global is not None:
                seen = seen & ~self._is_global_pair(query, key)
        if self.is_padding is not None:
            seen = seen & ~take(self.is_padding, key)
        if self.document_starts is not None:
            seen = seen & (self.document_of(query) == self.document_of(key))
        return seen

    def _is_global_pair(self, query: Tensor, key: Tensor) -> Tensor:
        assert self.is_global is not None
        is_global = take(self.is_global, key)
        return is_global | take(self.is_global, query) if self.mutual_globals else is_global


def take(table: Tensor, position: Tensor) -> Tensor:
    """``table[b, position[b, ...]]``, positions outside the table clipped into it.

    Args:
        table: [1 or B, M].
        position: [1 or B, ...] int64.

    Returns:
        [B, ...], of the table's dtype.
    """
    example = torch.arange(table.shape[0], device=table.device).view(-1, *(1,) * (position.dim() - 1))
    if table.shape[1] == 0:
        return table.new_zeros(torch.broadcast_shapes(example.shape, position.shape))
    return table[example, position.clamp(0, table.shape[1] - 1)]


def default_scale(head_dim: int) -> float:
    """1 / sqrt(head_dim)."""
    return 1.0 / math.sqrt(head_dim) if head_dim else 1.0
