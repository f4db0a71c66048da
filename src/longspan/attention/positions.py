"""From a mask of global tokens to the positions of their queries."""

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
    most = cast(int, counts.max().item()) if counts.numel() else 0
    if torch.compiler.is_compiling():
        torch._check(most >= 0)
        torch._check(most <= is_global.shape[1])
    # A stable sort brings the True entries to the front in their order.
    order = is_global.to(torch.uint8).argsort(dim=1, descending=True, stable=True)[:, :most]
    return torch.where(torch.arange(most, device=order.device) < counts[:, None], order, -1)
