"""Self-attention that looks only back, within dilated windows (paper, section 4), for language models.

Positions are Transformer-XL's relative sinusoids (arXiv 1901.02860, section 3.3) or rotary ones; both depend
on distances alone, so a text may have any length. There are no global tokens. With a `WindowCache` a text is
read piece by piece, to the same outputs as at once.
"""

from collections.abc import Sequence
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from longspan.attention.attend import Implementation, attend
from longspan.attention.pattern import Pattern
from longspan.nn.dropout import dropout
from longspan.nn.global_rows import split_heads
from longspan.nn.rotary import Rotation, rotate
from longspan.nn.sinusoids import sinusoids
from longspan.nn.window_cache import WindowCache

_FEWEST_DISTANCES = 256


class RelativeBiases(nn.Module):
    """Transformer-XL's u and v: what a query looks for whatever it is. One pair serves all layers.

    Args:
        heads: of a layer.
        head_dim: of a head.
    """

    def __init__(self, heads: int, head_dim: int) -> None:
        super().__init__()
        self.content = nn.Parameter(torch.zeros(heads, 1, head_dim))
        self.position = nn.Parameter(torch.zeros(heads, 1, head_dim))


class Relative(NamedTuple):
    """What the layers of one forward pass need for relative positions."""

    biases: RelativeBiases
    dropout: float
    """Of the sinusoids."""


