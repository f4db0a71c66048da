"""The implementation in plain PyTorch, against the reference."""

from typing import Any, cast

import pytest
import torch
from hypothesis import given
from torch import Tensor, nn

from longspan import Pattern, attend, attend_global
from longspan.attention.attend import Attention

from .agreement import assert_matches_reference, run
from .cases import Call, any_calls, examples


@examples(300)
@given(any_calls())
def test_agrees_in_fp64(call: Call) -> None:
    assert_matches_reference(call, "blocked", torch.float64)


@examples(150)
@given(any_calls())
def test_agrees_in_fp32(call: Call) -> None:
    assert_matches_reference(call, "blocked", torch.float32)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_agrees_in_half_precision(dtype: torch.dtype) -> None:
    @examples(100)
    @given(any_calls())
    def agrees(call: Call) -> None:
        assert_matches_reference(call, "blocked", dtype)

    agrees()


LONG_PATTERNS = [
    pytest.param(Pattern(left=70, right=70), id="window"),
    pytest.param(Pattern(left=200, right=0, dilation=3), id="dilated"),
    pytest.param(Pattern(left=None, right=0), id="causal"),
    pytest.param([Pattern(left=4, right=4), Pattern(left=None, right=None)], id="mixed"),
]


@pytest.mark.parametrize("pattern", LONG_PATTERNS)
def test_agrees_on_many_pieces(pattern: Pattern | list[Pattern]) -> None:
    assert_matches_reference(_long_call(pattern), "blocked", torch.float32)


@pytest.mark.parametrize("pattern", LONG_PATTERNS)
def test_gradcheck(pattern: Pattern | list[Pattern]) -> None:
    generator = torch.Generator().manual_seed(0)
    shapes = {
        "q": (1, 2, 6, 2),
        "k": (1, 1, 7, 2),
        "v": (1, 1, 7, 2),
        "bias": (2, 5),
        "position_query": (1, 2, 6, 2),
        "position_keys": (2, 3, 2),
    }
    inputs = [
        torch.randn(shape, dtype=torch.float64, generator=generator, requires_grad=True)
        for shape in shapes.values()
    ]

    def operation(*tensors: Tensor) -> tuple[Tensor, Tensor]:
        q, k, v, bias, position_query, position_keys = tensors
        result = attend(
            q,
            k,
            v,
            pattern,
            is_global=torch.tensor([[False, True, False, False, False, False, False]]),
            query_offset=1,
            dropout=0.3,
            seed=4,
            bias=bias,
            position_query=position_query,
            position_keys=position_keys,
            return_lse=True,
            impl="blocked",
        )
        assert isinstance(result, Attention) and result.lse is not None
        return result.out, result.lse

    assert torch.autograd.gradcheck(operation, inputs)


def test_nan_at_padded_positions_goes_nowhere() -> None:
    call = _long_call(Pattern(left=5, right=5), length=90)
    is_padding: Tensor = call["is_padding"]
    clean = {
        **call,
        **{name: call[name].masked_fill(is_padding[:, None, :, None], 0.0) for name in PER_POSITION},
    }
    dirty = {
        **call,
        **{name: call[name].masked_fill(is_padding[:, None, :, None], torch.nan) for name in PER_POSITION},
    }
    for impl in ("blocked", "reference"):
        for wanted, got in zip(_out_and_gradients(clean, impl), _out_and_gradients(dirty, impl), strict=True):
            torch.testing.assert_close(got, wanted, rtol=0, atol=0)


def test_large_hidden_scores_do_not_overflow() -> None:
    q, k, v = (torch.randn(1, 1, 40, 4, generator=torch.Generator().manual_seed(i)) for i in range(3))
    k[:, :, 30:] *= 1e4
    is_padding = torch.arange(40)[None] >= 30
    call = {"q": q, "k": k, "v": v, "pattern": Pattern(left=3, right=3), "is_padding": is_padding}
    for impl in ("blocked", "reference"):
        assert all(x.isfinite().all() for x in _out_and_gradients(call, impl))


def test_gradients_of_a_part_of_the_inputs() -> None:
    q, k, v = (torch.randn(1, 2, 50, 4) for _ in range(3))
    v.requires_grad_()
    out = attend(q, k, v, Pattern(left=3, right=3), impl="blocked")
    assert isinstance(out, Tensor)
    out.sum().backward()
    assert v.grad is not None
    # Each row of probabilities sums to 1, so the gradients of v sum to the number of rows.
    torch.testing.assert_close(v.grad.sum(), torch.tensor(2 * 50 * 4.0))


def test_autocast_does_not_reach_the_sums() -> None:
    q, k, v = (torch.randn(1, 2, 50, 16, generator=torch.Generator().manual_seed(i)) for i in range(3))
    pattern = Pattern(left=8, right=8)
    wanted = attend(q, k, v, pattern, impl="blocked")
    with torch.autocast("cpu", torch.bfloat16):
        got = attend(q, k, v, pattern, impl="blocked")
    assert isinstance(got, Tensor) and isinstance(wanted, Tensor)
    assert torch.equal(got, wanted)


class _Layer(nn.Module):
    def __init__(self, pattern: Pattern | list[Pattern]) -> None:
        super().__init__()
        self.pattern = pattern

    def forward(
        self, q: Tensor, k: Tensor, v: Tensor, is_padding: Tensor | None, is_global: Tensor | None
    ) -> Tensor:
        out = attend(q, k, v, self.pattern, is_padding=is_padding, is_global=is_global, impl="blocked")
        assert isinstance(out, Tensor)
        return out


