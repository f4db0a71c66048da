"""The public operation: `attend` for windows, `attend_global` for the queries that see everything.

Longformer's layer is one call of each. Both check their arguments, choose an implementation and
call it; the mathematics is in the implementations, the definition of who sees whom in `pattern.py`
and `request.py`.

`impl="auto"` takes the first of `preferred` that can serve the call: the device's fused kernel, native
on CPUs and FlexAttention on CUDA devices, or else plain PyTorch. A named implementation runs or raises
its reasons.
"""

from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from longspan.attention import blocked, flex, native, reference
from longspan.attention.pattern import Pattern, per_head
from longspan.attention.request import Request
from longspan.attention.validation import check, check_qkv

Implementation = Literal["auto", "native", "flex", "blocked", "reference"]

IMPLEMENTATIONS: dict[str, ModuleType] = {
    "native": native,
    "flex": flex,
    "blocked": blocked,
    "reference": reference,
}


class Attention(NamedTuple):
    """What `attend` returns when more than the output is asked for."""

    out: Tensor
    """[batch, heads, queries, head_dim]."""
    lse: Tensor | None
    """[batch, heads, queries], the log of the sum of exponentials; -inf where nothing is seen."""
    probabilities: Tensor | None
    """[batch, heads, queries, keys], before dropout."""


def attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    pattern: Pattern | Sequence[Pattern],
    *,
    is_global: Tensor | None = None,
    global_rows: Tensor | None = None,
    mutual_globals: bool = False,
    is_padding: Tensor | None = None,
    document_starts: Tensor | None = None,
    query_offset: int = 0,
    dropout: float = 0.0,
    seed: int | Tensor | None = None,
    bias: Tensor | None = None,
    position_query: Tensor | None = None,
    position_keys: Tensor | None = None,
    scale: float | None = None,
    return_lse: bool = False,
    return_probabilities: bool = False,
    impl: Implementation = "auto",
) -> Tensor | Attention:
    """Exact attention within a window, plus global keys, in linear time and memory.

    Each query sees the keys of its window and every global key, in one softmax; no key counts
    twice. Any length works, and any window. Rows of padded queries are 0 and get no gradient.

    Args:
        q: [batch, heads, queries, head_dim].
        k: [batch, kv_heads, keys, head_dim]; kv_heads divides heads.
        v: [batch, kv_heads, keys, head_dim].
        pattern: the window, one for all heads or one per head.
        is_global: [batch, keys] bool, True for keys that every query sees (in a causal pattern,
            every query that does not come before them). Queries at those positions are treated
            like all others here, unless there are ``global_rows`` or ``mutual_globals``.
        global_rows: [batch, heads, most globals, head_dim], the outputs of the queries at global
            positions as `attend_global` returns them. They take the place of local rows, which are
            then not computed (their log-sum-exp here is -inf).
        mutual_globals: queries at global positions see every key, with the same q, k and v: the symmetric
            attention of one call. For projections of their own, `attend_global` makes ``global_rows``.
        is_padding: [batch, keys] bool, True for positions that do not exist.
        document_starts: [documents + 1] or [batch, documents + 1] integers from 0 to ``keys`` (cu_seqlens):
            documents packed into one row do not see each other.
        query_offset: position of the first query among the keys, for decoding with a cache and for
            splitting a sequence; query i stands at ``query_offset + i``.
        dropout: probability of dropping a pair after the softmax.
        seed: of the dropout mask; drawn from torch's generator when not given.
        bias: [heads, 2 * reach + 1], added to the scaled score of a pair at its offset, key minus
            query position, offset 0 in the middle. Offsets beyond the table take its end values.
        position_query: [batch, heads, queries, head_dim], with ``position_keys``.
        position_keys: [heads, 2 * reach + 1, head_dim]: adds
            ``scale * position_query . position_keys[offset]`` (Transformer-XL's term, where
            ``position_query`` is q + v and ``q`` is q + u).
        scale: factor on q . k; 1 / sqrt(head_dim) by default.
        return_lse: also return the log-sum-exp (differentiable).
        return_probabilities: also return the dense probabilities; quadratic, for inspection, through
            the reference implementation.
        impl: which implementation; see the module's docstring.

    Returns:
        The output, [batch, heads, queries, head_dim]; an `Attention` tuple when more was asked for.

    Raises:
        ValueError: an argument is wrong, or the named implementation cannot serve the call.
    """
    check_qkv(q, k, v)
    request = check(
        q=q,
        k=k,
        v=v,
        patterns=per_head(pattern, q.shape[1]),
        offset=query_offset,
        positions=None,
        is_global=is_global,
        global_rows=global_rows,
        mutual_globals=mutual_globals,
        is_padding=is_padding,
        document_starts=document_starts,
        scale=scale,
        dropout=dropout,
        seed=seed,
        bias=bias,
        position_query=position_query,
        position_keys=position_keys,
    )
    return _answer(request, impl, return_lse, return_probabilities)


