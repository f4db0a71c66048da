"""Memories: what a causal model keeps of the segments that it read, as explicit state.

Transformer-XL (arXiv 1901.02860) keeps the last hidden states of every layer. The Compressive Transformer
(arXiv 1911.05507) also keeps what became of older ones. A memory is a value: reading a segment takes one and
returns the next. Nothing in it carries a gradient, but for compressed states that are trained through time.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from longspan.checks import at_least


@dataclass(frozen=True, kw_only=True, slots=True)
class MemorySizes:
    """How much a layer keeps."""

    recent: int
    """Hidden states, newest."""
    compressed: int = 0
    """Compressed ones, of what came before those."""
    ratio: int = 1
    """Hidden states that become one compressed state."""

    def __post_init__(self) -> None:
        at_least(0, recent=self.recent, compressed=self.compressed)
        at_least(1, ratio=self.ratio)


@dataclass(frozen=True, kw_only=True, slots=True)
class LayerMemory:
    """What one layer keeps. Letters: B examples, d hidden size."""

    recent: Tensor
    """[B, up to sizes.recent + ratio - 1, d]: inputs of the layer, oldest first."""
    compressed: Tensor
    """[B, up to sizes.compressed, d], oldest first."""
    usage: Tensor | None = None
    """[B, as many as recent]: how much each was looked at so far, where somebody asks."""

    @property
    def states(self) -> Tensor:
        """[B, slots, d]: all that is attended to before the segment, oldest first."""
        return torch.cat([self.compressed, self.recent], 1) if self.compressed.shape[1] else self.recent

    def __len__(self) -> int:
        return self.compressed.shape[1] + self.recent.shape[1]


@dataclass(frozen=True, kw_only=True, slots=True)
class Memory:
    """What a model keeps, layer by layer."""

    layers: tuple[LayerMemory, ...]
    seen: int = 0
    """Tokens that were read so far."""

    def select(self, examples: Tensor) -> "Memory":
        """Other examples, [new batch] int64, in another order."""

        def chosen(x: Tensor) -> Tensor:
            return x.index_select(0, examples.to(x.device))

        return replace(
            self,
            layers=tuple(
                LayerMemory(
                    recent=chosen(one.recent),
                    compressed=chosen(one.compressed),
                    usage=None if one.usage is None else chosen(one.usage),
                )
                for one in self.layers
            ),
        )


def empty_memory(layers: int, like: Tensor, *, counts_usage: bool = False) -> Memory:
    """The memory before the first segment: nothing, rather than zeros that would be attended to.

    Args:
        layers: of the model.
        like: [batch, any, hidden_size], of the dtype and device to use.
        counts_usage: whether the compression asks how much states are looked at.
    """
    nothing = like.detach().new_empty(like.shape[0], 0, like.shape[2])
    usage = nothing[:, :, 0] if counts_usage else None
    return Memory(layers=(LayerMemory(recent=nothing, compressed=nothing, usage=usage),) * layers)


@dataclass(frozen=True, kw_only=True, slots=True)
class Overflow:
    """Hidden states that leave the recent memory, to be compressed."""

    states: Tensor
    """[B, a multiple of ratio, d]."""
    usage: Tensor | None
    """[B, as many]."""


def remember(
    memory: LayerMemory, segment: Tensor, sizes: MemorySizes, used: Tensor | None = None
) -> tuple[LayerMemory, Overflow | None]:
    """Adds a segment to what a layer keeps; what there is no room for leaves, oldest first.

    Without compression it is gone. With it, whole groups of ``ratio`` leave and the rest waits, so that a
    segment of any length is defined and none of its states is lost or padded.

    Args:
        memory: before the segment.
        segment: [B, N, d], the layer's inputs; detached here.
        sizes: how much to keep.
        used: [B, slots + N]: how much the segment looked at each of ``memory.states`` and of its own states.

    Returns:
        The memory without what leaves, and that; None where nothing leaves, or nobody compresses it.
    """
    joined = torch.cat([memory.recent, segment.detach()], 1)
    usage = None
    if memory.usage is not None:
        assert used is not None
        new = torch.nn.functional.pad(memory.usage, (0, segment.shape[1]))
        usage = new + used.detach()[:, memory.compressed.shape[1] :]
    excess = max(0, joined.shape[1] - sizes.recent)
    if not sizes.compressed:
        return replace(
            memory, recent=joined[:, excess:], usage=None if usage is None else usage[:, excess:]
        ), None
    leaving = excess // sizes.ratio * sizes.ratio
    kept = replace(memory, recent=joined[:, leaving:], usage=None if usage is None else usage[:, leaving:])
    if not leaving:
        return kept, None
    return kept, Overflow(states=joined[:, :leaving], usage=None if usage is None else usage[:, :leaving])


def add_compressed(memory: LayerMemory, new: Tensor, sizes: MemorySizes) -> LayerMemory:
    """Adds compressed states, [B, any, d]; the oldest leave for good."""
    joined = torch.cat([memory.compressed, new], 1)
    return replace(memory, compressed=joined[:, max(0, joined.shape[1] - sizes.compressed) :])


def segments(length: int, size: int) -> Sequence[slice]:
    """A text of ``length`` tokens, cut into segments of ``size``; the last may be shorter."""
    return [slice(begin, min(begin + size, length)) for begin in range(0, length, size)]
