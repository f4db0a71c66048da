"""BP-Transformer (arXiv 1911.04070): tokens see near tokens one by one, and far ones as spans.

A binary tree stands over the tokens. Its nodes, the spans, have states of their own through all layers, zeros
at first. A span attends to its tokens. A token attends to itself and, on each side, to ``nodes`` spans of
every level, from single tokens next to it to wide spans far away, which do not overlap and leave nothing out.
The kind of an edge, by level and place, has a vector that adds to the key at its end. A token has about
2 * nodes * log2(length / nodes) edges.

States of spans stand after those of tokens, the lowest level first. The span of the whole text is left out:
nobody sees it. Refused are reading in pieces, and positions by distance, whose place the edges take.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from longspan.checks import at_least
from longspan.nn.kinds.kind import Call, Kind, LayerShape

_NO_POSITION = "a span has no position of its own, and edges say how far it is"


@dataclass(frozen=True, kw_only=True, slots=True)
class BPSettings:
    """Of the BP-Transformer."""

    nodes: int = 4
    """Spans of each level that a token sees on a side: the paper's k."""
    clip: int = 6
    """Levels beyond it have its edges."""

    def __post_init__(self) -> None:
        at_least(1, nodes=self.nodes)
        at_least(0, clip=self.clip)


class BP(Kind):
    """Attention along the edges of a binary tree."""

    name = "bp"
    Settings = BPSettings
    counts_from_start = True
    has_extra_states = True
    cannot = {
        "cache": "its spans are read with the whole input",
        "cross-length": "spans are counted from the beginning of a text, which a memory moves",
        "relative": _NO_POSITION,
        "learned": _NO_POSITION,
        "rotary": _NO_POSITION,
        "infused": _NO_POSITION,
        "usage": "far tokens are looked at as spans",
    }

    settings: BPSettings

    def __init__(self, shape: LayerShape, settings: Any) -> None:
        super().__init__(shape, settings)
        # Of each level: to itself, then left and right in turn, the nearest first. All heads share them.
        self.edges = nn.Embedding((2 * settings.nodes + 1) * (settings.clip + 1), shape.head_dim)

    @classmethod
    def extra_states(cls, length: int) -> int:
        """The spans of two tokens and more."""
        return sum(level_sizes(length)[1:])

    def forward(self, q: Tensor, k: Tensor, v: Tensor, call: Call) -> Tensor:
        """See `Kind.forward`; the states of spans come after those of tokens."""
        length = q.shape[2] - call.extra
        sizes = level_sizes(length)
        is_padding = call.is_padding
        if is_padding is None:
            is_padding = q.new_zeros(len(q), length, dtype=torch.bool)
        queries, keys, values = (x.split(sizes, 2) for x in (q, k, v))
        levels: list[_Level] = []
        for level, size in enumerate(sizes):
            hidden = F.pad(is_padding, (0, size * 2**level - length), value=True).unflatten(1, (size, -1))
            levels.append(_Level(queries[level], keys[level], values[level], hidden))
        k, v = levels[0].k.contiguous(), levels[0].v.contiguous()
        rows = [self._read_by_tokens(levels, call)]
        rows += [_read_by_spans(level, k, v, call.dropout) for level in levels[1:]]
        is_empty = torch.cat([level.is_empty for level in levels], 1)
        return torch.where(is_empty[:, None, :, None], 0.0, torch.cat(rows, 2))

    def sides(self, length: int, *, causal: bool) -> list["Side"]:
        """The edges of the tokens of a text, but for those to themselves."""
        return [
            side
            for level, size in enumerate(level_sizes(length))
            for is_right in ((False,) if causal else (False, True))
            if (side := Side(level, size, length, self.settings.nodes, is_right)).start < length
        ]

    def _read_by_tokens(self, levels: Sequence["_Level"], call: Call) -> Tensor:
        """[B, H, N, D]: one softmax over a token itself and the spans of all levels."""
        q, k, v, _ = levels[0]
        sides = self.sides(q.shape[2], causal=call.causal)
        trees = [levels] if call.causal else [levels, [level.mirrored() for level in levels]]
        scores = [(q * (k + self.edges.weight[0])).sum(3, keepdim=True)]
        scores += [side.scores(trees[side.is_right], self._edges_of(side)) for side in sides]
        weights = (torch.cat(scores, 3) * q.shape[3] ** -0.5).softmax(3)
        weights = F.dropout(weights, call.dropout).split([1] + [self.settings.nodes] * len(sides), 3)
        reads = [weights[0] * v, torch.zeros_like(v)]
        for side, part in zip(sides, weights[1:], strict=True):
            reads[side.is_right] = side.add_read(reads[side.is_right], part, trees[side.is_right])
        return reads[0] if call.causal else reads[0] + reads[1].flip(2)

    def _edges_of(self, side: "Side") -> Tensor:
        """[nodes, D], the nearest first."""
        begin = (2 * self.settings.nodes + 1) * min(side.level, self.settings.clip) + 1 + side.is_right
        return self.edges.weight[begin : begin + 2 * self.settings.nodes - 1 : 2]


