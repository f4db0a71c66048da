"""What stands at positions that do not exist must not matter: not even a NaN may pass."""

from dataclasses import replace

import torch
from torch import Tensor

from longspan.attention.positions import place_rows
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


def finish(request: Request, out: Tensor, lse: Tensor) -> tuple[Tensor, Tensor]:
    """Rows of dead queries as they have to be: ``out`` [B, H, N, D] 0 or given, ``lse`` [B, H, N] -inf."""
    if not _has_absent(request):
        return out, lse
    dead = request.dead_queries()[:, None]
    out, lse = out.masked_fill(dead[..., None], 0.0), lse.masked_fill(dead, -torch.inf)
    if request.global_rows is not None and request.is_global is not None:
        out = place_rows(out, request.global_rows, request.is_global)
    return out, lse


def _has_absent(request: Request) -> bool:
    return any(x is not None for x in (request.is_padding, request.positions, request.global_rows))
