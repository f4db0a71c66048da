"""Turns the arguments of a call into a `Request`, or says which of them is wrong.

Every error is a `ValueError` that names the argument, what was given and what would be right.
Values of tensors (not only their shapes) are read where a wrong one could crash a kernel; that is
skipped while torch traces a graph, where there are no values to read.
"""

import math

import torch
from torch import Tensor

from longspan.attention.dropout import draw_seed
from longspan.attention.pattern import Pattern
from longspan.attention.request import Request, default_scale

DTYPES = (torch.float32, torch.bfloat16, torch.float16, torch.float64)


def check(
    *,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    patterns: tuple[Pattern, ...],
    offset: int | None,
    positions: Tensor | None,
    is_global: Tensor | None,
    global_rows: Tensor | None,
    mutual_globals: bool,
    is_padding: Tensor | None,
    document_starts: Tensor | None,
    scale: float | None,
    dropout: float,
    seed: int | Tensor | None,
    bias: Tensor | None,
    position_query: Tensor | None,
    position_keys: Tensor | None,
) -> Request:
    """A checked `Request`; the arguments are its fields, in the user's form."""
    check_qkv(q, k, v)
    batch, heads, queries, head_dim = q.shape
    keys = k.shape[2]
    if offset is not None and (offset < 0 or offset + queries > keys):
        raise ValueError(
            f"query_offset is {offset} with {queries} queries and {keys} keys; "
            f"it must lie between 0 and keys - queries = {keys - queries}"
        )
    if positions is not None:
        positions = _checked_positions(positions, q, keys)
    _check_mask("is_global", is_global, q, keys)
    _check_mask("is_padding", is_padding, q, keys)
    if global_rows is not None:
        _check_global_rows(global_rows, is_global, q, keys)
    if mutual_globals:
        _check_mutual_globals(global_rows, is_global, q, keys)
    if not 0 <= dropout < 1:
        raise ValueError(f"dropout is {dropout}; it must be a probability, 0 <= dropout < 1")
    if scale is not None and not math.isfinite(scale):
        raise ValueError(f"scale is {scale}; it must be finite")
    if (position_query is None) != (position_keys is None):
        raise ValueError("position_query and position_keys go together; only one was given")
    if position_query is not None:
        _check_like("position_query", position_query, q, (batch, heads, queries, head_dim))
    _check_table("bias", bias, q, (heads,), ())
    _check_table("position_keys", position_keys, q, (heads,), (head_dim,))
    return Request(
        q=q,
        k=k,
        v=v,
        patterns=patterns,
        offset=offset,
        positions=positions,
        is_global=is_global,
        global_rows=global_rows,
        mutual_globals=mutual_globals,
        is_padding=is_padding,
        document_starts=_checked_starts(document_starts, q, keys),
        scale=default_scale(head_dim) if scale is None else float(scale),
        dropout=float(dropout),
        seed=_checked_seed(seed) if dropout > 0 else None,
        bias=bias,
        position_query=position_query,
        position_keys=position_keys,
    )


def check_qkv(q: Tensor, k: Tensor, v: Tensor) -> None:
    """Shapes, dtypes and devices of the three main tensors."""
    for name, x in (("q", q), ("k", k), ("v", v)):
        _check_tensor(name, x)
        if x.dim() != 4:
            raise ValueError(f"{name} has shape {_shape(x)}; it must be [batch, heads, length, head_dim]")
        if x.dtype not in DTYPES:
            raise ValueError(f"{name} is {x.dtype}; it must be one of {', '.join(map(str, DTYPES))}")
        if x.dtype != q.dtype or x.device != q.device:
            raise ValueError(
                f"{name} is {x.dtype} on {x.device} but q is {q.dtype} on {q.device}; "
                "q, k and v must have one dtype and one device"
            )
    if v.shape != k.shape:
        raise ValueError(f"v has shape {_shape(v)} but k has {_shape(k)}; they must be equal")
    if k.shape[0] != q.shape[0] or k.shape[3] != q.shape[3]:
        raise ValueError(f"k has shape {_shape(k)} but q has {_shape(q)}; batch and head_dim must be equal")
    if q.shape[3] == 0:
        raise ValueError(f"q has shape {_shape(q)}; head_dim must be at least 1")
    if q.shape[1] != k.shape[1] and (k.shape[1] == 0 or q.shape[1] % k.shape[1]):
        raise ValueError(f"q has {q.shape[1]} heads and k has {k.shape[1]}; the second must divide the first")


def _check_tensor(name: str, x: object) -> None:
    if not isinstance(x, Tensor):
        raise ValueError(f"{name} is a {type(x).__name__}; it must be a torch.Tensor")


def _check_mask(name: str, mask: Tensor | None, q: Tensor, keys: int) -> None:
    if mask is None:
        return
    if not isinstance(mask, Tensor) or mask.dtype != torch.bool:  # pyright: ignore[reportUnnecessaryIsInstance]
        kind = mask.dtype if isinstance(mask, Tensor) else type(mask).__name__  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ValueError(f"{name} is {kind}; it must be a bool tensor, True for a {name[3:]} position")
    _check_like(name, mask, q, (q.shape[0], keys), dtype=torch.bool)


