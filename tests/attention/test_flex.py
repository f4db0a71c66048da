"""FlexAttention's rules, on the CPU: forward only, through its dense eager form."""

from typing import Any

import pytest
import torch
from torch import Tensor

from longspan import Pattern, attend
from longspan.attention import flex, reference
from longspan.attention.attend import choose, preferred
from longspan.attention.pattern import per_head
from longspan.attention.request import Request
from longspan.attention.validation import check

from .agreement import assert_matches_reference
from .cases import Call


def _call(
    pattern: Pattern | list[Pattern], *, heads: int = 2, kv_heads: int = 2, head_dim: int = 16, **more: Any
) -> Call:
    generator = torch.Generator().manual_seed(0)

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, dtype=torch.float64, generator=generator)

    call: Call = {
        "q": normal(2, heads, 300, head_dim),
        "k": normal(2, kv_heads, 330, head_dim),
        "v": normal(2, kv_heads, 330, head_dim),
        "pattern": pattern,
        "query_offset": 17,
    }
    call.update({name: make(normal) for name, make in more.items()})
    return call


def _mask(share: float) -> Tensor:
    return torch.rand(2, 330, generator=torch.Generator().manual_seed(round(share * 1000))) < share


MIXED = [Pattern(left=5, right=7), Pattern(left=None, right=0), Pattern(left=20, right=0, dilation=3)]
CALLS = {
    "window": _call(Pattern(left=40, right=3), head_dim=20),
    "everything": _call(
        [*MIXED, Pattern(left=5, right=7)],
        heads=4,
        is_global=lambda _: _mask(0.01),
        is_padding=lambda _: _mask(0.2) | (torch.arange(2)[:, None] == 1) & (torch.arange(330) > 100),
        document_starts=lambda _: torch.tensor([[0, 10, 10, 150, 330], [0, 0, 70, 90, 330]]),
        bias=lambda normal: normal(4, 21),
        position_query=lambda normal: normal(2, 4, 300, 16),
        position_keys=lambda normal: normal(4, 401, 16),
    ),
    "an example of padding": _call(
        Pattern(left=4, right=4), is_padding=lambda _: (torch.arange(2) == 1)[:, None].expand(2, 330)
    ),
    "grouped heads": _call(Pattern(left=9, right=0), heads=6, head_dim=8, is_global=lambda _: _mask(0.03)),
}


@pytest.mark.parametrize("name", CALLS)
def test_agrees_in_fp32(name: str) -> None:
    assert_matches_reference(CALLS[name], "flex", torch.float32, gradients=False)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_agrees_in_half_precision(dtype: torch.dtype) -> None:
    assert_matches_reference(CALLS["grouped heads"], "flex", dtype, gradients=False)


def test_agrees_on_global_queries() -> None:
    call = CALLS["window"]
    positions = torch.tensor([[0, 3, 200, 329], [5, 6, -1, -1]])
    global_call: Call = {
        **{name: call[name] for name in ("k", "v")},
        "q": call["q"][:, :, :4],
        "positions": positions,
        "causal": True,
        "is_padding": _mask(0.1),
    }
    assert_matches_reference(global_call, "flex", torch.float32, gradients=False)


@pytest.mark.parametrize("name", CALLS)
def test_blocks_hold_every_visible_pair(name: str) -> None:
    request = _request(CALLS[name])
    visible = reference.visible(request)
    blocks = flex.block_mask(request).to_dense().bool()
    pairs = blocks.repeat_interleave(flex.BLOCK, 2).repeat_interleave(flex.BLOCK, 3)[:, :, :300, :330]
    assert not (visible & ~pairs).any()
    if name != "everything":
        # And few others: with a short window, not many blocks away from the diagonal.
        assert not pairs.all()


def test_refuses_with_reasons() -> None:
    q, k, v = (torch.randn(1, 1, 4, 8) for _ in range(3))
    pattern = Pattern(left=1, right=1)
    with pytest.raises(ValueError, match="impl='flex' cannot serve this call: .*no dropout"):
        attend(q, k, v, pattern, dropout=0.1, impl="flex")
    with pytest.raises(ValueError, match="no backward on the CPU"):
        attend(q.requires_grad_(), k, v, pattern, impl="flex")
    with pytest.raises(ValueError, match="no fp64"):
        attend(q.detach().double(), k.double(), v.double(), pattern, impl="flex")
    with pytest.raises(ValueError, match="no empty tensors"):
        attend(q[:, :, :0].detach(), k, v, pattern, impl="flex")


def test_auto_never_takes_it_on_the_cpu() -> None:
    request = _request(CALLS["window"])
    assert "flex" not in preferred(request)
    assert choose(request, "auto") in ("native", "blocked")


def _request(call: Call) -> Request:
    fields = (
        "is_global",
        "global_rows",
        "is_padding",
        "document_starts",
        "bias",
        "position_query",
        "position_keys",
    )
    return check(
        q=call["q"],
        k=call["k"],
        v=call["v"],
        patterns=per_head(call["pattern"], call["q"].shape[1]),
        offset=call["query_offset"],
        positions=None,
        scale=None,
        dropout=0.0,
        seed=None,
        mutual_globals=False,
        **{name: call.get(name) for name in fields},
    )
