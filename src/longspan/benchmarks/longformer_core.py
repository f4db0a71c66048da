"""The part of a Longformer layer that is not a projection: what all contestants compute.

Window, global keys, and global queries that see everything, with one set of projections for all. A model that
has a second set for global queries makes their rows with `attend_global`.
"""

from collections.abc import Sequence
from typing import cast

from torch import Tensor

from longspan.attention.attend import Implementation, attend
from longspan.attention.pattern import Pattern


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
        impl: the implementation of `attend`.

    Returns:
        [batch, heads, length, head_dim].
    """
    out = attend(
        q,
        k,
        v,
        pattern,
        is_global=is_global,
        mutual_globals=is_global is not None,
        is_padding=is_padding,
        document_starts=document_starts,
        dropout=dropout,
        seed=seed,
        impl=impl,
    )
    return cast(Tensor, out)
