"""Longformer, as a Hugging Face model: embeddings, encoder, pooler.

Parameters have the names of `transformers.LongformerModel`, so checkpoints go both ways. Inside, a
ragged batch is one packed row: padding costs nothing, and comes out as 0.
"""

from typing import Any, Self, cast

import torch
from torch import Tensor, nn
from transformers.activations import ACT2FN
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.modeling_utils import PreTrainedModel
from transformers.models.longformer.modeling_longformer import LongformerBaseModelOutputWithPooling

from longspan.models.compact_loading import ReadsCompact
from longspan.models.encoding import arrange, first_real, in_pieces, read_masks, run_layers, wanted
from longspan.models.longformer_config import LongformerConfig
from longspan.nn.dropout import Dropout
from longspan.nn.layout import Layout
from longspan.nn.longformer import LongformerSelfAttention, SelfAttention
from longspan.nn.sinusoids import sinusoids


class LongformerEmbeddings(nn.Module):
    """Sum of token, position and segment embeddings, normalised."""

    def __init__(self, config: LongformerConfig) -> None:
        super().__init__()
        self.config = config
        size, padding = config.hidden_size, config.pad_token_id
        self.word_embeddings = nn.Embedding(config.vocab_size, size, padding_idx=padding)
        self.token_type_embeddings = nn.Embedding(config.type_vocab_size, size)
        self.LayerNorm = nn.LayerNorm(size, eps=config.layer_norm_eps)
        self.dropout = Dropout(config.hidden_dropout_prob)
        # Last, as in stock: the state of an optimizer goes by the order of the parameters.
        self.position_embeddings = (
            nn.Embedding(config.max_position_embeddings, size, padding_idx=padding)
            if config.position_kind == "learned"
            else None
        )

    def position_ids(self, input_ids: Tensor | None, inputs_embeds: Tensor | None) -> Tensor:
        """[batch, length]: counted from pad_token_id + 1 over real tokens, as RoBERTa does."""
        padding = self.config.pad_token_id or 0
        if input_ids is None:
            assert inputs_embeds is not None
            batch, length = inputs_embeds.shape[:2]
            return (torch.arange(length, device=inputs_embeds.device) + padding + 1).expand(batch, -1)
        real = (input_ids != padding).long()
        return real.cumsum(1) * real + padding

    def rows_of(self, places: Tensor) -> Tensor:
        """Position ids of places in a text, counted from 0: beyond the table's end they begin again, as
        `longspan.lengthen` would have copied it."""
        first = (self.config.pad_token_id or 0) + 1
        if self.position_embeddings is None:
            return places + first
        return places % (self.position_embeddings.num_embeddings - first) + first

    def check_positions(self, position_ids: Tensor) -> None:
        """Refuses positions that have no embedding."""
        if self.position_embeddings is None or torch.compiler.is_compiling() or not position_ids.numel():
            return
        highest, rows = int(position_ids.max()), self.position_embeddings.num_embeddings
        if highest >= rows:
            first = (self.config.pad_token_id or 0) + 1
            raise ValueError(
                f"the input needs position {highest}, and max_position_embeddings is {rows}: "
                f"at most {rows - first} tokens fit; shorten the input, or make the model longer with "
                "longspan.lengthen"
            )

    def forward(
        self,
        input_ids: Tensor | None,
        inputs_embeds: Tensor | None,
        token_type_ids: Tensor | None,
        position_ids: Tensor,
    ) -> Tensor:
        """[batch, length] tokens, or their embeddings -> [batch, length, hidden_size]."""
        x = self.word_embeddings(input_ids) if inputs_embeds is None else inputs_embeds
        if self.position_embeddings is not None:
            x = x + self.position_embeddings(position_ids)
        elif self.config.position_kind == "sinusoidal":
            x = x + sinusoids(position_ids, x.shape[-1]).to(x.dtype)
        if token_type_ids is None:
            token_type_ids = torch.zeros_like(position_ids)
        x = x + self.token_type_embeddings(token_type_ids)
        return self.dropout(self.LayerNorm(x))


