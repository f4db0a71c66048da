"""Exact attention in plain PyTorch, in linear memory, on any device.

The work is cut into pieces of bounded size (`pieces.py`). A piece's scores against its windows and
against the global keys share one softmax. The backward pass keeps nothing but the inputs: it runs
each piece again and differentiates it. While torch traces a graph (`torch.compile`,
`torch.export`) there is one piece for each phase of each pattern, and autograd does the rest, so
that the graph does not depend on the length.

It serves every call. Reading how many keys are global breaks a compiled graph, so
`torch.compile(fullgraph=True)` refuses calls with ``is_global``; `torch.export` takes them.
"""

from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from longspan.attention.dropout import keep_mask
from longspan.attention.mutual import in_two_steps
from longspan.attention.padding import finish, hide_absent
from longspan.attention.pieces import Heads, Piece, head_groups, pieces
from longspan.attention.positions import global_positions
from longspan.attention.request import Request
from longspan.attention.tables import trim_tables

# Scores per piece: on a CPU they should stay near the cache, elsewhere there must be enough work for
# one launch.
_CPU_BUDGET = 2**20
_BUDGET = 2**25


class _Operands(NamedTuple):
    """The tensors that carry gradients, whole or (inside a piece) cut to it."""

    q: Tensor
    """[B, H, N, D]."""
    k: Tensor
    """[B, G, M, D]."""
    v: Tensor
    """[B, G, M, D]."""
    global_k: Tensor | None
    """[B, G, globals, D]."""
    global_v: Tensor | None
    """[B, G, globals, D]."""
    bias: Tensor | None
    """[H, 2R + 1]."""
    position_query: Tensor | None
    """[B, H, N, D]."""
    position_keys: Tensor | None
    """[H, 2R + 1, D]."""


class _Plan(NamedTuple):
    """What a piece has to know beside its operands."""

    request: Request
    global_at: Tensor | None
    """[B, globals] int64: the positions of the global keys, -1 for none."""
    pieces: list[Piece]


def unsupported(request: Request) -> list[str]:
    """Reasons why this implementation cannot serve ``request``: none, ever."""
    return []


def run(request: Request) -> tuple[Tensor, Tensor]:
    """Attention output [B, H, N, D] and log-sum-exp [B, H, N] (-inf where nothing is seen)."""
    if request.mutual_globals:
        return in_two_steps(request, run)
    request = trim_tables(hide_absent(request))
    global_at = None if request.is_global is None else global_positions(request.is_global)
    operands = _Operands(
        q=request.q,
        k=request.k,
        v=request.v,
        global_k=None if global_at is None else _rows_at(request.k, global_at),
        global_v=None if global_at is None else _rows_at(request.v, global_at),
        bias=request.bias,
        position_query=request.position_query,
        position_keys=request.position_keys,
    )
    traced = torch.compiler.is_compiling()
    extra = 0 if global_at is None else global_at.shape[1]
    extra += 0 if request.position_keys is None else request.position_keys.shape[1]
    budget = None if traced else _CPU_BUDGET if request.q.device.type == "cpu" else _BUDGET
    parts = [piece for group in head_groups(request) for piece in pieces(request, group, extra, budget)]
    if traced:
        out, lse = _forward(_Plan(request, global_at, parts), operands)
    else:
        plan = _Plan(_without_operands(request), global_at, parts)
        out, lse = _Recomputed.apply(plan, *operands)  # pyright: ignore[reportGeneralTypeIssues]
    return finish(request, out, lse)


