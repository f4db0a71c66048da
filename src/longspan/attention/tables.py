"""The tables over offsets, ``bias`` and ``position_keys``, cut to the offsets that occur."""

from dataclasses import replace

from torch import Tensor

from longspan.attention.request import Request


def trim_tables(request: Request) -> Request:
    """The same request without the offsets that no pair has: a table may be far longer than any window."""
    farthest = 0
    for pattern in request.patterns:
        if pattern.left is None or pattern.right is None or request.is_global is not None:
            return request
        farthest = max(farthest, pattern.dilation * max(pattern.left, pattern.right))

    def trimmed(table: Tensor | None) -> Tensor | None:
        excess = 0 if table is None else table.shape[1] // 2 - farthest
        return table if table is None or excess <= 0 else table[:, excess:-excess]

    return replace(request, bias=trimmed(request.bias), position_keys=trimmed(request.position_keys))
