"""An encoder and a decoder whose attention, memory and positions are chosen by a configuration.

One stack of layers for all the relatives: embeddings, then in each layer attention and a feed-forward
network, each with a norm before or after it. With a memory a text is read segment by segment, each with what
the layers kept of those before.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers.modeling_utils import PreTrainedModel
from transformers.utils.generic import ModelOutput

from longspan.models.compact_loading import ReadsCompact
from longspan.models.encoding import read_masks, wanted
from longspan.models.funnel import run_funnel
from longspan.models.long_range_cache import LongRangeCache
from longspan.models.long_range_config import LongRangeConfig
from longspan.models.long_range_layer import LongRangeLayer
from longspan.models.reversible import run_reversibly
from longspan.nn.causal_attention import RelativeBiases
from longspan.nn.dropout import Dropout
from longspan.nn.kinds.kind import Drawn, Kind
from longspan.nn.long_range_attention import Reading
from longspan.nn.memory import LayerMemory, Memory, empty_memory, segments


@dataclass
class LongRangeOutput(ModelOutput):
    """What the model returns."""

    last_hidden_state: Tensor | None = None
    """[batch, length, hidden_size]; of pooled states without a decoder, the length of the last block."""
    past_key_values: LongRangeCache | None = None
    memory: Memory | None = None
    """After the last segment, where the model has one."""
    hidden_states: tuple[Tensor, ...] | None = None
    """The input of every layer, and the last output."""
    losses: dict[str, Tensor] | None = None
    """Losses of attention and memory themselves, [] each, to be added to the task's."""


class LearnedDistances(nn.Module):
    """A vector for each distance back, nearest first: what adds to a key's score, for all heads and layers.

    Args:
        distances: how many, the query's own place included.
        head_dim: of a head.
    """

    def __init__(self, distances: int, head_dim: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(distances, head_dim))


class LongRangePreTrainedModel(ReadsCompact, PreTrainedModel):
    """What the model with and without a head share: configuration, names, first weights."""

    config_class = LongRangeConfig
    config: LongRangeConfig
    base_model_prefix = "model"
    supports_gradient_checkpointing = True
    # The loss is a mean over a batch and takes no num_items_in_batch: Trainer must not scale it.
    accepts_loss_kwargs = False
    _no_split_modules = ["LongRangeLayer"]

    def _init_weights(self, module: nn.Module) -> None:
        super()._init_weights(module)
        if isinstance(module, RelativeBiases):
            nn.init.normal_(module.content, std=self.config.initializer_range)
            nn.init.normal_(module.position, std=self.config.initializer_range)
        if isinstance(module, LearnedDistances):
            nn.init.normal_(module.weight)
        if isinstance(module, Drawn):
            module.draw_weights()

    @classmethod
    def _supports_default_dynamic_cache(cls) -> bool:
        # transformers' own would keep every token; the first forward pass makes ours.
        return False