class LongformerResidual(nn.Module):
    """A projection, added to what a block was given, and normalised."""

    def __init__(self, config: LongformerConfig, size: int) -> None:
        super().__init__()
        self.dense = nn.Linear(size, config.hidden_size)
        self.LayerNorm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.dropout = Dropout(config.hidden_dropout_prob)

    def forward(self, x: Tensor, given: Tensor) -> Tensor:
        """[..., size] and [..., hidden_size] -> [..., hidden_size]."""
        return self.LayerNorm(self.dropout(self.dense(x)) + given)


class LongformerAttention(nn.Module):
    """Self-attention and its residual."""

    def __init__(self, config: LongformerConfig, layer: int) -> None:
        super().__init__()
        self.self = LongformerSelfAttention(
            config.hidden_size,
            config.patterns(layer),
            dropout=config.attention_probs_dropout_prob,
            impl=config.implementation,
        )
        self.output = LongformerResidual(config, config.hidden_size)


class LongformerIntermediate(nn.Module):
    """The wide half of the feed-forward network."""

    def __init__(self, config: LongformerConfig) -> None:
        super().__init__()
        self.dense = nn.Linear(config.hidden_size, config.intermediate_size)
        self.intermediate_act_fn = ACT2FN[config.hidden_act]

    def forward(self, x: Tensor) -> Tensor:
        """[..., hidden_size] -> [..., intermediate_size]."""
        return self.intermediate_act_fn(self.dense(x))


class LongformerLayer(GradientCheckpointingLayer):
    """Self-attention, then a feed-forward network."""

    def __init__(self, config: LongformerConfig, layer: int) -> None:
        super().__init__()
        self.attention = LongformerAttention(config, layer)
        self.intermediate = LongformerIntermediate(config)
        self.output = LongformerResidual(config, config.intermediate_size)
        self.chunk_size_feed_forward = config.chunk_size_feed_forward

    def forward(self, x: Tensor, layout: Layout, return_probabilities: bool) -> SelfAttention:
        """[batch, length, hidden_size] -> the same, with the probabilities when asked for."""
        attention: SelfAttention = self.attention.self(x, layout, return_probabilities=return_probabilities)
        x = self.attention.output(attention.context, x)
        x = in_pieces(self._feed_forward, x, training=self.training, tokens=self.chunk_size_feed_forward)
        return attention._replace(context=x)

    def _feed_forward(self, x: Tensor) -> Tensor:
        return self.output(self.intermediate(x), x)


class LongformerEncoder(nn.Module):
    """The layers."""

    def __init__(self, config: LongformerConfig) -> None:
        super().__init__()
        self.layer = nn.ModuleList(LongformerLayer(config, i) for i in range(config.num_hidden_layers))
        self.gradient_checkpointing = False


class LongformerPooler(nn.Module):
    """A projection of the first token."""

    def __init__(self, config: LongformerConfig) -> None:
        super().__init__()
        self.dense = nn.Linear(config.hidden_size, config.hidden_size)

    def forward(self, first: Tensor) -> Tensor:
        """[batch, hidden_size] -> [batch, hidden_size]."""
        return torch.tanh(self.dense(first))


class WithOwnBias(nn.Module):
    """A module with a bias that transformers does not know how to begin with."""

    bias: nn.Parameter


