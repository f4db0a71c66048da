"""Attention dropout from a counter, not from a stream.

Whether a pair survives is a pure function of (seed, example, head, query position, key position),
so the mask does not depend on the implementation, the block size or the number of threads, and the
backward pass recomputes it instead of storing it. `csrc/dropout.h` is the same function in C++.
"""

import torch
from torch import Tensor

_LOW32 = 0xFFFFFFFF
_GOLDEN = 0x9E3779B9  # 2**32 / golden ratio: consecutive counters land far apart


def draw_seed() -> Tensor:
    """A fresh seed from torch's default CPU generator, so that `torch.manual_seed` governs it."""
    return torch.randint(0, 2**62, (), dtype=torch.int64, device="cpu")


def keep_mask(seed: Tensor, rate: float, row: Tensor, query: Tensor, key: Tensor) -> Tensor:
    """Which pairs survive dropout at ``rate``.

    Args:
        seed: [] int64.
        rate: probability that a pair is dropped, 0 <= rate < 1.
        row: example * heads + head, int64.
        query: query positions, int64.
        key: key positions, int64; ``row``, ``query`` and ``key`` broadcast together.

    Returns:
        bool, of the broadcast shape.
    """
    seed = seed.to(row.device)
    stream = _mix((seed & _LOW32) + _mix((seed >> 32 & _LOW32) + _mix(row + _GOLDEN)))
    per_query = _mix(stream + query * _GOLDEN)
    # Two multiplications per pair, not the whole mixer: this line runs once per attention pair.
    x = (per_query ^ (key * _GOLDEN & _LOW32)) * 0x7FEB352D & _LOW32
    x = (x ^ (x >> 15)) * 0x846CA68B & _LOW32
    return x >= drop_threshold(rate)


def drop_threshold(rate: float) -> int:
    """The 32-bit hash values below this one are dropped."""
    return round(rate * 2**32)


def _mix(x: Tensor) -> Tensor:
    """A 32-bit finaliser (C. Wellons' lowbias32): every input bit flips each output bit half the time."""
    x = x & _LOW32
    x = (x ^ (x >> 16)) * 0x7FEB352D & _LOW32
    x = (x ^ (x >> 15)) * 0x846CA68B & _LOW32
    return x ^ (x >> 16)
