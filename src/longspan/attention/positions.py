"""From a mask of global tokens to the positions of their queries, and their rows back into place."""

from typing import cast

import torch
from torch import Tensor


def global_positions(is_global: Tensor) -> Tensor:
    """The positions of the True entries, row by row.

    Args:
        is_global: [batch, length] bool.

    Returns:
        [batch, most] int64, rising, filled up with -1, where ``most`` is the largest count of a row.
    """
    counts = is_global.sum(1)
    if torch.compiler.is_compiling():
        # One absent token where there is none: onnxruntime refuses some operations on no rows.
        counts = counts.clamp(min=1)
    most = cast(int, counts.max().item()) if counts.numel() else 0
    if torch.compiler.is_compiling():
        torch._check(most >= 1)
        torch._check(most <= is_global.shape[1])
    length = is_global.shape[1]
    position = torch.where(is_global, torch.arange(length, device=is_global.device), length)
    first = position.topk(most, dim=1, largest=False, sorted=True).values
    return first.masked_fill(first == length, -1)


def rows_at(x: Tensor, positions: Tensor) -> Tensor:
    """The rows of the queries at ``positions``, for `attend_global`.

    Args:
        x: [batch, heads, length, head_dim].
        positions: [batch, most], as `global_positions` makes them.

    Returns:
        [batch, heads, most, head_dim]; any row where the position is -1.
    """
    index = positions.clamp(min=0)[:, None, :, None].expand(-1, x.shape[1], -1, x.shape[3])
    return x.gather(2, index)


def place_rows(out: Tensor, rows: Tensor, is_global: Tensor) -> Tensor:
    """``out`` with the rows of the global queries in their places.

    Args:
        out: [batch, heads, length, head_dim].
        rows: [batch, heads, most globals, head_dim], in the order of `global_positions`.
        is_global: [batch, length] bool.
    """
    by_position = out.transpose(1, 2).index_put(where(is_global), pick_rows(rows, is_global))
    return by_position.transpose(1, 2)


def pick_rows(rows: Tensor, is_global: Tensor) -> Tensor:
    """[all globals, heads, head_dim]: the rows that stand for a token, example after example."""
    return rows.transpose(1, 2)[row_index(rows, is_global)]


def row_index(rows: Tensor, is_global: Tensor) -> tuple[Tensor, Tensor]:
    """Example and row of each global token."""
    present = torch.arange(rows.shape[2], device=rows.device) < is_global.sum(1)[:, None]
    return where(present)


def where(mask: Tensor) -> tuple[Tensor, Tensor]:
    """Row and column of the True entries, row by row."""
    row, column = mask.nonzero(as_tuple=True)
    return row, column
