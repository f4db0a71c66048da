"""The dropout mask: its rate, its independence, and that everybody draws the same one."""

import pytest
import torch
from torch import Tensor

from longspan import Pattern, attend
from longspan.attention.dropout import draw_seed, drop_threshold, keep_mask


def _mask(rate: float, *, seed: int = 1, rows: int = 4, length: int = 256) -> Tensor:
    """[rows, length, length] bool."""
    at = torch.arange(length)
    return keep_mask(torch.tensor(seed), rate, torch.arange(rows)[:, None, None], at[:, None], at)


@pytest.mark.parametrize("rate", [0.0, 0.1, 0.5, 0.9])
def test_rate(rate: float) -> None:
    mask = _mask(rate)
    # Six standard deviations of a binomial share.
    assert abs((~mask).double().mean().item() - rate) <= 6 * (rate * (1 - rate) / mask.numel()) ** 0.5


@pytest.mark.parametrize("dim", [0, 1, 2], ids=["heads", "queries", "keys"])
@pytest.mark.parametrize("seed", [0, 1, 2**32, 2**62 + 12345])
def test_neighbours_are_independent(dim: int, seed: int) -> None:
    mask = _mask(0.5, seed=seed).double() * 2 - 1
    for distance in (1, 2, 3):
        size = mask.shape[dim] - distance
        product = mask.narrow(dim, 0, size) * mask.narrow(dim, distance, size)
        assert abs(product.mean().item()) <= 6 / product.numel() ** 0.5


@pytest.mark.parametrize("dim", [1, 2], ids=["queries", "keys"])
def test_every_row_and_column_has_the_rate(dim: int) -> None:
    share = _mask(0.3).double().mean(dim)
    assert (share - 0.7).abs().max().item() <= 6 * (0.3 * 0.7 / 256) ** 0.5


def test_seeds_give_different_masks() -> None:
    seeds = (0, 1, 2**31, 2**32, 2**32 + 1, 2**62)
    masks = [_mask(0.5, seed=seed, rows=1) for seed in seeds]
    for i, one in enumerate(masks):
        for other in masks[:i]:
            assert 0.45 < (one == other).double().mean().item() < 0.55


def test_a_fixed_mask_stays_as_it_is() -> None:
    at = torch.arange(8)
    mask = keep_mask(torch.tensor(2**40 + 7), 0.5, torch.tensor(3), at[:, None], at)
    # The C++ kernel computes these very bits.
    assert ["".join("01"[kept] for kept in row) for row in mask.tolist()] == GOLDEN


GOLDEN = [
    "10101100",
    "01111000",
    "11011000",
    "10010000",
    "01100000",
    "01010001",
    "00000000",
    "10100101",
]


def test_threshold() -> None:
    assert (drop_threshold(0.0), drop_threshold(0.5)) == (0, 2**31)


def test_seed_is_drawn_from_torch() -> None:
    torch.manual_seed(5)
    first = draw_seed()
    torch.manual_seed(5)
    assert first == draw_seed()
    assert first != draw_seed()


def test_without_a_seed_torch_governs() -> None:
    q = torch.randn(1, 1, 30, 8)

    def run() -> Tensor:
        out = attend(q, q, q, Pattern(left=5, right=5), dropout=0.5, impl="blocked")
        assert isinstance(out, Tensor)
        return out

    torch.manual_seed(1)
    first, second = run(), run()
    torch.manual_seed(1)
    assert torch.equal(first, run())
    assert not torch.equal(first, second)


@pytest.mark.parametrize("pattern", [Pattern(left=9, right=3, dilation=2), Pattern(left=None, right=None)])
def test_implementations_drop_the_same_pairs(pattern: Pattern) -> None:
    """With values that name their position, an output shows which pairs were kept."""
    q = k = torch.zeros(2, 3, 40, 40)
    v = torch.eye(40).expand(2, 3, 40, 40)
    kept = [attend(q, k, v, pattern, dropout=0.4, seed=9, impl=impl) for impl in ("reference", "blocked")]
    assert isinstance(kept[0], Tensor) and isinstance(kept[1], Tensor)
    assert torch.equal(kept[0] > 0, kept[1] > 0)
    assert 0 < (kept[0] > 0).sum() < v.numel()
