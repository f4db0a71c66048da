"""Mutual globals in two steps, for implementations that know only global keys."""

from collections.abc import Callable
from dataclasses import replace

from torch import Tensor

from longspan.attention.pattern import Pattern
from longspan.attention.positions import global_positions, place_rows, rows_at
from longspan.attention.request import Request


def in_two_steps(request: Request, run: Callable[[Request], tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
    """Output [B, H, N, D] and log-sum-exp [B, H, N]: the global rows first, then the others around them."""
    assert request.is_global is not None
    positions = global_positions(request.is_global)
    query = request.position_query
    rows, rows_lse = run(
        replace(
            request,
            q=rows_at(request.q, positions),
            position_query=None if query is None else rows_at(query, positions),
            patterns=tuple(Pattern(left=None, right=0 if p.is_causal else None) for p in request.patterns),
            offset=None,
            positions=positions,
            is_global=None,
            mutual_globals=False,
        )
    )
    out, lse = run(replace(request, global_rows=rows, mutual_globals=False))
    return out, place_rows(lse[..., None], rows_lse[..., None], request.is_global)[..., 0]
