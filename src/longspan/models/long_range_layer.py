"""One layer of the relatives: attention of any kind, then a feed-forward network, each with a norm before or
after it, and what the layer keeps of a segment.
"""

from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers.activations import ACT2FN
from transformers.modeling_layers import GradientCheckpointingLayer

from longspan.models.long_range_config import LongRangeConfig
from longspan.nn.compression import Compressor, as_constants, reconstruction_loss
from longspan.nn.dropout import Dropout
from longspan.nn.kinds.kind import Cache
from longspan.nn.long_range_attention import LongRangeAttention, Reading
from longspan.nn.memory import LayerMemory, MemorySizes, Overflow, add_compressed, remember
from longspan.nn.pooling import Pooling


class LongRangeLayer(GradientCheckpointingLayer):
    """Self-attention, then a feed-forward network, each added to what it was given."""

    def __init__(self, config: LongRangeConfig, layer: int) -> None:
        super().__init__()
        size, inner = config.hidden_size, config.intermediate_size
        self.is_pre_norm = config.norm == "pre"
        self.attention_norm = nn.LayerNorm(size, eps=config.layer_norm_eps)
        self.attention = LongRangeAttention(
            size,
            config.kind(layer)(config.layer_shape(layer), config.kind_settings(layer)),
            positions=cast(Any, config.positions),
            dropout=config.attention_probs_dropout_prob,
            bias=config.attention_bias,
        )
        self.feed_forward_norm = nn.LayerNorm(size, eps=config.layer_norm_eps)
        self.expand = nn.Linear(size, inner)
        self.activation = ACT2FN[config.hidden_act]
        self.contract = nn.Linear(inner, size)
        self.dropout = Dropout(config.hidden_dropout_prob)
        self.compressor = (
            Compressor(
                size,
                config.compression_ratio,
                cast(Any, config.compression),
                cast(Any, config.compression_loss),
            )
            if config.memory == "compressive"
            else None
        )

    def forward(
        self,
        x: Tensor,
        reading: Reading,
        memory: LayerMemory | None = None,
        sizes: MemorySizes | None = None,
        cache: Cache | None = None,
        pooling: Pooling | None = None,
    ) -> tuple[Tensor, LayerMemory | None]:
        """Reads a segment.

        Args:
            x: [batch, length, hidden_size].
            reading: of this pass.
            memory: before the segment.
            sizes: of the memory.
            cache: of this layer.
            pooling: by which the output is shorter than the input, without memory and cache.

        Returns:
            [batch, length, hidden_size], and the memory after the segment.
        """
        if pooling is not None:
            return self._pooled(x, reading, pooling), None
        earlier = None if memory is None else self._normed(memory.states)
        attended = self.attention(self._normed(x), reading, earlier=earlier, cache=cache)
        after = None
        if memory is not None:
            assert sizes is not None
            after = self._remember(x, memory, sizes, reading)
        x = self._added(x, attended, self.attention_norm)
        return self._added(x, self.feed_forward(x), self.feed_forward_norm), after

    def _pooled(self, x: Tensor, reading: Reading, pooling: Pooling) -> Tensor:
        """[batch, half of the length, hidden_size]: queries are pooled, keys and values are not."""
        pooled = pooling.pool(x, reading.is_padding)
        # Where the first of a pair stands a query is what it would be alone, whatever the kind and the
        # positions; where the second stands it is computed for nothing.
        queries = pooling.spread(self._normed(pooled), x.shape[1])
        attended = pooling.first(self.attention(queries, reading, key_input=self._normed(x)))
        x = self._added(pooled, attended, self.attention_norm)
        return self._added(x, self.feed_forward(x), self.feed_forward_norm)

    def attention_half(self, x: Tensor, reading: Reading, cache: Cache | None = None) -> Tensor:
        """[batch, length, hidden_size] -> the same: what the first half adds."""
        return self.dropout(self.attention(self._normed(x), reading, cache=cache))

    def feed_forward_half(self, x: Tensor) -> Tensor:
        """[batch, length, hidden_size] -> the same: what the second half adds."""
        return self.dropout(self.feed_forward(x))

    def feed_forward(self, x: Tensor) -> Tensor:
        """[batch, length, hidden_size] -> the same: what the second half adds."""
        given = self.feed_forward_norm(x) if self.is_pre_norm else x
        return self.contract(self.dropout(self.activation(self.expand(given))))

    def _added(self, x: Tensor, new: Tensor, norm: nn.LayerNorm) -> Tensor:
        x = x + self.dropout(new)
        return x if self.is_pre_norm else norm(x)

    def _normed(self, x: Tensor) -> Tensor:
        return self.attention_norm(x) if self.is_pre_norm else x

    def _remember(self, x: Tensor, memory: LayerMemory, sizes: MemorySizes, reading: Reading) -> LayerMemory:
        used = None
        if memory.usage is not None:
            with torch.no_grad():
                used = self.attention.usage(self._normed(x), reading, earlier=self._normed(memory.states))
        after, overflow = remember(memory, x, sizes, used)
        if overflow is None:
            return after
        assert self.compressor is not None
        new = self.compressor(overflow)
        if torch.is_grad_enabled():
            loss = self._compression_loss(x, overflow, new)
            if loss is not None:
                reading.losses.setdefault("compression", []).append(loss)
        # Through time, the loss of later segments trains the compression, and that alone: it read constants.
        kept = new if self.compressor.objective == "bptt" else new.detach()
        return add_compressed(after, kept, sizes)

    def _compression_loss(self, x: Tensor, old: Overflow, new: Tensor) -> Tensor | None:
        """[]: of the compression alone. All weights but its own, and the states, are constants here."""
        assert self.compressor is not None
        if self.compressor.objective == "auto-encoding":
            return self.compressor.auto_encoding_loss(old.states, new)
        if self.compressor.objective != "attention":
            return None
        query, before = self.attention.content(
            self._constant_norm(x.detach()), self._constant_norm(old.states)
        )
        _, compressed = self.attention.content(x.detach(), self._constant_norm(new))
        return reconstruction_loss(query, before, compressed)

    def _constant_norm(self, x: Tensor) -> Tensor:
        if not self.is_pre_norm:
            return x
        norm = self.attention_norm
        weight, bias = as_constants(norm.weight, norm.bias)
        return F.layer_norm(x, norm.normalized_shape, weight, bias, norm.eps)
