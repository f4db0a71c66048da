"""Attention with any mask, written out: what kinds are compared with."""

import torch
from torch import Tensor

from longspan.nn.kinds.kind import LayerShape


def dense_attention(q: Tensor, k: Tensor, v: Tensor, seen: Tensor) -> Tensor:
    """[B, H, N, D], where ``seen`` broadcasts to [B, H, N, M]; rows that see nothing are 0."""
    scores = (q @ k.transpose(-1, -2)) / q.shape[-1] ** 0.5
    scores = torch.where(seen, scores, -torch.inf)
    return torch.nan_to_num(scores.softmax(-1), 0.0) @ v


def random_qkv(length: int, seed: int = 0, batch: int = 2) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    q, k, v = torch.randn(3, batch, 4, length, 8, dtype=torch.float64, generator=generator)
    return q, k, v


def layer_shape(*, causal: bool, max_length: int = 64, layer: int = 0) -> LayerShape:
    return LayerShape(heads=4, head_dim=8, causal=causal, max_length=max_length, layer=layer, layers=2)
