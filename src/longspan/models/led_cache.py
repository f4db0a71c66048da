"""A cache for LED's `generate`: what the decoder has written, and the documents' keys and values, once.

What was written is kept for every beam, as far as windows see. The keys and values of a document are computed
once and shared by all of its beams: beams change places only within a document, so reordering them leaves the
documents alone. Refused is going back (`crop`, which assisted generation needs).
"""

from transformers.cache_utils import Cache

from longspan.models.causal_lm_cache import LongformerCacheLayer
from longspan.models.led_config import LEDConfig
from longspan.nn.decoder_attention import DocumentKeys


class LEDCache(Cache):
    """The caches of all decoder layers.

    Args:
        config: of the model.
    """

    layers: list[LongformerCacheLayer]

    def __init__(self, config: LEDConfig) -> None:
        layers = [LongformerCacheLayer(config.decoder_reach(layer)) for layer in range(config.decoder_layers)]
        super().__init__(layers=[*layers])
        self.documents: list[DocumentKeys | None] = [None] * len(layers)
        """Of each layer, once it has read the documents."""

    def reset(self) -> None:
        """Forgets what was written, and the documents."""
        super().reset()
        self.documents = [None] * len(self.documents)
