"""The encoder of LED: the document, read within windows and by global tokens.

Where nobody says which tokens are global, the first one (``<s>``) is, as in the paper; stock transformers
has none then. A ragged batch is packed into one row, and nothing is padded to a multiple of the window.
"""

from typing import Any, cast

import torch
from torch import Tensor, nn
from transformers.activations import ACT2FN
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.models.led.modeling_led import LEDEncoderBaseModelOutput

from longspan.models.default_globals import classification_globals
from longspan.models.encoding import Masks, arrange, in_pieces, read_masks, run_layers, wanted
from longspan.models.led_base import LEDPositions, LEDPreTrainedModel
from longspan.models.led_config import LEDConfig
from longspan.nn.dropout import dropout
from longspan.nn.layout import Layout
from longspan.nn.longformer import LongformerSelfAttention, SelfAttention


class LEDEncoderAttention(nn.Module):
    """Longformer's self-attention and a projection of what it read."""

    def __init__(self, config: LEDConfig, layer: int) -> None:
        super().__init__()
        self.longformer_self_attn = LongformerSelfAttention(
            config.d_model,
            config.patterns(layer),
            dropout=config.attention_dropout,
            impl=config.implementation,
        )
        self.output = nn.Linear(config.d_model, config.d_model)


class LEDEncoderLayer(GradientCheckpointingLayer):
    """Self-attention, then a feed-forward network, each added to what it was given, and normalised."""

    def __init__(self, config: LEDConfig, layer: int) -> None:
        super().__init__()
        self.self_attn = LEDEncoderAttention(config, layer)
        self.self_attn_layer_norm = nn.LayerNorm(config.d_model)
        self.dropout = config.dropout
        self.activation_fn = ACT2FN[config.activation_function]
        self.activation_dropout = config.activation_dropout
        self.fc1 = nn.Linear(config.d_model, config.encoder_ffn_dim)
        self.fc2 = nn.Linear(config.encoder_ffn_dim, config.d_model)
        self.final_layer_norm = nn.LayerNorm(config.d_model)

    def forward(self, x: Tensor, layout: Layout, return_probabilities: bool) -> SelfAttention:
        """[batch, length, d_model] -> the same, with the probabilities when asked for."""
        attend = self.self_attn.longformer_self_attn
        attention = cast(SelfAttention, attend(x, layout, return_probabilities=return_probabilities))
        read = dropout(self.self_attn.output(attention.context), self.dropout, self.training)
        x = in_pieces(self._feed_forward, self.self_attn_layer_norm(x + read), training=self.training)
        if x.dtype == torch.float16:
            largest = torch.finfo(x.dtype).max - 1000
            x = x.clamp(-largest, largest)
        return attention._replace(context=x)

    def _feed_forward(self, x: Tensor) -> Tensor:
        wide = dropout(self.activation_fn(self.fc1(x)), self.activation_dropout, self.training)
        return self.final_layer_norm(x + dropout(self.fc2(wide), self.dropout, self.training))


class LEDEncoder(LEDPreTrainedModel):
    """Embeddings and layers.

    Args:
        config: of the whole model.
    """

    def __init__(self, config: LEDConfig) -> None:
        super().__init__(config)
        config = self.config
        self.dropout = config.dropout
        self.layerdrop = config.encoder_layerdrop
        self.max_source_positions = config.max_encoder_position_embeddings
        self.embed_tokens = nn.Embedding(config.vocab_size, config.d_model, config.pad_token_id)
        self.embed_positions = LEDPositions(self.max_source_positions, config.d_model)
        self.layers = nn.ModuleList(LEDEncoderLayer(config, i) for i in range(config.encoder_layers))
        self.layernorm_embedding = nn.LayerNorm(config.d_model)
        self.gradient_checkpointing = False
        self.post_init()

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        global_attention_mask: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        output_attentions: bool | None = None,
        output_hidden_states: bool | None = None,
        return_dict: bool | None = None,
        **_: Any,
    ) -> tuple[Any, ...] | LEDEncoderBaseModelOutput:
        """Reads a batch of documents.

        Args:
            input_ids: [batch, length] tokens.
            attention_mask: [batch, length], 0 for padding (2 for global tokens is understood too).
            global_attention_mask: [batch, length], 1 for tokens that see, and are seen by, all others; the
                first real token by default.
            inputs_embeds: [batch, length, d_model] instead of ``input_ids``.
            output_attentions: also return ``attentions``, [batch, heads, length, globals + window + 1]
                for each layer, and ``global_attentions``, [batch, heads, length, globals].
            output_hidden_states: also return the input of every layer, and the last output.
            return_dict: an output object (default) rather than a tuple.
        """
        config = self.config
        wants_attentions = wanted(output_attentions, config.output_attentions)
        masks = read_masks(input_ids, inputs_embeds, attention_mask, global_attention_mask)
        x = self.embed_tokens(input_ids) if inputs_embeds is None else inputs_embeds
        self._check_length(x.shape[1])
        masks = self.with_default_globals(masks, x)
        packing, layout = arrange(masks, keep_padding=wants_attentions)
        x = x + self.embed_positions(x.shape[:2])
        if packing is not None:
            x = packing.pack(x)
        encoded = run_layers(
            self.layers,
            dropout(self.layernorm_embedding(x), self.dropout, self.training),
            layout,
            packing,
            output_hidden_states=wanted(output_hidden_states, config.output_hidden_states),
            output_attentions=wants_attentions,
            layerdrop=self.layerdrop if self.training else 0.0,
        )
        if not wanted(return_dict, config.return_dict):
            return tuple(item for item in encoded if item is not None)
        return LEDEncoderBaseModelOutput(**encoded._asdict())

    def with_default_globals(self, masks: Masks, x: Tensor) -> Masks:
        """``masks`` with the first real token of each example global, where they say nothing of it."""
        if masks.is_global is not None:
            return masks
        real = None if masks.is_padding is None else ~masks.is_padding
        first = classification_globals(real, (x.shape[0], x.shape[1]), x.device) != 0
        return masks._replace(is_global=first if real is None else first & real)

    def _check_length(self, length: int) -> None:
        if length > self.max_source_positions:
            raise ValueError(
                f"the document has {length} tokens, and max_encoder_position_embeddings is "
                f"{self.max_source_positions}; shorten it, or make the model longer with longspan.lengthen"
            )
