"""The part of a Longformer layer that is not a projection: what all contestants compute.

Local rows, global rows, and the second put in the place of the first. The benchmarks give one set
of projections to both calls; a model has a second set for the global rows, which costs the same here.
"""

from collections.abc import Sequence
from typing import cast

from torch import Tensor

from longspan.attention.attend import Implementation, attend, attend_global
from longspan.attention.pattern import Pattern
from longspan.attention.positions import global_positions, rows_at


def longformer_core(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    pattern: Pattern | Sequence[Pattern],
    is_global: Tensor | None,
    *,
    is_padding: Tensor | None = None,
    document_starts: Tensor | None = None,
    dropout: float = 0.0,
    seed: int | None = None,
    impl: Implementation = "auto",
) -> Tensor:
    """Window, global keys and global rows.

    Args:
        q: [batch, heads, length, head_dim].
        k: [batch, heads, length, head_dim].
        v: [batch, heads, length, head_dim].
        pattern: the window, one for all heads or one per head.
        is_global: [batch, length] bool, or None for no global tokens.
        is_padding: [batch, length] bool.
        document_starts: [documents + 1] integers.
        dropout: probability of dropping a pair.
        seed: of the dropout masks.
        impl: the implementation of `attend` and `attend_global`.

    Returns:
        [batch, heads, length, head_dim].
    """
    rows = None
    if is_global is not None:
        positions = global_positions(is_global)
        rows = attend_global(
            rows_at(q, positions),
            k,
            v,
            positions,
            is_padding=is_padding,
            document_starts=document_starts,
            dropout=dropout,
            seed=seed,
            impl=impl,
        )
    out = attend(
        q,
        k,
        v,
        pattern,
        is_global=is_global,
        global_rows=cast("Tensor | None", rows),
        is_padding=is_padding,
        document_starts=document_starts,
        dropout=dropout,
        seed=seed,
        impl=impl,
    )
    return cast(Tensor, out)
