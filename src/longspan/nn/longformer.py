"""Longformer's self-attention layer (paper, section 3.1).

Every token sees its window and the global tokens, in one softmax. A global token sees everything,
with query, key and value projections of its own, and that row takes the place of the local one.
"""

from collections.abc import Sequence
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn

from longspan.attention.attend import Attention, Implementation, attend
from longspan.attention.pattern import Pattern
from longspan.nn.global_rows import Projections, attend_globally, split_heads
from longspan.nn.inspection import window_probabilities
from longspan.nn.layout import Layout, lay_out_globals


class SelfAttention(NamedTuple):
    """What a layer computes; the probabilities only when they were asked for."""

    context: Tensor
    """[batch, length, hidden_size]."""
    probabilities: Tensor | None
    """[batch, heads, length, globals + window + 1]."""
    global_probabilities: Tensor | None
    """[batch, heads, length, globals]."""


class LongformerSelfAttention(nn.Module):
    """Sliding-window, dilated and global self-attention.

    Args:
        hidden_size: of the tokens.
        patterns: the window of each head.
        dropout: of the attention probabilities, in training.
        impl: the implementation of attention.
    """

    def __init__(
        self,
        hidden_size: int,
        patterns: Sequence[Pattern],
        *,
        dropout: float = 0.0,
        impl: Implementation = "auto",
    ) -> None:
        super().__init__()
        if hidden_size % len(patterns):
            raise ValueError(f"hidden_size is {hidden_size}; it must be a multiple of {len(patterns)} heads")
        self.patterns = tuple(patterns)
        self.dropout = dropout
        self.impl: Implementation = impl
        self.query = nn.Linear(hidden_size, hidden_size)
        self.key = nn.Linear(hidden_size, hidden_size)
        self.value = nn.Linear(hidden_size, hidden_size)
        self.query_global = nn.Linear(hidden_size, hidden_size)
        self.key_global = nn.Linear(hidden_size, hidden_size)
        self.value_global = nn.Linear(hidden_size, hidden_size)

    def forward(self, x: Tensor, layout: Layout, *, return_probabilities: bool = False) -> SelfAttention:
        """Attention of every token of ``x``.

        Args:
            x: [batch, length, hidden_size].
            layout: of the batch.
            return_probabilities: also return who looked at whom; needs a padded layout.
        """
        layout = layout.to(x.device)
        heads = len(self.patterns)
        q, k, v = (split_heads(project(x), heads) for project in (self.query, self.key, self.value))
        if layout.is_global is None and self._must_touch_everything():
            # DistributedDataParallel waits for a gradient of every parameter, in every step: no global
            # token gives them one, of zeros.
            layout = lay_out_globals(layout, x.new_zeros(x.shape[:2], dtype=torch.bool))
        rows = None
        if layout.is_global is not None:
            rows = attend_globally(
                x,
                layout,
                Projections(self.query_global, self.key_global, self.value_global),
                heads,
                causal=self.patterns[0].is_causal,
                dropout=self._rate,
                impl=self.impl,
                return_probabilities=return_probabilities,
            )
        attention = cast(
            Attention,
            attend(
                q,
                k,
                v,
                self.patterns,
                is_global=layout.is_global,
                global_rows=None if rows is None else rows.rows,
                is_padding=layout.is_padding,
                document_starts=layout.document_starts,
                dropout=self._rate,
                return_lse=True,
                impl=self.impl,
            ),
        )
        context = attention.out.transpose(1, 2).flatten(2)
        if not return_probabilities:
            return SelfAttention(context, None, None)
        assert attention.lse is not None
        probabilities = window_probabilities(q, k, attention.lse, self.patterns, layout)
        seen = None if rows is None else rows.probabilities
        return SelfAttention(context, probabilities, None if seen is None else seen.transpose(2, 3))

    @property
    def _rate(self) -> float:
        return self.dropout if self.training else 0.0

    def _must_touch_everything(self) -> bool:
        return (
            self.training
            and torch.is_grad_enabled()
            and torch.distributed.is_available()
            and torch.distributed.is_initialized()
        )

    def extra_repr(self) -> str:
        """The window, for ``print(model)``."""
        one = set(self.patterns)
        shown = next(iter(one)) if len(one) == 1 else self.patterns
        return f"heads={len(self.patterns)}, pattern={shown}"
