"""Tiny LEDs, ours and transformers', and documents for them."""

from typing import Any

import torch
import transformers
from torch import Tensor
from transformers import LEDConfig as StockConfig

import longspan
from longspan.models.led_config import LEDConfig
from tests.models.tiny import padding, tokens

SIZES: dict[str, Any] = {
    "vocab_size": 99,
    "d_model": 32,
    "encoder_layers": 3,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 48,
    "decoder_ffn_dim": 40,
    "max_encoder_position_embeddings": 200,
    "max_decoder_position_embeddings": 64,
    "attention_window": 8,
    # The default scale would leave attention nearly uniform, and mistakes in it invisible.
    "init_std": 0.2,
}


def config(**changes: Any) -> LEDConfig:
    """Ours."""
    return LEDConfig(**{**SIZES, **changes})


def model(name: str = "LEDForConditionalGeneration", **changes: Any) -> Any:
    """One of our classes, in eval mode."""
    torch.manual_seed(0)
    return getattr(longspan, name)(config(**changes)).eval()


def pair(name: str = "LEDForConditionalGeneration", **changes: Any) -> tuple[Any, Any]:
    """The model of transformers and ours, with the same weights, in eval mode."""
    torch.manual_seed(0)
    theirs = getattr(transformers, name)(StockConfig(**{**SIZES, **changes})).eval()
    if name == "LEDForConditionalGeneration":
        theirs.final_logits_bias.normal_()
    ours = getattr(longspan, name)(config(**changes)).eval()
    ours.load_state_dict(theirs.state_dict())
    return theirs, ours


def documents(lengths: list[int], *, left: bool = False, seed: int = 0) -> dict[str, Tensor]:
    """A batch of documents of these lengths, the first token of each global."""
    ids, mask = tokens(len(lengths), max(lengths), seed=seed), padding(lengths, left=left)
    ids[mask == 0] = 1
    first = torch.zeros_like(mask)
    for example, row in enumerate(mask):
        at = int(row.argmax())
        ids[example, at] = 0
        first[example, at] = 1
    return {"input_ids": ids, "attention_mask": mask, "global_attention_mask": first}
