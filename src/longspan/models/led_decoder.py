"""The decoder of LED: what it has written so far, and the whole document, into the next word.

A row of the batch is a beam; the documents may be fewer, each with as many rows, one after the other.
"""

from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn
from transformers.activations import ACT2FN
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.modeling_outputs import BaseModelOutputWithPastAndCrossAttentions

from longspan.models.encoding import wanted
from longspan.models.led_base import LEDPositions, LEDPreTrainedModel
from longspan.models.led_cache import LEDCache
from longspan.models.led_config import LEDConfig
from longspan.nn.decoder_attention import CrossAttention, DecoderSelfAttention
from longspan.nn.dropout import dropout


class Decoded(NamedTuple):
    """What a layer computes; the probabilities only when they were asked for."""

    context: Tensor
    """[rows, length, d_model]."""
    probabilities: Tensor | None
    """[rows, heads, length, length so far]."""
    cross_probabilities: Tensor | None
    """[rows, heads, length, length of the documents]."""


class LEDDecoderLayer(GradientCheckpointingLayer):
    """Self-attention, attention to the document, and a feed-forward network."""

    def __init__(self, config: LEDConfig, layer: int) -> None:
        super().__init__()
        size, heads = config.d_model, config.decoder_attention_heads
        self.layer = layer
        self.self_attn = DecoderSelfAttention(
            size,
            heads,
            pattern=config.causal_pattern(layer),
            dropout=config.attention_dropout,
            impl=config.implementation,
        )
        self.dropout = config.dropout
        self.activation_fn = ACT2FN[config.activation_function]
        self.activation_dropout = config.activation_dropout
        self.self_attn_layer_norm = nn.LayerNorm(size)
        self.encoder_attn = CrossAttention(size, heads, dropout=config.attention_dropout)
        self.encoder_attn_layer_norm = nn.LayerNorm(size)
        self.fc1 = nn.Linear(size, config.decoder_ffn_dim)
        self.fc2 = nn.Linear(config.decoder_ffn_dim, size)
        self.final_layer_norm = nn.LayerNorm(size)

    def forward(
        self,
        x: Tensor,
        encoded: Tensor | None,
        is_padding: Tensor | None,
        is_document_padding: Tensor | None,
        cache: LEDCache | None,
        return_probabilities: bool,
    ) -> Decoded:
        """One layer.

        Args:
            x: [rows, length, d_model].
            encoded: [documents, length, d_model], or None for a decoder without any.
            is_padding: [rows, length so far] bool.
            is_document_padding: [documents, length] bool.
            cache: of all layers; gets these tokens too.
            return_probabilities: also return who looked at whom.
        """
        written = self.self_attn(
            x,
            is_padding=is_padding,
            cache=None if cache is None else cache.layers[self.layer].window,
            return_probabilities=return_probabilities,
        )
        x = self.self_attn_layer_norm(x + dropout(written.context, self.dropout, self.training))
        cross_probabilities = None
        if encoded is not None:
            document = None if cache is None else cache.documents[self.layer]
            if document is None:
                document = self.encoder_attn.document_keys(encoded)
                if cache is not None:
                    cache.documents[self.layer] = document
            read = self.encoder_attn(
                x, document, is_padding=is_document_padding, return_probabilities=return_probabilities
            )
            x = self.encoder_attn_layer_norm(x + dropout(read.context, self.dropout, self.training))
            cross_probabilities = read.probabilities
        wide = dropout(self.activation_fn(self.fc1(x)), self.activation_dropout, self.training)
        x = self.final_layer_norm(x + dropout(self.fc2(wide), self.dropout, self.training))
        return Decoded(x, written.probabilities, cross_probabilities)


