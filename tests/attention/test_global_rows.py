"""Global queries: their rows in place of local ones, in two calls or, with the same projections, in one."""

from typing import Any

import pytest
import torch
from torch import Tensor

from longspan import Pattern, attend, attend_global
from longspan.attention import library
from longspan.attention.positions import global_positions, rows_at

IMPLEMENTATIONS = ["blocked", "reference"]
if library.status().available:
    IMPLEMENTATIONS.append("native")


def _mask(*rows: list[int]) -> Tensor:
    mask = torch.zeros(len(rows), 150, dtype=torch.bool)
    for example, row in enumerate(rows):
        mask[example, row] = True
    return mask


def _layer(impl: Any, leaves: list[Tensor], is_global: Tensor, is_padding: Tensor) -> Tensor:
    q, k, v, q_global, k_global, v_global = leaves
    positions = global_positions(is_global)
    rows = attend_global(q_global, k_global, v_global, positions, is_padding=is_padding, impl=impl)
    assert isinstance(rows, Tensor)
    out = attend(
        q,
        k,
        v,
        Pattern(left=9, right=9),
        is_global=is_global,
        global_rows=rows,
        is_padding=is_padding,
        impl=impl,
    )
    assert isinstance(out, Tensor)
    return out


def _by_hand(leaves: list[Tensor], is_global: Tensor, is_padding: Tensor) -> Tensor:
    """The definition: local attention everywhere, then the rows of global queries, one by one."""
    q, k, v, q_global, k_global, v_global = leaves
    local = attend(
        q, k, v, Pattern(left=9, right=9), is_global=is_global, is_padding=is_padding, impl="reference"
    )
    assert isinstance(local, Tensor)
    out = local.clone()
    for example in range(q.shape[0]):
        for slot, position in enumerate(is_global[example].nonzero().flatten().tolist()):
            scores = q_global[example, :, slot, None] @ k_global[example].transpose(-1, -2)
            scores = (scores / q.shape[-1] ** 0.5).masked_fill(is_padding[example], -torch.inf)
            row = (scores.softmax(-1) @ v_global[example])[:, 0]
            out[example, :, position] = torch.where(is_padding[example, position], 0.0, row)
    return out


@pytest.mark.parametrize("impl", IMPLEMENTATIONS)
def test_layer_matches_its_definition(impl: str) -> None:
    is_global, is_padding = _mask([0, 70, 149], [], [5]), _mask([], [1], list(range(100, 150)))
    generator = torch.Generator().manual_seed(0)
    shapes = [(3, 2, 150, 8)] * 3 + [(3, 2, 3, 8)] + [(3, 2, 150, 8)] * 2
    leaves = [torch.randn(s, generator=generator, dtype=torch.float64).requires_grad_() for s in shapes]
    got, wanted = _layer(impl, leaves, is_global, is_padding), _by_hand(leaves, is_global, is_padding)
    torch.testing.assert_close(got, wanted)
    cotangent = torch.randn(got.shape, generator=generator, dtype=torch.float64)
    torch.testing.assert_close(
        torch.autograd.grad(got, leaves, cotangent), torch.autograd.grad(wanted, leaves, cotangent)
    )


@pytest.mark.parametrize("pattern", [Pattern(left=9, right=9), Pattern(left=4, right=0, dilation=2)])
@pytest.mark.parametrize("globals_of_first", [[0, 70, 149], list(range(0, 150, 7))], ids=["few", "many"])
@pytest.mark.parametrize("impl", IMPLEMENTATIONS)
def test_mutual_globals_are_both_calls_in_one(
    impl: Any, globals_of_first: list[int], pattern: Pattern
) -> None:
    is_global, is_padding = _mask(globals_of_first, [], [5]), _mask([], [1], list(range(100, 150)))
    generator = torch.Generator().manual_seed(0)
    q, k, v = (
        torch.randn(3, 2, 150, 8, generator=generator, dtype=torch.float64).requires_grad_() for _ in range(3)
    )
    positions = global_positions(is_global)
    common: dict[str, Any] = {"is_padding": is_padding, "dropout": 0.2, "seed": 3}
    rows = attend_global(
        rows_at(q, positions), k, v, positions, causal=pattern.is_causal, **common, impl="reference"
    )
    assert isinstance(rows, Tensor)
    wanted = attend(q, k, v, pattern, is_global=is_global, global_rows=rows, **common, impl="reference")
    got = attend(q, k, v, pattern, is_global=is_global, mutual_globals=True, **common, impl=impl)
    assert isinstance(got, Tensor) and isinstance(wanted, Tensor)
    torch.testing.assert_close(got, wanted)
    cotangent = torch.randn(got.shape, generator=generator, dtype=torch.float64)
    torch.testing.assert_close(
        torch.autograd.grad(got, (q, k, v), cotangent), torch.autograd.grad(wanted, (q, k, v), cotangent)
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"mutual_globals": True}, "mutual_globals and global_rows both"),
        ({"mutual_globals": True, "global_rows": None, "is_global": None}, "mutual_globals needs is_global"),
        (
            {"mutual_globals": True, "global_rows": None, "q": torch.zeros(1, 2, 9, 8)},
            "mutual_globals with 9 queries and 10 keys",
        ),
        ({"is_global": None}, "global_rows needs is_global"),
        (
            {"global_rows": torch.zeros(1, 2, 0, 8)},
            "global_rows has 0 rows an example; is_global marks up to 1",
        ),
        ({"global_rows": torch.zeros(1, 3, 1, 8)}, r"global_rows has shape \[1, 3, 1, 8\]"),
        ({"q": torch.zeros(1, 2, 9, 8)}, "it needs a query at every position"),
    ],
)
def test_wrong_rows_are_named(change: dict[str, Any], message: str) -> None:
    x = torch.zeros(1, 2, 10, 8)
    is_global = torch.zeros(1, 10, dtype=torch.bool)
    is_global[:, 3] = True
    call: dict[str, Any] = {
        "q": x,
        "k": x,
        "v": x,
        "is_global": is_global,
        "global_rows": torch.zeros(1, 2, 1, 8),
        **change,
    }
    with pytest.raises(ValueError, match=message):
        attend(pattern=Pattern(left=1, right=1), **call)
