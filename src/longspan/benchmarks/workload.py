"""What is computed: shapes, inputs, and the arithmetic that a perfect implementation would do."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from longspan.attention.pattern import Pattern
from longspan.checks import at_least

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}

# Two products forward (scores, output), five backward (scores again, dV, dP, dQ, dK).
TRAINING_FACTOR = 3.5


@dataclass(frozen=True, kw_only=True, slots=True)
class Workload:
    """One attention layer's work; the defaults are a Longformer base layer at 4,096 tokens."""

    batch: int = 1
    heads: int = 12
    length: int = 4096
    head_dim: int = 64
    window: int = 512
    """Keys on both sides together, as Hugging Face counts: left = right = window / 2."""
    dilation: int = 1
    num_globals: int = 1
    """Global tokens, the first ones."""
    dtype: str = "float32"

    def __post_init__(self) -> None:
        at_least(1, batch=self.batch, heads=self.heads, length=self.length, head_dim=self.head_dim)
        if self.window < 0 or self.window % 2:
            raise ValueError(f"window is {self.window}; it must be even and >= 0, half of it on each side")
        if not 0 <= self.num_globals <= self.length:
            raise ValueError(f"num_globals is {self.num_globals}; it must lie between 0 and {self.length}")
        if self.dtype not in DTYPES:
            raise ValueError(f"dtype is {self.dtype!r}; it must be one of {', '.join(DTYPES)}")

    @property
    def pattern(self) -> Pattern:
        """The window of every head."""
        return Pattern(left=self.window // 2, right=self.window // 2, dilation=self.dilation)

    @property
    def tensor_bytes(self) -> int:
        """Size of one of q, k, v: the unit of the memory figures."""
        return self.batch * self.heads * self.length * self.head_dim * DTYPES[self.dtype].itemsize

    def is_global(self) -> Tensor | None:
        """[batch, length] bool; None when there are no global tokens."""
        if self.num_globals == 0:
            return None
        return (torch.arange(self.length) < self.num_globals).expand(self.batch, -1).contiguous()

    def flops(self) -> float:
        """Forward floating-point operations of the pairs that exist."""
        pairs = local_pairs(self.pattern, self.length, self.num_globals) + self.num_globals * self.length
        return pair_flops(self.batch * self.heads * pairs, self.head_dim)


@dataclass(frozen=True, slots=True)
class Inputs:
    """Queries, keys, values and the gradient that arrives at the output: [batch, heads, length, head_dim]."""

    q: Tensor
    k: Tensor
    v: Tensor
    grad: Tensor

    def zero_grad(self) -> None:
        """Forgets the gradients of the last call, so that their memory is counted in the next."""
        self.q.grad = self.k.grad = self.v.grad = None


def make_inputs(work: Workload, *, training: bool, seed: int = 0) -> Inputs:
    """Random inputs in a model's layout: made as [batch, length, heads, head_dim], seen transposed."""
    generator = torch.Generator().manual_seed(seed)
    shape = (work.batch, work.length, work.heads, work.head_dim)

    def tensor(requires_grad: bool) -> Tensor:
        made = torch.empty(shape, dtype=DTYPES[work.dtype]).normal_(generator=generator).transpose(1, 2)
        return made.requires_grad_(requires_grad)

    q, k, v = (tensor(training) for _ in range(3))
    grad = tensor(False) if training else torch.empty(0)
    return Inputs(q, k, v, grad)


def both_ways(name: str, call: Callable[[], Tensor], inputs: Inputs) -> dict[str, Callable[[], Tensor]]:
    """``call`` without gradients, and with a backward pass: the two directions that are measured."""

    def forward() -> Tensor:
        with torch.no_grad():
            return call()

    def training() -> Tensor:
        inputs.zero_grad()
        out = call()
        out.backward(inputs.grad)
        return out

    return {f"{name} forward": forward, f"{name} training": training}


def local_pairs(pattern: Pattern, length: int, num_globals: int) -> int:
    """Pairs in one head of one sequence: windows cut at the ends, and global keys outside them.

    The global tokens are the first ``num_globals``; each key counts once for each query.
    """
    offset = torch.arange(1 - length, length)
    in_window = int((length - offset.abs())[pattern.allows(torch.tensor(0), offset)].sum())
    position = torch.arange(length)
    key = torch.arange(num_globals)[:, None]
    beyond = ~pattern.allows(position, key)
    if pattern.is_causal:
        beyond = beyond & (key <= position)
    return in_window + int(beyond.sum())


def pair_flops(pairs: float, head_dim: int) -> float:
    """Forward: one multiply-add per component for the score and one for the output."""
    return 4.0 * head_dim * pairs