def _layer_inputs(batch: int, length: int, masks: bool, globals_: bool) -> tuple[Tensor | None, ...]:
    q, k, v = (torch.randn(batch, 2, length, 8) for _ in range(3))
    is_padding = torch.rand(batch, length) < 0.1 if masks else None
    is_global = torch.rand(batch, length) < 0.05 if globals_ else None
    return q, k, v, is_padding, is_global


MIXED = [Pattern(left=5, right=0, dilation=2), Pattern(left=None, right=None)]


@pytest.mark.parametrize(
    ("pattern", "globals_", "masks"),
    [
        pytest.param(Pattern(left=8, right=8), False, False, id="window"),
        pytest.param(Pattern(left=8, right=8), True, True, id="globals"),
        pytest.param(MIXED, False, True, id="mixed"),
    ],
)
def test_export_with_dynamic_batch_and_length(
    pattern: Pattern | list[Pattern], globals_: bool, masks: bool
) -> None:
    layer = _Layer(pattern)
    batch, length = torch.export.Dim("batch"), torch.export.Dim("length", min=4)
    heads, mask = {0: batch, 2: length}, {0: batch, 1: length}
    program = torch.export.export(
        layer,
        _layer_inputs(2, 70, masks, globals_),
        dynamic_shapes=(heads, heads, heads, mask if masks else None, mask if globals_ else None),
    )
    for shape in ((2, 70), (1, 4), (3, 16), (1, 333)):
        inputs = _layer_inputs(*shape, masks, globals_)
        torch.testing.assert_close(program.module()(*inputs), layer(*inputs), rtol=1e-5, atol=1e-5)


# The compiler itself uses deprecated parts of torch.
@pytest.mark.filterwarnings("default::DeprecationWarning")
@pytest.mark.parametrize("masks", [False, True], ids=["bare", "padding"])
def test_compile_without_graph_breaks(masks: bool) -> None:
    torch.compiler.reset()
    layer = _Layer(Pattern(left=8, right=8))
    compiled = torch.compile(layer, fullgraph=True)
    inputs = _layer_inputs(2, 70, masks, False)
    tensors = [x.requires_grad_() for x in inputs[:3] if x is not None]
    got, wanted = compiled(*inputs), layer(*inputs)
    torch.testing.assert_close(got, wanted, rtol=1e-5, atol=1e-5)
    cotangent = torch.randn_like(wanted)
    for a, b in zip(
        torch.autograd.grad(got, tensors, cotangent),
        torch.autograd.grad(wanted, tensors, cotangent),
        strict=True,
    ):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "options",
    [
        {"is_global": torch.arange(37).expand(2, -1) % 9 == 4},
        {"document_starts": torch.tensor([0, 10, 37])},
        {"dropout": 0.1, "seed": 1},
    ],
    ids=["globals", "documents", "dropout"],
)
def test_one_graph_for_every_option(options: dict[str, Any]) -> None:
    torch.compiler.reset()

    def call(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return cast(Tensor, attend(q, k, v, Pattern(left=4, right=4), impl="blocked", **options))

    compiled = torch.compile(call, fullgraph=True, backend="aot_eager")
    tensors = [torch.randn(2, 2, 37, 8, requires_grad=True) for _ in range(3)]
    got, wanted = compiled(*tensors), call(*tensors)
    torch.testing.assert_close(got, wanted, rtol=1e-5, atol=1e-5)
    for a, b in zip(
        torch.autograd.grad(got.square().sum(), tensors),
        torch.autograd.grad(wanted.square().sum(), tensors),
        strict=True,
    ):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


def test_global_queries_that_are_absent_come_out_zero() -> None:
    q, k, v = torch.randn(2, 1, 3, 4), torch.randn(2, 1, 9, 4), torch.randn(2, 1, 9, 4)
    q[1, :, 1:] = torch.nan
    positions = torch.tensor([[0, 4, 8], [2, -1, -1]])
    result = attend_global(q, k, v, positions, return_lse=True, impl="blocked")
    assert isinstance(result, Attention) and result.lse is not None
    assert not result.out[1, :, 1:].any()
    assert (result.lse[1, :, 1:] == -torch.inf).all()


PER_POSITION = ("q", "k", "v", "position_query")


def _long_call(pattern: Pattern | list[Pattern], length: int = 1200) -> Call:
    generator = torch.Generator().manual_seed(0)

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, dtype=torch.float64, generator=generator)

    return {
        **{name: normal(2, 2, length, 16) for name in PER_POSITION},
        "pattern": pattern,
        "is_global": torch.rand(2, length, generator=generator) < 0.002,
        "is_padding": torch.rand(2, length, generator=generator) < 0.1,
        "document_starts": torch.tensor([[0, length // 3, length], [0, length // 2, length]]),
        "dropout": 0.1,
        "seed": 3,
        "bias": normal(2, 31),
        "position_keys": normal(2, 201, 16),
    }


def _out_and_gradients(call: Call, impl: str) -> list[Tensor]:
    leaves = {
        name: x.detach().clone().requires_grad_()
        for name, x in call.items()
        if isinstance(x, Tensor) and x.is_floating_point()
    }
    out = run({**call, **leaves}, impl).out
    cotangent = torch.randn(out.shape, generator=torch.Generator().manual_seed(0), dtype=out.dtype)
    return [out.detach(), *torch.autograd.grad(out, list(leaves.values()), cotangent)]
