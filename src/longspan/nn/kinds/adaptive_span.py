"""Adaptive attention span (arXiv 1905.07799): every head learns how far back it looks.

A soft mask m(x) = clip((ramp + z - x) / ramp, 0, 1) of the distance x multiplies attention, which is then
summed to 1 again. That is a softmax with log m(x) added to the scores, so it is one call of `attend` with a
bias by distance, and what is masked altogether is not computed. As in the paper a token does not see itself;
before the text stands one empty slot, so that the first token sees something. Refused are encoders: spans
reach back.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from longspan.attention.pattern import Pattern
from longspan.checks import at_least
from longspan.nn.kinds.kind import Call, LayerShape
from longspan.nn.kinds.patterned import Patterned, all_padding_to_zero


@dataclass(frozen=True, kw_only=True, slots=True)
class AdaptiveSpanSettings:
    """Of adaptive spans."""

    max_span: int = 1024
    """The farthest that any head can learn to look: the paper's S."""
    ramp: int = 32
    """Tokens over which the mask falls to 0: the paper's R."""
    initial: float = 0.0
    """Share of ``max_span`` that heads begin with."""
    loss: float = 5e-7
    """Weight of the mean span, which is added to the loss for each layer."""
    sees_itself: bool = False
    """Whether a token also sees itself, at distance 0; the paper's does not."""
    trims: bool = True
    """Leave out what the mask hides; without, it is computed and counts for nothing."""

    def __post_init__(self) -> None:
        at_least(1, max_span=self.max_span, ramp=self.ramp)
        at_least(0, initial=self.initial, loss=self.loss)
        if self.initial > 1:
            raise ValueError(f"initial is {self.initial}; it must be at most 1")


class AdaptiveSpan(Patterned):
    """Windows whose length is learned, head by head."""

    name = "adaptive-span"
    Settings = AdaptiveSpanSettings
    counts_from_start = True
    has_losses = True
    cannot = {"encoder": "spans reach back", "usage": "keys stand one place later than their tokens"}

    settings: AdaptiveSpanSettings

    def __init__(self, shape: LayerShape, settings: Any) -> None:
        super().__init__(shape, settings)
        self.share = nn.Parameter(torch.zeros(shape.heads))
        """[heads]: z / max_span."""

    def draw_weights(self) -> None:
        """All heads begin alike."""
        nn.init.constant_(self.share, self.settings.initial)

    @property
    def spans(self) -> Tensor:
        """[heads]: the paper's z, in tokens."""
        return self.settings.max_span * self.share.clamp(0, 1)

    @property
    def reach(self) -> int | None:
        """How far back the farthest key may stand, whatever is learned."""
        return self.settings.max_span - 1 + (not self.settings.sees_itself)

    def begin_pass(self) -> None:
        """Brings shares that a step pushed out of 0 .. 1 back to it."""
        with torch.no_grad():
            if bool(((self.share < 0) | (self.share > 1)).any()):
                self.share.data.clamp_(0, 1)

    def patterns(self, causal: bool) -> Sequence[Pattern]:
        """Of each head, no farther than its mask."""
        most = self.settings.max_span - 1
        if not self.settings.trims:
            return [Pattern(left=most, right=0)] * self.shape.heads
        spans = self.spans.detach().tolist()
        return [Pattern(left=min(most, ceil(self.settings.ramp + z) - 1), right=0) for z in spans]

    def bias(self) -> Tensor:
        """[heads, 2 * reach + 1]: log m(x) at offset -x."""
        farthest = max(one.left or 0 for one in self.patterns(True))
        distance = torch.arange(farthest, -1, -1, device=self.share.device, dtype=self.share.dtype)
        mask = ((self.settings.ramp + self.spans[:, None] - distance) / self.settings.ramp).clamp(0, 1)
        # What is hidden altogether is beyond the head's window, or as good as hidden.
        tiny = torch.finfo(mask.dtype).tiny
        table = torch.where(mask > 0, mask.clamp_min(tiny).log(), torch.full_like(mask, tiny).log())
        return F.pad(table, (0, farthest))

    def forward(self, q: Tensor, k: Tensor, v: Tensor, call: Call) -> Tensor:
        """See `Kind.forward`."""
        if self.settings.loss:
            mean = self.share.clamp(0, 1).mean()
            call.add_loss("span", self.settings.loss * self.settings.max_span * mean)
        span = call.span
        if not self.settings.sees_itself:
            if span == 0:
                return torch.zeros_like(q)
            # Keys stand one place later than their tokens, and so one nearer.
            k, v = (F.pad(x, (0, 0, 1, 0))[:, :, :-1] for x in (k, v))
            span = None if span is None else span - 1
        # A padded key comes last, and its place is taken by the key before it.
        out = super().forward(q, k, v, _without_padding(call, span))
        return all_padding_to_zero(out, call.is_padding, call.query_offset)


def _without_padding(call: Call, span: int | None) -> Call:
    """Padding comes last, so no query that counts sees it."""
    return Call(
        causal=call.causal,
        query_offset=call.query_offset,
        relative=call.relative,
        span=span,
        dropout=call.dropout,
        impl=call.impl,
    )