class CausalSelfAttention(nn.Module):
    """Every token sees itself and a window of those before it.

    Args:
        hidden_size: of the tokens.
        patterns: the window of each head; all look only back, and not without bound.
        relative: whether positions are relative sinusoids, with a projection of their own.
        dropout: of the attention probabilities, in training.
        impl: the implementation of attention.
    """

    def __init__(
        self,
        hidden_size: int,
        patterns: Sequence[Pattern],
        *,
        relative: bool = True,
        dropout: float = 0.0,
        impl: Implementation = "auto",
    ) -> None:
        super().__init__()
        if hidden_size % len(patterns):
            raise ValueError(f"hidden_size is {hidden_size}; it must be a multiple of {len(patterns)} heads")
        wrong = [one for one in patterns if not one.is_causal or one.left is None]
        if wrong:
            raise ValueError(f"patterns holds {wrong[0]}; it must have a bound to the left, and right=0")
        self.patterns = tuple(patterns)
        self.dropout = dropout
        self.impl: Implementation = impl
        self.query = nn.Linear(hidden_size, hidden_size, bias=False)
        self.key = nn.Linear(hidden_size, hidden_size, bias=False)
        self.value = nn.Linear(hidden_size, hidden_size, bias=False)
        self.position = nn.Linear(hidden_size, hidden_size, bias=False) if relative else None
        self.output = nn.Linear(hidden_size, hidden_size, bias=False)

    @property
    def reach(self) -> int:
        """How many positions before a token any head sees."""
        return max(cast(int, pattern.left) * pattern.dilation for pattern in self.patterns)

    def forward(
        self,
        x: Tensor,
        positions: Relative | Rotation,
        *,
        is_padding: Tensor | None = None,
        cache: WindowCache | None = None,
    ) -> Tensor:
        """Attention of every token of ``x``.

        Args:
            x: [batch, length, hidden_size].
            positions: relative ones, or the rotation of these tokens.
            is_padding: [batch, at least the keys] bool; its end is that of the tokens.
            cache: what came before; gets these tokens too.

        Returns:
            [batch, length, hidden_size].
        """
        heads = len(self.patterns)
        q, k, v = (split_heads(project(x), heads) for project in (self.query, self.key, self.value))
        if isinstance(positions, Rotation):
            q, k = rotate(q, positions), rotate(k, positions)
        if cache is not None:
            k, v = cache.extend(k, v)
        if is_padding is not None:
            is_padding = is_padding[:, is_padding.shape[1] - k.shape[2] :]
        if isinstance(positions, Rotation):
            out = self._attend(q, k, v, is_padding=is_padding)
        elif x.shape[1] == 1 and is_padding is None and cache is not None:
            out = self._attend_to_last(q, k, v, positions, cache)
        else:
            keys = self._position_keys(k.shape[2], positions, cache)
            out = self._attend(
                q + positions.biases.content.to(q.dtype),
                k,
                v,
                is_padding=is_padding,
                position_query=q + positions.biases.position.to(q.dtype),
                # The half of the table for keys after the query, of which there are none.
                position_keys=F.pad(keys, (0, 0, 0, keys.shape[1] - 1)),
            )
        return self.output(out.transpose(1, 2).flatten(2))

    def _attend(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        *,
        is_padding: Tensor | None,
        position_query: Tensor | None = None,
        position_keys: Tensor | None = None,
    ) -> Tensor:
        """[batch, heads, queries, head_dim]: the queries stand at the end of the keys."""
        out = attend(
            q,
            k,
            v,
            self.patterns,
            is_padding=is_padding,
            query_offset=k.shape[2] - q.shape[2],
            dropout=self.dropout if self.training else 0.0,
            position_query=position_query,
            position_keys=position_keys,
            impl=self.impl,
        )
        return cast(Tensor, out)

    def _attend_to_last(
        self, q: Tensor, k: Tensor, v: Tensor, positions: Relative, cache: WindowCache
    ) -> Tensor:
        """The same for one query, [batch, heads, 1, head_dim].

        Its relative terms are one number a distance: a bias, if every example's heads are heads of their own.
        The tables of the general way would cost a new token more than all the rest of it.
        """
        batch, heads, _, head_dim = q.shape
        scale = head_dim**-0.5
        table = self._position_keys(k.shape[2], positions, cache)
        exact = torch.promote_types(q.dtype, torch.float32)
        query = scale * (q + positions.biases.position.to(q.dtype)).to(exact)
        with torch.autocast(q.device.type, enabled=False):  # which would round what softmax sees
            bias = query @ table.transpose(1, 2).to(exact)
        bias = F.pad(bias.flatten(0, 2), (0, table.shape[1] - 1))
        q = q + positions.biases.content.to(q.dtype)
        out = attend(
            q.reshape(1, batch * heads, 1, head_dim),
            k.reshape(1, batch * heads, -1, head_dim),
            v.reshape(1, batch * heads, -1, head_dim),
            self.patterns * batch,
            query_offset=k.shape[2] - 1,
            bias=bias,
            scale=scale,
            impl=self.impl,
        )
        return cast(Tensor, out).view(batch, heads, 1, head_dim)

    def _position_keys(self, keys: int, positions: Relative, cache: WindowCache | None) -> Tensor:
        """[heads, distances, head_dim]: the projected sinusoids, farthest first, as far as ``keys`` need."""
        assert self.position is not None
        farthest = min(self.reach, keys - 1)
        kept = None if cache is None else cache.position_keys
        if kept is not None and kept.shape[1] > farthest:
            return kept[:, kept.shape[1] - 1 - farthest :]
        # With a cache, twice as far as needed: the next tokens then find them.
        most = farthest if cache is None else min(self.reach, max(2 * farthest, _FEWEST_DISTANCES))
        distances = torch.arange(most, -1, -1, device=self.position.weight.device)
        waves = sinusoids(distances, self.position.in_features).to(self.position.weight.dtype)
        waves = dropout(waves, positions.dropout, self.training)
        table = self.position(waves).unflatten(-1, (len(self.patterns), -1)).transpose(0, 1)
        if cache is not None:
            cache.position_keys = table = table.contiguous()
        return table[:, most - farthest :]

    def extra_repr(self) -> str:
        """The window, for ``print(model)``."""
        one = set(self.patterns)
        shown = next(iter(one)) if len(one) == 1 else self.patterns
        return f"heads={len(self.patterns)}, pattern={shown}"