def _check_global_rows(rows: Tensor, is_global: Tensor | None, q: Tensor, keys: int) -> None:
    if is_global is None:
        raise ValueError("global_rows needs is_global, which says where its rows stand")
    if q.shape[2] != keys:
        raise ValueError(
            f"global_rows with {q.shape[2]} queries and {keys} keys; it needs a query at every position"
        )
    batch, heads, _, head_dim = q.shape
    most = rows.shape[2] if rows.dim() == 4 else 0
    _check_like("global_rows", rows, q, (batch, heads, most, head_dim))
    if not torch.compiler.is_compiling() and is_global.numel():
        counted = int(is_global.sum(1).max())
        if most < counted:
            raise ValueError(f"global_rows has {most} rows an example; is_global marks up to {counted}")


def _check_mutual_globals(rows: Tensor | None, is_global: Tensor | None, q: Tensor, keys: int) -> None:
    if is_global is None:
        raise ValueError("mutual_globals needs is_global, which says what is global")
    if rows is not None:
        raise ValueError("mutual_globals and global_rows both say what stands in global rows; give one")
    if q.shape[2] != keys:
        raise ValueError(
            f"mutual_globals with {q.shape[2]} queries and {keys} keys; it needs a query at every position"
        )


def _check_like(
    name: str, x: Tensor, q: Tensor, shape: tuple[int, ...], *, dtype: torch.dtype | None = None
) -> None:
    _check_tensor(name, x)
    if tuple(x.shape) != tuple(shape):
        raise ValueError(f"{name} has shape {_shape(x)}; it must be {list(shape)}")
    if x.dtype != (dtype or q.dtype) or x.device != q.device:
        raise ValueError(f"{name} is {x.dtype} on {x.device}; it must be {dtype or q.dtype} on {q.device}")


def _check_table(
    name: str, table: Tensor | None, q: Tensor, before: tuple[int, ...], after: tuple[int, ...]
) -> None:
    """A table over offsets: [*before, 2 * reach + 1, *after]."""
    if table is None:
        return
    _check_tensor(name, table)
    wanted = f"[{', '.join(map(str, (*before, 'an odd number of offsets', *after)))}]"
    if table.dim() != len(before) + 1 + len(after) or table.shape[len(before)] % 2 == 0:
        raise ValueError(f"{name} has shape {_shape(table)}; it must be {wanted}")
    if tuple(table.shape[: len(before)]) != before or tuple(table.shape[len(before) + 1 :]) != after:
        raise ValueError(f"{name} has shape {_shape(table)}; it must be {wanted}")
    if table.dtype not in (q.dtype, torch.float32) or table.device != q.device:
        raise ValueError(
            f"{name} is {table.dtype} on {table.device}; it must be {q.dtype} or torch.float32 on {q.device}"
        )


def _checked_positions(positions: Tensor, q: Tensor, keys: int) -> Tensor:
    _check_like("positions", positions, q, (q.shape[0], q.shape[2]), dtype=torch.int64)
    if not torch.compiler.is_compiling() and positions.numel():
        if int(positions.min()) < -1 or int(positions.max()) >= keys:
            raise ValueError(
                f"positions reach from {int(positions.min())} to {int(positions.max())}; "
                f"they must lie between 0 and {keys - 1}, or be -1 for no query"
            )
        present = positions >= 0
        rising = (positions[:, 1:] > positions[:, :-1]) & present[:, :-1]
        if not bool((rising | ~present[:, 1:]).all()):
            raise ValueError("positions must rise along each row, with -1 (no query) only at its end")
    return positions


def _checked_starts(starts: Tensor | None, q: Tensor, keys: int) -> Tensor | None:
    if starts is None:
        return None
    _check_tensor("document_starts", starts)
    if starts.dtype not in (torch.int32, torch.int64) or starts.device != q.device:
        raise ValueError(
            f"document_starts is {starts.dtype} on {starts.device}; it must be int32 or int64 on {q.device}"
        )
    if (
        starts.dim() not in (1, 2)
        or starts.shape[-1] < 2
        or (starts.dim() == 2 and starts.shape[0] != q.shape[0])
    ):
        raise ValueError(
            f"document_starts has shape {_shape(starts)}; it must be [documents + 1] or "
            f"[{q.shape[0]}, documents + 1], the starts of the documents and then the length"
        )
    starts = starts.to(torch.int64).reshape(-1, starts.shape[-1]).contiguous()
    if not torch.compiler.is_compiling() and starts.numel():
        if bool((starts[:, 0] != 0).any()) or bool((starts[:, -1] != keys).any()):
            raise ValueError(
                f"document_starts goes from {starts[:, 0].tolist()} to {starts[:, -1].tolist()}; "
                f"every row must go from 0 to the number of keys, {keys}"
            )
        if bool((starts.diff(dim=1) < 0).any()):
            raise ValueError(f"document_starts falls somewhere in {starts.tolist()}; it must never fall")
    return starts


def _checked_seed(seed: int | Tensor | None) -> Tensor:
    if seed is None:
        return draw_seed()
    if isinstance(seed, Tensor):
        if seed.numel() != 1 or seed.dtype != torch.int64:
            raise ValueError(f"seed has shape {_shape(seed)} and is {seed.dtype}; it must be one int64")
        return seed.reshape(()).cpu()
    if not 0 <= seed < 2**63:
        raise ValueError(f"seed is {seed}; it must lie between 0 and 2**63 - 1")
    return torch.tensor(seed, dtype=torch.int64)


def _shape(x: Tensor) -> list[int]:
    return list(x.shape)
