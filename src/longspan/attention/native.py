"""The native kernel, as torch operators: C++ for CPUs, called through `library.py`.

The two operators, forward and backward, carry fake kernels and autograd, so
`torch.compile(fullgraph=True)` sees one node.
"""

import torch
from torch import Tensor

from longspan.attention import library
from longspan.attention.library import Problem, View
from longspan.attention.mutual import in_two_steps
from longspan.attention.positions import global_positions, pick_rows, row_index, where
from longspan.attention.request import Request
from longspan.attention.tables import trim_tables

_UNBOUNDED = 2**62


def unsupported(request: Request) -> list[str]:
    """Reasons why the kernel cannot serve ``request``."""
    reasons: list[str] = []
    if request.q.device.type != "cpu":
        reasons.append(f"the tensors are on {request.q.device}, and the kernel runs on the CPU")
    if isinstance(library.KERNEL, str):
        reasons.append(library.KERNEL)
    return reasons


def run(request: Request) -> tuple[Tensor, Tensor]:
    """Attention output [B, H, N, D] and log-sum-exp [B, H, N]."""
    if request.mutual_globals and (request.bias is not None or request.position_query is not None):
        return in_two_steps(request, run)
    request = trim_tables(request)
    k, v = request.k, request.v
    size = request.group_size
    if any(request.patterns[h] != request.patterns[h // size * size] for h in range(len(request.patterns))):
        # A task of the backward pass works for all heads of a group, so these share a pattern.
        k, v = k.repeat_interleave(size, 1), v.repeat_interleave(size, 1)
    dtype = request.compute_dtype
    bias, position_keys = request.bias, request.position_keys
    out, lse, _ = torch.ops.longspan.attend(  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        _rows_contiguous(request.q),
        _rows_contiguous(k),
        _rows_contiguous(v),
        [
            number
            for p in request.patterns
            for number in (
                _UNBOUNDED if p.left is None else p.left,
                _UNBOUNDED if p.right is None else p.right,
                p.dilation,
            )
        ],
        request.offset or 0,
        request.positions,
        request.is_global,
        request.is_padding,
        request.document_starts,
        request.scale,
        request.dropout,
        request.seed,
        request.mutual_globals,
        None if bias is None else bias.to(dtype),
        None if request.position_query is None else _rows_contiguous(request.position_query),
        None if position_keys is None else position_keys.to(dtype),
        request.global_rows,
        _keeps_rest(request),
    )
    return out, lse  # pyright: ignore[reportUnknownVariableType]


def _keeps_rest(request: Request) -> bool:
    """Whether there is a backward pass, and an output whose rounding it would feel."""
    operands = (request.q, request.k, request.v, request.bias, request.position_query, request.position_keys)
    return (
        request.q.dtype in (torch.bfloat16, torch.float16)
        and torch.is_grad_enabled()
        and any(x is not None and x.requires_grad for x in operands)
    )


@torch.library.custom_op("longspan::attend", mutates_args=(), device_types="cpu")
def _attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    patterns: list[int],
    offset: int,
    positions: Tensor | None,
    is_global: Tensor | None,
    is_padding: Tensor | None,
    document_starts: Tensor | None,
    scale: float,
    dropout: float,
    seed: Tensor | None,
    mutual_globals: bool,
    bias: Tensor | None,
    position_query: Tensor | None,
    position_keys: Tensor | None,
    global_rows: Tensor | None,
    keeps_rest: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    call = _Call(
        q, k, v, patterns, offset, positions, is_global, is_padding, document_starts,
        scale, dropout, seed, mutual_globals, bias, position_query, position_keys, global_rows,
    )  # fmt: skip
    out, lse, rest = _empty_results(q, keeps_rest)
    library.kernel().prefer_huge_pages(out, rest)
    call.problem.out, call.problem.out_rest = _view(out), _view(rest)
    call.problem.lse = lse.data_ptr()
    call.run("forward")
    if global_rows is not None and is_global is not None:
        out.transpose(1, 2)[where(is_global)] = pick_rows(global_rows, is_global)
    return out, lse, rest


@_attend.register_fake
def _(q: Tensor, *rest: object) -> tuple[Tensor, Tensor, Tensor]:
    return _empty_results(q, rest[-1] is True)


@torch.library.custom_op("longspan::attend_backward", mutates_args=(), device_types="cpu")
def _attend_backward(
    d_out: Tensor,
    d_lse: Tensor | None,
    out: Tensor,
    lse: Tensor,
    rest: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    patterns: list[int],
    offset: int,
    positions: Tensor | None,
    is_global: Tensor | None,
    is_padding: Tensor | None,
    document_starts: Tensor | None,
    scale: float,
    dropout: float,
    seed: Tensor | None,
    mutual_globals: bool,
    bias: Tensor | None,
    position_query: Tensor | None,
    position_keys: Tensor | None,
    global_rows: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    call = _Call(
        q, k, v, patterns, offset, positions, is_global, is_padding, document_starts,
        scale, dropout, seed, mutual_globals, bias, position_query, position_keys, global_rows,
    )  # fmt: skip
    d_out = _rows_contiguous(d_out)
    d_lse = None if d_lse is None else d_lse.contiguous()
    gradients = _empty_gradients(q, k, bias, position_query, position_keys, global_rows)
    d_q, d_k, d_v, d_bias, d_position_query, d_position_keys, d_global_rows = gradients
    if not q.numel():  # there is no address to give to the kernel, and nothing to compute
        for gradient in gradients:
            gradient.zero_()
        return gradients
    library.kernel().prefer_huge_pages(d_q, d_k, d_v)
    problem = call.problem
    problem.out, problem.out_rest, problem.d_out = _view(out), _view(rest), _view(d_out)
    problem.d_q, problem.d_k, problem.d_v = _view(d_q), _view(d_k), _view(d_v)
    problem.lse, problem.d_lse = lse.data_ptr(), None if d_lse is None else d_lse.data_ptr()
    problem.d_bias = d_bias.data_ptr()
    problem.d_position_query = _view(d_position_query)
    problem.d_position_keys = d_position_keys.data_ptr()
    call.run("backward")
    if global_rows is not None and is_global is not None:
        d_global_rows.zero_()
        d_rows = d_out.transpose(1, 2)[where(is_global)]
        d_global_rows.transpose(1, 2)[row_index(global_rows, is_global)] = d_rows
    return gradients


@_attend_backward.register_fake
def _(
    d_out: Tensor, d_lse: Tensor | None, out: Tensor, lse: Tensor, rest: Tensor, *inputs: object
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    return _empty_gradients(*inputs[:2], *inputs[-4:])  # pyright: ignore[reportArgumentType]


def _save(ctx: object, inputs: tuple[object, ...], output: tuple[Tensor, Tensor, Tensor]) -> None:
    kept = inputs[:-1]  # the last says whether the rest is kept, which is seen from the rest
    tensors = [item if isinstance(item, Tensor) else None for item in kept]
    ctx.save_for_backward(*output, *tensors)  # pyright: ignore
    ctx.others = [None if isinstance(item, Tensor) else item for item in kept]  # pyright: ignore
    ctx.set_materialize_grads(False)  # pyright: ignore


def _differentiate(
    ctx: object, d_out: Tensor | None, d_lse: Tensor | None, _: Tensor | None
) -> tuple[Tensor | None, ...]:
    out, lse, rest, *tensors = ctx.saved_tensors  # pyright: ignore
    inputs = [other if item is None else item for item, other in zip(tensors, ctx.others, strict=True)]  # pyright: ignore
    if d_out is None:
        d_out = torch.zeros_like(out)
    gradients = torch.ops.longspan.attend_backward(d_out, d_lse, out, lse, rest, *inputs)  # pyright: ignore
    d_q, d_k, d_v, *tables = gradients  # pyright: ignore
    kept = [
        gradient if item is not None else None for gradient, item in zip(tables, tensors[-4:], strict=True)
    ]  # pyright: ignore
    return (d_q, d_k, d_v, *[None] * (len(inputs) - 7), *kept, None)  # pyright: ignore


_attend.register_autograd(_differentiate, setup_context=_save)


class _Call:
    """A `Problem` and the tensors it points into, which must outlive it."""

    def __init__(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        patterns: list[int],
        offset: int,
        positions: Tensor | None,
        is_global: Tensor | None,
        is_padding: Tensor | None,
        document_starts: Tensor | None,
        scale: float,
        dropout: float,
        seed: Tensor | None,
        mutual_globals: bool,
        bias: Tensor | None,
        position_query: Tensor | None,
        position_keys: Tensor | None,
        global_rows: Tensor | None,
    ) -> None:
        batch, heads, queries, head_dim = q.shape
        keys = k.shape[2]
        self._kept: list[Tensor] = []
        problem = Problem(
            dtype=library.DTYPES.index(q.dtype),
            threads=torch.get_num_threads(),
            batch=batch,
            heads=heads,
            kv_heads=k.shape[1],
            queries=queries,
            keys=keys,
            head_dim=head_dim,
            q=_view(q),
            k=_view(k),
            v=_view(v),
            patterns=self._pointer(torch.tensor(patterns, dtype=torch.int64)),
            offset=offset,
            positions=self._pointer(positions),
            scale=scale,
            dropout=dropout,
            seed=int(seed) if seed is not None else 0,
            skip_global_queries=mutual_globals or global_rows is not None,
            mutual_globals=mutual_globals,
        )
        if is_global is not None:
            where = global_positions(is_global)
            problem.global_positions = self._pointer(where)
            problem.global_counts = self._pointer(is_global.sum(1))
            problem.max_globals = where.shape[1]
        flags = _key_flags(is_padding, is_global)
        problem.key_flags = self._pointer(flags)
        if document_starts is not None:
            begin, end = _document_borders(document_starts, keys)
            problem.document_begin, problem.document_end = self._pointer(begin), self._pointer(end)
            problem.document_batch = keys if begin.shape[0] > 1 else 0
        if bias is not None:
            problem.bias, problem.bias_reach = self._pointer(bias), bias.shape[1] // 2
        if position_query is not None and position_keys is not None:
            problem.position_query = _view(position_query)
            problem.position_keys = self._pointer(position_keys)
            problem.position_reach = position_keys.shape[1] // 2
        self.problem = problem

    def run(self, function: str) -> None:
        library.kernel().call(f"attend_{function}", self.problem)

    def _pointer(self, x: Tensor | None) -> int | None:
        if x is None:
            return None
        x = x.contiguous()
        self._kept.append(x)
        return x.data_ptr()


def _key_flags(is_padding: Tensor | None, is_global: Tensor | None) -> Tensor | None:
    """[B, M] uint8: bit 0 padded, bit 1 global."""
    if is_padding is None and is_global is None:
        return None
    if is_padding is None:
        assert is_global is not None
        return is_global.to(torch.uint8) * 2
    flags = is_padding.to(torch.uint8)
    return flags if is_global is None else flags + is_global.to(torch.uint8) * 2


def _document_borders(starts: Tensor, keys: int) -> tuple[Tensor, Tensor]:
    """[1 or B, M] each: where the document of a position begins and where it ends."""
    position = torch.arange(keys).expand(starts.shape[0], -1).contiguous()
    index = torch.searchsorted(starts, position, right=True)
    return starts.gather(1, index - 1), starts.gather(1, index)


def _rows_contiguous(x: Tensor) -> Tensor:
    """``x`` with a last dimension of stride 1, as the kernel reads rows."""
    return x if x.stride(-1) == 1 or x.shape[-1] == 1 else x.contiguous()


def _empty_rows(like: Tensor) -> Tensor:
    """An uninitialised [B, H, N, D], laid out as [B, N, H, D]: merging the heads is then free."""
    batch, heads, rows, head_dim = like.shape
    return like.new_empty(batch, rows, heads, head_dim).transpose(1, 2)


def _empty_results(q: Tensor, keeps_rest: bool) -> tuple[Tensor, Tensor, Tensor]:
    """The output, the log-sum-exp, and what rounding takes from the output."""
    lse_dtype = torch.float64 if q.dtype == torch.float64 else torch.float32
    return (
        _empty_rows(q),
        q.new_empty(q.shape[:-1], dtype=lse_dtype),
        _empty_rows(q) if keeps_rest else q.new_empty(0, 0, 0, 0),
    )


def _empty_gradients(
    q: Tensor,
    k: Tensor,
    bias: Tensor | None,
    position_query: Tensor | None,
    position_keys: Tensor | None,
    global_rows: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    none = q.new_empty(0, 0, 0, 0)
    return (
        _empty_rows(q),
        _empty_rows(k),
        _empty_rows(k),
        torch.empty_like(bias, memory_format=torch.contiguous_format) if bias is not None else q.new_empty(0),
        _empty_rows(q) if position_query is not None else none,
        torch.empty_like(position_keys, memory_format=torch.contiguous_format)
        if position_keys is not None
        else q.new_empty(0),
        _empty_rows(global_rows) if global_rows is not None else q.new_empty(0, 0, 0, 0),
    )


def _view(x: Tensor) -> View:
    batch, head, row, _ = x.stride()
    return View(data=x.data_ptr(), batch=batch, head=head, row=row)
