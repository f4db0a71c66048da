"""What the encoders of Longformer and LED do alike: reading masks, packing, running the layers."""

from collections.abc import Callable, Iterable
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn

from longspan.nn.layout import Layout, Packing, lay_out, pack_examples
from longspan.nn.longformer import SelfAttention

_PIECE = 4096
"""Tokens at a time, where only memory is at stake: enough for products to be as fast as with all."""


class Masks(NamedTuple):
    """Hugging Face's masks as ours: [batch, length] bool, or None for none."""

    is_padding: Tensor | None
    is_global: Tensor | None


class Encoded(NamedTuple):
    """What an encoder returns, in the padded shape."""

    last_hidden_state: Tensor
    """[batch, length, hidden_size]."""
    hidden_states: tuple[Tensor, ...] | None
    """The input of every layer, and the last output."""
    attentions: tuple[Tensor | None, ...] | None
    """[batch, heads, length, globals + window + 1] for each layer."""
    global_attentions: tuple[Tensor | None, ...] | None
    """[batch, heads, length, globals] for each layer."""


def read_masks(
    input_ids: Tensor | None,
    inputs_embeds: Tensor | None,
    attention_mask: Tensor | None,
    global_attention_mask: Tensor | None,
) -> Masks:
    """Checks the inputs of an encoder and reads its masks.

    Raises:
        ValueError: not exactly one of the inputs is given, or a mask has another shape.
    """
    if (input_ids is None) == (inputs_embeds is None):
        given = "neither was" if input_ids is None else "both were"
        raise ValueError(f"input_ids and inputs_embeds: {given} given; give exactly one of them")
    shape = tuple((input_ids if input_ids is not None else cast(Tensor, inputs_embeds)).shape[:2])
    for name, mask in (("attention_mask", attention_mask), ("global_attention_mask", global_attention_mask)):
        if mask is not None and tuple(mask.shape) != shape:
            raise ValueError(f"{name} has shape {tuple(mask.shape)}; it must be {shape}, as the input is")
    is_padding = None if attention_mask is None else attention_mask == 0
    is_global = None if global_attention_mask is None else global_attention_mask != 0
    # The original repository marks global tokens with 2; a traced graph has no values to find one by.
    if (
        attention_mask is not None
        and attention_mask.dtype != torch.bool
        and not torch.compiler.is_compiling()
    ):
        marked = attention_mask == 2
        if marked.any():
            is_global = marked if is_global is None else is_global | marked
    if is_global is not None and is_padding is not None:
        is_global = is_global & ~is_padding
    return Masks(is_padding, is_global)


def arrange(masks: Masks, *, keep_padding: bool) -> tuple[Packing | None, Layout]:
    """How the batch is laid out inside: packed into one row if that saves padding.

    Args:
        masks: of the batch.
        keep_padding: do not pack.
    """
    packing = None
    # A traced graph has no values to look at.
    if masks.is_padding is not None and not keep_padding and not torch.compiler.is_compiling():
        packing = pack_examples(masks.is_padding)
    if packing is None:
        return None, lay_out(masks.is_padding, masks.is_global)
    return packing, packing.lay_out(masks.is_global)


def run_layers(
    layers: Iterable[nn.Module],
    x: Tensor,
    layout: Layout,
    packing: Packing | None,
    *,
    output_hidden_states: bool,
    output_attentions: bool,
    layerdrop: float = 0.0,
) -> Encoded:
    """Runs ``layers``, each ``layer(x, layout, output_attentions) -> SelfAttention``.

    Args:
        layers: of the encoder.
        x: [batch, length, hidden_size], packed if there is a ``packing``.
        layout: of ``x``.
        packing: to undo at the end.
        output_hidden_states: keep the hidden states between the layers.
        output_attentions: have the layers return probabilities.
        layerdrop: probability of leaving a layer out.
    """
    states = [x]
    attentions: list[SelfAttention] = []
    for layer in layers:
        if layerdrop and torch.rand(()) < layerdrop:
            attention = SelfAttention(states[-1], None, None)
        else:
            # Reentrant checkpointing makes a plain tuple of what the layer returns.
            attention = SelfAttention(*layer(states[-1], layout, output_attentions))
        attentions.append(attention)
        states = [*states, attention.context] if output_hidden_states else [attention.context]
    if packing is not None:
        states = [packing.unpack(state) for state in states]
    positions = layout.global_positions
    has_globals = output_attentions and positions is not None and positions.shape[1] > 0
    return Encoded(
        last_hidden_state=states[-1],
        hidden_states=tuple(states) if output_hidden_states else None,
        attentions=tuple(a.probabilities for a in attentions) if output_attentions else None,
        global_attentions=tuple(a.global_probabilities for a in attentions) if has_globals else None,
    )


def in_pieces(
    feed_forward: Callable[[Tensor], Tensor], x: Tensor, *, training: bool, tokens: int = 0
) -> Tensor:
    """A feed-forward network over some tokens at a time, so that its wide half needs less memory.

    Args:
        feed_forward: [batch, n, size] -> the same shape, a token at a time.
        x: [batch, length, size].
        training: whether dropout is drawn, whose masks must be the same when activations are computed again.
        tokens: how many; 0 is all while training or gradients are recorded, which keep everything anyway,
            and many otherwise.
    """
    if not tokens and (training or torch.is_grad_enabled() or torch.compiler.is_compiling()):
        return feed_forward(x)
    parts = [feed_forward(part) for part in x.split(tokens or _PIECE, 1)]
    return parts[0] if len(parts) == 1 else torch.cat(parts, 1)


def first_real(x: Tensor, is_padding: Tensor | None) -> Tensor:
    """[batch, length, hidden_size] -> [batch, hidden_size]: the first token that is not padding."""
    if is_padding is None:
        return x[:, 0]
    first = is_padding.to(device=x.device, dtype=torch.uint8).argmin(1)
    return x[torch.arange(x.shape[0], device=x.device), first]


def wanted(asked: bool | None, default: bool | None) -> bool:
    """Whether an optional output is wanted: what the caller says, else what the configuration says."""
    return bool(default if asked is None else asked)
