"""Self-attention with any kind inside: projections, positions and keys from before the segment.

Positions are relative (Transformer-XL's sinusoids, with u and v), learned by distance (Adaptive Span),
rotary, or infused (Shortformer, arXiv 2012.15832, section 5: positions are added to what makes queries and
keys, and values stay without them). Absolute positions are in the embeddings already.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, TypeAlias

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from longspan.attention.attend import Implementation
from longspan.nn.causal_attention import RelativeBiases
from longspan.nn.compression import detached_linear
from longspan.nn.dropout import dropout
from longspan.nn.global_rows import split_heads
from longspan.nn.kinds.kind import Cache, Call, Kind
from longspan.nn.rotary import rotate, rotation
from longspan.nn.sinusoids import sinusoids
from longspan.nn.window_cache import WindowCache

Positions: TypeAlias = Literal["none", "absolute", "relative", "learned", "rotary", "infused"]


class RelativeTerms(NamedTuple):
    """`longspan.nn.kinds.kind.Relative`, made."""

    query: Tensor
    keys: Tensor


@dataclass(frozen=True, kw_only=True, slots=True)
class Reading:
    """What all layers of one pass need to know."""

    causal: bool
    seen: int = 0
    """Position of the first key that a pass brings: tokens before it are in caches."""
    extra: int = 0
    """States after the tokens that are none: see `Kind.extra_states`."""
    stride: int = 1
    """Tokens that a state stands for; positions and distances are those of tokens."""
    is_padding: Tensor | None = None
    """[batch, all keys] bool, without extra states; its end is that of the tokens."""
    is_global: Tensor | None = None
    """[batch, length] bool."""
    biases: RelativeBiases | None = None
    """Of relative positions: one pair for all layers."""
    distances: Tensor | None = None
    """[distances, head_dim] of learned positions, nearest first: one table for all layers."""
    position_dropout: float = 0.0
    clamp_distance: int | None = None
    """Relative distances beyond it count as this one."""
    rotary_base: float = 10000.0
    span: int | None = None
    """No token sees farther back."""
    shared: Mapping[str, nn.Module] = field(default_factory=dict)
    """What the layers of a kind share, by the kind's name."""
    impl: Implementation = "auto"
    losses: dict[str, list[Tensor]] = field(default_factory=dict)
    replay: dict[str, Tensor] | None = None
    """What one layer decided before, where it is computed again; see `Call.replay`."""


