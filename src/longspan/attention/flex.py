"""FlexAttention (`torch.nn.attention.flex_attention`): a fused kernel, generated for CUDA devices.

Who sees whom becomes a ``mask_mod`` that asks `Pattern.allows`, and a `BlockMask` of the blocks in
which any pair may be seen, found from the borders of the blocks and never from an [N, M] matrix.
``bias`` and the relative term become a ``score_mod``.

Only the CPU was at hand to check it. There it runs FlexAttention's dense eager form, for the fused
CPU kernel returns no log-sum-exp; it is a check of the rules and nothing to be used. It refuses
dropout, fp64, gradients on a CPU, empty tensors and export.
"""

import functools
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from longspan.attention.mutual import in_two_steps
from longspan.attention.padding import finish, hide_absent
from longspan.attention.pattern import Pattern
from longspan.attention.request import Request
from longspan.attention.tables import trim_tables

if TYPE_CHECKING:
    from torch.nn.attention.flex_attention import BlockMask

BLOCK = 128
_NEVER = 2**62


def unsupported(request: Request) -> list[str]:
    """Reasons why this implementation cannot serve ``request``."""
    reasons: list[str] = []
    q, device = request.q, request.q.device.type
    if device not in ("cpu", "cuda"):
        reasons.append(f"FlexAttention is used on CPU and CUDA devices, not on {device}")
    if request.dropout > 0:
        reasons.append("FlexAttention has no dropout")
    if q.dtype == torch.float64:
        reasons.append("FlexAttention has no fp64")
    if q.numel() == 0 or request.k.numel() == 0:
        reasons.append("FlexAttention takes no empty tensors")
    if torch.compiler.is_exporting():
        reasons.append("FlexAttention is not exported")
    if device == "cpu" and torch.is_grad_enabled() and _wants_gradient(request):
        reasons.append("FlexAttention has no backward on the CPU")
    if device == "cuda":
        if q.shape[3] < 16:
            reasons.append(f"FlexAttention needs a head_dim of at least 16 on CUDA, not {q.shape[3]}")
        if not _has_triton():
            reasons.append("FlexAttention needs Triton on CUDA")
    return reasons


def run(request: Request) -> tuple[Tensor, Tensor]:
    """Attention output [B, H, N, D] and log-sum-exp [B, H, N] (-inf where nothing is seen)."""
    if request.mutual_globals:
        return in_two_steps(request, run)
    request = trim_tables(hide_absent(request))
    out, lse = _operation(request.q.device.type)(
        request.q,
        request.k,
        request.v,
        score_mod=_score_mod(request),
        block_mask=block_mask(request),
        scale=request.scale,
        enable_gqa=request.group_size > 1,
    )
    return finish(request, out, lse)


def block_mask(request: Request) -> "BlockMask":
    """The blocks of `BLOCK` queries by `BLOCK` keys that hold a visible pair, perhaps some more."""
    # Imported where it is used: it loads the compiler, which nobody on a CPU needs.
    from torch.nn.attention.flex_attention import BlockMask

    visible = _visible_blocks(request)
    count = visible.sum(-1, dtype=torch.int32)
    order = visible.to(torch.uint8).argsort(dim=-1, descending=True, stable=True).to(torch.int32)
    return BlockMask.from_kv_blocks(
        count,
        order,
        BLOCK_SIZE=BLOCK,
        mask_mod=_mask_mod(request),
        seq_lengths=(request.q.shape[2], request.k.shape[2]),
    )


def _visible_blocks(request: Request) -> Tensor:
    """[1 or B, 1 or H, N / BLOCK, M / BLOCK] bool, from the first and last live position of each block."""
    position = request.query_positions()
    first_query, last_query = _ends(position, ~request.dead_queries())
    first_query, last_query = first_query[..., None], last_query[..., None]
    key = torch.arange(request.k.shape[2], device=position.device)[None]
    live = key >= 0 if request.is_padding is None else ~request.is_padding
    first_key, last_key = (end[:, None] for end in _ends(key, live))
    first_global = None
    if request.is_global is not None:
        first_global = _ends(key, live & request.is_global)[0][:, None]

    def reached(pattern: Pattern) -> Tensor:
        seen = (first_query <= last_query) & (first_key <= last_key)
        if pattern.left is not None:
            seen = seen & (last_key >= first_query - pattern.left * pattern.dilation)
        if pattern.right is not None:
            seen = seen & (first_key <= last_query + pattern.right * pattern.dilation)
        if first_global is not None:
            seen = seen | (first_global <= (last_query if pattern.is_causal else request.k.shape[2]))
        return seen

    heads = request.patterns if len(set(request.patterns)) > 1 else request.patterns[:1]
    seen = torch.stack(torch.broadcast_tensors(*map(reached, heads)), 1)
    if request.document_starts is not None:
        # Documents follow each other, so two blocks share one when their ranges of documents meet.
        of = request.document_of
        meet = (of(first_query) <= of(last_key)) & (of(first_key) <= of(last_query))
        seen = seen & meet[:, None]
    return seen