class LongRangeModel(LongRangePreTrainedModel):
    """The layers without a head: an encoder, or with ``config.is_decoder`` a decoder.

    Args:
        config: its shape.
        decodes: whether pooled states come back to the length of the input, where ``config`` has layers for
            that.
    """

    def __init__(self, config: LongRangeConfig, *, decodes: bool = True) -> None:
        super().__init__(config)
        size = config.hidden_size
        self.embeddings = nn.Embedding(config.vocab_size, size, padding_idx=config.pad_token_id)
        self.position_embeddings = (
            nn.Embedding(config.max_position_embeddings, size) if config.positions == "absolute" else None
        )
        heads = config.num_attention_heads
        self.relative_biases = (
            RelativeBiases(heads, size // heads) if config.positions == "relative" else None
        )
        self.distances = (
            LearnedDistances(config.learned_distances, size // heads)
            if config.positions == "learned"
            else None
        )
        shared, owners = dict[str, nn.Module](), dict[str, int]()
        for layer in range(config.num_hidden_layers):
            kind = config.kind(layer)
            made = kind.shared(config.layer_shape(layer), config.kind_settings(layer))
            if made is None:
                continue
            if config.kind_settings(layer) != config.kind_settings(owners.setdefault(kind.name, layer)):
                raise ValueError(
                    f"attention_settings of layers {owners[kind.name]} and {layer} differ; layers of "
                    f"{kind.name!r} that share weights have the same settings"
                )
            shared.setdefault(kind.name, made)
        self.shared = nn.ModuleDict(shared)
        self.layers = nn.ModuleList(
            LongRangeLayer(config, layer) for layer in range(config.num_hidden_layers)
        )
        self.decoder = nn.ModuleList(
            LongRangeLayer(config, layer % config.num_hidden_layers)
            for layer in range(config.decoder_layers if decodes else 0)
        )
        self.norm = nn.LayerNorm(size, eps=config.layer_norm_eps) if config.norm == "pre" else None
        self.dropout = Dropout(config.hidden_dropout_prob)
        self.gradient_checkpointing = False
        self.post_init()

    @property
    def kinds(self) -> list[Kind]:
        """The attention of each layer, lowest first."""
        return [cast(LongRangeLayer, layer).attention.kind for layer in (*self.layers, *self.decoder)]

    def get_input_embeddings(self) -> nn.Module:
        """The token embeddings."""
        return self.embeddings

    def set_input_embeddings(self, value: nn.Module) -> None:
        """Takes other token embeddings."""
        self.embeddings = cast(nn.Embedding, value)

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        global_attention_mask: Tensor | None = None,
        past_key_values: LongRangeCache | None = None,
        memory: Memory | None = None,
        inputs_embeds: Tensor | None = None,
        use_cache: bool | None = None,
        output_hidden_states: bool | None = None,
        return_dict: bool | None = None,
        **_: Any,
    ) -> tuple[Any, ...] | LongRangeOutput:
        """Reads a batch of token sequences, or goes on with one.

        Args:
            input_ids: [batch, length] tokens.
            attention_mask: [batch, length so far], 0 for padding.
            global_attention_mask: [batch, length], 1 for tokens that see all and that all see, where the kind
                has such tokens.
            past_key_values: what was read before; gets these tokens too.
            memory: what was read before, in a model with a memory; the output has the next one.
            inputs_embeds: [batch, length, hidden_size] instead of ``input_ids``.
            use_cache: return a cache to go on with.
            output_hidden_states: also return the input of every layer, and the last output.
            return_dict: an output object (default) rather than a tuple.

        Raises:
            ValueError: the model cannot do what is asked, with the reason.
        """
        cache = self.cache(past_key_values, use_cache)
        if cache is not None and cache.has_memory:
            memory = cache.memory if memory is None else memory
        seen = 0 if cache is None else cache.get_seq_length()
        if seen and attention_mask is not None:
            masks = read_masks(input_ids, inputs_embeds, None, global_attention_mask)
            is_padding = attention_mask == 0
        else:
            masks = read_masks(input_ids, inputs_embeds, attention_mask, global_attention_mask)
            is_padding = masks.is_padding
        if masks.is_global is not None and not self.config.has_globals and bool(masks.is_global.any()):
            who = "a decoder" if self.config.is_decoder else f"attention {self.config.attention!r}"
            raise ValueError(f"global_attention_mask has ones; {who} has no global tokens")
        given = self.embeddings(input_ids) if inputs_embeds is None else inputs_embeds
        if not given.shape[1]:
            raise ValueError(f"input_ids has shape {tuple(given.shape[:2])}; it must have a token")
        is_padding = self._checked_padding(is_padding, seen + given.shape[1])
        self._check_length(seen + given.shape[1])
        if self.training:
            for kind in self.kinds:
                kind.begin_pass()
        x = self._embedded(given, is_padding, seen)
        losses: dict[str, list[Tensor]] = {}
        reading = self._reading(
            seen=0 if self.config.memory != "none" else seen,
            extra=self.kinds[0].extra_states(x.shape[1]),
            is_padding=is_padding,
            is_global=masks.is_global,
            losses=losses,
        )
        if memory is not None:
            self._check_memory(memory, x)
        states: list[list[Tensor]] = []
        if self.config.memory == "none":
            states.append(self._run(x, reading, cache))
        else:
            memory = self.start(x) if memory is None else memory
            for part in segments(x.shape[1], self.config.segment(training=self.training)):
                piece, memory = self._read_segment(x[:, part], reading, memory)
                states.append(piece)
            if cache is not None:
                cache.remember(memory)
        joined = [torch.cat(column, 1) for column in zip(*states, strict=True)] if states else [x]
        last = joined[-1] if self.norm is None else self.norm(joined[-1])
        wants_states = wanted(output_hidden_states, self.config.output_hidden_states)
        outputs = LongRangeOutput(
            last_hidden_state=last,
            past_key_values=cache,
            memory=memory,
            hidden_states=(*joined[:-1], last) if wants_states else None,
            losses={name: torch.stack(values).sum() / len(states) for name, values in losses.items()} or None,
        )
        return outputs if wanted(return_dict, self.config.return_dict) else outputs.to_tuple()

    def start(self, x: Tensor) -> Memory:
        """The memory before the first segment of ``x``, [batch, any, hidden_size]."""
        compressor = cast(LongRangeLayer, self.layers[0]).compressor
        counts = compressor is not None and compressor.counts_usage
        return empty_memory(len(self.layers), x, counts_usage=counts)

    def cache(self, given: LongRangeCache | None, use_cache: bool | None) -> LongRangeCache | None:
        """The cache of a call: the caller's, a new one, or none.

        Raises:
            ValueError: the kind has none, it is of another class, or gradients are wanted, which it does not
                carry.
        """
        if given is not None and not isinstance(given, LongRangeCache):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ValueError(f"past_key_values is a {type(given).__name__}; it must be a LongRangeCache")
        refusal = None if self.config.memory != "none" else self.config.refusal("cache")
        if (given is not None or use_cache) and refusal:
            raise ValueError(f"use_cache is True, which {refusal}; give use_cache=False")
        if torch.is_grad_enabled():
            if given is not None or use_cache:
                raise ValueError(
                    "past_key_values and use_cache are for reading without gradients; "
                    "call the model within torch.no_grad()"
                )
            return None
        usual = self.config.use_cache and self.config.is_decoder and not refusal
        if given is None and not self.training and wanted(use_cache, usual):
            return self.new_cache()
        return given

    def new_cache(self) -> LongRangeCache:
        """An empty cache for this model."""
        return LongRangeCache(self.kinds, has_memory=self.config.memory != "none")

    def _run(self, x: Tensor, reading: Reading, cache: LongRangeCache | None) -> list[Tensor]:
        """The tokens' states before every layer, and after the last."""
        length = x.shape[1]
        states = self._run_layers(F.pad(x, (0, 0, 0, reading.extra)), reading, cache)
        return [state[:, :length] for state in states]

    def _run_layers(self, x: Tensor, reading: Reading, cache: LongRangeCache | None) -> list[Tensor]:
        if self.config.reversible:
            caches = None if cache is None else [cache.layer_cache(at) for at in range(len(self.layers))]
            return [x, run_reversibly(cast(list[Any], list(self.layers)), x, reading, caches)]
        if self.config.block_sizes is not None:
            blocks = self.config.block_sizes
            return run_funnel(
                list(self.layers), list(self.decoder), x, reading, blocks, self.config.pooling_between
            )
        states = [x]
        for at, layer in enumerate(self.layers):
            kept = None if cache is None else cache.layer_cache(at)
            x, _ = layer(x, reading, None, None, kept)
            states.append(x)
        return states

    def _read_segment(self, x: Tensor, reading: Reading, memory: Memory) -> tuple[list[Tensor], Memory]:
        """Every layer's input, and the last output; and the memory after it."""
        states, after = [x], list[LayerMemory]()
        sizes = self.config.memory_sizes(training=self.training)
        for layer, kept in zip(self.layers, memory.layers, strict=True):
            x, one = layer(x, reading, kept, sizes, None)
            states.append(x)
            after.append(cast(LayerMemory, one))
        return states, Memory(layers=tuple(after), seen=memory.seen + x.shape[1])

    def _reading(
        self,
        *,
        seen: int,
        extra: int = 0,
        is_padding: Tensor | None,
        is_global: Tensor | None,
        losses: dict[str, list[Tensor]],
    ) -> Reading:
        config = self.config
        return Reading(
            causal=config.is_decoder,
            seen=seen,
            extra=extra,
            is_padding=is_padding,
            is_global=is_global,
            biases=self.relative_biases,
            distances=None if self.distances is None else self.distances.weight,
            position_dropout=config.hidden_dropout_prob,
            clamp_distance=config.clamp(training=self.training),
            span=config.span(training=self.training),
            rotary_base=config.rotary_base,
            shared=cast(Mapping[str, nn.Module], dict(self.shared.items())),
            impl=config.implementation,
            losses=losses,
        )

    def _embedded(self, x: Tensor, is_padding: Tensor | None, seen: int) -> Tensor:
        if self.config.scale_embeddings:
            x = x * math.sqrt(self.config.hidden_size)
        if self.position_embeddings is not None:
            if is_padding is None:
                position = torch.arange(seen, seen + x.shape[1], device=x.device)
            else:
                position = ((~is_padding).cumsum(1) - 1).clamp_min(0)[:, seen:]
            x = x + self.position_embeddings(position)
        return self.dropout(x)

    def _check_length(self, length: int) -> None:
        config = self.config
        if config.positions == "absolute" and length > config.max_position_embeddings:
            raise ValueError(
                f"the input has {length} tokens; positions are 'absolute' with max_position_embeddings = "
                f"{config.max_position_embeddings}: shorten it, or choose other positions"
            )
        if length != config.max_position_embeddings:
            config.require(
                "variable length",
                f"the input has {length} tokens and max_position_embeddings is "
                f"{config.max_position_embeddings}",
            )

    def _check_memory(self, memory: Memory, x: Tensor) -> None:
        if self.config.memory == "none":
            raise ValueError("memory is given, and config.memory is 'none': this model keeps none")
        sizes = {(*part.shape[::2],) for one in memory.layers for part in (one.recent, one.compressed)}
        if len(memory.layers) != len(self.layers) or sizes != {(x.shape[0], x.shape[2])}:
            raise ValueError(
                f"memory has {len(memory.layers)} layers with (batch, hidden_size) in {sorted(sizes)}; "
                f"it must have {len(self.layers)} with {(x.shape[0], x.shape[2])}"
            )
        if (memory.layers[0].usage is None) != (self.start(x).layers[0].usage is None):
            raise ValueError("memory is of a model with another compression: only 'most-used' counts usage")

    def _checked_padding(self, is_padding: Tensor | None, keys: int) -> Tensor | None:
        if is_padding is None:
            return None
        if is_padding.shape[1] != keys:
            raise ValueError(
                f"attention_mask has {is_padding.shape[1]} columns; it must have {keys}: "
                "all tokens so far, those in the cache included"
            )
        if not is_padding.any():
            return None
        if self.config.memory != "none":
            raise ValueError(
                "attention_mask has zeros, and a memory keeps what it was given, padding too; give texts "
                "of one length, or pad at the end without a mask, where a causal model does not see it"
            )
        self.config.require("padding", "attention_mask has zeros")
        positions = self.config.positions
        counts = positions == "infused" or self.config.block_sizes is not None
        counts = counts or any(
            kind.counts_from_start or (kind.turns_matter and positions == "rotary") for kind in self.kinds
        )
        if counts and bool((is_padding[:, :-1] & ~is_padding[:, 1:]).any()):
            raise ValueError(
                "attention_mask has zeros before ones, and this model counts positions from the beginning; "
                "pad at the end"
            )
        return is_padding
