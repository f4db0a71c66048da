"""The oracle: dense attention, written to be obviously right.

It builds every [N, M] matrix and differentiates with plain autograd, in fp64 when it is given fp64.
No other implementation imports it; the tests compare them all with it, and `attend` uses it only to
show probabilities.
"""

import torch
from torch import Tensor

from longspan.attention.dropout import keep_mask
from longspan.attention.positions import place_rows
from longspan.attention.request import Request


def unsupported(request: Request) -> list[str]:
    """Reasons why this implementation cannot serve ``request``: none, ever."""
    return []


def run(request: Request) -> tuple[Tensor, Tensor]:
    """Attention output [B, H, N, D] and log-sum-exp [B, H, N] (-inf where nothing is seen)."""
    out, lse, _ = run_with_probabilities(request)
    return out, lse


def run_with_probabilities(request: Request) -> tuple[Tensor, Tensor, Tensor]:
    """`run`, and the probabilities [B, H, N, M] before dropout."""
    dtype = request.compute_dtype
    # Hidden before the exponential, which a large hidden score would overflow: its gradient is 0 * inf.
    scores = torch.where(visible(request), _scores(request), -torch.inf)
    lse = scores.logsumexp(-1) if scores.shape[-1] else scores.sum(-1) - torch.inf
    finite_lse = torch.where(lse > -torch.inf, lse, 0.0)
    probabilities = (scores - finite_lse[..., None]).exp()
    dropped = torch.where(_kept(request), probabilities, 0.0) / (1.0 - request.dropout)
    out = dropped @ _hide_padding(request, request.v).to(dtype).repeat_interleave(request.group_size, 1)
    out = out.to(request.q.dtype)
    if request.global_rows is not None and request.is_global is not None:
        out = place_rows(out, request.global_rows, request.is_global)
    return out, lse, probabilities


def _scores(request: Request) -> Tensor:
    """[B, H, N, M] in the compute dtype."""
    dtype = request.compute_dtype
    k = _hide_padding(request, request.k).to(dtype).repeat_interleave(request.group_size, 1)
    scores = _hide_dead(request, request.q).to(dtype) @ k.transpose(-1, -2)
    query = request.query_positions()
    key = torch.arange(request.k.shape[2], device=query.device)
    offset = key - query[..., None]  # [1 or B, N, M]
    if request.position_keys is not None and request.position_query is not None:
        reach = request.position_keys.shape[1] // 2
        position_query = _hide_dead(request, request.position_query).to(dtype)
        per_offset = position_query @ request.position_keys.to(dtype).transpose(-1, -2)
        index = (offset.clamp(-reach, reach) + reach)[:, None].expand(scores.shape)
        scores = scores + per_offset.gather(-1, index)
    scores = scores * request.scale
    if request.bias is not None:
        reach = request.bias.shape[1] // 2
        table = request.bias.to(dtype)[:, offset.clamp(-reach, reach) + reach]  # [H, 1 or B, N, M]
        scores = scores + table.transpose(0, 1)
    return scores


def visible(request: Request) -> Tensor:
    """[B, H, N, M] bool: who sees whom, all in all."""
    query = request.query_positions()[..., None]
    key = torch.arange(request.k.shape[2], device=query.device)[None, None]
    per_head: list[Tensor] = []
    for pattern in request.patterns:
        seen = request.sees(pattern, query, key, through_global=False)
        if request.is_global is not None:
            seen = seen | request.sees(pattern, query, key, through_global=True)
        per_head.append(seen & ~request.dead_queries()[..., None])
    batch, _, queries, _ = request.q.shape
    shape = (batch, queries, request.k.shape[2])
    if not per_head:
        return query.new_empty((batch, 0, *shape[1:]), dtype=torch.bool)
    return torch.stack([seen.expand(shape) for seen in per_head], 1)


def _kept(request: Request) -> Tensor:
    """[B, H, N, M] bool: the pairs that dropout leaves."""
    batch, heads = request.q.shape[:2]
    keys = request.k.shape[2]
    if request.dropout == 0:
        return request.q.new_ones((), dtype=torch.bool)
    assert request.seed is not None
    row = torch.arange(batch * heads, device=request.q.device).view(batch, heads, 1, 1)
    query = request.query_positions()[:, None, :, None]
    key = torch.arange(keys, device=request.q.device)
    return keep_mask(request.seed, request.dropout, row, query, key)


def _hide_padding(request: Request, x: Tensor) -> Tensor:
    """Zeros at padded keys, so that a NaN there cannot pass through 0 * NaN."""
    if request.is_padding is None:
        return x
    return x.masked_fill(request.is_padding[:, None, :, None], 0.0)


def _hide_dead(request: Request, x: Tensor) -> Tensor:
    """Zeros at dead queries, for the same reason."""
    return x.masked_fill(request.dead_queries()[:, None, :, None], 0.0)
