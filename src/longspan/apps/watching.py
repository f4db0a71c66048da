"""What is seen of a Longformer while it reads: layers that are done, and where global tokens look.

By hooks, so that the model computes what it always does, in linear memory.
"""

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from torch import Tensor, nn

from longspan.models.longformer import LongformerLayer
from longspan.nn.global_rows import Projections, global_shares
from longspan.tasks.task import Feature


@contextmanager
def after(layer: nn.Module, call: Callable[[], None]) -> Generator[None]:
    """Calls when the layer has run; what the call raises ends the model's pass."""
    handle = layer.register_forward_hook(lambda *_: call())
    try:
        yield
    finally:
        handle.remove()


@contextmanager
def global_attention(layer: LongformerLayer) -> Generator[list[Tensor]]:
    """A list that gets what global tokens see when the layer runs: [batch, length] shares."""
    seen: list[Tensor] = []
    attention = layer.attention.self

    def look(_: nn.Module, inputs: tuple[Any, ...]) -> None:
        x, layout = inputs
        own = Projections(attention.query_global, attention.key_global, attention.value_global)
        heads = len(attention.patterns)
        seen.append(global_shares(x, layout, own, heads, causal=attention.patterns[0].is_causal))

    handle = attention.register_forward_pre_hook(look)
    try:
        yield seen
    finally:
        handle.remove()


class Shares:
    """Attention to tokens, added up in equal parts of all documents' characters.

    Args:
        lengths: the characters of each document.
        bins: how many parts; 0 gathers nothing.
    """

    def __init__(self, lengths: Sequence[int], bins: int) -> None:
        self._begins = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
        self._parts = np.zeros(bins)

    def add(self, feature: Feature, share: Tensor) -> None:
        """Adds the attention to the tokens of an input, [length]; those of no document do not count.

        An input weighs as much as it has tokens: where attention is even, so are the parts.
        """
        inside = feature["document"] >= 0
        at = self._begins[feature["document"][inside]] + feature["first_character"][inside]
        # A token of no character may stand behind the last one.
        which = np.minimum(at * len(self._parts) // max(self._begins[-1], 1), len(self._parts) - 1)
        np.add.at(self._parts, which, share.numpy()[inside] * len(inside))

    def whole(self) -> tuple[float, ...]:
        """The parts, which sum to 1; none where nothing was added."""
        total = self._parts.sum()
        return tuple((self._parts / total).tolist()) if total > 0 else ()
