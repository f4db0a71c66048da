"""The autoregressive Longformer of the paper's section 4, as a Hugging Face model that generates.

A decoder without an encoder: layer norm before each half of a layer, GELU, causal dilated windows that grow
upwards, relative or rotary positions. Like Transformer-XL it multiplies embeddings by the root of their size,
has no biases in attention, and ties the output to the embeddings. With a cache, texts of any length are read
and written at constant memory.
"""

import math
from collections.abc import Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers.activations import ACT2FN
from transformers.generation.utils import GenerationMixin
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.modeling_outputs import BaseModelOutputWithPast, CausalLMOutputWithPast
from transformers.modeling_utils import PreTrainedModel

from longspan.models.causal_lm_cache import LongformerCache
from longspan.models.causal_lm_config import LongformerCausalLMConfig
from longspan.models.compact_loading import ReadsCompact
from longspan.models.encoding import wanted
from longspan.models.steady_generation import SteadyGeneration
from longspan.models.windowed_generation import WindowedGeneration
from longspan.nn.causal_attention import CausalSelfAttention, Relative, RelativeBiases
from longspan.nn.dropout import Dropout
from longspan.nn.rotary import Rotation, rotation
from longspan.nn.window_cache import WindowCache


class LongformerCausalLayer(GradientCheckpointingLayer):
    """Self-attention, then a feed-forward network, each behind a norm and added to what it was given."""

    def __init__(self, config: LongformerCausalLMConfig, layer: int) -> None:
        super().__init__()
        size, inner = config.hidden_size, config.intermediate_size
        self.attention_norm = nn.LayerNorm(size, eps=config.layer_norm_eps)
        self.attention = CausalSelfAttention(
            size,
            config.patterns(layer),
            relative=config.position_kind == "relative",
            dropout=config.attention_probs_dropout_prob,
            impl=config.implementation,
        )
        self.feed_forward_norm = nn.LayerNorm(size, eps=config.layer_norm_eps)
        self.expand = nn.Linear(size, inner)
        self.activation = ACT2FN[config.hidden_act]
        self.contract = nn.Linear(inner, size)
        self.dropout = Dropout(config.hidden_dropout_prob)

    def forward(
        self,
        x: Tensor,
        positions: Relative | Rotation,
        is_padding: Tensor | None,
        cache: WindowCache | None,
    ) -> Tensor:
        """[batch, length, hidden_size] -> the same."""
        attended = self.attention(self.attention_norm(x), positions, is_padding=is_padding, cache=cache)
        x = x + self.dropout(attended)
        inner = self.dropout(self.activation(self.expand(self.feed_forward_norm(x))))
        return x + self.dropout(self.contract(inner))


class LongformerCausalPreTrainedModel(ReadsCompact, PreTrainedModel):
    """What the model with and without its head share: configuration, names, first weights."""

    config_class = LongformerCausalLMConfig
    config: LongformerCausalLMConfig
    base_model_prefix = "model"
    supports_gradient_checkpointing = True
    # The loss is a mean over a batch and takes no num_items_in_batch: Trainer must not scale it.
    accepts_loss_kwargs = False
    _no_split_modules = ["LongformerCausalLayer"]

    def _init_weights(self, module: nn.Module) -> None:
        super()._init_weights(module)
        if isinstance(module, RelativeBiases):
            nn.init.normal_(module.content, std=self.config.initializer_range)
            nn.init.normal_(module.position, std=self.config.initializer_range)

    @classmethod
    def _supports_default_dynamic_cache(cls) -> bool:
        # transformers' own would keep every token; the first forward pass makes ours.
        return False


