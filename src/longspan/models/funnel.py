"""Layers in blocks, each of half the length of the one before (Funnel-Transformer, arXiv 2006.03236).

The first layer of a block has queries of the pooled sequence, and keys and values of the sequence before. A
decoder may follow, which brings back the length of the input: it repeats the last states, adds those of the
first block, and has layers of its own.

Positions are counted in tokens in every block; a pooled state stands where the first of its tokens does. The
original gives the first token, where it stays by itself, no position at all; here it has one as others do.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from torch import Tensor

from longspan.nn.long_range_attention import Reading
from longspan.nn.pooling import Pooling


def run_funnel(
    layers: Sequence[Any],
    decoder: Sequence[Any],
    x: Tensor,
    reading: Reading,
    block_sizes: Sequence[int],
    pooling: Pooling,
) -> list[Tensor]:
    """Runs blocks of layers, and the decoder if it has any.

    Args:
        layers: of all blocks.
        decoder: layers that follow at the length of the input; none for the pooled states.
        x: [batch, length, hidden_size].
        reading: of this pass.
        block_sizes: layers of each block.
        pooling: between blocks.

    Returns:
        The input of every layer, and the last output: [batch, its length, hidden_size] each.
    """
    states, whole = [x], reading
    starts = [sum(block_sizes[:block]) for block in range(1, len(block_sizes))]
    for at, layer in enumerate(layers):
        if at in starts:
            pooled = _pooled(reading, pooling)
            x, _ = layer(x, _spread(reading, pooled, pooling), None, None, None, pooling)
            reading = pooled
        else:
            x, _ = layer(x, reading)
        states.append(x)
    if decoder:
        length = states[0].shape[1]
        states[-1] = x = pooling.spread(x, length, len(starts)) + states[block_sizes[0]]
    for layer in decoder:
        x, _ = layer(x, whole)
        states.append(x)
    return states


def shortened(is_padding: Tensor, block_sizes: Sequence[int], pooling: Pooling) -> Tensor:
    """[batch, length] bool -> [batch, length of the last block] bool."""
    for _ in block_sizes[1:]:
        is_padding = pooling.first(is_padding)
    return is_padding


def _pooled(reading: Reading, pooling: Pooling) -> Reading:
    """Of the states of pairs: global where one of them is."""
    is_padding, is_global = reading.is_padding, reading.is_global
    return replace(
        reading,
        stride=2 * reading.stride,
        # Padding comes last, so where the first of a pair is, the other is too.
        is_padding=None if is_padding is None else pooling.first(is_padding),
        is_global=None if is_global is None else pooling.pool(is_global[..., None].float())[..., 0] > 0,
    )


def _spread(reading: Reading, pooled: Reading, pooling: Pooling) -> Reading:
    """Of the layer in between: pairs with a global token are global as a whole."""
    if reading.is_global is None or pooled.is_global is None:
        return reading
    is_global = pooling.spread(pooled.is_global, reading.is_global.shape[1])
    if reading.is_padding is not None:
        is_global = is_global & ~reading.is_padding
    return replace(reading, is_global=is_global)