class LongformerPreTrainedModel(ReadsCompact, PreTrainedModel):
    """What all Longformer models share: configuration, names, loading."""

    config_class = LongformerConfig
    config: LongformerConfig
    base_model_prefix = "longformer"
    supports_gradient_checkpointing = True
    # The losses are means over a batch and take no num_items_in_batch: Trainer must not scale them.
    accepts_loss_kwargs = False
    _no_split_modules = ["LongformerLayer"]
    _keys_to_ignore_on_load_unexpected = [r"embeddings\.position_ids"]

    def __init__(self, config: LongformerConfig) -> None:
        # A configuration that transformers' Auto classes made is taken as well.
        super().__init__(LongformerConfig.of(config))

    def _init_weights(self, module: nn.Module) -> None:
        super()._init_weights(module)
        if isinstance(module, WithOwnBias):
            nn.init.zeros_(module.bias)

    @classmethod
    def from_pretrained(cls, *args: Any, **kwargs: Any) -> Self:
        """As `transformers`' own; reads checkpoints of the original repository too."""
        kwargs.setdefault("key_mapping", {r"^roberta\.": "longformer."})
        loaded: Any = super().from_pretrained(*args, **kwargs)
        # transformers would turn the names back when it saves, into ones that only we read.
        model: Any = loaded[0] if isinstance(loaded, tuple) else loaded
        model._weight_conversions = None
        return cast(Self, loaded)


class LongformerModel(LongformerPreTrainedModel):
    """Longformer without a task's head.

    Args:
        config: its shape.
        add_pooling_layer: project the first token to ``pooler_output``.
    """

    def __init__(self, config: LongformerConfig, add_pooling_layer: bool = True) -> None:
        super().__init__(config)
        config = self.config
        self.embeddings = LongformerEmbeddings(config)
        self.encoder = LongformerEncoder(config)
        self.pooler = LongformerPooler(config) if add_pooling_layer else None
        self.post_init()

    def get_input_embeddings(self) -> nn.Module:
        """The token embeddings."""
        return self.embeddings.word_embeddings

    def set_input_embeddings(self, value: nn.Module) -> None:
        """Takes other token embeddings."""
        self.embeddings.word_embeddings = cast(nn.Embedding, value)

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        global_attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        position_ids: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        output_attentions: bool | None = None,
        output_hidden_states: bool | None = None,
        return_dict: bool | None = None,
        **_: Any,
    ) -> tuple[Any, ...] | LongformerBaseModelOutputWithPooling:
        """Reads a batch of token sequences.

        Args:
            input_ids: [batch, length] tokens.
            attention_mask: [batch, length], 0 for padding (2 for global tokens is understood too).
            global_attention_mask: [batch, length], 1 for tokens that see, and are seen by, all others.
            token_type_ids: [batch, length] segments.
            position_ids: [batch, length]; counted over real tokens by default.
            inputs_embeds: [batch, length, hidden_size] instead of ``input_ids``.
            output_attentions: also return ``attentions``, [batch, heads, length, globals + window + 1]
                for each layer, and ``global_attentions``, [batch, heads, length, globals].
            output_hidden_states: also return the input of every layer, and the last output.
            return_dict: an output object (default) rather than a tuple.
        """
        config = self.config
        wants_attentions = wanted(output_attentions, config.output_attentions)
        masks = read_masks(input_ids, inputs_embeds, attention_mask, global_attention_mask)
        packing, layout = arrange(masks, keep_padding=wants_attentions)
        if position_ids is None:
            position_ids = self.embeddings.position_ids(input_ids, inputs_embeds)
        self.embeddings.check_positions(position_ids)
        if packing is not None:
            position_ids = packing.pack(position_ids.expand(packing.shape))
            if token_type_ids is not None:
                token_type_ids = packing.pack(token_type_ids.expand(packing.shape))
            input_ids, inputs_embeds = (
                None if given is None else packing.pack(given) for given in (input_ids, inputs_embeds)
            )
        encoded = run_layers(
            self.encoder.layer,
            self.embeddings(input_ids, inputs_embeds, token_type_ids, position_ids),
            layout,
            packing,
            output_hidden_states=wanted(output_hidden_states, config.output_hidden_states),
            output_attentions=wants_attentions,
        )
        pooled = None
        if self.pooler is not None:
            pooled = self.pooler(first_real(encoded.last_hidden_state, masks.is_padding))
        if not wanted(return_dict, config.return_dict):
            rest = (item for item in encoded[1:] if item is not None)
            return (encoded.last_hidden_state, pooled, *rest)
        return LongformerBaseModelOutputWithPooling(pooler_output=pooled, **encoded._asdict())
