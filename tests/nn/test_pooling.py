"""Pairs as their mean: any length, padding, the first token by itself."""

import pytest
import torch

from longspan.nn.pooling import Pooling


@pytest.mark.parametrize(("length", "half", "separate"), [(1, 1, 1), (2, 1, 2), (5, 3, 3), (8, 4, 5)])
def test_length_halves(length: int, half: int, separate: int) -> None:
    x = torch.randn(2, length, 3)
    assert Pooling(False).pool(x).shape == Pooling(False).first(x).shape == (2, half, 3)
    assert Pooling(True).pool(x).shape == Pooling(True).first(x).shape == (2, separate, 3)
    assert Pooling(True).spread(Pooling(True).pool(x), length).shape == x.shape


def test_pairs_are_means_of_what_is_real() -> None:
    x = torch.tensor([1.0, 2, 4, 8, 16])[None, :, None]
    is_padding = torch.tensor([[False, False, False, True, True]])
    assert Pooling(False).pool(x).flatten().tolist() == [1.5, 6, 16]
    assert Pooling(True).pool(x).flatten().tolist() == [1, 3, 12]
    assert Pooling(False).pool(x, is_padding).flatten().tolist() == [1.5, 4, 0]
    assert Pooling(True).pool(x, is_padding).flatten().tolist() == [1, 3, 0]


def test_spread_repeats_each_where_it_came_from() -> None:
    x = torch.tensor([[0, 1, 2]])
    assert Pooling(False).spread(x, 11, 2).tolist() == [[0] * 4 + [1] * 4 + [2] * 3]
    assert Pooling(True).spread(x, 8, 2).tolist() == [[0] + [1] * 4 + [2] * 3]
    assert Pooling(True).first(torch.arange(8)[None]).tolist() == [[0, 1, 3, 5, 7]]
    assert Pooling(False).first(torch.arange(8)[None]).tolist() == [[0, 2, 4, 6]]
