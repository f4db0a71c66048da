"""transformers' view of what a layer keeps of a text while it reads on.

What was left behind is gone: going back (`crop`, which assisted generation needs) is refused.
"""

from typing import Protocol

from torch import Tensor
from transformers.cache_utils import CacheLayerMixin


class Kept(Protocol):
    """What a layer keeps of a text."""

    seen: int

    def select(self, examples: Tensor) -> None:
        """Takes other examples, [new batch] int64, in another order."""
        ...

    def reset(self) -> None:
        """Forgets everything."""
        ...


class ForgettingCacheLayer(CacheLayerMixin):
    """The cache of a layer that extends what it keeps itself.

    Args:
        kept: of this layer.
    """

    is_sliding = True

    def __init__(self, kept: Kept) -> None:
        super().__init__()
        self.kept = kept

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        """Nothing is to be done before the first tokens come."""

    def update(
        self, key_states: Tensor, value_states: Tensor, *args: object, **kwargs: object
    ) -> tuple[Tensor, Tensor]:
        """Not for layers that extend what they keep themselves."""
        raise NotImplementedError

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        """How many keys new queries get, and the position of the first."""
        return self.kept.seen + query_length, 0

    def get_seq_length(self) -> int:
        """Tokens that were read, kept or not."""
        return self.kept.seen

    def get_max_length(self) -> int:
        """-1: a text may have any length."""
        return -1

    def reset(self) -> None:
        """Forgets the text."""
        self.kept.reset()

    def reorder_cache(self, beam_idx: Tensor) -> None:
        """Takes the beams that go on."""
        self.kept.select(beam_idx)

    batch_select_indices = reorder_cache

    def crop(self, tokens_to_remove: int) -> None:
        """Refuses to go back.

        Raises:
            ValueError: always, unless there is nothing to do.
        """
        if tokens_to_remove:
            raise ValueError(
                f"crop by {tokens_to_remove}: this cache cannot go back, since older tokens are gone; "
                "generate without an assistant model or prompt lookup"
            )