def _ends(position: Tensor, live: Tensor) -> tuple[Tensor, Tensor]:
    """First and last live position of each block: [1 or B, length] -> two of [1 or B, blocks].

    Both are rising within a block; one without a live position has its first after its last.
    """
    position, live = torch.broadcast_tensors(position, live)
    missing = -position.shape[1] % BLOCK
    first = torch.nn.functional.pad(torch.where(live, position, _NEVER), (0, missing), value=_NEVER)
    last = torch.nn.functional.pad(torch.where(live, position, -1), (0, missing), value=-1)
    return first.unflatten(1, (-1, BLOCK)).amin(-1), last.unflatten(1, (-1, BLOCK)).amax(-1)


def _mask_mod(request: Request) -> Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]:
    """`Request.sees` for one pair: FlexAttention asks with indices, not with tensors of positions."""
    batch, keys = request.q.shape[0], request.k.shape[2]
    position = request.query_positions().expand(batch, -1).contiguous()
    dead = request.dead_queries().expand(batch, -1).contiguous()
    distinct = list(dict.fromkeys(request.patterns))
    kind = torch.tensor([distinct.index(p) for p in request.patterns], device=position.device)
    document = None
    if request.document_starts is not None:
        everywhere = torch.arange(keys, device=position.device).expand(batch, -1)
        document = request.document_of(everywhere)

    def sees(b: Tensor, h: Tensor, q: Tensor, key: Tensor) -> Tensor:
        query = position[b, q]
        seen = ~dead[b, q] & (key >= 0)
        in_pattern: Tensor | None = None
        for index, pattern in enumerate(distinct):
            allowed = pattern.allows(query, key)
            if request.is_global is not None:
                in_time = key <= query if pattern.is_causal else key >= 0
                allowed = allowed | (request.is_global[b, key] & in_time)
            if len(distinct) > 1:
                allowed = allowed & (kind[h] == index)
            in_pattern = allowed if in_pattern is None else in_pattern | allowed
        assert in_pattern is not None
        seen = seen & in_pattern
        if request.is_padding is not None:
            seen = seen & ~request.is_padding[b, key]
        if document is not None:
            seen = seen & (document[b, query.clamp(min=0)] == document[b, key])
        return seen

    return sees


def _score_mod(request: Request) -> Callable[[Tensor, Tensor, Tensor, Tensor, Tensor], Tensor] | None:
    """What is added to a scaled score: ``bias`` and the relative term, which is [B, H, N, 2R + 1] here."""
    if request.bias is None and request.position_keys is None:
        return None
    position = request.query_positions().expand(request.q.shape[0], -1).contiguous()
    bias = None if request.bias is None else request.bias.float()
    relative = None
    if request.position_query is not None and request.position_keys is not None:
        table = request.position_keys.float().transpose(-1, -2)
        relative = request.scale * (request.position_query.float() @ table)

    def add(score: Tensor, b: Tensor, h: Tensor, q: Tensor, key: Tensor) -> Tensor:
        offset = key - position[b, q]
        if bias is not None:
            reach = bias.shape[1] // 2
            score = score + bias[h, offset.clamp(-reach, reach) + reach]
        if relative is not None:
            reach = relative.shape[3] // 2
            score = score + relative[b, h, q, offset.clamp(-reach, reach) + reach]
        return score

    return add


def _operation(device: str) -> Callable[..., tuple[Tensor, Tensor]]:
    if torch.compiler.is_compiling():
        return _with_lse
    return _eager if device == "cpu" else _compiled()


def _eager(*args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "flex_attention called without torch.compile")
        return _with_lse(*args, **kwargs)


@functools.cache
def _compiled() -> Callable[..., tuple[Tensor, Tensor]]:
    # A full graph, so that too many recompilations raise instead of falling back to the dense form.
    return torch.compile(_with_lse, fullgraph=True)


def _with_lse(*args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
    """`flex_attention` with its log-sum-exp, in the newer or the older spelling."""
    from torch.nn.attention import flex_attention as flex

    operation: Any = flex.flex_attention
    if not hasattr(flex, "AuxRequest"):
        return operation(*args, **kwargs, return_lse=True)
    out, extra = operation(*args, **kwargs, return_aux=flex.AuxRequest(lse=True))
    return out, extra.lse


def _wants_gradient(request: Request) -> bool:
    tensors = (request.q, request.k, request.v, request.bias, request.position_query, request.position_keys)
    return any(x is not None and x.requires_grad for x in tensors)


def _has_triton() -> bool:
    try:
        import triton as _  # noqa: F401  # pyright: ignore[reportMissingImports]
    except ImportError:
        return False
    return True
