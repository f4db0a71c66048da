"""The configuration of Longformer: Hugging Face's, and what that lacks.

A configuration is written with model type "longformer" while the model is one that stock
transformers computes equally, and "longspan_longformer" once it uses more, so that stock refuses
it instead of ignoring the difference.
"""

from typing import Any, Self, cast

from huggingface_hub.dataclasses import strict
from transformers import LongformerConfig as StockLongformerConfig

from longspan.attention.attend import Implementation
from longspan.attention.pattern import Pattern
from longspan.models.per_layer import both_sides, patterns_of_layer, stock_computes

STOCK_MODEL_TYPE = StockLongformerConfig.model_type
_POSITIONS = ("learned", "sinusoidal", "none")


@strict
class LongformerConfig(StockLongformerConfig):
    """Every field of `transformers.LongformerConfig`, and:

    Args:
        attention_window: tokens that a token sees, both sides together, one number or one per layer;
            odd ones and tiny ones work (3: one on each side).
        attention_dilation: distance between the tokens of a window: one number, or for each layer one
            number or one per head.
        causal: hide the tokens after each token; ``attention_window // 2`` before it are seen.
        attention_impl: the implementation of attention, as in `longspan.attend`.
        position_kind: "learned" (as stock), "sinusoidal" (any length) or "none".
    """

    model_type = "longspan_longformer"

    attention_dilation: int | list[int | list[int]] = 1
    causal: bool = False
    attention_impl: str = "auto"
    position_kind: str = "learned"

    def __post_init__(self, **kwargs: Any) -> None:
        super().__post_init__(**kwargs)
        if self.hidden_size % self.num_attention_heads:
            raise ValueError(
                f"hidden_size is {self.hidden_size}; it must be a multiple of "
                f"num_attention_heads = {self.num_attention_heads}"
            )
        if self.position_kind not in _POSITIONS:
            raise ValueError(
                f"position_kind is {self.position_kind!r}; it must be one of {', '.join(_POSITIONS)}"
            )
        for layer in range(self.num_hidden_layers):
            self.patterns(layer)

    def patterns(self, layer: int) -> tuple[Pattern, ...]:
        """The window of each head of a layer.

        Raises:
            ValueError: the fields do not describe one.
        """
        return patterns_of_layer(
            self.attention_window,
            self.attention_dilation,
            layer,
            self.num_hidden_layers,
            self.num_attention_heads,
            causal=self.causal,
        )

    @property
    def implementation(self) -> Implementation:
        """``attention_impl``, which `attend` checks."""
        return cast(Implementation, self.attention_impl)

    @property
    def is_stock(self) -> bool:
        """Whether stock transformers computes the same model."""
        undilated = all(
            pattern.dilation == 1
            for layer in range(self.num_hidden_layers)
            for pattern in self.patterns(layer)
        )
        return (
            stock_computes(self.attention_window)
            and undilated
            and not self.causal
            and self.position_kind == "learned"
        )

    def to_dict(self) -> dict[str, Any]:
        """As JSON; the model type says whether stock transformers can take it."""
        fields = super().to_dict()
        fields["model_type"] = STOCK_MODEL_TYPE if self.is_stock else self.model_type
        return fields

    @classmethod
    def get_config_dict(cls, *args: Any, **kwargs: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        """Reads a configuration, also one of the original repository, whose windows are one-sided."""
        fields, rest = super().get_config_dict(*args, **kwargs)
        if "attention_mode" in fields:
            fields = _from_original(fields)
        return {**fields, "model_type": cls.model_type}, rest

    @classmethod
    def of(cls, config: StockLongformerConfig) -> Self:
        """``config`` itself, or one of transformers as ours."""
        if isinstance(config, cls):
            return config
        fields = config.to_dict()
        fields.pop("model_type")
        return cls(**fields)


def _from_original(fields: dict[str, Any]) -> dict[str, Any]:
    """The fields of allenai/longformer's configuration in ours."""
    fields = both_sides(fields)
    fields["causal"] = bool(fields.pop("autoregressive", False))
    return fields