def level_sizes(length: int) -> list[int]:
    """How many spans each level has, single tokens first, the whole text left out."""
    sizes = [length]
    while sizes[-1] > 2:
        sizes.append(_ceil(sizes[-1], 2))
    return sizes


class _Level(NamedTuple):
    """The spans of a level."""

    q: Tensor
    """[B, H, spans, D]; and so are k and v."""
    k: Tensor
    v: Tensor
    is_padding: Tensor
    """[B, spans, tokens of a span] bool."""

    @property
    def is_empty(self) -> Tensor:
        """[B, spans] bool: where no token is real."""
        return self.is_padding.all(2)

    def mirrored(self) -> "_Level":
        """The last span first."""
        return _Level(self.q.flip(2), self.k.flip(2), self.v.flip(2), self.is_padding.flip(1, 2))


def _read_by_spans(level: _Level, k: Tensor, v: Tensor, dropout: float) -> Tensor:
    """[B, H, spans, D]: what spans read of their tokens, whose keys and values, [B, H, N, D], are given.

    All edges to a span are of one kind, which adds the same to all its scores: it is left out.
    """
    missing = level.is_padding.shape[1] * level.is_padding.shape[2] - k.shape[2]
    k, v = (F.pad(x, (0, 0, 0, missing)).unflatten(2, level.is_padding.shape[1:]) for x in (k, v))
    scores = (level.q[:, :, :, None] @ k.transpose(3, 4)) * k.shape[4] ** -0.5
    scores = scores.masked_fill(level.is_padding[:, None, :, None], torch.finfo(scores.dtype).min)
    return (F.dropout(scores.softmax(4), dropout) @ v)[:, :, :, 0]


