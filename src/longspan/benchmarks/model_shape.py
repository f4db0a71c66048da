"""A whole model's work: its size, its inputs, and the arithmetic that no implementation avoids."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from longspan.attention.pattern import Pattern
from longspan.benchmarks.workload import TRAINING_FACTOR, local_pairs, pair_flops
from longspan.checks import at_least

DROPOUT = 0.1
PADDING = 1
# Those below are special, as RoBERTa counts.
_FIRST_TOKEN = 5
# Standard deviation of a projection's result. The usual one, half of it, leaves attention nearly uniform,
# which would hide mistakes in it from the gate.
_SPREAD = 1.4


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelShape:
    """The size of a Longformer; the defaults are the base model's."""

    layers: int = 12
    hidden_size: int = 768
    heads: int = 12
    intermediate_size: int = 3072
    window: int = 512
    """Keys on both sides together, as Hugging Face counts: left = right = window / 2."""
    vocabulary: int = 50265

    def __post_init__(self) -> None:
        for name in ("layers", "hidden_size", "heads", "intermediate_size"):
            at_least(1, **{name: getattr(self, name)})
        if self.hidden_size % self.heads:
            raise ValueError(
                f"hidden_size is {self.hidden_size}; it must be a multiple of heads = {self.heads}"
            )
        if self.window < 4 or self.window % 2:
            raise ValueError(f"window is {self.window}; Hugging Face needs an even one, at least 4")
        if self.vocabulary <= _FIRST_TOKEN:
            raise ValueError(f"vocabulary is {self.vocabulary}; it must be above {_FIRST_TOKEN}")

    def fields(self, length: int) -> dict[str, Any]:
        """The fields of a configuration, Hugging Face's or ours, for up to ``length`` tokens."""
        return {
            "num_hidden_layers": self.layers,
            "hidden_size": self.hidden_size,
            "num_attention_heads": self.heads,
            "intermediate_size": self.intermediate_size,
            "attention_window": self.window,
            "vocab_size": self.vocabulary,
            # Positions are counted from the one after the padding's.
            "max_position_embeddings": length + PADDING + 1,
            "pad_token_id": PADDING,
            "hidden_dropout_prob": DROPOUT,
            "attention_probs_dropout_prob": DROPOUT,
            "initializer_range": _SPREAD / self.hidden_size**0.5,
        }

    def flops(self, lengths: Sequence[int], direction: str = "forward") -> float:
        """Floating-point operations of the documents' matrix products and pairs within windows.

        Counted are the local projections, the output projection, both halves of the feed-forward
        network, and attention within the window, cut at the ends. Global tokens are not.

        Args:
            lengths: of the documents, without padding.
            direction: "training" counts the backward pass too.
        """
        h = self.hidden_size
        products = 2.0 * sum(lengths) * (4 * h * h + 2 * h * self.intermediate_size)
        side = self.window // 2
        pairs = sum(local_pairs(Pattern(left=side, right=side), length, 0) for length in lengths)
        attention = pair_flops(self.heads * pairs, h // self.heads)
        if direction == "training":
            # Each product has two in the backward pass.
            products, attention = 3 * products, TRAINING_FACTOR * attention
        return self.layers * (products + attention)


def make_batch(shape: ModelShape, lengths: Sequence[int], *, seed: int = 0) -> dict[str, Tensor]:
    """Random documents, padded to the longest: ids and masks, [documents, longest] int64.

    The first token of every document is global.
    """
    generator = torch.Generator().manual_seed(seed)
    size = (len(lengths), max(lengths))
    ids = torch.randint(_FIRST_TOKEN, shape.vocabulary, size, generator=generator)
    real = torch.arange(size[1]) < torch.tensor(lengths)[:, None]
    is_global = torch.zeros(size, dtype=torch.int64)
    is_global[:, 0] = 1
    return {
        "input_ids": ids.masked_fill(~real, PADDING),
        "attention_mask": real.long(),
        "global_attention_mask": is_global,
    }