class LongformerCausalModel(LongformerCausalPreTrainedModel):
    """The decoder without its head.

    Args:
        config: its shape.
    """

    def __init__(self, config: LongformerCausalLMConfig) -> None:
        super().__init__(config)
        self.embeddings = nn.Embedding(config.vocab_size, config.hidden_size)
        heads = config.num_attention_heads
        self.relative_biases = (
            RelativeBiases(heads, config.hidden_size // heads) if config.position_kind == "relative" else None
        )
        self.layers = nn.ModuleList(
            LongformerCausalLayer(config, layer) for layer in range(config.num_hidden_layers)
        )
        self.norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.dropout = Dropout(config.hidden_dropout_prob)
        self.gradient_checkpointing = False
        self.post_init()

    def get_input_embeddings(self) -> nn.Module:
        """The token embeddings."""
        return self.embeddings

    def set_input_embeddings(self, value: nn.Module) -> None:
        """Takes other token embeddings."""
        self.embeddings = cast(nn.Embedding, value)

    def set_windows(self, windows: Sequence[int]) -> None:
        """Gives every layer another window, as the phases of staged training do; weights stay.

        Args:
            windows: ``attention_window`` of each layer, lowest first.

        Raises:
            ValueError: there are not as many as layers, or one is not at least 1.
        """
        before = self.config.attention_window
        self.config.attention_window = list(windows)
        try:
            patterns = [self.config.patterns(layer) for layer in range(len(self.layers))]
        except ValueError:
            self.config.attention_window = before
            raise
        for layer, of_layer in zip(self.layers, patterns, strict=True):
            cast(LongformerCausalLayer, layer).attention.patterns = of_layer

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        past_key_values: LongformerCache | None = None,
        inputs_embeds: Tensor | None = None,
        use_cache: bool | None = None,
        output_hidden_states: bool | None = None,
        return_dict: bool | None = None,
        **_: Any,
    ) -> tuple[Any, ...] | BaseModelOutputWithPast:
        """Reads a batch of token sequences, or goes on with one.

        Args:
            input_ids: [batch, length] tokens.
            attention_mask: [batch, length so far], 0 for padding, at either end.
            past_key_values: what was read before; gets these tokens too.
            inputs_embeds: [batch, length, hidden_size] instead of ``input_ids``.
            use_cache: return a cache to go on with; by default outside of training.
            output_hidden_states: also return the input of every layer, and the last output.
            return_dict: an output object (default) rather than a tuple.
        """
        if (input_ids is None) == (inputs_embeds is None):
            given = "neither was" if input_ids is None else "both were"
            raise ValueError(f"input_ids and inputs_embeds: {given} given; give exactly one of them")
        x = self.embeddings(input_ids) if inputs_embeds is None else inputs_embeds
        cache = self.cache(past_key_values, use_cache)
        seen = 0 if cache is None else cache.get_seq_length()
        is_padding = self._padding(attention_mask, (x.shape[0], seen + x.shape[1]), x.shape[1])
        positions = self._positions(seen, x.shape[1], x.device)
        x = self.dropout(x * math.sqrt(self.config.hidden_size))
        wants_states = wanted(output_hidden_states, self.config.output_hidden_states)
        states = [x]
        for at, layer in enumerate(self.layers):
            x = layer(x, positions, is_padding, None if cache is None else cache.layers[at].window)
            if wants_states:
                states.append(x)
        x = self.norm(x)
        outputs = BaseModelOutputWithPast(
            last_hidden_state=x,
            past_key_values=cache,
            hidden_states=cast(Any, (*states[:-1], x)) if wants_states else None,
        )
        return outputs if wanted(return_dict, self.config.return_dict) else outputs.to_tuple()

    def cache(self, given: LongformerCache | None, use_cache: bool | None) -> LongformerCache | None:
        """The cache of a call: the caller's, a new one, or none.

        Raises:
            ValueError: it is of another kind, or gradients are wanted, which a cache does not carry.
        """
        if given is not None and not isinstance(given, LongformerCache):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ValueError(f"past_key_values is a {type(given).__name__}; it must be a LongformerCache")
        if torch.is_grad_enabled():
            if given is not None or use_cache:
                raise ValueError(
                    "past_key_values and use_cache are for reading without gradients; "
                    "call the model within torch.no_grad()"
                )
            return None
        if given is None and not self.training and wanted(use_cache, self.config.use_cache):
            return LongformerCache(self.config)
        return given

    def _padding(self, attention_mask: Tensor | None, shape: tuple[int, int], length: int) -> Tensor | None:
        """[batch, the last positions] bool, as many as any layer can see; None where none is padded."""
        if attention_mask is None:
            return None
        if tuple(attention_mask.shape) != shape:
            raise ValueError(
                f"attention_mask has shape {tuple(attention_mask.shape)}; it must be {shape}: "
                "all tokens so far, those in the cache included"
            )
        reach = max(cast(LongformerCausalLayer, layer).attention.reach for layer in self.layers)
        is_padding = attention_mask[:, -(reach + length) :] == 0
        return None if not torch.compiler.is_compiling() and not is_padding.any() else is_padding

    def _positions(self, seen: int, length: int, device: torch.device) -> Relative | Rotation:
        if self.relative_biases is not None:
            return Relative(self.relative_biases, self.config.hidden_dropout_prob)
        head_dim = self.config.hidden_size // self.config.num_attention_heads
        return rotation(
            torch.arange(seen, seen + length, device=device), head_dim, base=self.config.rotary_base
        )


