"""The sines and cosines of "Attention is all you need" (arXiv 1706.03762, section 3.5)."""

import torch
from torch import Tensor


def sinusoids(positions: Tensor, size: int, *, interleaved: bool = False) -> Tensor:
    """Embeddings of positions.

    Args:
        positions: [...], any numbers.
        size: of an embedding.
        interleaved: sines in the even columns and cosines in the odd ones; otherwise all sines first.

    Returns:
        [..., size] float32.
    """
    # In fp64, for in fp32 the angle of a late position is off by more than the rounding of its sine.
    column = torch.arange(0, size, 2, dtype=torch.float64, device=positions.device)
    angle = positions[..., None] * 10000.0 ** (-column / size)
    sine, cosine = angle.sin(), angle.cos()
    both = torch.stack([sine, cosine], -1).flatten(-2) if interleaved else torch.cat([sine, cosine], -1)
    return both[..., :size].float()
