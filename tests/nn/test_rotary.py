"""Rotary positions: the turn as its formula has it, in every layout, and its gradient."""

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from longspan.nn import rotary
from longspan.nn.rotary import Rotation, rotate, rotation


def formula(x: Tensor, by: Rotation) -> Tensor:
    """Pairs as complex numbers, in fp64."""
    first, second = x.double().chunk(2, -1)
    turned = torch.complex(first, second) * torch.complex(by.cosine.double(), by.sine.double())
    return torch.cat([turned.real, turned.imag], -1)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("length", [1, 7, 301])
def test_rotate_is_the_formula(dtype: torch.dtype, length: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rotary, "_BLOCK", 1000)  # so that there are several blocks, and a rest
    x = torch.randn(2, length, 3, 10, dtype=dtype).transpose(1, 2)
    by = rotation(torch.arange(5, 5 + length), 10)
    before = x.clone()
    out = rotate(x, by)
    assert out.dtype == dtype
    assert length == 1 or out.stride() == x.stride(), "attention reads it as fast as what was projected"
    assert torch.equal(x, before), "what was given is not changed"
    expected = formula(x, by)
    # One rounding of the result.
    torch.testing.assert_close(out, expected.to(dtype), rtol=2 * torch.finfo(dtype).eps, atol=2e-6)


def test_gradients_of_first_and_second_order() -> None:
    by = rotation(torch.arange(4), 6)
    x = torch.randn(1, 2, 4, 6, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda y: rotate(y, by), x)
    assert torch.autograd.gradgradcheck(lambda y: rotate(y, by).square(), x)


def test_compiled_is_eager() -> None:
    by = rotation(torch.arange(9), 8)
    x = torch.randn(1, 2, 9, 8)
    compiled = torch.compile(rotate, backend="eager", fullgraph=True)
    torch.testing.assert_close(compiled(x, by), rotate(x, by))


class Made(TorchDispatchMode):
    """Counts the bytes of the tensors that operations make; a view makes none."""

    def __init__(self) -> None:
        super().__init__()
        self.nbytes = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        given = {x.untyped_storage().data_ptr() for x in tree_leaves((args, kwargs)) if isinstance(x, Tensor)}
        for one in (x for x in tree_leaves(out) if isinstance(x, Tensor)):
            self.nbytes += one.nbytes * (one.untyped_storage().data_ptr() not in given)
        return out


def test_no_copies_of_all_are_made() -> None:
    """Beside the result there are only tables; the formula makes four times as much."""
    x, by = torch.randn(1, 4, 4096, 64), rotation(torch.arange(4096), 64)
    with Made() as made:
        rotate(x, by)
    tables = 4096 * 64 * 4
    assert x.nbytes <= made.nbytes <= x.nbytes + 2 * tables
    with Made() as made:
        first, second = x.chunk(2, -1)
        turned = [first * by.cosine - second * by.sine, second * by.cosine + first * by.sine]
        torch.cat(turned, -1)
    assert made.nbytes == 4 * x.nbytes, "what is counted is there to be counted"
