"""Position embeddings for more positions than the model was trained with.

`extend` only makes tables; which modules hold them is said in `architectures.py`.
"""

from typing import Literal, get_args

import torch
from torch import Tensor
from torch.nn import functional

Method = Literal["copy", "random", "interpolate"]


def extend(
    table: Tensor,
    rows: int,
    *,
    offset: int,
    method: Method,
    generator: torch.Generator | None = None,
) -> Tensor:
    """A learned position table with more rows.

    ``"copy"`` repeats the learned positions until the table is full (arXiv 2004.05150, section 5):
    local order is then right everywhere but at the seams. ``"random"`` keeps them and draws the new
    ones from a normal distribution with their standard deviation. ``"interpolate"`` stretches them:
    the first and the last stay what they are, and what the model knew about short inputs changes.

    Args:
        table: [old rows, hidden].
        rows: of the new table.
        offset: rows before the first position (RoBERTa and BART have 2, BERT none); kept as they are.
        method: where the new rows come from.
        generator: of ``"random"``, on the CPU; torch's default generator when not given.

    Returns:
        [rows, hidden], a new tensor of the dtype and on the device of ``table``.

    Raises:
        ValueError: an argument is wrong, or the new table would be shorter.
    """
    if table.dim() != 2:
        raise ValueError(f"table has shape {list(table.shape)}; it must be [rows, hidden]")
    old_rows = table.shape[0]
    if not 0 <= offset < old_rows:
        raise ValueError(f"offset is {offset} in a table of {old_rows} rows; it must leave at least one row")
    if rows < old_rows:
        raise ValueError(f"rows is {rows}; a table of {old_rows} rows can only grow, to {old_rows} or more")
    if method not in get_args(Method):
        raise ValueError(f"method is {method!r}; it must be one of {', '.join(get_args(Method))}")
    learned = table.detach()[offset:]
    positions = rows - offset
    if method == "copy":
        longer = learned[torch.arange(positions, device=table.device) % len(learned)]
    elif method == "random":
        noise = torch.randn(positions - len(learned), table.shape[1], generator=generator)
        drawn = noise.to(table.device) * learned.float().std(correction=0)
        longer = torch.cat([learned, drawn.to(table.dtype)])
    else:
        # Torch interpolates the last of three dimensions.
        columns = learned.float().T[None]
        stretched = functional.interpolate(columns, size=positions, mode="linear", align_corners=True)
        longer = stretched[0].T.to(table.dtype)
    return torch.cat([table.detach()[:offset], longer])
