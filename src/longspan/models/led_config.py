"""The configuration of LED: Hugging Face's, and what that lacks.

As with Longformer, a configuration is written with model type "led" while stock transformers computes the
same model, and "longspan_led" once it uses more.
"""

from typing import Any, Self, cast

from huggingface_hub.dataclasses import strict
from transformers import LEDConfig as StockLEDConfig

from longspan.attention.attend import Implementation
from longspan.attention.pattern import Pattern
from longspan.models.per_layer import both_sides, of_layer, patterns_of_layer, stock_computes

STOCK_MODEL_TYPE = StockLEDConfig.model_type


@strict
class LEDConfig(StockLEDConfig):
    """Every field of `transformers.LEDConfig`, and:

    Args:
        attention_window: tokens that a token of the document sees, both sides together, one number or one
            per encoder layer; odd ones and tiny ones work.
        attention_dilation: distance between the tokens of a window: one number, or for each encoder layer
            one number or one per head.
        causal_window: tokens before a token of the output that it sees, itself not counted: one
            number or one per decoder layer. None is all of them, as stock.
        attention_impl: the implementation of windowed attention, as in `longspan.attend`.
    """

    model_type = "longspan_led"

    attention_dilation: int | list[int | list[int]] = 1
    # A name with "decoder_" in front would become stock's attention_window where it reads its decoder.
    causal_window: int | list[int] | None = None
    attention_impl: str = "auto"

    def __post_init__(self, **kwargs: Any) -> None:
        super().__post_init__(**kwargs)
        for name in ("encoder_attention_heads", "decoder_attention_heads"):
            heads = getattr(self, name)
            if self.d_model % heads:
                raise ValueError(f"d_model is {self.d_model}; it must be a multiple of {name} = {heads}")
        for layer in range(self.encoder_layers):
            self.patterns(layer)
        for layer in range(self.decoder_layers):
            self.causal_pattern(layer)

    def patterns(self, layer: int) -> tuple[Pattern, ...]:
        """The window of each head of an encoder layer.

        Raises:
            ValueError: the fields do not describe one.
        """
        return patterns_of_layer(
            self.attention_window,
            self.attention_dilation,
            layer,
            self.encoder_layers,
            self.encoder_attention_heads,
        )

    def causal_pattern(self, layer: int) -> Pattern | None:
        """The window of a decoder layer; None where a token sees all those before it.

        Raises:
            ValueError: the field does not describe one.
        """
        window = of_layer("causal_window", self.causal_window, layer, self.decoder_layers)
        if window is None:
            return None
        if not isinstance(window, int) or window < 1:
            raise ValueError(
                f"causal_window is {window!r} in layer {layer}; it must be an integer >= 1, or None"
            )
        return Pattern(left=window, right=0)

    def decoder_reach(self, layer: int) -> int:
        """How many tokens before a token of the output a decoder layer can see."""
        pattern = self.causal_pattern(layer)
        return self.max_decoder_position_embeddings if pattern is None else cast(int, pattern.left)

    @property
    def implementation(self) -> Implementation:
        """``attention_impl``, which `attend` checks."""
        return cast(Implementation, self.attention_impl)

    @property
    def is_stock(self) -> bool:
        """Whether stock transformers computes the same model."""
        undilated = all(
            pattern.dilation == 1 for layer in range(self.encoder_layers) for pattern in self.patterns(layer)
        )
        return stock_computes(self.attention_window) and undilated and self.causal_window is None

    def get_text_config(self, decoder: bool | None = None, encoder: bool | None = None) -> Self:
        """The configuration itself, for either side.

        transformers would write the decoder's number of layers over the encoder's, where they may not fit
        ``attention_window``.
        """
        return self

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
            fields = both_sides(fields)
            fields.pop("autoregressive", None)
        return {**fields, "model_type": cls.model_type}, rest

    @classmethod
    def of(cls, config: StockLEDConfig) -> Self:
        """``config`` itself, or one of transformers as ours."""
        if isinstance(config, cls):
            return config
        fields = config.to_dict()
        fields.pop("model_type")
        return cls(**fields)
