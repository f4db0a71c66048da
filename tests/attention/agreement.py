"""The one assertion that matters: an implementation agrees with the fp64 reference, gradients included."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from longspan import attend, attend_global
from longspan.attention.attend import Attention

from .cases import TOLERANCES, Call

TABLES = ("bias", "position_keys")
DIFFERENTIABLE = ("q", "k", "v", "position_query", *TABLES)


def assert_matches_reference(
    call: Call,
    impl: str,
    dtype: torch.dtype,
    *,
    gradients: bool = True,
    check: Callable[[Attention, dict[str, Tensor]], None] | None = None,
) -> None:
    """Runs ``call`` with ``impl`` in ``dtype`` and with the reference in fp64, on the same rounded inputs.

    The output, the log-sum-exp and the gradients of all inputs, from random cotangents of both, must
    agree within `TOLERANCES`.

    Args:
        call: arguments of `attend`, or of `attend_global` when there are ``positions``.
        impl: the implementation under test.
        dtype: of its inputs.
        gradients: compare them too; an implementation without a backward pass says False.
        check: further assertions, on what was returned and on the gradients by name.
    """
    tolerance = TOLERANCES[dtype]
    # Dropout scales the survivors up, and their errors with them.
    unit = 1.0 / (1.0 - call.get("dropout", 0.0))
    with torch.set_grad_enabled(gradients):
        got, got_gradients = _run(call, impl, dtype, dtype, gradients)
        wanted, wanted_gradients = _run(call, "reference", dtype, torch.float64, gradients)
    assert got.lse is not None and wanted.lse is not None
    assert got.out.dtype == dtype
    assert got.lse.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
    _assert_close("out", got.out, wanted.out, tolerance.forward, unit)
    nothing = wanted.lse == -torch.inf
    assert torch.equal(got.lse == -torch.inf, nothing), "lse: other rows than the reference's see nothing"
    _assert_close("lse", got.lse[~nothing], wanted.lse[~nothing], tolerance.forward, 1.0)
    assert not got.out[nothing].any(), "out: a row that sees nothing is not 0"
    for name, gradient in got_gradients.items():
        allowed = tolerance.table_gradient if name in TABLES else tolerance.gradient
        _assert_close(f"gradient of {name}", gradient, wanted_gradients[name], allowed, unit)
    if check is not None:
        check(got, got_gradients)


def run(call: Call, impl: str) -> Attention:
    """``call`` as it is, by ``impl``, with the log-sum-exp."""
    operation: Callable[..., Any] = attend_global if "positions" in call else attend
    result = operation(**call, return_lse=True, impl=impl)
    assert isinstance(result, Attention)
    return result


def _run(
    call: Call,
    impl: str,
    rounded_to: torch.dtype,
    dtype: torch.dtype,
    gradients: bool,
) -> tuple[Attention, dict[str, Tensor]]:
    leaves = {
        name: _leaf(call[name].to(rounded_to), call[name].stride(), dtype).requires_grad_(gradients)
        for name in DIFFERENTIABLE
        if call.get(name) is not None
    }
    result = run({**call, **leaves}, impl)
    if not gradients:
        return result, {}
    assert result.lse is not None
    generator = torch.Generator().manual_seed(0)
    cotangents = [
        torch.randn(x.shape, generator=generator, dtype=torch.float64).to(rounded_to).to(x.dtype)
        for x in (result.out, result.lse)
    ]
    # A row that sees nothing has no finite log-sum-exp, and so no use for a gradient.
    cotangents[1] = cotangents[1].masked_fill(result.lse == -torch.inf, 0.0)
    found = torch.autograd.grad(
        (result.out, result.lse),
        list(leaves.values()),
        cotangents,
        allow_unused=True,
        materialize_grads=True,
    )
    return result, dict(zip(leaves, found, strict=True))


def _leaf(x: Tensor, stride: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    """A copy of ``x`` laid out with ``stride``, with NaN in the gaps, which nobody may read."""
    extent = (
        1 + sum((size - 1) * step for size, step in zip(x.shape, stride, strict=True)) if x.numel() else 0
    )
    leaf = torch.full((extent,), torch.nan, dtype=dtype).as_strided(x.shape, stride)
    return leaf.copy_(x).detach()


def _assert_close(name: str, got: Tensor, wanted: Tensor, tolerance: float, unit: float) -> None:
    assert got.shape == wanted.shape, f"{name}: shape {list(got.shape)}, wanted {list(wanted.shape)}"
    if not got.numel():
        return
    assert got.isfinite().all(), f"{name}: not finite"
    error = (got.double() - wanted.double()).abs().max().item()
    allowed = tolerance * max(unit, wanted.abs().max().item())
    assert error <= allowed, f"{name}: off by {error:.2e}, allowed {allowed:.2e}"
