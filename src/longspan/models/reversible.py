"""Reversible layers (Reformer, arXiv 2001.04451, section 3): a layer's inputs are made again from its
outputs.

Two streams, both the embeddings at first: y1 = x1 + attention(x2), y2 = x2 + feed_forward(y1); the output is
their mean. The backward pass undoes this layer by layer, so that activations of one layer are held at a time.
Random numbers and what a kind decided (the buckets of a hash) are replayed.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Protocol, cast

import torch
from torch import Tensor

from longspan.nn.kinds.kind import Cache
from longspan.nn.long_range_attention import Reading


class Layer(Protocol):
    """What a reversible layer has."""

    def attention_half(self, x: Tensor, reading: Reading, cache: Cache | None = None) -> Tensor:
        """What the first half adds to the first stream, [batch, length, hidden_size]."""
        ...

    def feed_forward_half(self, x: Tensor) -> Tensor:
        """What the second half adds to the second stream."""
        ...


def run_reversibly(
    layers: Sequence[Layer], x: Tensor, reading: Reading, caches: Sequence[Cache | None] | None = None
) -> Tensor:
    """Runs layers on two streams.

    Args:
        layers: lowest first.
        x: [batch, length, hidden_size].
        reading: of this pass.
        caches: of the layers, for reading without gradients.

    Returns:
        [batch, length, hidden_size].
    """
    if torch.is_grad_enabled() and x.requires_grad:
        y1, y2 = cast(tuple[Tensor, Tensor], _Reversible.apply(x, layers, reading))
    else:
        y1, y2 = x, x
        for at, layer in enumerate(layers):
            y1 = y1 + layer.attention_half(y2, reading, None if caches is None else caches[at])
            y2 = y2 + layer.feed_forward_half(y1)
    return (y1 + y2) / 2


class _Reversible(torch.autograd.Function):
    """All layers as one step: nothing between them is stored."""

    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> tuple[Tensor, Tensor]:
        x, layers, reading = inputs
        y1, y2 = x, x
        notes: list[tuple[list[Tensor], list[Tensor], dict[str, Tensor]]] = []
        for layer in layers:
            replay: dict[str, Tensor] = {}
            first = _random_state(x.device)
            y1 = y1 + layer.attention_half(y2, replace(reading, replay=replay))
            second = _random_state(x.device)
            y2 = y2 + layer.feed_forward_half(y1)
            notes.append((first, second, replay))
        ctx.layers, ctx.reading, ctx.notes = layers, reading, notes
        ctx.autocast = torch.is_autocast_enabled(x.device.type), torch.get_autocast_dtype(x.device.type)
        ctx.save_for_backward(y1.detach(), y2.detach())
        return y1, y2

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        y1, y2 = ctx.saved_tensors
        d_y1, d_y2 = grads
        now = _random_state(y1.device)
        enabled, dtype = ctx.autocast
        for layer, (first, second, replay) in zip(reversed(ctx.layers), reversed(ctx.notes), strict=True):
            with torch.enable_grad(), torch.autocast(y1.device.type, dtype, enabled=enabled):
                given = y1.detach().requires_grad_()
                _set_random_state(second, y1.device)
                added = layer.feed_forward_half(given)
            torch.autograd.backward(added, d_y2)  # into the parameters, and into what was given
            d_y1 = d_y1 + given.grad
            x2 = y2 - added.detach()
            with torch.enable_grad(), torch.autocast(y1.device.type, dtype, enabled=enabled):
                given = x2.detach().requires_grad_()
                _set_random_state(first, y1.device)
                added = layer.attention_half(given, replace(ctx.reading, replay=replay))
            torch.autograd.backward(added, d_y1)
            d_y2 = d_y2 + given.grad
            y1, y2 = y1 - added.detach(), x2
        _set_random_state(now, y1.device)
        return d_y1 + d_y2, None, None


def _random_state(device: torch.device) -> list[Tensor]:
    """Of the CPU, which seeds come from, and of the device, where dropout of hidden states may draw."""
    states = [torch.get_rng_state()]
    return [*states, torch.cuda.get_rng_state(device)] if device.type == "cuda" else states


def _set_random_state(states: list[Tensor], device: torch.device) -> None:
    torch.set_rng_state(states[0])
    for state in states[1:]:
        torch.cuda.set_rng_state(state, device)