class LEDDecoder(LEDPreTrainedModel):
    """Embeddings and layers.

    Args:
        config: of the whole model.
    """

    def __init__(self, config: LEDConfig) -> None:
        super().__init__(config)
        config = self.config
        self.dropout = config.dropout
        self.layerdrop = config.decoder_layerdrop
        self.max_target_positions = config.max_decoder_position_embeddings
        self.embed_tokens = nn.Embedding(config.vocab_size, config.d_model, config.pad_token_id)
        self.embed_positions = LEDPositions(self.max_target_positions, config.d_model)
        self.layers = nn.ModuleList(LEDDecoderLayer(config, i) for i in range(config.decoder_layers))
        self.layernorm_embedding = nn.LayerNorm(config.d_model)
        self.gradient_checkpointing = False
        self.post_init()

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        global_attention_mask: Tensor | None = None,
        encoder_hidden_states: Tensor | None = None,
        encoder_attention_mask: Tensor | None = None,
        past_key_values: LEDCache | None = None,
        inputs_embeds: Tensor | None = None,
        use_cache: bool | None = None,
        output_attentions: bool | None = None,
        output_hidden_states: bool | None = None,
        return_dict: bool | None = None,
        **_: Any,
    ) -> tuple[Any, ...] | BaseModelOutputWithPastAndCrossAttentions:
        """Writes on.

        Args:
            input_ids: [rows, length] tokens of the output.
            attention_mask: [rows, length so far], 0 for padding.
            global_attention_mask: of the encoder; transformers has it here too, without a use.
            encoder_hidden_states: [documents, length, d_model].
            encoder_attention_mask: [documents, length], 0 for padding.
            past_key_values: what was written before; gets these tokens too.
            inputs_embeds: [rows, length, d_model] instead of ``input_ids``.
            use_cache: return a cache to go on with; by default where no gradients are wanted.
            output_attentions: also return ``attentions`` [rows, heads, length, length so far] and
                ``cross_attentions`` [rows, heads, length, document] for each layer; quadratic.
            output_hidden_states: also return the input of every layer, and the last output.
            return_dict: an output object (default) rather than a tuple.
        """
        if (input_ids is None) == (inputs_embeds is None):
            given = "neither was" if input_ids is None else "both were"
            raise ValueError(
                f"decoder_input_ids and decoder_inputs_embeds: {given} given; give exactly one of them"
            )
        config = self.config
        x = self.embed_tokens(input_ids) if inputs_embeds is None else inputs_embeds
        cache = self.cache(past_key_values, use_cache)
        seen = 0 if cache is None else cache.get_seq_length()
        rows, length = x.shape[0], x.shape[1]
        self._check_length(seen + length)
        _check_documents(rows, encoder_hidden_states)
        is_padding = _padding("decoder_attention_mask", attention_mask, (rows, seen + length))
        is_document_padding = None
        if encoder_hidden_states is not None:
            shape = (encoder_hidden_states.shape[0], encoder_hidden_states.shape[1])
            is_document_padding = _padding("attention_mask", encoder_attention_mask, shape)
        x = dropout(
            self.layernorm_embedding(x + self.embed_positions((rows, length), seen)),
            self.dropout,
            self.training,
        )
        wants_states = wanted(output_hidden_states, config.output_hidden_states)
        wants_attentions = wanted(output_attentions, config.output_attentions)
        states, decoded = [x], list[Decoded]()
        for layer in self.layers:
            if not (self.training and self.layerdrop and torch.rand(()) < self.layerdrop):
                # Reentrant checkpointing makes a plain tuple of what the layer returns.
                out = Decoded(
                    *layer(x, encoder_hidden_states, is_padding, is_document_padding, cache, wants_attentions)
                )
                x = out.context
                decoded.append(out)
            if wants_states:
                states.append(x)
        outputs = BaseModelOutputWithPastAndCrossAttentions(
            last_hidden_state=cast(Any, x),
            past_key_values=cache,
            hidden_states=cast(Any, tuple(states)) if wants_states else None,
            attentions=cast(Any, tuple(one.probabilities for one in decoded)) if wants_attentions else None,
            cross_attentions=(
                cast(Any, tuple(one.cross_probabilities for one in decoded))
                if wants_attentions and encoder_hidden_states is not None
                else None
            ),
        )
        return outputs if wanted(return_dict, config.return_dict) else outputs.to_tuple()

    def cache(self, given: LEDCache | None, use_cache: bool | None) -> LEDCache | None:
        """The cache of a call: the caller's, a new one, or none.

        Raises:
            ValueError: it is of another kind, or gradients are wanted, which a cache does not carry.
        """
        if given is not None and not isinstance(given, LEDCache):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ValueError(f"past_key_values is a {type(given).__name__}; it must be an LEDCache")
        if torch.is_grad_enabled():
            if given is not None or use_cache:
                raise ValueError(
                    "past_key_values and use_cache are for writing without gradients; "
                    "call the model within torch.no_grad()"
                )
            return None
        if given is None and not self.training and wanted(use_cache, self.config.use_cache):
            return LEDCache(self.config)
        return given

    def _check_length(self, length: int) -> None:
        if length > self.max_target_positions:
            raise ValueError(
                f"the output has {length} tokens, and max_decoder_position_embeddings is "
                f"{self.max_target_positions}; shorten it (without decoder_input_ids and labels the document "
                "itself is taken), or use a model with a longer decoder"
            )


def _padding(name: str, mask: Tensor | None, shape: tuple[int, int]) -> Tensor | None:
    """[rows, length] bool; None where nothing is padded."""
    if mask is None:
        return None
    if tuple(mask.shape) != shape:
        raise ValueError(f"{name} has shape {tuple(mask.shape)}; it must be {shape}")
    is_padding = mask == 0
    return None if not torch.compiler.is_compiling() and not is_padding.any() else is_padding


def _check_documents(rows: int, encoded: Tensor | None) -> None:
    if encoded is not None and (not len(encoded) or rows % len(encoded)):
        raise ValueError(
            f"decoder_input_ids has {rows} rows for {len(encoded)} documents; "
            "it must have as many rows for each document"
        )
