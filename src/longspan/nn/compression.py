"""How the Compressive Transformer shortens old memories, and what teaches it (arXiv 1911.05507, sections 3.1,
3.2).

Every function turns ``ratio`` neighbouring states into one. Pooling and most-used have nothing to learn. The
convolutions learn from one of three objectives: reconstructing what attention read from the old states (the
paper's best), reconstructing the states themselves, or the language model's own loss, through time.
"""

from typing import Literal, TypeAlias

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from longspan.nn.memory import Overflow

Function: TypeAlias = Literal["mean", "max", "conv", "dilated", "most-used"]
Objective: TypeAlias = Literal["none", "attention", "auto-encoding", "bptt"]
LEARNED = ("conv", "dilated")
_DILATION = 2


class Compressor(nn.Module):
    """Compresses the old states of one layer.

    Args:
        size: hidden size.
        ratio: states that become one.
        function: "mean", "max", "conv" (kernel and stride are the ratio), "dilated" (the same kernel with
            gaps, so that a compressed state also sees states before its own) or "most-used" (the states that
            were looked at most, in their order).
        objective: what a convolution learns from; "none" for the others.
    """

    def __init__(self, size: int, ratio: int, function: Function, objective: Objective) -> None:
        super().__init__()
        if (objective == "none") == (function in LEARNED):
            right = "attention, auto-encoding or bptt" if function in LEARNED else "none"
            raise ValueError(
                f"compression_loss is {objective!r} with compression {function!r}; it must be {right}"
            )
        self.ratio, self.function, self.objective = ratio, function, objective
        dilation = _DILATION if function == "dilated" else 1
        self.conv = (
            nn.Conv1d(size, size, ratio, stride=ratio, dilation=dilation) if function in LEARNED else None
        )
        # A kernel with gaps is wider than its stride: zeros before the block keep the number of groups.
        self._before = (ratio - 1) * (dilation - 1)
        self.decoder = (
            nn.ConvTranspose1d(size, size, ratio, stride=ratio) if objective == "auto-encoding" else None
        )

    @property
    def counts_usage(self) -> bool:
        """Whether it has to know how much each state was looked at."""
        return self.function == "most-used"

    def forward(self, old: Overflow) -> Tensor:
        """[B, groups * ratio, d] -> [B, groups, d]."""
        x = old.states
        if self.conv is not None:
            return self.conv(F.pad(x.transpose(1, 2), (self._before, 0))).transpose(1, 2)
        if self.function == "most-used":
            assert old.usage is not None
            kept = old.usage.topk(x.shape[1] // self.ratio, dim=1).indices.sort(1).values
            return x.gather(1, kept[..., None].expand(-1, -1, x.shape[2]))
        groups = x.unflatten(1, (-1, self.ratio))
        return groups.mean(2) if self.function == "mean" else groups.amax(2)

    def auto_encoding_loss(self, old: Tensor, new: Tensor) -> Tensor:
        """[]: how badly the states are made again from the compressed ones.

        Args:
            old: [B, groups * ratio, d].
            new: [B, groups, d].
        """
        assert self.decoder is not None
        return F.mse_loss(self.decoder(new.transpose(1, 2)).transpose(1, 2), old)

    def extra_repr(self) -> str:
        """What it does, for ``print(model)``."""
        return f"ratio={self.ratio}, function={self.function}, objective={self.objective}"


def reconstruction_loss(query: Tensor, old: tuple[Tensor, Tensor], new: tuple[Tensor, Tensor]) -> Tensor:
    """[]: how differently a segment reads the old states and the compressed ones, by content alone.

    Args:
        query: [B, heads, N, head_dim].
        old: keys and values of the old states, [B, heads, groups * ratio, head_dim] each.
        new: the same of the compressed ones, [B, heads, groups, head_dim] each.
    """
    read = [F.scaled_dot_product_attention(query, key, value) for key, value in (old, new)]
    return F.mse_loss(read[1], read[0])


def as_constants(*tensors: Tensor | None) -> list[Tensor | None]:
    """The tensors without their gradients; the tensors themselves keep theirs."""
    return [None if one is None else one.detach() for one in tensors]


def detached_linear(x: Tensor, layer: nn.Linear) -> Tensor:
    """``layer(x)`` with its weights as constants: a loss behind it trains what made ``x`` and nothing
    else."""
    weight, bias = as_constants(layer.weight, layer.bias)
    assert isinstance(weight, torch.Tensor)
    return F.linear(x, weight, bias)
