"""Random calls of the attention operation, and how closely implementations must agree on them.

A call is a dict of keyword arguments for `attend` (or, when it has ``positions``, `attend_global`)
whose floating-point tensors are fp64; `agreement.py` rounds them to the dtype under test.
"""

from dataclasses import dataclass
from typing import Any

import torch
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from torch import Tensor

from longspan import Pattern

Call = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Tolerance:
    """Largest error, as a part of the tensor's largest value, or of 1 / (1 - dropout) if that is larger."""

    forward: float
    """Of the output and the log-sum-exp."""
    gradient: float
    """Of the gradients of q, k, v and position_query."""
    table_gradient: float
    """Of the gradients of bias and position_keys, whose entries sum over all queries."""


TOLERANCES = {
    torch.float64: Tolerance(forward=1e-12, gradient=1e-11, table_gradient=1e-11),
    torch.float32: Tolerance(forward=2e-5, gradient=1e-4, table_gradient=1e-4),
    torch.float16: Tolerance(forward=2e-3, gradient=4e-3, table_gradient=4e-3),
    torch.bfloat16: Tolerance(forward=1e-2, gradient=2e-2, table_gradient=1e-1),
}
"""The published table: every implementation against the fp64 reference on the same rounded inputs.

It holds for scores up to about a hundred: a score's rounding error, which grows with it, goes into the
exponential. Half precision loses most of it when a result is rounded, for sums are formed in fp32; products
of bf16 pairs round the weights too, and a table's gradient adds up what that takes over all queries.
"""

LENGTHS = (0, 1, 2, 3, 16, 17, 40, 63, 64, 130, 200)
HEAD_DIMS = (1, 8, 16, 20, 64)


def examples(count: int) -> settings:
    """The same ``count`` examples in every run."""
    return settings(
        max_examples=count,
        derandomize=True,
        database=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )


def patterns() -> st.SearchStrategy[Pattern]:
    """Windows of all kinds: empty, odd, larger than any sequence, unbounded, dilated."""
    side = st.sampled_from((0, 1, 2, 5, 16, 31, 33, 70, 1000, None))
    return st.builds(
        Pattern, left=side, right=side | st.just(0), dilation=st.sampled_from((1, 1, 1, 2, 3, 4))
    )


@st.composite
def attend_calls(draw: st.DrawFn, *, lengths: tuple[int, ...] = LENGTHS) -> Call:
    """A call of `attend`."""
    shape = draw(_shapes(lengths))
    keys = shape.queries + draw(st.sampled_from((0, 0, 1, 30)))
    call = _common(draw, shape, keys)
    one = st.integers(0, 1).map(bool)
    call["pattern"] = draw(patterns()) if draw(one) else draw(_lists(patterns(), shape.heads))
    call["query_offset"] = draw(st.integers(0, keys - shape.queries))
    call["is_global"] = draw(_masks(shape.batch, keys))
    call["mutual_globals"] = call["is_global"] is not None and keys == shape.queries and draw(one)
    return call


@st.composite
def global_calls(draw: st.DrawFn, *, lengths: tuple[int, ...] = LENGTHS) -> Call:
    """A call of `attend_global`, with different numbers of queries in the examples."""
    shape = draw(_shapes((0, 1, 2, 7, 20)))
    keys = max(draw(st.sampled_from(lengths)), shape.queries)
    call = _common(draw, shape, keys)
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**31)))
    rows: list[Tensor] = []
    for _ in range(shape.batch):
        present = draw(st.integers(0, shape.queries))
        chosen = torch.randperm(keys, generator=generator)[:present].sort().values
        rows.append(torch.cat([chosen, torch.full((shape.queries - present,), -1)]))
    call["positions"] = torch.stack(rows) if rows else torch.empty(0, shape.queries, dtype=torch.int64)
    call["causal"] = draw(st.booleans())
    return call


def any_calls() -> st.SearchStrategy[Call]:
    """Three calls of `attend` for one of `attend_global`."""
    return st.one_of(attend_calls(), attend_calls(), attend_calls(), global_calls())


@dataclass(frozen=True, kw_only=True)
class _Shape:
    batch: int
    heads: int
    kv_heads: int
    queries: int
    head_dim: int


