"""Wrong arguments: every error names the argument, what was given and what would be right."""

import re
from typing import Any

import pytest
import torch

from longspan import Pattern, attend, attend_global

Q = torch.zeros(2, 4, 5, 8)
K = torch.zeros(2, 2, 7, 8)
MASK = torch.zeros(2, 7, dtype=torch.bool)
POSITIONS = torch.tensor([[0, 1, 2, 3, 6], [1, 4, -1, -1, -1]])


def starts(*values: int) -> torch.Tensor:
    return torch.tensor(values)


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"q": [1.0]}, "q is a list; it must be a torch.Tensor"),
    ({"k": K[0]}, "k has shape [2, 7, 8]; it must be [batch, heads, length, head_dim]"),
    ({"q": Q.long()}, "q is torch.int64; it must be one of torch.float32, torch.bfloat16"),
    ({"v": K.double()}, "v is torch.float64 on cpu but q is torch.float32 on cpu"),
    ({"k": K.to("meta")}, "k is torch.float32 on meta but q is torch.float32 on cpu"),
    ({"v": K[:, :, :3]}, "v has shape [2, 2, 3, 8] but k has [2, 2, 7, 8]; they must be equal"),
    ({"k": K[:1], "v": K[:1]}, "k has shape [1, 2, 7, 8] but q has [2, 4, 5, 8]; batch and head_dim"),
    ({"q": Q[..., :3]}, "batch and head_dim must be equal"),
    ({"q": Q[..., :0], "k": K[..., :0], "v": K[..., :0]}, "[2, 4, 5, 0]; head_dim must be at least 1"),
    ({"q": Q[:, :3]}, "q has 3 heads and k has 2; the second must divide the first"),
    ({"k": K[:, :0], "v": K[:, :0]}, "q has 4 heads and k has 0; the second must divide the first"),
    ({"pattern": [Pattern(left=1, right=1)]}, "pattern has 1 items for 4 heads"),
    ({"query_offset": 3}, "query_offset is 3 with 5 queries and 7 keys; it must lie between 0 and"),
    ({"query_offset": -1}, "query_offset is -1"),
    ({"is_global": MASK.long()}, "is_global is torch.int64; it must be a bool tensor, True for a global"),
    ({"is_padding": [True]}, "is_padding is list; it must be a bool tensor, True for a padding position"),
    ({"is_padding": MASK[:, :3]}, "is_padding has shape [2, 3]; it must be [2, 7]"),
    ({"is_global": MASK.to("meta")}, "is_global is torch.bool on meta; it must be torch.bool on cpu"),
    ({"dropout": 1.0}, "dropout is 1.0; it must be a probability, 0 <= dropout < 1"),
    ({"dropout": -0.1}, "dropout is -0.1"),
    ({"scale": float("nan")}, "scale is nan; it must be finite"),
    ({"position_query": Q}, "position_query and position_keys go together; only one was given"),
    ({"position_keys": torch.zeros(4, 3, 8)}, "position_query and position_keys go together"),
    (
        {"position_query": Q[:, :, :2], "position_keys": torch.zeros(4, 3, 8)},
        "position_query has shape [2, 4, 2, 8]; it must be [2, 4, 5, 8]",
    ),
    (
        {"position_query": Q.half(), "position_keys": torch.zeros(4, 3, 8)},
        "position_query is torch.float16 on cpu; it must be torch.float32 on cpu",
    ),
    ({"bias": torch.zeros(4, 6)}, "bias has shape [4, 6]; it must be [4, an odd number of offsets]"),
    ({"bias": torch.zeros(3, 5)}, "bias has shape [3, 5]; it must be [4, an odd number of offsets]"),
    ({"bias": torch.zeros(4)}, "bias has shape [4]; it must be"),
    ({"bias": torch.zeros(4, 5).half()}, "bias is torch.float16 on cpu; it must be torch.float32 or"),
    (
        {"position_query": Q, "position_keys": torch.zeros(4, 3, 6)},
        "position_keys has shape [4, 3, 6]; it must be [4, an odd number of offsets, 8]",
    ),
    ({"document_starts": [0, 7]}, "document_starts is a list; it must be a torch.Tensor"),
    ({"bias": 1.0}, "bias is a float; it must be a torch.Tensor"),
    ({"document_starts": torch.tensor([0.0, 7.0])}, "document_starts is torch.float32 on cpu; it must be"),
    ({"document_starts": starts(7)}, "document_starts has shape [1]; it must be [documents + 1] or [2,"),
    ({"document_starts": starts(0, 7)[None]}, "document_starts has shape [1, 2]; it must be"),
    ({"document_starts": starts(0, 7)[None, None]}, "document_starts has shape [1, 1, 2]; it must be"),
    ({"document_starts": starts(1, 7)}, "document_starts goes from [1] to [7]; every row must go from 0"),
    ({"document_starts": starts(0, 8)}, "document_starts goes from [0] to [8]"),
    ({"document_starts": starts(0, 5, 3, 7)}, "document_starts falls somewhere in [[0, 5, 3, 7]]"),
    ({"dropout": 0.1, "seed": -1}, "seed is -1; it must lie between 0 and 2**63 - 1"),
    ({"dropout": 0.1, "seed": starts(1, 2)}, "seed has shape [2] and is torch.int64; it must be one int64"),
    ({"dropout": 0.1, "seed": torch.tensor(1.0)}, "seed has shape [] and is torch.float32"),
    ({"impl": "fast"}, "impl is 'fast'; it must be one of auto, native, flex, blocked, reference"),
    ({"impl": "blocked", "return_probabilities": True}, "impl is 'blocked' with return_probabilities; only"),
]


@pytest.mark.parametrize(("wrong", "message"), WRONG, ids=[message[:40] for _, message in WRONG])
def test_refuses(wrong: dict[str, Any], message: str) -> None:
    call: dict[str, Any] = {"q": Q, "k": K, "v": K, "pattern": Pattern(left=1, right=1), **wrong}
    with pytest.raises(ValueError, match=re.escape(message)):
        attend(**call)


@pytest.mark.parametrize(
    ("positions", "message"),
    [
        (POSITIONS[:, :3], "positions has shape [2, 3]; it must be [2, 5]"),
        (POSITIONS.int(), "positions is torch.int32 on cpu; it must be torch.int64 on cpu"),
        (POSITIONS + 1, "positions reach from 0 to 7; they must lie between 0 and 6, or be -1"),
        (POSITIONS - 2, "positions reach from -3 to 4"),
        (POSITIONS.flip(1), "positions must rise along each row, with -1 (no query) only at its end"),
        (POSITIONS.clamp(max=2), "positions must rise along each row"),
    ],
)
def test_refuses_positions(positions: torch.Tensor, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        attend_global(Q, K, K, positions)


def test_takes_what_is_right() -> None:
    attend(Q, K, K, Pattern(left=1, right=1), query_offset=2, document_starts=starts(0, 0, 7), impl="blocked")
    attend_global(Q, K, K, POSITIONS, impl="blocked")


def test_fp32_tables_go_with_half_precision() -> None:
    q, k = Q.bfloat16(), K.bfloat16()
    for table in (torch.zeros(4, 5), torch.zeros(4, 5).bfloat16()):
        attend(q, k, k, Pattern(left=1, right=1), bias=table, impl="blocked")
