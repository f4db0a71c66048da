"""Reformer's attention (arXiv 2001.04451, section 2): tokens attend within buckets of a locality-sensitive
hash.

Queries are keys, a key being its query at length 1. Tokens are sorted by bucket and cut into chunks; a chunk
sees itself and the one before it, the first one the last. Several rounds of hashing are joined by their sums.
A token sees itself only if there is nothing else. Padding has a bucket of its own, behind all others.

The order that tokens are sorted into depends on all of the input, later tokens too: as a causal model it lets
that much of the future through. It is refused there, unless the settings say that this is known
(``accept_leak``). Reversible layers are the model's (`LongRangeConfig.reversible`); buckets are kept for
them, since states that are made again are not the same to the last bit.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil, prod
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from longspan.checks import at_least
from longspan.nn.kinds.kind import Ability, Call, Kind, LayerShape
from longspan.nn.kinds.patterned import all_padding_to_zero
from longspan.nn.kinds.routing import LEAK

_ITSELF = -1e5
_MOST_OF_ONE_HASH = 128


@dataclass(frozen=True, kw_only=True, slots=True)
class ReformerSettings:
    """Of Reformer's attention."""

    chunk: int = 64
    """Tokens of a chunk; it sees itself and the one before."""
    rounds: int = 2
    """Hashings, each with its own directions."""
    buckets: int | None = None
    """Of a round, an even number; None is about twice as many as the longest input has chunks. More than 128
    are two hashes together, and then a multiple of 4."""
    accept_leak: bool = False
    """Whether a causal model may be not strictly causal."""

    def __post_init__(self) -> None:
        at_least(1, chunk=self.chunk, rounds=self.rounds)
        at_least(2, buckets=self.buckets)
        if self.buckets is not None and self.buckets % 2:
            raise ValueError(f"buckets is {self.buckets}; it must be even: a direction and its opposite")
        if self.buckets is not None and self.buckets > _MOST_OF_ONE_HASH and self.buckets % 4:
            raise ValueError(
                f"buckets is {self.buckets}; above {_MOST_OF_ONE_HASH} it must be a multiple of 4: two hashes"
            )