# transformers looks for the name of its own mixin among the bases.
class LongformerForCausalLM(
    LongformerCausalPreTrainedModel, SteadyGeneration, WindowedGeneration, GenerationMixin
):
    """Says which token comes next.

    Args:
        config: its shape.
    """

    _tied_weights_keys = {"lm_head.weight": "model.embeddings.weight"}

    def __init__(self, config: LongformerCausalLMConfig) -> None:
        super().__init__(config)
        self.model = LongformerCausalModel(config)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        self.post_init()

    def get_output_embeddings(self) -> nn.Module:
        """The projection to the vocabulary."""
        return self.lm_head

    def set_output_embeddings(self, new_embeddings: nn.Module) -> None:
        """Takes another projection to the vocabulary."""
        self.lm_head = cast(nn.Linear, new_embeddings)

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        past_key_values: LongformerCache | None = None,
        inputs_embeds: Tensor | None = None,
        labels: Tensor | None = None,
        use_cache: bool | None = None,
        logits_to_keep: int | Tensor = 0,
        output_hidden_states: bool | None = None,
        return_dict: bool | None = None,
        **_: Any,
    ) -> tuple[Any, ...] | CausalLMOutputWithPast:
        """As `LongformerCausalModel`, and:

        Args:
            labels: [batch, length], the tokens themselves, -100 where nothing is to be said; the model
                compares what it says at a token with the label of the next one.
            logits_to_keep: only those of so many last tokens; 0 is all. With a cache, what comes before
                them is then read in pieces, at constant memory.
        """
        given = input_ids if input_ids is not None else inputs_embeds
        cache = self.model.cache(past_key_values, use_cache)
        wants_states = wanted(output_hidden_states, self.config.output_hidden_states)
        last = isinstance(logits_to_keep, int) and logits_to_keep
        if last and cache is not None and given is not None and labels is None and not wants_states:
            skipped = self._read_ahead(input_ids, inputs_embeds, attention_mask, cache, given.shape[1] - last)
            input_ids = None if input_ids is None else input_ids[:, skipped:]
            inputs_embeds = None if inputs_embeds is None else inputs_embeds[:, skipped:]
        decoded = cast(
            BaseModelOutputWithPast,
            self.model(
                input_ids=input_ids,
                attention_mask=attention_mask,
                past_key_values=cache,
                inputs_embeds=inputs_embeds,
                use_cache=cache is not None,
                output_hidden_states=wants_states,
                return_dict=True,
            ),
        )
        hidden = cast(Tensor, decoded.last_hidden_state)
        kept = slice(-logits_to_keep, None) if isinstance(logits_to_keep, int) else logits_to_keep
        logits: Tensor = self.lm_head(hidden[:, kept])
        loss = None
        if labels is not None:
            wanted_next = F.pad(labels, (0, 1), value=-100)[:, 1:][:, kept].to(logits.device)
            loss = F.cross_entropy(logits.flatten(0, 1).float(), wanted_next.flatten())
        outputs = CausalLMOutputWithPast(
            loss=cast(Any, loss),
            logits=cast(Any, logits),
            past_key_values=decoded.past_key_values,
            hidden_states=decoded.hidden_states,
        )
        return outputs if wanted(return_dict, self.config.return_dict) else outputs.to_tuple()

    def _read_ahead(
        self,
        input_ids: Tensor | None,
        inputs_embeds: Tensor | None,
        attention_mask: Tensor | None,
        cache: LongformerCache,
        length: int,
    ) -> int:
        """Reads up to ``length`` tokens whose logits nobody wants; how many were read."""
        seen = cache.get_seq_length()
        size, done = cache.piece_length, 0
        while length - done >= size:
            piece = slice(done, done + size)
            done += size
            self.model(
                input_ids=None if input_ids is None else input_ids[:, piece],
                inputs_embeds=None if inputs_embeds is None else inputs_embeds[:, piece],
                attention_mask=None if attention_mask is None else attention_mask[:, : seen + done],
                past_key_values=cache,
            )
        return done
