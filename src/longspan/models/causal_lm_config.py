"""The configuration of the autoregressive Longformer (paper, section 4), and the paper's sizes by name."""

from typing import Any, Self, cast

from huggingface_hub.dataclasses import strict
from transformers import PreTrainedConfig

from longspan.attention.attend import Implementation
from longspan.attention.pattern import Pattern
from longspan.models.per_layer import dilations_of_layer, of_layer

BYTES = 256
"""The vocabulary of a model that reads bytes: token and byte are the same number."""
_POSITIONS = ("relative", "rotary")
_DILATED_HEADS = 2


@strict
class LongformerCausalLMConfig(PreTrainedConfig):
    """The shape of a `LongformerForCausalLM`; by default that of the paper's small one.

    Args:
        vocab_size: 256 is bytes, for which no tokenizer is needed.
        attention_window: tokens before a token that it sees, itself not counted: one number or one per
            layer. There is no other side, so this is not Hugging Face's both sides together.
        attention_dilation: distance between the tokens of a window: one number, or for each layer one
            number or one per head.
        position_kind: "relative" (Transformer-XL's sinusoids, as in the paper) or "rotary".
        rotary_base: of rotary positions.
        hidden_dropout_prob: of embeddings and of what each half of a layer adds.
        attention_probs_dropout_prob: of attention.
        attention_impl: the implementation of attention, as in `longspan.attend`.
    """

    model_type = "longspan_causal_lm"
    keys_to_ignore_at_inference = ["past_key_values"]

    vocab_size: int = BYTES
    hidden_size: int = 512
    num_hidden_layers: int = 12
    num_attention_heads: int = 8
    intermediate_size: int = 2048
    hidden_act: str = "gelu"
    attention_window: int | list[int] = 512
    attention_dilation: int | list[int | list[int]] = 1
    position_kind: str = "relative"
    rotary_base: float = 10000.0
    hidden_dropout_prob: float | int = 0.0
    attention_probs_dropout_prob: float | int = 0.0
    layer_norm_eps: float = 1e-5
    initializer_range: float = 0.02
    tie_word_embeddings: bool = True
    use_cache: bool = True
    attention_impl: str = "auto"
    bos_token_id: int | None = None
    eos_token_id: int | list[int] | None = None
    pad_token_id: int | None = None

    def __post_init__(self, **kwargs: Any) -> None:
        super().__post_init__(**kwargs)
        heads = self.num_attention_heads
        if self.hidden_size % heads:
            raise ValueError(
                f"hidden_size is {self.hidden_size}; it must be a multiple of num_attention_heads = {heads}"
            )
        if self.position_kind not in _POSITIONS:
            raise ValueError(
                f"position_kind is {self.position_kind!r}; it must be one of {', '.join(_POSITIONS)}"
            )
        if self.position_kind == "rotary" and self.hidden_size // heads % 2:
            raise ValueError(
                f"hidden_size is {self.hidden_size} with {heads} heads; rotary positions turn pairs, so "
                "hidden_size / num_attention_heads must be even"
            )
        for layer in range(self.num_hidden_layers):
            self.patterns(layer)

    def patterns(self, layer: int) -> tuple[Pattern, ...]:
        """The window of each head of a layer.

        Raises:
            ValueError: the fields do not describe one.
        """
        layers = self.num_hidden_layers
        window = of_layer("attention_window", self.attention_window, layer, layers)
        if not isinstance(window, int) or window < 1:
            raise ValueError(f"attention_window is {window!r} in layer {layer}; it must be an integer >= 1")
        dilations = dilations_of_layer(self.attention_dilation, layer, layers, self.num_attention_heads)
        return tuple(Pattern(left=window, right=0, dilation=dilation) for dilation in dilations)

    def reach(self, layer: int) -> int:
        """How many positions before a token a layer sees: what its cache must keep."""
        return max(cast(int, one.left) * one.dilation for one in self.patterns(layer))

    @property
    def receptive_field(self) -> int:
        """How many tokens before a token can have a part in what the model says there."""
        return sum(self.reach(layer) for layer in range(self.num_hidden_layers))

    @property
    def implementation(self) -> Implementation:
        """``attention_impl``, which `attend` checks."""
        return cast(Implementation, self.attention_impl)

    @classmethod
    def named(cls, name: str, **changes: Any) -> Self:
        """A configuration of `NAMED`.

        Args:
            name: of it.
            changes: of its fields.

        Raises:
            ValueError: there is none of this name.
        """
        if name not in NAMED:
            raise ValueError(f"name is {name!r}; it must be one of {', '.join(NAMED)}")
        return cls(**(NAMED[name] | changes))


def growing_windows(lowest: int, highest: int, layers: int) -> list[int]:
    """A window for each layer, growing by even steps from the lowest layer to the highest."""
    steps = max(1, layers - 1)
    return [round(lowest + (highest - lowest) * layer / steps) for layer in range(layers)]


def growing_dilations(runs: list[tuple[int, int]], heads: int) -> list[int | list[int]]:
    """Dilations on two heads, the others dense (paper, section 4.2.1).

    Args:
        runs: how many layers, from the lowest, have which dilation on those two heads.
        heads: of a layer.
    """
    rest = [1] * (heads - _DILATED_HEADS)
    return [
        1 if dilation == 1 else [dilation] * _DILATED_HEADS + rest
        for layers, dilation in runs
        for _ in range(layers)
    ]


# Tables 2, 3 and 12 of the paper. Its dilation k leaves k tokens out, which is our k + 1; the windows are
# those of its last phase. A feed-forward size of 2048 and tied embeddings, as in Transformer-XL, give its 41M
# and 102M parameters.
NAMED: dict[str, dict[str, Any]] = {
    "char-lm-small": {
        "num_hidden_layers": 12,
        "attention_window": growing_windows(512, 8192, 12),
        "attention_dilation": growing_dilations([(6, 1), (2, 2), (2, 3), (2, 4)], 8),
        "hidden_dropout_prob": 0.2,
        "attention_probs_dropout_prob": 0.2,
    },
    "char-lm-large": {
        "num_hidden_layers": 30,
        "attention_window": growing_windows(512, 8192, 30),
        "attention_dilation": growing_dilations([(15, 1), (5, 2), (5, 3), (5, 4)], 8),
        "hidden_dropout_prob": 0.4,
        "attention_probs_dropout_prob": 0.4,
    },
    # For machines without a GPU: the same design, small enough to learn something within an hour.
    "char-lm-mini": {
        "hidden_size": 256,
        "num_hidden_layers": 4,
        "num_attention_heads": 4,
        "intermediate_size": 1024,
        "attention_window": growing_windows(64, 256, 4),
        "attention_dilation": growing_dilations([(2, 1), (1, 2), (1, 3)], 4),
    },
}