class _Recomputed(torch.autograd.Function):
    """`_forward`, differentiated piece by piece."""

    @staticmethod
    def forward(ctx: Any, plan: _Plan, *tensors: Tensor | None) -> tuple[Tensor, Tensor]:
        ctx.plan = plan
        ctx.save_for_backward(*tensors)
        return _forward(plan, _Operands(*tensors))  # pyright: ignore[reportArgumentType]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:  # pyright: ignore
        dtype = ctx.plan.request.compute_dtype
        operands = _Operands(*ctx.saved_tensors)
        wanted: list[bool] = list(ctx.needs_input_grad[1:])
        totals = [
            torch.zeros_like(x, dtype=dtype) if x is not None and want else None
            for x, want in zip(operands, wanted, strict=True)
        ]
        for piece in ctx.plan.pieces:
            places = _places(piece)
            cut = [
                None if x is None else x[place].detach().to(dtype).requires_grad_(want)
                for x, place, want in zip(operands, places, wanted, strict=True)
            ]
            with torch.enable_grad():
                parts = _attend(ctx.plan, piece, _Operands(*cut))  # pyright: ignore[reportArgumentType]
            # Without a gradient of q or k, say, the log-sum-exp depends on nothing.
            pairs = [
                (part, grad[places.q].to(dtype))
                for part, grad in zip(parts, grads, strict=True)
                if part.requires_grad
            ]
            sources = [x for x in cut if x is not None and x.requires_grad]
            found = torch.autograd.grad([part for part, _ in pairs], sources, [grad for _, grad in pairs])
            remaining = iter(found)
            for total, place in zip(totals, places, strict=True):
                if total is not None:
                    total[place] += next(remaining)
        return None, *(
            None if total is None or x is None else total.to(x.dtype)
            for total, x in zip(totals, operands, strict=True)
        )


def _forward(plan: _Plan, operands: _Operands) -> tuple[Tensor, Tensor]:
    """All pieces, each put in its place."""
    q = operands.q
    out, lse = torch.zeros_like(q), q.new_full(q.shape[:3], -torch.inf, dtype=plan.request.compute_dtype)
    for piece in plan.pieces:
        places = _places(piece)
        cut = [None if x is None else x[place] for x, place in zip(operands, places, strict=True)]
        part, part_lse = _attend(plan, piece, _Operands(*cut))  # pyright: ignore[reportArgumentType]
        if len(plan.pieces) == 1:
            return part.to(q.dtype), part_lse
        out[places.q] = part.to(q.dtype)
        lse[places.q] = part_lse
    return out, lse


class _Places(NamedTuple):
    """Where the operands of a piece are, one index for each field of `_Operands`."""

    q: tuple[Heads, ...]
    k: tuple[Heads, ...]
    v: tuple[Heads, ...]
    global_k: tuple[Heads, ...]
    global_v: tuple[Heads, ...]
    bias: tuple[Heads, ...]
    position_query: tuple[Heads, ...]
    position_keys: tuple[Heads, ...]


def _places(piece: Piece) -> _Places:
    every, heads, kv_heads = slice(None), piece.group.heads, piece.group.kv_heads
    rows, keys = (every, heads, piece.rows), (every, kv_heads, piece.keys)
    return _Places(
        q=rows,
        k=keys,
        v=keys,
        global_k=(every, kv_heads),
        global_v=(every, kv_heads),
        bias=(heads,),
        position_query=rows,
        position_keys=(heads,),
    )


