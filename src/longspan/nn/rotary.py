"""Rotary positions (arXiv 2104.09864): queries and keys turned by angles that grow with their position.

The product of a turned query and a turned key depends on their distance alone, so that keys can be kept as
they are while a text grows. Pairs are the two halves of a head, as in GPT-NeoX and Llama.
"""

from typing import Any, NamedTuple, cast

import torch
from torch import Tensor

_BLOCK = 1 << 17
"""Elements that are turned at once: 512 KB of fp32."""


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
    """Turns queries or keys, computing in fp32 at least.

    Args:
        x: [batch, heads, positions, head_dim].
        by: of these positions.

    Returns:
        The shape and dtype of ``x``.
    """
    # A compiler makes one loop of the formula; and one token's few numbers are not worth blocks.
    if torch.compiler.is_compiling() or x.shape[2] == 1:
        first, second = x.to(_exact(x)).chunk(2, -1)
        turned = [first * by.cosine - second * by.sine, second * by.cosine + first * by.sine]
        return torch.cat(turned, -1).to(x.dtype)
    return cast(Tensor, _Rotate.apply(x, *by))


class _Rotate(torch.autograd.Function):
    """The gradient is the same turn backwards, so that nothing of ``x`` is kept."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
        ctx.save_for_backward(cosine, sine)
        exact = _exact(x)
        half = x.shape[-1] // 2
        sine = sine.to(exact)
        cosines = torch.cat([cosine, cosine], -1).to(exact)
        out = torch.empty_like(x)
        # Some positions at a time, so that what three steps read and write stays in the processor's cache.
        size = max(1, _BLOCK * x.shape[2] // max(1, x.numel()))
        for begin in range(0, x.shape[2], size):
            rows = slice(begin, begin + size)
            given = x[:, :, rows].to(exact)
            turned = out[:, :, rows]
            # What is rounded is rounded once, at the end.
            into = turned if turned.dtype == exact else torch.empty_like(given)
            torch.mul(given, cosines[rows], out=into)
            into[..., :half].addcmul_(given[..., half:], sine[rows], value=-1)
            into[..., half:].addcmul_(given[..., :half], sine[rows])
            if into is not turned:
                turned.copy_(into)
        return out

    @staticmethod
    def backward(ctx: Any, *d_out: Tensor) -> tuple[Tensor, None, None]:  # pyright: ignore
        cosine, sine = ctx.saved_tensors
        return cast(Tensor, _Rotate.apply(d_out[0], cosine, -sine)), None, None


def _exact(x: Tensor) -> torch.dtype:
    return torch.promote_types(x.dtype, torch.float32)
