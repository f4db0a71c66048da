"""Sparse Transformer (arXiv 1904.10509, section 4): two patterns that reach everything in two steps.

Strided: the last ``stride`` tokens, and every ``stride``-th before them. Fixed: the tokens of the same block,
and the last ``summary`` tokens of every block. The two patterns are shared out over heads, take turns over
layers, or are merged into one softmax. Where the fixed pattern would leave a token nothing to see, it sees
itself.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

import torch
from torch import Tensor

from longspan.attention.attend import Attention, attend
from longspan.attention.pattern import Pattern
from longspan.checks import at_least
from longspan.nn.kinds.kind import Ability, Call, Kind
from longspan.nn.kinds.patterned import Patterned, all_padding_to_zero


@dataclass(frozen=True, kw_only=True, slots=True)
class SparseSettings:
    """Of the Sparse Transformer."""

    form: Literal["strided", "fixed"] = "fixed"
    """Strided is for what has rows, as images do; fixed is for text."""
    stride: int = 128
    """Tokens of a row or block; near the root of the length."""
    summary: int = 8
    """Tokens at the end of a block that all later ones see, in the fixed form."""
    parts: Literal["heads", "layers", "merged"] = "heads"
    """Who has which of the two patterns: half of the heads each, every other layer, or all heads both."""

    def __post_init__(self) -> None:
        at_least(1, stride=self.stride, summary=self.summary)
        if self.summary > self.stride:
            raise ValueError(f"summary is {self.summary}; it must be at most stride = {self.stride}")


class Sparse(Patterned):
    """The factorised patterns of the Sparse Transformer, through `attend`."""

    name = "sparse"
    Settings = SparseSettings
    counts_from_start = True

    settings: SparseSettings

    @classmethod
    def refusals(cls, settings: Any, *, causal: bool) -> Mapping[Ability, str]:
        """Blocks are counted from the beginning; merged parts are read apart."""
        cannot: dict[Ability, str] = {"usage": "its patterns are read in several calls"}
        if settings.form == "fixed":
            cannot["cross-length"] = "blocks are counted from the beginning of a text, which a memory moves"
        if settings.parts == "merged":
            reason = "merged patterns are read in parts, and a table of distances serves a whole"
            cannot |= {"relative": reason, "learned": reason}
            cannot["same length"] = "merged patterns are read in parts, each as far as it reaches"
        return cannot

    @property
    def reach(self) -> int | None:
        """No bound: every stride-th token, or every block's end."""
        return None

    def patterns(self, causal: bool) -> Sequence[Pattern]:
        """Of the strided form, apart."""
        near, far = self._near(causal), self._far(causal)
        return [near if self._is_near(head) else far for head in range(self.shape.heads)]

    def forward(self, q: Tensor, k: Tensor, v: Tensor, call: Call) -> Tensor:
        """See `Kind.forward`."""
        merged = self.settings.parts == "merged"
        if self.settings.form == "strided":
            return self._merged_strided(q, k, v, call) if merged else super().forward(q, k, v, call)
        return self._merged_fixed(q, k, v, call) if merged else self._fixed(q, k, v, call)

    def _near(self, causal: bool) -> Pattern:
        most = self.settings.stride - 1
        return Pattern(left=most, right=0 if causal else most)

    def _far(self, causal: bool) -> Pattern:
        return Pattern(left=None, right=0 if causal else None, dilation=self.settings.stride)

    def _is_near(self, head: int) -> bool:
        if self.settings.parts == "layers":
            return self.shape.layer % 2 == 0
        return head < (self.shape.heads + 1) // 2

    def _fixed(self, q: Tensor, k: Tensor, v: Tensor, call: Call) -> Tensor:
        """Blocks on some heads, the ends of blocks on the others."""
        near = [head for head in range(self.shape.heads) if self._is_near(head)]
        position = torch.arange(k.shape[2], device=k.device)
        is_end = position % self.settings.stride >= self.settings.stride - self.settings.summary
        everything = Pattern(left=None, right=0 if call.causal else None)
        outs: list[Tensor] = []
        if near:
            starts = position[:: self.settings.stride]
            starts = torch.cat([starts, starts.new_tensor([k.shape[2]])])
            heads = slice(0, len(near))
            outs.append(_attend(q, k, v, call, heads, everything, document_starts=starts))
        if len(near) < self.shape.heads:
            heads = slice(len(near), self.shape.heads)
            ends = is_end.expand(q.shape[0], -1)
            # In both directions a window must not end at the query, or later ends would be hidden; with gaps
            # beyond the length it holds the query alone.
            far_apart = Pattern(left=0, right=1, dilation=max(1, k.shape[2]))
            alone = Pattern(left=0, right=0) if call.causal else far_apart
            outs.append(_attend(q, k, v, call, heads, alone, is_global=ends))
        return torch.cat(outs, 1)

    def _merged_strided(self, q: Tensor, k: Tensor, v: Tensor, call: Call) -> Tensor:
        """The window, and the strided tokens beyond it: two softmaxes joined by their sums."""
        parts = [_with_lse(q, k, v, call, self._near(call.causal), call.query_offset)]
        stride = self.settings.stride
        sides = (-1,) if call.causal else (-1, 1)
        for side in sides:
            parts.append(self._strided_side(q, k, v, call, stride, side))
        lse = torch.stack([one.lse for one in parts if one.lse is not None])
        weights = (lse - torch.logsumexp(lse, 0)).exp().nan_to_num(0.0)
        out = torch.stack([one.out for one in parts]).mul(weights[..., None].to(q.dtype)).sum(0)
        return all_padding_to_zero(out, call.is_padding, call.query_offset)

    def _strided_side(self, q: Tensor, k: Tensor, v: Tensor, call: Call, stride: int, side: int) -> Attention:
        """Every stride-th token on one side, the query itself left out: it stands one stride farther."""
        queries, keys = q.shape[2], k.shape[2]
        if side > 0:  # the same seen from the other end
            backward = Call(
                causal=True,
                query_offset=keys - queries - call.query_offset,
                is_padding=None if call.is_padding is None else call.is_padding.flip(1),
                dropout=call.dropout,
                impl=call.impl,
            )
            flipped = self._strided_side(q.flip(2), k.flip(2), v.flip(2), backward, stride, -1)
            return Attention(flipped.out.flip(2), cast(Tensor, flipped.lse).flip(2), None)
        # A query at position p reads the keys at p - stride, p - 2 * stride, ...: it is put at p - stride.
        first = max(0, stride - call.query_offset)
        out, lse = torch.zeros_like(q), q.new_full(q.shape[:3], -torch.inf)
        if first >= queries:
            return Attention(out, lse, None)
        at = call.query_offset + first - stride
        pattern = self._far(True)
        said = _with_lse(
            q[:, :, first:], k[:, :, : keys - stride], v[:, :, : keys - stride], call, pattern, at
        )
        out = torch.cat([out[:, :, :first], said.out], 2)
        return Attention(out, torch.cat([lse[:, :, :first], cast(Tensor, said.lse).to(lse.dtype)], 2), None)

    def _merged_fixed(self, q: Tensor, k: Tensor, v: Tensor, call: Call) -> Tensor:
        """Block by block: its own tokens behind the ends of the others, in one softmax."""
        stride, summary = self.settings.stride, self.settings.summary
        keys, offset = k.shape[2], call.query_offset
        position = torch.arange(keys, device=k.device)
        ends = position[position % stride >= stride - summary]
        outs: list[Tensor] = []
        for begin in range(offset // stride * stride, offset + q.shape[2], stride):
            block = position[begin : begin + stride]
            others = ends[ends < begin] if call.causal else ends[(ends < begin) | (ends >= begin + stride)]
            chosen = torch.cat([others, block])
            first = max(offset, begin)
            last = min(offset + q.shape[2], begin + stride)
            outs.append(
                cast(
                    Tensor,
                    attend(
                        q[:, :, first - offset : last - offset],
                        k[:, :, chosen],
                        v[:, :, chosen],
                        Pattern(left=None, right=0 if call.causal else None),
                        is_padding=None if call.is_padding is None else call.is_padding[:, chosen],
                        query_offset=len(others) + first - begin,
                        dropout=call.dropout,
                        impl=call.impl,
                    ),
                )
            )
        return torch.cat(outs, 2)


def _attend(
    q: Tensor, k: Tensor, v: Tensor, call: Call, heads: slice, pattern: Pattern, **where: Any
) -> Tensor:
    """Some heads of a call."""
    relative = call.relative
    return cast(
        Tensor,
        attend(
            q[:, heads],
            k[:, heads],
            v[:, heads],
            pattern,
            is_padding=call.is_padding,
            query_offset=call.query_offset,
            dropout=call.dropout,
            position_query=None if relative is None else relative.query[:, heads],
            position_keys=None if relative is None else relative.keys[heads],
            impl=call.impl,
            **where,
        ),
    )


def _with_lse(q: Tensor, k: Tensor, v: Tensor, call: Call, pattern: Pattern, offset: int) -> Attention:
    padding = None if call.is_padding is None else call.is_padding[:, : k.shape[2]]
    said = attend(
        q,
        k,
        v,
        pattern,
        is_padding=padding,
        query_offset=offset,
        dropout=call.dropout,
        impl=call.impl,
        return_lse=True,
    )
    return cast(Attention, said)


def dense_mask(kind: Kind, length: int, head: int, *, causal: bool) -> Tensor:
    """[length, length] bool: who sees whom in a head; for pictures and tests."""
    settings = cast(Sparse, kind).settings
    i, j = torch.arange(length)[:, None], torch.arange(length)[None]
    stride = settings.stride
    if settings.form == "strided":
        near, far = (i - j).abs() < stride, (i - j) % stride == 0
    else:
        near = i // stride == j // stride
        far = (j % stride >= stride - settings.summary) | (i == j)
    is_near = cast(Sparse, kind)._is_near(head)
    seen = near | far if settings.parts == "merged" else near if is_near else far
    return seen & (j <= i) if causal else seen
