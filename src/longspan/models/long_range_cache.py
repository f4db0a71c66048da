"""What a causal model of the relatives keeps while it reads on: for `generate`, and for long texts.

Each layer keeps keys and values, or a state of its kind's own; a model with a memory keeps that instead.
Refused is going back (`crop`): what was left behind is gone.
"""

from typing import Any, cast

from torch import Tensor
from transformers.cache_utils import Cache

from longspan.models.forgetting_cache import ForgettingCacheLayer
from longspan.nn.kinds.kind import Cache as LayerCache
from longspan.nn.kinds.kind import Kind
from longspan.nn.memory import Memory
from longspan.nn.window_cache import WindowCache

_UNBOUNDED = 2**60
_PIECE = 1024


class LongRangeCacheLayer(ForgettingCacheLayer):
    """What a layer keeps: keys and values, a state of its kind's own, or nothing beside a memory.

    Args:
        kept: of this layer.
    """

    kept: LayerCache


class _Remembered:
    """In a layer's place where a memory keeps all: counts tokens."""

    def __init__(self) -> None:
        self.seen = 0

    def select(self, examples: Tensor) -> None:
        """The memory is selected as a whole."""

    def reset(self) -> None:
        """Forgets the text."""
        self.seen = 0


class LongRangeCache(Cache):
    """The caches of all layers, or the memory.

    Args:
        kinds: of the layers.
        has_memory: whether the model has a memory, which then takes the place of caches.
    """

    layers: list[LongRangeCacheLayer]

    def __init__(self, kinds: list[Kind], *, has_memory: bool) -> None:
        self.memory: Memory | None = None
        self.has_memory = has_memory
        kept = [_Remembered() if has_memory else _cache_of(kind) for kind in kinds]
        super().__init__(layers=[LongRangeCacheLayer(one) for one in kept])

    @property
    def piece_length(self) -> int:
        """Tokens to read at once of a long text."""
        reaches = [one.kept.reach for one in self.layers if isinstance(one.kept, WindowCache)]
        return max(_PIECE, *(reach for reach in (*reaches, 0, 0) if reach < _UNBOUNDED))

    def layer_cache(self, layer: int) -> LayerCache | None:
        """What a layer extends; None where the memory does it."""
        return None if self.has_memory else self.layers[layer].kept

    def remember(self, memory: Memory) -> None:
        """Takes the memory after a piece."""
        self.memory = memory
        for layer in self.layers:
            layer.kept.seen = memory.seen

    def reorder_cache(self, beam_idx: Tensor) -> None:
        """Takes the beams that go on."""
        super().reorder_cache(cast(Any, beam_idx))
        if self.memory is not None:
            self.memory = self.memory.select(beam_idx)

    def batch_select_indices(self, indices: Tensor) -> None:
        """Takes other examples, in another order."""
        self.reorder_cache(indices)

    def reset(self) -> None:
        """Forgets the text."""
        super().reset()
        self.memory = None


def _cache_of(kind: Kind) -> LayerCache:
    own = kind.new_cache()
    if own is not None:
        return own
    return WindowCache(_UNBOUNDED if kind.reach is None else kind.reach)
