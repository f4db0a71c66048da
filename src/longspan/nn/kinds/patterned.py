"""Kinds that are one call of `attend`: full attention and sliding windows.

Both take whatever the operation takes: any length, padding, keys before the queries, relative terms.
"""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor

from longspan.attention.attend import Attention, attend
from longspan.attention.pattern import Pattern
from longspan.checks import at_least
from longspan.nn.kinds.kind import Ability, Call, Kind


class Patterned(Kind):
    """A kind whose heads have a `Pattern` each."""

    @abstractmethod
    def patterns(self, causal: bool) -> Sequence[Pattern]:
        """The pattern of each head."""

    @property
    def reach(self) -> int | None:
        """The farthest that any head sees."""
        farthest = 0
        for one in self.patterns(self.shape.causal):
            for side in (one.left, one.right):
                if side is None:
                    return None
                farthest = max(farthest, side * one.dilation)
        return farthest

    def bias(self) -> Tensor | None:
        """[heads, 2 * reach + 1], added to the scores by offset; None for nothing."""
        return None

    def forward(self, q: Tensor, k: Tensor, v: Tensor, call: Call) -> Tensor:
        """See `Kind.forward`."""
        return cast(Tensor, self._attend(q, k, v, call, return_probabilities=False))

    def usage(self, q: Tensor, k: Tensor, v: Tensor, call: Call) -> Tensor:
        """See `Kind.usage`; quadratic in memory."""
        attention = cast(Attention, self._attend(q, k, v, call, return_probabilities=True))
        return cast(Tensor, attention.probabilities).mean((1, 2))

    def _attend(
        self, q: Tensor, k: Tensor, v: Tensor, call: Call, *, return_probabilities: bool
    ) -> Tensor | Attention:
        is_global = call.is_global if self.has_globals else None
        patterns = self.patterns(call.causal)
        if call.span is not None:
            patterns = [_within(one, call.span) for one in patterns]
        return attend(
            q,
            k,
            v,
            patterns,
            is_global=is_global,
            mutual_globals=is_global is not None,
            is_padding=call.is_padding,
            query_offset=call.query_offset,
            dropout=call.dropout,
            bias=self.bias(),
            position_query=None if call.relative is None else call.relative.query,
            position_keys=None if call.relative is None else call.relative.keys,
            impl="auto" if return_probabilities else call.impl,
            return_probabilities=return_probabilities,
        )


class Full(Patterned):
    """Everything sees everything; in a causal model, everything before it."""

    name = "full"

    def patterns(self, causal: bool) -> Sequence[Pattern]:
        """See `Patterned.patterns`."""
        return [Pattern(left=None, right=0 if causal else None)] * self.shape.heads


@dataclass(frozen=True, kw_only=True, slots=True)
class WindowSettings:
    """Of sliding windows."""

    window: int = 512
    """Tokens that a token sees: both sides together, or, in a causal model, before it."""
    dilation: int = 1
    """Distance between them."""

    def __post_init__(self) -> None:
        at_least(1, window=self.window, dilation=self.dilation)


class Window(Patterned):
    """Longformer's sliding windows (arXiv 2004.05150, section 3.1), with global tokens in an encoder.

    Global tokens use the projections of all others; `longspan.LongformerModel` has projections for them.
    """

    name = "window"
    Settings = WindowSettings
    has_globals = True

    settings: WindowSettings

    @classmethod
    def refusals(cls, settings: Any, *, causal: bool) -> Mapping[Ability, str]:
        """An encoder needs two sides that are alike."""
        return cls.cannot if causal else two_sides(settings.window)

    def patterns(self, causal: bool) -> Sequence[Pattern]:
        """See `Patterned.patterns`."""
        window, dilation = self.settings.window, self.settings.dilation
        left, right = (window, 0) if causal else (window // 2, window // 2)
        return [Pattern(left=left, right=right, dilation=dilation)] * self.shape.heads


def two_sides(window: int) -> Mapping[Ability, str]:
    """What a window in both directions cannot do."""
    return (
        {"encoder": f"window is {window}, and half of it is on each side: it must be even"}
        if window % 2
        else {}
    )


def _within(pattern: Pattern, span: int) -> Pattern:
    """The pattern, no farther than ``span`` to the left."""
    most = span // pattern.dilation
    left = most if pattern.left is None else min(most, pattern.left)
    return Pattern(left=left, right=pattern.right, dilation=pattern.dilation)


def all_padding_to_zero(out: Tensor, is_padding: Tensor | None, query_offset: int) -> Tensor:
    """Rows of padded queries as 0, for kinds that do not go through `attend`.

    Args:
        out: [batch, heads, queries, head_dim].
        is_padding: [batch, keys] bool.
        query_offset: position of the first query among the keys.
    """
    if is_padding is None:
        return out
    rows = is_padding[:, query_offset : query_offset + out.shape[2]]
    return torch.where(rows[:, None, :, None], 0.0, out)
