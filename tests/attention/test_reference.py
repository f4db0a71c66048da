"""The reference against a second opinion: loops over pairs in pure Python, on tiny inputs."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from longspan import Pattern, attend, attend_global
from longspan.attention.attend import Attention
from longspan.attention.dropout import keep_mask

from .cases import Call

LENGTH = 7


def _by_hand(call: Call) -> tuple[Tensor, Tensor, Tensor]:
    """Output, log-sum-exp and probabilities, pair by pair."""
    q, k, v = (call[name].tolist() for name in ("q", "k", "v"))
    batch, heads, queries, head_dim = call["q"].shape
    keys, group = call["k"].shape[2], heads // call["k"].shape[1]
    out = torch.zeros(batch, heads, queries, head_dim, dtype=torch.float64)
    lse = torch.full((batch, heads, queries), -math.inf, dtype=torch.float64)
    probabilities = torch.zeros(batch, heads, queries, keys, dtype=torch.float64)
    scale = call.get("scale") or 1 / math.sqrt(head_dim)
    rate = call.get("dropout", 0.0)
    for b in range(batch):
        for h in range(heads):
            for i in range(queries):
                at = (
                    call["positions"][b, i].item() if "positions" in call else i + call.get("query_offset", 0)
                )
                weights: dict[int, float] = {}
                for j in range(keys):
                    if _sees(call, b, h, at, j):
                        score = scale * sum(
                            x * y for x, y in zip(q[b][h][i], k[b][h // group][j], strict=True)
                        )
                        weights[j] = math.exp(score + _added(call, scale, b, h, i, j - at))
                total = sum(weights.values())
                if not weights:
                    continue
                lse[b, h, i] = math.log(total)
                for j, weight in weights.items():
                    probabilities[b, h, i, j] = weight / total
                    if rate and not keep_mask(
                        torch.tensor(call["seed"]),
                        rate,
                        *(torch.tensor(x) for x in (b * heads + h, at, j)),
                    ):
                        continue
                    for d in range(head_dim):
                        out[b, h, i, d] += weight / total / (1 - rate) * v[b][h // group][j][d]
    return out, lse, probabilities


def _sees(call: Call, b: int, h: int, query: int, key: int) -> bool:
    if query < 0:
        return False
    is_padding = call.get("is_padding")
    if is_padding is not None and (is_padding[b, query] or is_padding[b, key]):
        return False
    starts = call.get("document_starts")
    if starts is not None:
        row = (starts if starts.dim() == 1 else starts[b]).tolist()
        if sum(start <= query for start in row) != sum(start <= key for start in row):
            return False
    if "positions" in call:
        return key <= query or not call.get("causal", False)
    pattern = call["pattern"]
    pattern = pattern if isinstance(pattern, Pattern) else pattern[h]
    if pattern.right == 0 and key > query:
        return False
    if call.get("is_global") is not None and call["is_global"][b, key]:
        return True
    steps, rest = divmod(abs(key - query), pattern.dilation)
    side = pattern.left if key < query else pattern.right
    return rest == 0 and (key == query or side is None or steps <= side)


def _added(call: Call, scale: float, b: int, h: int, i: int, offset: int) -> float:
    added = 0.0
    if "bias" in call:
        reach = call["bias"].shape[1] // 2
        added += call["bias"][h, max(-reach, min(reach, offset)) + reach].item()
    if "position_keys" in call:
        reach = call["position_keys"].shape[1] // 2
        row = call["position_keys"][h, max(-reach, min(reach, offset)) + reach]
        added += scale * (call["position_query"][b, h, i] * row).sum().item()
    return added


def _normal(*shape: int) -> Tensor:
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(sum(shape)))


def _mask(*positions: tuple[int, int]) -> Tensor:
    mask = torch.zeros(2, LENGTH, dtype=torch.bool)
    for b, at in positions:
        mask[b, at] = True
    return mask


RELATIVE = {"position_query": _normal(2, 2, LENGTH, 3), "position_keys": _normal(2, 5, 3)}
GLOBALS = _mask((0, 1), (0, 5), (1, 0))
PADDING = _mask((0, 5), (0, 6), *((1, at) for at in range(3, LENGTH)))
CASES: dict[str, dict[str, Any]] = {
    "window": {"pattern": Pattern(left=2, right=1)},
    "only itself": {"pattern": Pattern(left=0, right=0)},
    "full": {"pattern": Pattern(left=None, right=None)},
    "dilated": {"pattern": Pattern(left=2, right=1, dilation=2)},
    "dilated without bound": {"pattern": Pattern(left=None, right=0, dilation=3)},
    "per head": {"pattern": [Pattern(left=1, right=0), Pattern(left=0, right=None, dilation=2)]},
    "globals": {"pattern": Pattern(left=1, right=1), "is_global": GLOBALS},
    "causal globals": {"pattern": Pattern(left=1, right=0), "is_global": GLOBALS},
    "padding": {"pattern": Pattern(left=3, right=3), "is_padding": PADDING, "is_global": GLOBALS},
    "documents": {
        "pattern": Pattern(left=3, right=3),
        "document_starts": torch.tensor([0, 2, 2, 5, 7]),
        "is_global": GLOBALS,
    },
    "documents of each example": {
        "pattern": Pattern(left=None, right=0),
        "document_starts": torch.tensor([[0, 1, 7], [0, 4, 7]]),
    },
    "dropout": {"pattern": Pattern(left=3, right=3), "dropout": 0.4, "seed": 11},
    "bias": {"pattern": Pattern(left=3, right=3), "bias": _normal(2, 5), "is_global": GLOBALS},
    "relative": {"pattern": Pattern(left=3, right=3), "is_global": GLOBALS, **RELATIVE},
    "scale": {"pattern": Pattern(left=3, right=3), "scale": 0.1, **RELATIVE},
}


@pytest.mark.parametrize("kv_heads", [1, 2])
@pytest.mark.parametrize("name", CASES)
def test_agrees_with_loops(name: str, kv_heads: int) -> None:
    call: Call = {
        "q": _normal(2, 2, LENGTH, 3),
        "k": _normal(2, kv_heads, LENGTH, 3) * 1.1,
        "v": _normal(2, kv_heads, LENGTH, 3) * 0.9,
        **CASES[name],
    }
    _assert_agrees(call, attend(**call, return_lse=True, return_probabilities=True))


def test_agrees_with_loops_after_a_cache() -> None:
    call: Call = {
        "q": _normal(2, 2, 3, 3),
        "k": _normal(2, 2, LENGTH, 3),
        "v": _normal(2, 2, LENGTH, 3),
        "pattern": Pattern(left=2, right=1),
        "query_offset": 4,
        "bias": _normal(2, 3),
    }
    _assert_agrees(call, attend(**call, return_lse=True, return_probabilities=True))


@pytest.mark.parametrize("causal", [False, True])
def test_global_queries_agree_with_loops(causal: bool) -> None:
    call: Call = {
        "q": _normal(2, 2, 3, 3),
        "k": _normal(2, 2, LENGTH, 3),
        "v": _normal(2, 2, LENGTH, 3),
        "positions": torch.tensor([[0, 3, 6], [2, -1, -1]]),
        "causal": causal,
        "is_padding": PADDING,
        "document_starts": torch.tensor([[0, 2, 7], [0, 7, 7]]),
        "dropout": 0.2,
        "seed": 1,
    }
    _assert_agrees(call, attend_global(**call, return_lse=True, return_probabilities=True))


def test_probabilities_sum_to_one_where_something_is_seen() -> None:
    q = _normal(2, 2, LENGTH, 3)
    result = attend(q, q, q, Pattern(left=1, right=1), is_padding=PADDING, return_probabilities=True)
    assert isinstance(result, Attention) and result.probabilities is not None
    wanted = (~PADDING).double()[:, None].expand(2, 2, LENGTH)
    torch.testing.assert_close(result.probabilities.sum(-1), wanted)


def _assert_agrees(call: Call, result: Tensor | Attention) -> None:
    assert isinstance(result, Attention) and result.lse is not None and result.probabilities is not None
    for got, wanted in zip((result.out, result.lse, result.probabilities), _by_hand(call), strict=True):
        torch.testing.assert_close(got, wanted, rtol=1e-12, atol=1e-12)
