"""Rotary positions: the turn as its formula has it, in every layout, and its gradient."""

import pytest
import torch
from torch import Tensor

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


def test_no_copies_of_all_are_made() -> None:
    """Beside the result there is only a block's worth of memory; a half of the turn was once a tensor."""
    x, by = torch.randn(1, 4, 4096, 64), rotation(torch.arange(4096), 64)
    with torch.profiler.profile(profile_memory=True) as seen:
        rotate(x, by)
    events = [one for one in seen.events() or [] if one.name == "[memory]"]
    total = sum(one.cpu_memory_usage for one in events if one.cpu_memory_usage > 0)
    tables = 4096 * 64 * 4
    assert total <= x.nbytes + 2 * tables
