"""Attention probabilities of a window, for inspection: n x window numbers that no layer needs.

The columns are Hugging Face's: the global keys first, then the window from left to right.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from longspan.attention.pattern import Pattern
from longspan.attention.positions import rows_at
from longspan.nn.layout import Layout


def window_probabilities(
    q: Tensor, k: Tensor, lse: Tensor, patterns: Sequence[Pattern], layout: Layout
) -> Tensor:
    """What the local rows looked at.

    Args:
        q: [batch, heads, length, head_dim].
        k: [batch, heads, length, head_dim].
        lse: [batch, heads, length], the log-sum-exp that `attend` returns.
        patterns: one per head, bounded, with windows of one width.
        layout: of a padded batch.

    Returns:
        [batch, heads, length, globals + left + 1 + right]; rows of padded and of global tokens are 0.
    """
    scale = q.shape[-1] ** -0.5
    left, right = patterns[0].left, patterns[0].right
    assert left is not None and right is not None
    columns = [
        torch.stack(
            [
                _probability(q[:, h], k[:, h], lse[:, h], pattern.dilation * step, scale, layout)
                for h, pattern in enumerate(patterns)
            ],
            1,
        )
        for step in range(-left, right + 1)
    ]
    window = torch.stack(columns, -1)
    if layout.is_global is not None and layout.global_positions is not None:
        window = torch.cat([_global_columns(q, k, lse, scale, patterns[0].is_causal, layout), window], -1)
        window = window.masked_fill(layout.is_global[:, None, :, None], 0.0)
    if layout.is_padding is not None:
        window = window.masked_fill(layout.is_padding[:, None, :, None], 0.0)
    return window.to(q.dtype)


def _probability(q: Tensor, k: Tensor, lse: Tensor, offset: int, scale: float, layout: Layout) -> Tensor:
    """[batch, length]: of the key at ``offset`` from each query, 0 where there is none."""
    length = q.shape[1]
    at = torch.arange(length, device=q.device) + offset
    inside = ((at >= 0) & (at < length)).expand(q.shape[0], -1)
    at = at.clamp(0, max(length - 1, 0))
    for hidden in (layout.is_padding, layout.is_global):
        if hidden is not None:
            inside = inside & ~hidden[:, at]
    score = (q.float() * k[:, at].float()).sum(-1) * scale
    return torch.where(inside, (score - lse).exp(), 0.0)


def _global_columns(q: Tensor, k: Tensor, lse: Tensor, scale: float, causal: bool, layout: Layout) -> Tensor:
    """[batch, heads, length, globals]."""
    positions = layout.global_positions
    assert positions is not None
    score = q.float() @ rows_at(k, positions).float().transpose(2, 3) * scale
    seen = (positions >= 0)[:, None]
    if causal:
        seen = seen & (positions[:, None] <= torch.arange(q.shape[2], device=q.device)[:, None])
    return torch.where(seen[:, None], (score - lse[..., None]).exp(), 0.0)
