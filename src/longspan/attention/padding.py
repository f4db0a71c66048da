"""What stands at positions that do not exist must not matter: not even a NaN may pass."""

from dataclasses import replace

import torch
from torch import Tensor

from longspan.attention.request import Request


def hide_absent(request: Request) -> Request:
    """Zeros at padded keys and dead queries, so that a NaN there cannot pass through 0 * NaN."""
    if not _has_absent(request):
        return request
    dead = request.dead_queries()[:, None, :, None]
    position_query = request.position_query
    request = replace(
        request,
        q=request.q.masked_fill(dead, 0.0),
        position_query=None if position_query is None else position_query.masked_fill(dead, 0.0),
    )
    if request.is_padding is None:
        return request
    hidden = request.is_padding[:, None, :, None]
    return replace(request, k=request.k.masked_fill(hidden, 0.0), v=request.v.masked_fill(hidden, 0.0))


def clear_dead(request: Request, out: Tensor, lse: Tensor) -> tuple[Tensor, Tensor]:
    """Rows of dead queries as they have to be: ``out`` [B, H, N, D] 0, ``lse`` [B, H, N] -inf."""
    if not _has_absent(request):
        return out, lse
    dead = request.dead_queries()[:, None]
    return out.masked_fill(dead[..., None], 0.0), lse.masked_fill(dead, -torch.inf)


def _has_absent(request: Request) -> bool:
    return request.is_padding is not None or request.positions is not None
