"""Dropout of hidden states, in place of `torch.nn.Dropout`.

On a CPU, drawing a Bernoulli mask costs torch far more than using it. The native library makes the mask
from a counter: whether an element survives is a hash of one seed and its index. Only the seed is stored
for the backward pass, and the mask does not depend on the number of threads. Where the library does not
serve (other devices, `torch.export`, no library) it is torch's own dropout.
"""

import torch
from torch import Tensor, nn

from longspan.attention import library
from longspan.attention.dropout import draw_seed

# torch 2.6 cannot tell export from compilation; it then uses its own dropout in both.
_is_exporting = getattr(torch.compiler, "is_exporting", torch.compiler.is_compiling)


class Dropout(nn.Dropout):
    """`torch.nn.Dropout`, but for the way its mask is drawn on a CPU."""

    def __init__(self, p: float = 0.5) -> None:
        super().__init__(p)

    def forward(self, input: Tensor) -> Tensor:
        """``input``, any shape, with elements dropped while training."""
        return dropout(input, self.p, self.training)


def dropout(x: Tensor, p: float = 0.5, training: bool = True) -> Tensor:
    """``x`` with each element 0 with probability ``p``, and divided by 1 - p otherwise.

    Args:
        x: any shape.
        p: probability that an element is dropped, 0 <= p <= 1.
        training: where False, ``x`` itself is returned.

    Returns:
        The shape of ``x``. `torch.manual_seed` governs which elements are dropped.

    Raises:
        ValueError: ``p`` is not a probability.
    """
    if not 0 <= p <= 1:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
    if not training or p == 0:
        return x
    native = x.device.type == "cpu" and x.dtype in library.DTYPES and not isinstance(library.KERNEL, str)
    if not native or _is_exporting():
        return nn.functional.dropout(x, p)
    return torch.ops.longspan.dropout(x, p, draw_seed())


@torch.library.custom_op("longspan::dropout", mutates_args=(), device_types="cpu")
def _dropout(x: Tensor, p: float, seed: Tensor) -> Tensor:
    # An element's index is its place in the contiguous order, so that the gradient, whatever its strides,
    # meets the same mask.
    x = x.contiguous()
    out = torch.empty_like(x, memory_format=torch.contiguous_format)
    kernel = library.kernel()
    kernel.prefer_huge_pages(out)
    elements = library.Elements(
        dtype=library.DTYPES.index(x.dtype),
        threads=torch.get_num_threads(),
        count=x.numel(),
        x=x.data_ptr(),
        out=out.data_ptr(),
        dropout=p,
        seed=int(seed),
    )
    kernel.call("dropout", elements)
    return out


@_dropout.register_fake
def _(x: Tensor, p: float, seed: Tensor) -> Tensor:
    return torch.empty_like(x, memory_format=torch.contiguous_format)


def _save(ctx: object, inputs: tuple[Tensor, float, Tensor], output: Tensor) -> None:
    _, p, seed = inputs
    ctx.save_for_backward(seed)  # pyright: ignore
    ctx.p = p  # pyright: ignore


def _differentiate(ctx: object, d_out: Tensor) -> tuple[Tensor, None, None]:
    (seed,) = ctx.saved_tensors  # pyright: ignore
    return torch.ops.longspan.dropout(d_out, ctx.p, seed), None, None  # pyright: ignore


_dropout.register_autograd(_differentiate, setup_context=_save)
