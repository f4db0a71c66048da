"""A cache for `generate`: each layer keeps what its windows can still see, and nothing older.

Beam search is served. Refused is going back (`crop`, which assisted generation needs): what a window has left
behind is gone.
"""

from torch import Tensor
from transformers.cache_utils import Cache

from longspan.models.causal_lm_config import LongformerCausalLMConfig
from longspan.models.forgetting_cache import ForgettingCacheLayer
from longspan.nn.window_cache import WindowCache

_LEAST_PIECE = 4096


class LongformerCacheLayer(ForgettingCacheLayer):
    """A layer's `WindowCache`.

    Args:
        reach: positions before a token that the layer sees.
    """

    def __init__(self, reach: int) -> None:
        self.window = WindowCache(reach)
        super().__init__(self.window)

    def update(
        self, key_states: Tensor, value_states: Tensor, *args: object, **kwargs: object
    ) -> tuple[Tensor, Tensor]:
        """See `WindowCache.extend`."""
        return self.window.extend(key_states, value_states)

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        """How many keys new queries get, and the position of the first."""
        kept = len(self.window)
        return kept + query_length, self.window.seen - kept


class LongformerCache(Cache):
    """The caches of all layers.

    Args:
        config: of the model.
    """

    layers: list[LongformerCacheLayer]

    def __init__(self, config: LongformerCausalLMConfig) -> None:
        layers = [LongformerCacheLayer(config.reach(layer)) for layer in range(config.num_hidden_layers)]
        super().__init__(layers=[*layers])

    @property
    def piece_length(self) -> int:
        """Tokens to read at once of a long text: a piece has to carry along what its windows see before it,
        so it had better not be shorter than that."""
        return max(_LEAST_PIECE, *(layer.window.reach for layer in self.layers))