class LongRangeAttention(nn.Module):
    """Projections around a kind of attention.

    Args:
        hidden_size: of the tokens.
        kind: how queries read keys.
        positions: that enter here.
        dropout: of attention, in training.
        bias: whether projections have one.
    """

    def __init__(
        self, hidden_size: int, kind: Kind, *, positions: Positions, dropout: float = 0.0, bias: bool = False
    ) -> None:
        super().__init__()
        heads = kind.shape.heads
        if hidden_size != heads * kind.shape.head_dim:
            raise ValueError(
                f"hidden_size is {hidden_size}; it must be {heads} heads of {kind.shape.head_dim}"
            )
        self.heads, self.positions, self.dropout = heads, positions, dropout
        self.query = nn.Linear(hidden_size, hidden_size, bias=bias)
        self.key = None if kind.shares_keys else nn.Linear(hidden_size, hidden_size, bias=bias)
        self.value = nn.Linear(hidden_size, hidden_size, bias=bias)
        self.position = nn.Linear(hidden_size, hidden_size, bias=False) if positions == "relative" else None
        self.output = nn.Linear(hidden_size, hidden_size, bias=bias)
        self.kind = kind

    def forward(
        self,
        x: Tensor,
        reading: Reading,
        *,
        earlier: Tensor | None = None,
        cache: Cache | None = None,
        key_input: Tensor | None = None,
    ) -> Tensor:
        """Attention of every token of ``x``.

        Args:
            x: [batch, length, hidden_size].
            reading: of this pass.
            earlier: [batch, slots, hidden_size]: states before ``x`` that are keys too.
            cache: what came before; gets these tokens too.
            key_input: [batch, keys, hidden_size], where keys and values are not made of ``x``.

        Returns:
            [batch, length, hidden_size].
        """
        q, k, v, call = self._prepared(x, reading, earlier, cache, key_input)
        out = self.kind(q, k, v, call)
        return self.output(out.transpose(1, 2).flatten(2))

    def usage(self, x: Tensor, reading: Reading, *, earlier: Tensor | None = None) -> Tensor:
        """[batch, slots + length]: how much ``x`` looks at each of ``earlier`` and of itself."""
        q, k, v, call = self._prepared(x, reading, earlier, None, None)
        return self.kind.usage(q, k, v, call)

    def content(self, queries: Tensor, states: Tensor) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """Queries, and keys and values of other states, without positions, by weights that stay constant.

        Args:
            queries: [batch, length, hidden_size].
            states: [batch, slots, hidden_size].

        Returns:
            [batch, heads, length, head_dim] and two of [batch, heads, slots, head_dim].
        """
        q = split_heads(detached_linear(queries, self.query), self.heads)
        k = split_heads(detached_linear(states, self.key or self.query), self.heads)
        v = split_heads(detached_linear(states, self.value), self.heads)
        return q, (k, v)

    def _prepared(
        self,
        x: Tensor,
        reading: Reading,
        earlier: Tensor | None,
        cache: Cache | None,
        key_input: Tensor | None,
    ) -> tuple[Tensor, Tensor, Tensor, Call]:
        source = x if key_input is None else key_input
        if earlier is not None and earlier.shape[1]:
            source = torch.cat([earlier, source], 1)
        offset = 0 if key_input is not None else source.shape[1] - x.shape[1]
        position = torch.arange(reading.seen, reading.seen + source.shape[1], device=x.device)
        position = position * reading.stride
        to_query, to_key = x, source
        if self.positions == "infused":
            waves = sinusoids(position, x.shape[2]).to(x.dtype)
            waves = dropout(waves, reading.position_dropout, self.training)
            to_query, to_key = x + waves[offset : offset + x.shape[1]], source + waves
        q = split_heads(self.query(to_query), self.heads)
        k = split_heads((self.key or self.query)(to_key), self.heads)
        v = split_heads(self.value(source), self.heads)
        if self.positions == "rotary":
            turn = rotation(position, q.shape[3], base=reading.rotary_base)
            q = rotate(q, type(turn)(*(one[offset : offset + x.shape[1]] for one in turn)))
            k = rotate(k, turn)
        if isinstance(cache, WindowCache):
            k, v = cache.extend(k, v)
            offset = k.shape[2] - q.shape[2]
        is_padding = reading.is_padding
        if is_padding is not None:
            is_padding = is_padding[:, is_padding.shape[1] - (k.shape[2] - reading.extra) :]
        q, relative = self._relative(q, k.shape[2], reading)
        call = Call(
            causal=reading.causal,
            query_offset=offset,
            extra=reading.extra,
            is_padding=is_padding,
            is_global=reading.is_global,
            relative=relative,
            dropout=self.dropout if self.training else 0.0,
            cache=None if isinstance(cache, WindowCache) else cache,
            span=reading.span,
            shared=reading.shared.get(self.kind.name),
            training=self.training,
            impl=reading.impl,
            losses=reading.losses,
            replay={} if reading.replay is None else reading.replay,
        )
        return q, k, v, call

    def _relative(self, q: Tensor, keys: int, reading: Reading) -> tuple[Tensor, RelativeTerms | None]:
        """What queries look for by content, and the terms of positions."""
        farthest = max(keys - 1, 0)
        clamp = None if reading.clamp_distance is None else reading.clamp_distance // reading.stride
        for bound in (self.kind.reach, clamp, reading.span):
            farthest = farthest if bound is None else min(farthest, bound)
        if self.position is not None:
            assert reading.biases is not None
            # Farthest first. In a causal model there is nothing after the query, and zeros take its place.
            last = 0 if reading.causal else -farthest
            distances = torch.arange(farthest, last - 1, -1, device=q.device)
            waves = sinusoids(distances * reading.stride, self.position.in_features).to(
                self.position.weight.dtype
            )
            waves = dropout(waves, reading.position_dropout, self.training)
            table = self.position(waves).unflatten(-1, (self.heads, -1)).transpose(0, 1)
            after = farthest if reading.causal else 0
            terms = RelativeTerms(
                q + reading.biases.position.to(q.dtype), F.pad(table, (0, 0, 0, after)).to(q.dtype)
            )
            return q + reading.biases.content.to(q.dtype), terms
        if reading.distances is not None:
            farthest = min(farthest, reading.distances.shape[0] - 1)
            table = F.pad(reading.distances[: farthest + 1].flip(0), (0, 0, 0, farthest)).to(q.dtype)
            return q, RelativeTerms(q, table.expand(self.heads, -1, -1))
        return q, None