@st.composite
def _shapes(draw: st.DrawFn, lengths: tuple[int, ...]) -> _Shape:
    kv_heads = draw(st.sampled_from((1, 1, 2, 3)))
    return _Shape(
        batch=draw(st.sampled_from((1, 2, 3, 0))),
        heads=kv_heads * draw(st.sampled_from((1, 1, 2, 3))),
        kv_heads=kv_heads,
        queries=draw(st.sampled_from(lengths)),
        head_dim=draw(st.sampled_from(HEAD_DIMS)),
    )


def _common(draw: st.DrawFn, shape: _Shape, keys: int) -> Call:
    """The arguments that both operations have."""
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**31)))
    # Large scores make peaked probabilities, where a wrong maximum would show.
    size = draw(st.sampled_from((1.0, 1.0, 2.0)))

    def heads_of(count: int, length: int) -> Tensor:
        return size * _laid_out(draw, (shape.batch, count, length, shape.head_dim), generator)

    call: Call = {
        "q": heads_of(shape.heads, shape.queries),
        "k": heads_of(shape.kv_heads, keys),
        "v": heads_of(shape.kv_heads, keys),
        "is_padding": draw(_masks(shape.batch, keys)),
        "document_starts": draw(_document_starts(shape.batch, keys)),
        "scale": draw(st.sampled_from((None, None, 0.3, -0.2))),
    }
    if draw(st.booleans()):
        call["dropout"] = draw(st.sampled_from((0.1, 0.5, 0.9)))
        call["seed"] = draw(st.integers(0, 2**63 - 1))
    reaches = st.sampled_from((0, 1, 4, 33, 300))
    if draw(st.booleans()):
        call["bias"] = _normal((shape.heads, 2 * draw(reaches) + 1), generator)
    if draw(st.integers(0, 2)) == 0:
        call["position_query"] = heads_of(shape.heads, shape.queries)
        call["position_keys"] = _normal((shape.heads, 2 * draw(reaches) + 1, shape.head_dim), generator)
    return call


def _laid_out(draw: st.DrawFn, shape: tuple[int, int, int, int], generator: torch.Generator) -> Tensor:
    """[batch, heads, length, head_dim], contiguous or as projections and caches leave it."""
    batch, heads, length, head_dim = shape
    layout = draw(st.sampled_from(("contiguous", "transposed", "packed", "cut", "columns")))
    if layout == "transposed":
        return _normal((batch, length, heads, head_dim), generator).transpose(1, 2)
    if layout == "packed":
        return _normal((batch, length, 3, heads, head_dim), generator)[:, :, 1].transpose(1, 2)
    if layout == "cut":
        return _normal((batch, heads, length + 5, head_dim), generator)[:, :, 2 : length + 2]
    if layout == "columns":
        return _normal((batch, heads, head_dim, length), generator).transpose(2, 3)
    return _normal(shape, generator)


@st.composite
def _masks(draw: st.DrawFn, batch: int, length: int) -> Tensor | None:
    """None, or [batch, length] bool: nothing, a little, much or everything; or a whole example."""
    kind = draw(
        st.sampled_from(("absent", "absent", "none", "few", "few", "many", "all", "one example", "tail"))
    )
    if kind == "absent":
        return None
    mask = torch.zeros(batch, length, dtype=torch.bool)
    if kind in ("few", "many"):
        generator = torch.Generator().manual_seed(draw(st.integers(0, 2**31)))
        share = 0.05 if kind == "few" else 0.4
        return torch.rand(batch, length, generator=generator) < share
    if kind == "all":
        mask[:] = True
    elif kind == "one example":
        mask[:1] = True
    elif kind == "tail":
        mask[:, length // 2 :] = True
    return mask


@st.composite
def _document_starts(draw: st.DrawFn, batch: int, length: int) -> Tensor | None:
    """None, [documents + 1], or [batch, documents + 1]; some documents are empty."""
    rows = draw(st.sampled_from((None, None, "shared", "each")))
    if rows is None:
        return None
    inner = draw(st.integers(0, 5))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**31)))
    count = 1 if rows == "shared" else batch
    borders = torch.randint(0, length + 1, (count, inner), generator=generator).sort(1).values
    starts = torch.cat([torch.zeros(count, 1), borders, torch.full((count, 1), length)], 1)
    starts = starts.to(draw(st.sampled_from((torch.int32, torch.int64))))
    return starts[0] if rows == "shared" else starts


def _lists(item: st.SearchStrategy[Pattern], count: int) -> st.SearchStrategy[list[Pattern]]:
    return st.lists(item, min_size=count, max_size=count)


def _normal(shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    return torch.randn(shape, dtype=torch.float64, generator=generator)
