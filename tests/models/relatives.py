"""Tiny models of every kind of attention, for the tests of what all relatives share."""

from typing import Any

import torch
from torch import Tensor

from longspan import LongRangeConfig, LongRangeForCausalLM, LongRangeForMaskedLM
from longspan.nn.kinds.registry import KINDS

SIZES: dict[str, Any] = {
    "vocab_size": 64,
    "hidden_size": 32,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "max_position_embeddings": 64,
    # The default scale would leave attention nearly uniform, and mistakes in it invisible.
    "initializer_range": 0.2,
}
SETTINGS: dict[str, dict[str, Any]] = {
    "full": {},
    "window": {"window": 6},
    "linformer": {"rank": 8},
    "performer": {"features": 24, "chunk": 7},
    "sparse": {"stride": 6, "summary": 2},
    "adaptive-span": {"max_span": 12, "ramp": 4, "initial": 0.3, "loss": 1e-3},
    "blockwise": {"blocks": 2},
    "bigbird": {"block": 4, "random_blocks": 1},
    "routing": {"clusters": 3, "size": 10, "accept_leak": True},
    "reformer": {"chunk": 8, "rounds": 2, "accept_leak": True},
    "bp": {"nodes": 2, "clip": 3},
}
"""Of every registered kind, small enough for texts of some dozens of tokens."""


def config(attention: str, **changes: Any) -> LongRangeConfig:
    fields: dict[str, Any] = {"attention": attention, "attention_settings": SETTINGS[attention]}
    return LongRangeConfig(**(SIZES | fields | changes))


def can(attention: str, ability: Any, *, causal: bool) -> bool:
    kind = KINDS[attention]
    return ability not in kind.refusals(kind.Settings(**SETTINGS[attention]), causal=causal)


def causal_lm(attention: str, **changes: Any) -> LongRangeForCausalLM:
    torch.manual_seed(0)
    return LongRangeForCausalLM(config(attention, is_decoder=True, **changes)).double().eval()


def encoder(attention: str, **changes: Any) -> LongRangeForMaskedLM:
    torch.manual_seed(0)
    return LongRangeForMaskedLM(config(attention, **changes)).double().eval()


def tokens(batch: int, length: int, seed: int = 0) -> Tensor:
    return torch.randint(64, (batch, length), generator=torch.Generator().manual_seed(seed))


def logits(model: Any, ids: Tensor, **inputs: Any) -> Tensor:
    with torch.no_grad():
        return model(ids, **inputs).logits


CAUSAL = [name for name in SETTINGS if can(name, "causal", causal=True)]
ENCODERS = [name for name in SETTINGS if can(name, "encoder", causal=False)]
STRICT = [name for name in CAUSAL if not SETTINGS[name].get("accept_leak")]
"""Those that let nothing of the future through."""
EXACT: dict[str, Any] = {"atol": 1e-12, "rtol": 1e-10}
"""fp64."""