class Reformer(Kind):
    """Attention within hash buckets."""

    name = "reformer"
    Settings = ReformerSettings
    cannot = {
        "cache": "which tokens attend to each other depends on the whole input",
        "cross-length": "queries and keys are the same tokens",
        "relative": "tokens are sorted away from their positions",
        "learned": "tokens are sorted away from their positions",
        "rotary": "hashes are of contents, which turning would change with the position",
        "usage": "chunks are read apart",
    }

    settings: ReformerSettings
    directions: Tensor

    def __init__(self, shape: LayerShape, settings: Any) -> None:
        super().__init__(shape, settings)
        self.hashes = _hashes(settings.buckets or max(2, 2 * (shape.max_length // settings.chunk)))
        """How many buckets each hash has; a token's bucket is one of their product."""
        self.buckets = prod(self.hashes)
        self.register_buffer("directions", self._draw())

    @classmethod
    def refusals(cls, settings: Any, *, causal: bool) -> Mapping[Ability, str]:
        """Causality too, unless its leak is accepted."""
        return cls.cannot if settings.accept_leak else {**cls.cannot, "causal": LEAK}

    @property
    def shares_keys(self) -> bool:
        """Queries are keys."""
        return True

    def begin_pass(self) -> None:
        """Hashes anew in every training pass."""
        self.directions = self._draw().to(self.directions)

    def forward(self, q: Tensor, k: Tensor, v: Tensor, call: Call) -> Tensor:
        """See `Kind.forward`; ``k`` is ``q`` and is not read."""
        order = call.replay.get("order")
        if order is None:
            order = self._sorted(q.detach(), call.is_padding)
            call.replay["order"] = order
        outs, sums = zip(*(self._round(q, v, one, call) for one in order.unbind(2)), strict=True)
        lse = torch.stack(sums)
        weights = (lse - lse.logsumexp(0)).exp()
        out = (torch.stack(outs) * weights[..., None]).sum(0).to(q.dtype)
        return all_padding_to_zero(out, call.is_padding, 0)

    def _draw(self) -> Tensor:
        return torch.randn(self.shape.heads, self.settings.rounds, self.shape.head_dim, sum(self.hashes) // 2)

    def _sorted(self, x: Tensor, is_padding: Tensor | None) -> Tensor:
        """[B, H, rounds, N] int64: the tokens in the order of their buckets, then of their places."""
        turned = torch.einsum("bhnd,hrde->bhrne", x, self.directions.to(x.dtype))
        bucket, product = torch.zeros_like(turned[..., 0], dtype=torch.int64), 1
        for one, size in zip(turned.split([size // 2 for size in self.hashes], -1), self.hashes, strict=True):
            bucket = bucket + product * torch.cat([one, -one], -1).argmax(-1)
            product *= size
        if is_padding is not None:
            bucket = bucket.masked_fill(is_padding[:, None, None], self.buckets)
        return bucket.argsort(dim=-1, stable=True)

    def _round(self, q: Tensor, v: Tensor, order: Tensor, call: Call) -> tuple[Tensor, Tensor]:
        """What one hashing reads, [B, H, N, D], and the log of its sums, [B, H, N]."""
        batch, heads, length, dim = q.shape
        size = self.settings.chunk
        chunks = ceil(length / size)
        extra = chunks * size - length
        is_padding = call.is_padding
        hidden = q.new_zeros(batch, length, dtype=torch.bool) if is_padding is None else is_padding
        # Places behind the last token; they hold token 0 and are hidden.
        place = F.pad(order, (0, extra)).unflatten(2, (chunks, size))  # [B, H, C, m]
        absent = F.pad(hidden[:, None].expand(-1, heads, -1).gather(2, order), (0, extra), value=True)
        absent = absent.unflatten(2, (chunks, size))
        q_c = q.gather(2, place.flatten(2)[..., None].expand(-1, -1, -1, dim)).unflatten(2, (chunks, size))
        v_c = v.gather(2, place.flatten(2)[..., None].expand(-1, -1, -1, dim)).unflatten(2, (chunks, size))
        k_c = F.normalize(q_c, dim=-1)
        before, is_same = self._before(hidden, chunks)
        k_c, v_c = (torch.cat([x, _chunks_at(x, before)], 3) for x in (k_c, v_c))
        at = torch.cat([place, _chunks_at(place, before)], 3)
        gone = torch.cat([absent, _chunks_at(absent, before) | is_same], 3)
        # Keys have length 1: there is no further scale. Sums are in fp32, or fp64 for fp64 input.
        scores = (q_c @ k_c.transpose(-1, -2)).to(torch.promote_types(q.dtype, torch.float32))
        mine, other = place[..., None], at[..., None, :]
        scores = torch.where(mine == other, _ITSELF, scores)
        lowest = torch.finfo(scores.dtype).min
        scores = scores.masked_fill(gone[..., None, :], lowest)
        if call.causal:
            scores = scores.masked_fill(other > mine, lowest)
        lse = scores.logsumexp(-1)
        read = F.dropout((scores - lse[..., None]).exp(), call.dropout).to(v.dtype) @ v_c
        return _unsorted(read.flatten(2, 3), order), _unsorted(lse.flatten(2)[..., None], order)[..., 0]

    def _before(self, hidden: Tensor, chunks: int) -> tuple[Tensor, Tensor]:
        """[B, C] the chunk before each, that of the first being the last with a token; and whether it is
        itself."""
        last = ((~hidden).sum(1) + self.settings.chunk - 1) // self.settings.chunk - 1
        before = torch.arange(-1, chunks - 1, device=hidden.device).expand(len(hidden), -1).clone()
        before[:, 0] = last.clamp_min(0)
        same = before == torch.arange(chunks, device=hidden.device)
        return before, same[:, None, :, None]


def _hashes(buckets: int) -> tuple[int, ...]:
    """One hash for few buckets; for many, two whose numbers are even and near each other (trax does so)."""
    if buckets <= _MOST_OF_ONE_HASH:
        return (buckets,)
    buckets = buckets // 4 * 4
    first = next(n for n in range(2, buckets, 2) if n * n >= buckets and buckets % (2 * n) == 0)
    return (first, buckets // first)


def _chunks_at(x: Tensor, at: Tensor) -> Tensor:
    """[B, H, C, ...] at [B, C] -> the same shape."""
    index = at.view(at.shape[0], 1, at.shape[1], *(1,) * (x.dim() - 3)).expand_as(x)
    return x.gather(2, index)


def _unsorted(x: Tensor, order: Tensor) -> Tensor:
    """[B, H, at least N, D] in the order of buckets -> [B, H, N, D] in that of the text."""
    back = order.argsort(-1)[..., None].expand(-1, -1, -1, x.shape[3])
    return x.gather(2, back)
