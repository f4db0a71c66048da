"""Tiny models and inputs for the tests of models and conversion."""

from typing import Any

import torch
from torch import Tensor
from transformers import LongformerConfig as StockConfig

from longspan.models.longformer_config import LongformerConfig

SIZES: dict[str, Any] = {
    "vocab_size": 99,
    "hidden_size": 32,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "max_position_embeddings": 200,
    "attention_window": 8,
    "layer_norm_eps": 1e-5,
    # The default scale would leave attention nearly uniform, and mistakes in it invisible.
    "initializer_range": 0.2,
}


def config(**changes: Any) -> LongformerConfig:
    """Ours."""
    return LongformerConfig(**{**SIZES, **changes})


def stock_config(**changes: Any) -> StockConfig:
    """That of transformers."""
    return StockConfig(**{**SIZES, **changes})


def tokens(batch: int, length: int, *, seed: int = 0) -> Tensor:
    """[batch, length] tokens, none of them special."""
    return torch.randint(
        5, SIZES["vocab_size"], (batch, length), generator=torch.Generator().manual_seed(seed)
    )


def padding(lengths: list[int], *, left: bool = False) -> Tensor:
    """[batch, longest] int64: 1 for the real tokens of examples of these lengths."""
    place = torch.arange(max(lengths))
    mask = (place < torch.tensor(lengths)[:, None]).long()
    return mask.flip(1) if left else mask


def marks(batch: int, length: int, *places: tuple[int, int]) -> Tensor:
    """[batch, length] int64: 1 at the given (example, token)."""
    mask = torch.zeros(batch, length, dtype=torch.int64)
    for example, token in places:
        mask[example, token] = 1
    return mask