class Side(NamedTuple):
    """Edges from tokens to the spans of one level on one side of them.

    Seen from the left: tokens in groups of 2 ** level, from the first one that has such edges, have the same
    spans: group m has m, m - 1, ..., m - nodes + 1. But the right half of span m may be seen at the level
    below already. That is so for the first half of the group, and these see its left half in its place. On
    the right it is the same in the mirror: tokens and spans are given from the end.

    Groups are read some at a time, as one product with all spans that any of them sees.
    """

    level: int
    size: int
    """Spans of the level."""
    length: int
    """Tokens."""
    nodes: int
    is_right: bool

    @property
    def start(self) -> int:
        """The first token with such edges: all before it sees is in the spans of lower levels."""
        # The last span may end after the text; the mirror begins with the end of the text.
        beyond = self.size * 2**self.level - self.length if self.is_right else 0
        return self.nodes * (2**self.level - 1) + 1 - beyond

    def scores(self, levels: Sequence[_Level], edges: Tensor) -> Tensor:
        """[B, H, N, nodes]: products with keys and edges, the nearest span first; -inf where there is none.

        Args:
            levels: of the tree, mirrored on the right.
            edges: [nodes, D].
        """
        q = self._grouped(levels[0].q)
        all_of_them = (q @ self._seen([one.k for one in levels]).transpose(3, 4)).unflatten(3, self._shape)
        columns = self._columns(q.device)
        found = torch.take_along_dim(all_of_them, columns, 6)
        is_empty = self._seen([one.is_empty[:, None, :, None] for one in levels], True)
        is_empty = is_empty.transpose(3, 4)[:, :, :, :, None, None]
        found = found + (q @ edges.transpose(0, 1)).unflatten(3, self._shape)
        found = found.masked_fill(torch.take_along_dim(is_empty, columns, 6), -torch.inf)
        found = found.flatten(2, 5)[:, :, : self.length - self.start]
        return self._turned(F.pad(found, (0, 0, self.start, 0), value=-torch.inf))

    def add_read(self, read: Tensor, weights: Tensor, levels: Sequence[_Level]) -> Tensor:
        """What tokens have read before, [B, H, N, D], and what they read here.

        Args:
            read: mirrored on the right.
            weights: [B, H, N, nodes].
            levels: of the tree, mirrored on the right.
        """
        given = self._grouped(self._turned(weights)).unflatten(3, self._shape)
        values = self._seen([one.v for one in levels])
        spread = given.new_zeros(*given.shape[:6], values.shape[3])
        spread = spread.scatter(6, self._columns(given.device).expand_as(given), given)
        new = (spread.flatten(3, 5) @ values).flatten(2, 3)[:, :, : self.length - self.start]
        return torch.cat([read[:, :, : self.start], read[:, :, self.start :] + new], 2)

    @property
    def _together(self) -> int:
        """Groups that are read at a time: with wide spans a group has tokens enough for a product."""
        return max(1, self.nodes >> self.level)

    @property
    def _groups(self) -> int:
        return _ceil(_ceil(self.length - self.start, 2**self.level), self._together) * self._together

    @property
    def _shape(self) -> tuple[int, int, int]:
        """Of the tokens that are read at a time: groups, parts with the same nearest span, tokens."""
        return (self._together, 2, 2 ** (self.level - 1)) if self.level else (self._together, 1, 1)

    def _grouped(self, x: Tensor) -> Tensor:
        """[B, H, N, X] -> [B, H, times, tokens at a time, X]."""
        tokens = self._groups << self.level
        x = F.pad(x[:, :, self.start :], (0, 0, 0, tokens - self.length + self.start))
        return x.unflatten(2, (-1, self._together << self.level))

    def _seen(self, levels: Sequence[Tensor], fill: float = 0.0) -> Tensor:
        """[B, H, times, spans at a time, X] of levels of [B, H, spans, X]: the nearest spans and halves of
        each group, then all others in order."""
        spans, more = levels[self.level], self._groups - self.size
        nearest = spans[:, :, :, None]
        if self.level:
            halves = levels[self.level - 1]
            # Where the last span has no right half, or in the mirror the first no left one.
            missing = (2 * self.size - halves.shape[2], 0)
            halves = F.pad(halves, (0, 0, *(missing if self.is_right else missing[::-1])), value=fill)
            nearest = torch.stack([halves[:, :, ::2], spans], 3)
        nearest = F.pad(nearest, (0, 0, 0, 0, 0, more), value=fill).flatten(2, 3)
        nearest = nearest.unflatten(2, (self._groups // self._together, -1))
        others = F.pad(spans, (0, 0, self.nodes - 1, more - 1), value=fill)
        others = others.unfold(2, self._together + self.nodes - 2, self._together)
        return torch.cat([nearest, others.transpose(3, 4)], 3)

    def _columns(self, device: torch.device) -> Tensor:
        """[1, 1, 1, groups at a time, parts, 1, nodes]: where the spans of each are in `_seen`."""
        together, parts, _ = self._shape
        group, part = torch.arange(together, device=device), torch.arange(parts, device=device)
        slot = torch.arange(self.nodes, device=device)
        nearest = group[:, None, None] * parts + part[:, None]
        others = together * parts + group[:, None, None] + self.nodes - 1 - slot
        return torch.where(slot == 0, nearest, others)[None, None, None, :, :, None]

    def _turned(self, x: Tensor) -> Tensor:
        """[B, H, N, X], on the right between the text and its mirror."""
        return x.flip(2) if self.is_right else x


def _ceil(dividend: int, divisor: int) -> int:
    return -(-dividend // divisor)
