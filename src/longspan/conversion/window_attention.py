"""Our attention inside Hugging Face models: the two functions registered as "longspan".

A model with ``attn_implementation="longspan"`` calls the mask function once for each kind of mask and
forward pass, and the attention function in every attention module. The mask stays what the user gave,
[batch, keys]; no mask of queries by keys is ever made. What a module's queries see is written on the
module (`set_sight`), because neither function could tell it from its arguments: self-attention of an
encoder and cross-attention may well have the same shapes.

Importing this module registers both functions.
"""

from collections.abc import Callable
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import bidirectional_mask_function, causal_mask_function

from longspan.attention.attend import attend
from longspan.attention.pattern import Pattern

NAME = "longspan"
"""The name of the attention implementation."""

_SIGHT = "longspan_sight"


def set_sight(module: nn.Module, pattern: Pattern | None) -> None:
    """Says what the queries of an attention module see; None is for cross-attention, which sees all."""
    setattr(module, _SIGHT, pattern)


def attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    dropout: float = 0.0,
    position_bias: Tensor | None = None,
    sliding_window: int | None = None,
    global_attention_mask: Tensor | None = None,
    document_starts: Tensor | None = None,
    **_: Any,
) -> tuple[Tensor, None]:
    """What transformers calls in place of its own attention.

    Args:
        module: the attention module, told by `set_sight` what its queries see.
        query: [batch, heads, queries, head_dim], the last of the keys' positions.
        key: [batch, kv_heads, keys, head_dim].
        value: [batch, kv_heads, keys, head_dim].
        attention_mask: [batch, keys] bool from `padding_mask`, True for tokens. Keys beyond it are
            places of a static cache that are still empty.
        scaling: factor on q . k; 1 / sqrt(head_dim) by default.
        dropout: probability of dropping a pair.
        position_bias: [heads, 2 * reach + 1], T5's bias by offset (see `t5_bias.py`); in its
            cross-attention the zeros that T5 makes, [1, heads, queries, keys].
        sliding_window: of ModernBERT's local layers: tokens on each side, the query among them.
        global_attention_mask: [batch, length], not 0 for tokens that see and are seen by all, with the
            projections of all other tokens. A decoder that sees everything ignores it.
        document_starts: of texts that share a row and do not see each other (see `packed_texts.py`).

    Returns:
        [batch, queries, heads, head_dim], and None for the probabilities.
    """
    if not hasattr(module, _SIGHT):
        raise ValueError(
            f"attn_implementation is {NAME!r} in a model that was not lengthened; "
            "use lengthen_in_place, or load_in_place for a saved one"
        )
    if attention_mask is not None:
        _check_mask(attention_mask)
        key, value = key[:, :, : attention_mask.shape[1]], value[:, :, : attention_mask.shape[1]]
    pattern = cast(Pattern | None, getattr(module, _SIGHT))
    if pattern is None:
        mask = None if attention_mask is None else attention_mask[:, None, None]
        return sdpa_attention_forward(
            module,
            query,
            key,
            value,
            mask,
            dropout=dropout,
            scaling=scaling,
            position_bias=position_bias,
            is_causal=False,
        )
    pattern = _narrow(pattern, sliding_window)
    # Under autocast rotary embeddings come out in fp32, next to values in half precision.
    query, key = query.to(value.dtype), key.to(value.dtype)
    is_padding = None if attention_mask is None else ~attention_mask
    is_global = None
    if global_attention_mask is not None and pattern.left is not None:
        is_global = _checked_globals(global_attention_mask, query, key)
    out = attend(
        query,
        key,
        value,
        pattern,
        is_global=is_global,
        mutual_globals=is_global is not None,
        is_padding=is_padding,
        document_starts=document_starts,
        query_offset=key.shape[2] - query.shape[2],
        dropout=dropout,
        bias=position_bias,
        scale=scaling,
    )
    return cast(Tensor, out).transpose(1, 2), None


def padding_mask(
    batch_size: int,
    q_length: int,
    kv_length: int,
    q_offset: int | Tensor = 0,
    mask_function: Callable[..., Any] = causal_mask_function,
    attention_mask: Tensor | None = None,
    local_size: int | None = None,
    device: torch.device | str = "cpu",
    **_: Any,
) -> Tensor | None:
    """What transformers calls in place of its own masks: only the padding, never queries by keys.

    Args:
        batch_size: number of examples.
        q_length: number of queries.
        kv_length: number of keys, those that a static cache has room for included.
        q_offset: position of the first query.
        mask_function: who sees whom; the attention function knows, here only its kind matters.
        attention_mask: [batch, length] bool, True for tokens; None where all are.
        local_size: the window of a layer that has one of its own (ModernBERT).
        device: of the answer.

    Returns:
        [batch, keys] bool, True for tokens; None where nothing is padded.
    """
    causal = mask_function is causal_mask_function
    if not causal and mask_function is not bidirectional_mask_function and local_size is None:
        raise ValueError(
            "position_ids that start again within a row (packed documents) are not supported in a model "
            "lengthened in place; give one document a row, with an attention_mask"
        )
    keys = int(q_offset) + q_length if causal else kv_length
    if attention_mask is None:
        return None if keys == kv_length else torch.ones(batch_size, keys, dtype=torch.bool, device=device)
    _check_mask(attention_mask)
    # A mask may be longer than what is filled of a static cache; a shorter one hides the rest.
    attention_mask = functional.pad(attention_mask.bool(), (0, keys - attention_mask.shape[1]))
    if keys == kv_length and not torch.compiler.is_compiling() and bool(attention_mask.all()):
        return None
    return attention_mask


def _narrow(pattern: Pattern, sliding_window: int | None) -> Pattern:
    """The smaller of two windows: ours, and the one that the layer was trained with."""
    if sliding_window is None:
        return pattern
    side = sliding_window - 1
    left, right = (side if ours is None else min(ours, side) for ours in (pattern.left, pattern.right))
    return Pattern(left=left, right=right)


def _check_mask(attention_mask: Tensor) -> None:
    if attention_mask.dim() != 2:
        raise ValueError(
            f"attention_mask has shape {list(attention_mask.shape)}; in a model lengthened in place it must "
            "be [batch, length], 1 for tokens and 0 for padding"
        )


def _checked_globals(mask: Tensor, query: Tensor, key: Tensor) -> Tensor:
    wanted = (query.shape[0], key.shape[2])
    if tuple(mask.shape) != wanted:
        raise ValueError(f"global_attention_mask has shape {list(mask.shape)}; it must be {list(wanted)}")
    if query.shape[2] != key.shape[2]:
        raise ValueError(
            f"global_attention_mask with {query.shape[2]} queries and {key.shape[2]} keys; it cannot be used "
            "with a cache that is not empty"
        )
    return mask.to(query.device) != 0


AttentionInterface.register(NAME, attention)
AttentionMaskInterface.register(NAME, padding_mask)
