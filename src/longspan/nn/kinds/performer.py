"""Performer (arXiv 2009.14794): softmax attention estimated by random features, in linear time.

The causal form is exact for its features and lets nothing of the future through. Padded keys count in neither
sum. Directions are redrawn while training and stay as they are otherwise, so evaluation is deterministic.
"""

from dataclasses import dataclass
from math import log
from typing import Any, Literal, cast

import torch
from torch import Tensor

from longspan.checks import at_least
from longspan.nn.favor import (
    KeyState,
    causal_linear_attention,
    draw_directions,
    features,
    linear_attention,
    query_weights,
)
from longspan.nn.kinds.kind import Call, Kind, LayerShape
from longspan.nn.kinds.patterned import all_padding_to_zero


@dataclass(frozen=True, kw_only=True, slots=True)
class PerformerSettings:
    """Of Performer."""

    features: int | None = None
    """Random directions: the paper's m; None is head_dim * ln(head_dim)."""
    form: Literal["positive", "hyperbolic", "trigonometric", "relu"] = "positive"
    """What is made of a direction; hyperbolic and trigonometric make two features of it."""
    orthogonal: bool = True
    """Directions at right angles, which lowers the variance."""
    regularised: bool = False
    """Directions of one length, which lowers it further and biases the estimate."""
    redraw_every: int = 1000
    """Training passes between redraws; 0 is never."""
    chunk: int = 64
    """Positions that a causal pass reads at once; changes the cost alone."""

    def __post_init__(self) -> None:
        at_least(1, features=self.features, chunk=self.chunk)
        at_least(0, redraw_every=self.redraw_every)


class PerformerCache:
    """The sums over the keys so far: a new token costs the same, however many there were."""

    def __init__(self) -> None:
        self.seen = 0
        self.state: KeyState | None = None

    def select(self, examples: Tensor) -> None:
        """Takes other examples, [new batch] int64, in another order."""
        if self.state is not None:
            self.state = KeyState(*(x.index_select(0, examples.to(x.device)) for x in self.state))

    def reset(self) -> None:
        """Forgets everything."""
        self.seen, self.state = 0, None


class Performer(Kind):
    """Linear attention with random features."""

    name = "performer"
    Settings = PerformerSettings
    turns_matter = True  # the kernel is of distances, its features are not
    cannot = {
        "same length": "its sums hold all keys, near and far",
        "relative": "relative terms are added to scores, and there are no scores",
        "learned": "terms of distances are added to scores, and there are no scores",
        "dropout": "there are no attention probabilities to drop",
        "usage": "there are no attention probabilities",
    }

    settings: PerformerSettings
    directions: Tensor
    passes: Tensor

    def __init__(self, shape: LayerShape, settings: Any) -> None:
        super().__init__(shape, settings)
        self.register_buffer("directions", self._draw())
        self.register_buffer("passes", torch.zeros((), dtype=torch.int64))

    def new_cache(self) -> PerformerCache:
        """See `Kind.new_cache`."""
        return PerformerCache()

    def begin_pass(self) -> None:
        """Redraws the directions when it is time."""
        every = self.settings.redraw_every
        if every and int(self.passes) % every == 0 and int(self.passes):
            self.directions = self._draw().to(self.directions)
        self.passes = self.passes + 1

    def forward(self, q: Tensor, k: Tensor, v: Tensor, call: Call) -> Tensor:
        """See `Kind.forward`. Sums are in fp32, or fp64 for fp64 input."""
        exact = torch.promote_types(q.dtype, torch.float32)
        with torch.autocast(q.device.type, enabled=False):
            out = self._read(q.to(exact), k.to(exact), v.to(exact), call)
        return all_padding_to_zero(out.to(q.dtype), call.is_padding, call.query_offset)

    def _read(self, q: Tensor, k: Tensor, v: Tensor, call: Call) -> Tensor:
        form = self.settings.form
        keys = features(k, self.directions, form)
        queries = query_weights(features(q, self.directions, form))
        if not call.causal:
            return linear_attention(queries, keys, v, call.is_padding)
        cache = cast(PerformerCache | None, call.cache)
        if cache is not None:
            padding = None if call.is_padding is None else call.is_padding[:, -k.shape[2] :]
            out, cache.state = causal_linear_attention(
                queries, keys, v, padding, chunk=self.settings.chunk, state=cache.state
            )
            cache.seen += k.shape[2]
            return out
        # Keys before the first query have queries that ask for nothing.
        queries = torch.nn.functional.pad(queries, (0, 0, call.query_offset, 0))
        out, _ = causal_linear_attention(queries, keys, v, call.is_padding, chunk=self.settings.chunk)
        return out[:, :, call.query_offset :]

    def _draw(self) -> Tensor:
        dim = self.shape.head_dim
        count = self.settings.features or max(1, int(dim * log(dim)))
        return draw_directions(
            count, dim, orthogonal=self.settings.orthogonal, regularised=self.settings.regularised
        )
