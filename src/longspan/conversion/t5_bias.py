"""T5's relative bias as a table by offset, in place of a tensor of queries by keys.

T5's first layer makes the bias of all pairs, [1, heads, queries, keys], and all layers add it. It is
a function of the offset alone, and constant from relative_attention_max_distance on, so a short table
says the same.
"""

import torch
from torch import Tensor, nn
from transformers.models.t5.modeling_t5 import T5Attention

from longspan.conversion.window_attention import NAME


class T5OffsetAttention(T5Attention):
    """`T5Attention` with the bias as [heads, 2 * reach + 1], offset 0 in the middle."""

    def compute_bias(
        self,
        query_length: int,
        key_length: int,
        device: torch.device | None = None,
        past_seen_tokens: int = 0,
    ) -> Tensor:
        """[heads, 2 * reach + 1], whatever the lengths; offsets are key minus query position.

        With another attention than ours it is what it always was, [1, heads, queries, keys].
        """
        if self.config._attn_implementation != NAME:
            return super().compute_bias(query_length, key_length, device, past_seen_tokens)
        reach = self.relative_attention_max_distance
        bucket = self._relative_position_bucket(
            torch.arange(-reach, reach + 1, device=self.relative_attention_bias.weight.device),
            bidirectional=not self.is_decoder,
            num_buckets=self.relative_attention_num_buckets,
            max_distance=reach,
        )
        return self.relative_attention_bias(bucket).T


def use_offset_bias(model: nn.Module) -> None:
    """Makes the self-attention of a T5 hand the table on to the attention function."""
    for module in model.modules():
        # A change of class rather than of a method: copies and pickles of the model keep it.
        if type(module) is T5Attention and module.has_relative_attention_bias:
            module.__class__ = T5OffsetAttention