def _attend(plan: _Plan, piece: Piece, x: _Operands) -> tuple[Tensor, Tensor]:
    """One piece, in the compute dtype: its output [B, H', rows, D] and log-sum-exp [B, H', rows].

    Shapes below: c blocks of b queries, w keys in a window, g global keys, H' heads of the piece.
    """
    request, pattern, dtype = plan.request, piece.group.pattern, plan.request.compute_dtype
    block = torch.arange(piece.blocks, device=x.q.device)[:, None] * piece.block
    row = block + torch.arange(piece.block, device=x.q.device)  # [c, b], in steps from the first row
    window = block + torch.arange(piece.width, device=x.q.device)  # [c, w], in steps from the first key
    window = window if piece.first is None else window + piece.first
    q = _pick(x.q.to(dtype) * request.scale, row, piece)
    k, v = (_pick(_spread(kv.to(dtype), piece), window, piece) for kv in (x.k, x.v))

    if request.offset is None:
        query = request.query_positions()[:, None, piece.rows, None]
    else:
        query = (request.offset + piece.rows.start + piece.step * row)[None, :, :, None]
    key = (piece.keys.start + piece.step * window)[None, :, None]
    seen = request.sees(pattern, query, key, through_global=False)
    if plan.global_at is not None and x.global_k is not None and x.global_v is not None:
        global_key = plan.global_at[:, None, None]
        seen_globally = request.sees(pattern, query, global_key, through_global=True)
        seen = _join(seen, seen_globally, (x.q.shape[0], piece.blocks, piece.block, -1), -1)
        key = _join(key, global_key, (x.q.shape[0], piece.blocks, 1, -1), -1)
        k, v = (
            _join(local, _spread(kv.to(dtype), piece)[:, :, None], (*local.shape[:3], -1, local.shape[4]), 3)
            for local, kv in ((k, x.global_k), (v, x.global_v))
        )

    scores = q @ k.transpose(-1, -2)
    if x.position_query is not None and x.position_keys is not None:
        reach = x.position_keys.shape[1] // 2
        position_query = _pick(x.position_query.to(dtype) * request.scale, row, piece)
        per_offset = position_query @ x.position_keys.to(dtype)[:, None].transpose(-1, -2)
        index = (key - query).clamp(-reach, reach) + reach
        scores = scores + per_offset.gather(-1, index[:, None].expand(scores.shape))
    if x.bias is not None:
        reach = x.bias.shape[1] // 2
        scores = scores + x.bias.to(dtype)[:, (key - query).clamp(-reach, reach) + reach].transpose(0, 1)

    scores = torch.where(seen[:, None], scores, -torch.inf)
    # A row that sees nothing has the maximum -inf; any finite number does in its place.
    top = scores.detach().amax(-1, keepdim=True).clamp(min=torch.finfo(dtype).min)
    weights = (scores - top).exp()
    total = weights.sum(-1, keepdim=True)
    some = total > 0
    total = torch.where(some, total, 1.0)
    lse = torch.where(some, total.log() + top, -torch.inf).squeeze(-1)
    if request.dropout > 0:
        weights = torch.where(_kept(request, piece, query, key), weights, 0.0) / (1.0 - request.dropout)
    out = weights @ v / total
    if piece.first is None:
        return out[:, :, 0], lse[:, :, 0]
    # Not a slice: an exporter cannot prove that there are as many rows as it would cut.
    present = torch.arange(piece.count, device=x.q.device)
    return out.flatten(2, 3).index_select(2, present), lse.flatten(2, 3).index_select(2, present)


def _pick(x: Tensor, index: Tensor, piece: Piece) -> Tensor:
    """[B, H', rows, D] at ``index`` [c, i] -> [B, H', c, i, D]; beyond the ends stands what is not used."""
    return x[:, :, None] if piece.first is None else x[:, :, index.clamp(0, x.shape[2] - 1)]


def _join(local: Tensor, globally: Tensor, shape: tuple[int, ...], dim: int) -> Tensor:
    """Window and global keys side by side, both expanded to ``shape``, which has -1 at ``dim``."""
    return torch.cat([local.expand(shape), globally.expand(shape)], dim)


def _spread(x: Tensor, piece: Piece) -> Tensor:
    """[B, G', ...] -> [B, H', ...]: each query head gets its key/value head."""
    spread = piece.group.spread
    return x if spread is None else x.index_select(1, torch.tensor(spread, device=x.device))


def _kept(request: Request, piece: Piece, query: Tensor, key: Tensor) -> Tensor:
    """[B, H', c, b, w + g] bool: the pairs that dropout leaves."""
    assert request.seed is not None
    batch, heads = request.q.shape[:2]
    row = torch.arange(batch * heads, device=query.device).view(batch, heads)[:, piece.group.heads]
    return keep_mask(request.seed, request.dropout, row[..., None, None, None], query[:, None], key[:, None])


def _rows_at(x: Tensor, positions: Tensor) -> Tensor:
    """``x`` [B, G, M, D] at ``positions`` [B, g] -> [B, G, g, D]; what stands at -1 is never seen."""
    index = positions.clamp(min=0)[:, None, :, None].expand(-1, x.shape[1], -1, x.shape[3])
    return x.gather(2, index)


def _without_operands(request: Request) -> Request:
    """Shapes and masks only, so that what autograd keeps of the operands is what it was asked to save."""
    q, k = (x.new_zeros(()).expand(x.shape) for x in (request.q, request.k))
    return replace(request, q=q, k=k, v=k, bias=None, position_query=None, position_keys=None)