def attend_global(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    positions: Tensor,
    *,
    causal: bool = False,
    is_padding: Tensor | None = None,
    document_starts: Tensor | None = None,
    dropout: float = 0.0,
    seed: int | Tensor | None = None,
    bias: Tensor | None = None,
    position_query: Tensor | None = None,
    position_keys: Tensor | None = None,
    scale: float | None = None,
    return_lse: bool = False,
    return_probabilities: bool = False,
    impl: Implementation = "auto",
) -> Tensor | Attention:
    """Attention of a few queries, anywhere in the sequence, to all of it.

    These are Longformer's global queries, with their own projections: ``q`` holds only their rows.
    Given to `attend` as ``global_rows``, the result takes the place of the local rows.

    Args:
        q: [batch, heads, globals, head_dim], the queries at ``positions``.
        k: [batch, kv_heads, keys, head_dim].
        v: [batch, kv_heads, keys, head_dim].
        positions: [batch, globals] int64, rising along a row; -1 at the end of a row with fewer
            queries than others, whose outputs are 0. `global_positions` makes it from a mask.
        causal: hide the keys after each query.

    The other arguments, and what is returned, are those of `attend`.
    """
    check_qkv(q, k, v)
    everything = Pattern(left=None, right=0 if causal else None)
    request = check(
        q=q,
        k=k,
        v=v,
        patterns=per_head(everything, q.shape[1]),
        offset=None,
        positions=positions,
        is_global=None,
        global_rows=None,
        mutual_globals=False,
        is_padding=is_padding,
        document_starts=document_starts,
        scale=scale,
        dropout=dropout,
        seed=seed,
        bias=bias,
        position_query=position_query,
        position_keys=position_keys,
    )
    return _answer(request, impl, return_lse, return_probabilities)


def preferred(request: Request) -> tuple[str, ...]:
    """What ``impl="auto"`` tries, in this order; the last serves every call."""
    return ("flex", "blocked") if request.q.device.type == "cuda" else ("native", "blocked")


def choose(request: Request, impl: str) -> str:
    """The implementation that serves ``request``.

    Raises:
        ValueError: ``impl`` is not a name, or names one that cannot serve the call.
    """
    if impl == "auto":
        return next(name for name in preferred(request) if not IMPLEMENTATIONS[name].unsupported(request))
    if impl not in IMPLEMENTATIONS:
        raise ValueError(f"impl is {impl!r}; it must be one of {', '.join(('auto', *IMPLEMENTATIONS))}")
    reasons: list[str] = IMPLEMENTATIONS[impl].unsupported(request)
    if reasons:
        raise ValueError(f"impl={impl!r} cannot serve this call: {'; '.join(reasons)}")
    return impl


def _answer(request: Request, impl: str, return_lse: bool, return_probabilities: bool) -> Tensor | Attention:
    if return_probabilities:
        if impl not in ("auto", "reference"):
            raise ValueError(
                f"impl is {impl!r} with return_probabilities; only the reference makes probabilities"
            )
        out, lse, probabilities = reference.run_with_probabilities(request)
        return Attention(out, lse if return_lse else None, probabilities)
    run: Callable[[Request], tuple[Tensor, Tensor]] = IMPLEMENTATIONS[choose(request, impl)].run
    device = request.q.device.type
    if torch.is_autocast_enabled(device):
        # Autocast would round the fp32 sums of an implementation back to half precision.
        with torch.autocast(device, enabled=False):
            out, lse = run(request)
    else:
        out, lse = run(request)
    return Attention(out, lse, None) if return_lse else out
