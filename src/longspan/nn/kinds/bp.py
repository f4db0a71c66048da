"""BP-Transformer (arXiv 1911.04070): tokens see near tokens one by one, and far ones as spans.

A binary tree stands over the tokens. Its nodes, the spans, have states of their own through all layers, zeros
at first. A span attends to its tokens. A token attends to itself and, on each side, to ``nodes`` spans of
every level, from single tokens next to it to wide spans far away, which do not overlap and leave nothing out.
The kind of an edge, by level and place, has a vector that adds to the key at its end. A token has about
2 * nodes * log2(length / nodes) edges.

States of spans stand after those of tokens, the lowest level first. The span of the whole text is left out:
nobody sees it. Refused are reading in pieces, and positions by distance, whose place the edges take.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from longspan.nn.kinds.kind import Call, Kind, LayerShape, at_least

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
        levels = [
            _Level(
                *parts, F.pad(is_padding, (0, size * 2**level - length), value=True).unflatten(1, (size, -1))
            )
            for level, (size, *parts) in enumerate(
                zip(sizes, *(x.split(sizes, 2) for x in (q, k, v)), strict=True)
            )
        ]
        rows = [self._read_by_tokens(levels, call)]
        rows += [_read_by_spans(level, k[:, :, :length], v[:, :, :length], call) for level in levels[1:]]
        hidden = torch.cat([level.is_empty for level in levels], 1)
        return torch.where(hidden[:, None, :, None], 0.0, torch.cat(rows, 2))

    def _read_by_tokens(self, levels: Sequence["_Level"], call: Call) -> Tensor:
        """[B, H, N, D]: one softmax over a token itself and the spans of all levels."""
        q, k, v, _ = levels[0]
        to_itself = (q * (k + self.edges.weight[0])).sum(3, keepdim=True)
        sides = list(self._sides(q.shape[2], causal=call.causal))
        scores = [to_itself, *(side.scores(levels, self.edges.weight) for side in sides)]
        weights = (torch.cat(scores, 3) * q.shape[3] ** -0.5).softmax(3)
        parts = F.dropout(weights, call.dropout).split([1] + [self.settings.nodes] * len(sides), 3)
        read = parts[0] * v
        for side, part in zip(sides, parts[1:], strict=True):
            read = read + side.read(part, levels)
        return read

    def _sides(self, length: int, *, causal: bool) -> Iterator["_Side"]:
        """The edges of tokens, level by level, as far as there are any."""
        for level, size in enumerate(level_sizes(length)):
            for is_right in (False,) if causal else (False, True):
                side = _Side(level, size, self.settings.nodes, self.settings.clip, is_right)
                if side.first < size * 2**level:
                    yield side


def level_sizes(length: int) -> list[int]:
    """How many spans each level has, single tokens first, the whole text left out."""
    sizes = [length]
    while sizes[-1] > 2:
        sizes.append((sizes[-1] + 1) // 2)
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


def _read_by_spans(level: _Level, k: Tensor, v: Tensor, call: Call) -> Tensor:
    """[B, H, spans, D]: what spans read of their tokens, whose keys and values, [B, H, N, D], are given.

    All edges to a span are of one kind, which adds the same to all its scores: it is left out.
    """
    missing = level.is_padding[0].numel() - k.shape[2]
    k, v = (F.pad(x, (0, 0, 0, missing)).unflatten(2, level.is_padding.shape[1:]) for x in (k, v))
    scores = (level.q[:, :, :, None] @ k.transpose(3, 4)) * k.shape[4] ** -0.5
    scores = scores.masked_fill(level.is_padding[:, None, :, None], torch.finfo(scores.dtype).min)
    return (F.dropout(scores.softmax(4), call.dropout) @ v)[:, :, :, 0]


class _Side(NamedTuple):
    """Edges from tokens to the spans of one level on one side of them.

    Seen from the left: tokens in groups of 2 ** level, from the first one that has such edges, have the same
    spans: group m has m, m - 1, ..., m - nodes + 1. But the right half of span m may be seen at the level
    below already. That is so for the first half of the group, and these see its left half in its place. On
    the right everything is mirrored, at the end of the last span.
    """

    level: int
    size: int
    """Spans of the level."""
    nodes: int
    clip: int
    is_right: bool

    @property
    def first(self) -> int:
        """The first token with such edges: spans of lower levels lie before all others."""
        return self.nodes * (2**self.level - 1) + 1

    @property
    def groups(self) -> int:
        """Of tokens; a multiple of ``nodes``, so that as many may be read together."""
        return _ceil(_ceil(self.size * 2**self.level - self.first, 2**self.level), self.nodes) * self.nodes

    def scores(self, levels: Sequence[_Level], edges: Tensor) -> Tensor:
        """[B, H, N, nodes]: products with keys and edges, the nearest span first; -inf where there is none.

        Args:
            levels: of the tree.
            edges: [kinds of edges, D].
        """
        q = self._grouped(levels[0].q)
        near = q.unflatten(3, self._halves) @ self._nearest([one.k for one in levels])[..., None]
        windows = self._windows(levels[self.level].k)
        far = (self._together(q) @ windows).unflatten(3, (self.nodes, -1))
        far = torch.take_along_dim(far, self._columns(q.device), 5)
        kinds = torch.arange(self.nodes, device=q.device) * 2 + 1 + self.is_right
        kinds = kinds + (2 * self.nodes + 1) * min(self.level, self.clip)
        found = torch.cat([near.flatten(3, 4), far.flatten(2, 3)], 4) + q @ edges[kinds].transpose(0, 1)
        found = found.unflatten(3, self._halves)
        found = found.masked_fill(self._hidden(levels)[:, None, :, :, None], -torch.inf)
        return self._ungrouped(found.flatten(3, 4), levels[0].q.shape[2], -torch.inf)

    def read(self, weights: Tensor, levels: Sequence[_Level]) -> Tensor:
        """[B, H, N, D]: what tokens read by weights, [B, H, N, nodes]."""
        grouped = self._grouped(weights)
        nearest = self._nearest([one.v for one in levels])[:, :, :, :, None]
        near = grouped[..., :1].unflatten(3, self._halves) * nearest
        windows = self._windows(levels[self.level].v)
        given = grouped[..., 1:].unflatten(2, (-1, self.nodes))
        spread = weights.new_zeros(*given.shape[:5], windows.shape[4])
        spread = spread.scatter(5, self._columns(weights.device).expand_as(given), given)
        far = (spread.flatten(3, 4) @ windows.transpose(3, 4)).unflatten(3, (self.nodes, -1))
        return self._ungrouped(near.flatten(3, 4) + far.flatten(2, 3), weights.shape[2], 0.0)

    @property
    def _halves(self) -> tuple[int, int]:
        """A group in parts that see the same nearest span."""
        return (2, 2 ** (self.level - 1)) if self.level else (1, 1)

    def _columns(self, device: torch.device) -> Tensor:
        """[1, 1, 1, nodes, 1, nodes - 1]: where the spans of each group are in the window of those that are
        read together, the nearest left out."""
        at = torch.arange(self.nodes, device=device)
        return (at[:, None] + self.nodes - 1 - at[1:])[None, None, None, :, None]

    def _hidden(self, levels: Sequence[_Level]) -> Tensor:
        """[B, groups, parts, nodes] bool: where there is no span, or none with a token."""
        empties = [one.is_empty[:, None, :, None] for one in levels]
        near = self._nearest(empties, True)[:, 0]
        far = self._turned(empties[self.level])[:, 0, :, 0]
        far = F.pad(far, (self.nodes - 1, self.groups - self.size - 1), value=True)
        far = far.unfold(1, self.nodes - 1, 1).flip(2)
        return torch.cat([near, far[:, :, None].expand(-1, -1, near.shape[2], -1)], 3)

    def _nearest(self, levels: Sequence[Tensor], fill: float = 0.0) -> Tensor:
        """[B, H, groups, parts, X] of levels of [B, H, spans, X]: the nearest span, or the half of it."""
        parts = [self._turned(levels[self.level])]
        if self.level:
            below = levels[self.level - 1]
            below = F.pad(below, (0, 0, 0, 2 * self.size - below.shape[2]), value=fill)
            parts.insert(0, self._turned(below)[:, :, ::2])
        return F.pad(torch.stack(parts, 3), (0, 0, 0, 0, 0, self.groups - self.size), value=fill)

    def _windows(self, x: Tensor) -> Tensor:
        """[B, H, spans, D] -> [B, H, groups / nodes, D, 2 * nodes - 2]: the spans of ``nodes`` groups
        but for the nearest of the last."""
        padded = F.pad(self._turned(x), (0, 0, self.nodes - 1, self.groups - self.size - 1))
        return padded.unfold(2, 2 * self.nodes - 2, self.nodes)

    def _together(self, x: Tensor) -> Tensor:
        """[B, H, groups, tokens, X] -> [B, H, groups / nodes, nodes * tokens, X]."""
        return x.unflatten(2, (-1, self.nodes)).flatten(3, 4)

    def _grouped(self, x: Tensor) -> Tensor:
        """[B, H, N, X] -> [B, H, groups, tokens of a group, X]."""
        whole = self._turned(F.pad(x, (0, 0, 0, self.size * 2**self.level - x.shape[2])))
        tokens = self.groups * 2**self.level
        return F.pad(whole[:, :, self.first :], (0, 0, 0, tokens + self.first - whole.shape[2])).unflatten(
            2, (self.groups, -1)
        )

    def _ungrouped(self, x: Tensor, length: int, fill: float) -> Tensor:
        """The inverse of `_grouped`, with ``fill`` for tokens that have no such edges."""
        whole = self.size * 2**self.level
        x = x.flatten(2, 3)[:, :, : whole - self.first]
        return self._turned(F.pad(x, (0, 0, self.first, 0), value=fill))[:, :, :length]

    def _turned(self, x: Tensor) -> Tensor:
        """[B, H, any, X], for the right from its end."""
        return x.flip(2) if self.is_right else x


def _ceil(dividend: int, divisor: int) -> int:
    return -(-dividend // divisor)
