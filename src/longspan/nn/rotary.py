"""Rotary positions (arXiv 2104.09864): queries and keys turned by angles that grow with their position.

The product of a turned query and a turned key depends on their distance alone, so that keys can be kept as
they are while a text grows. Pairs are the two halves of a head, as in GPT-NeoX and Llama.
"""

from typing import NamedTuple

import torch
from torch import Tensor


class Rotation(NamedTuple):
    """Cosines and sines of some positions, [positions, head_dim / 2] fp32 each."""

    cosine: Tensor
    sine: Tensor


def rotation(positions: Tensor, head_dim: int, *, base: float = 10000.0) -> Rotation:
    """The angles of positions.

    Args:
        positions: [positions] int64.
        head_dim: an even number.
        base: the longest wavelength is 2 pi times nearly this.
    """
    # In fp64, for in fp32 the angle of a late position is off by more than the rounding of its sine.
    column = torch.arange(0, head_dim, 2, dtype=torch.float64, device=positions.device)
    angle = positions[:, None] * base ** (-column / head_dim)
    return Rotation(angle.cos().float(), angle.sin().float())


def rotate(x: Tensor, by: Rotation) -> Tensor:
    """Turns queries or keys.

    Args:
        x: [batch, heads, positions, head_dim].
        by: of these positions.

    Returns:
        The shape and dtype of ``x``.
    """
    first, second = x.to(torch.promote_types(x.dtype, torch.float32)).chunk(2, -1)
    turned = [first * by.cosine - second * by.sine, second * by.cosine + first * by.sine]
    return torch.cat(turned, -1).to(x.dtype)
