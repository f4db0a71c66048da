"""The encoder of Hugging Face's LED on longspan's attention, for `speed_up`.

The classes add no parameter and no constructor: they are put on modules that transformers built.
"""

from typing import Any, cast

import torch
from torch import Tensor
from transformers.models.led import modeling_led as led

from longspan.models.encoding import arrange, read_masks, run_layers, wanted
from longspan.nn.dropout import dropout
from longspan.nn.layout import Layout
from longspan.nn.longformer import SelfAttention


class LEDEncoderLayer(led.LEDEncoderLayer):
    """Self-attention, then a feed-forward network."""

    def forward(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, x: Tensor, layout: Layout, return_probabilities: bool
    ) -> SelfAttention:
        """[batch, length, d_model] -> the same, with the probabilities when asked for."""
        attend = self.self_attn.longformer_self_attn
        attention = cast(SelfAttention, attend(x, layout, return_probabilities=return_probabilities))
        read = dropout(self.self_attn.output(attention.context), self.dropout, self.training)
        x = self.self_attn_layer_norm(x + read)
        wide = dropout(self.activation_fn(self.fc1(x)), self.activation_dropout, self.training)
        x = self.final_layer_norm(x + dropout(self.fc2(wide), self.dropout, self.training))
        if x.dtype == torch.float16:
            largest = torch.finfo(x.dtype).max - 1000
            x = x.clamp(-largest, largest)
        return attention._replace(context=x)


class LEDEncoder(led.LEDEncoder):
    """Embeddings and layers; a ragged batch is packed, and nothing is padded to the window."""

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
    ) -> tuple[Any, ...] | led.LEDEncoderBaseModelOutput:
        """As transformers' `LEDEncoder.forward`."""
        config = self.config
        wants_attentions = wanted(output_attentions, config.output_attentions)
        masks = read_masks(input_ids, inputs_embeds, attention_mask, global_attention_mask)
        packing, layout = arrange(masks, keep_padding=wants_attentions)
        x = self.embed_tokens(input_ids) if inputs_embeds is None else inputs_embeds
        if x.shape[1] > self.max_source_positions:
            raise ValueError(
                f"the input has {x.shape[1]} tokens, and max_encoder_position_embeddings is "
                f"{self.max_source_positions}; shorten it, or use a longer model"
            )
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
        return led.LEDEncoderBaseModelOutput(**encoded._asdict())
