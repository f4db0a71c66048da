"""What encoders do alike: feed-forward networks over some tokens at a time."""

import pytest
import torch
from torch import Tensor

from longspan.models.encoding import in_pieces


@pytest.mark.parametrize(
    ("length", "training", "gradients", "tokens", "expected"),
    [
        (9000, False, False, 0, [4096, 4096, 808]),
        (4096, False, False, 0, [4096]),
        (0, False, False, 0, [0]),
        (9000, True, False, 0, [9000]),
        (9000, False, True, 0, [9000]),
        (9000, True, True, 5000, [5000, 4000]),
    ],
)
def test_pieces(length: int, training: bool, gradients: bool, tokens: int, expected: list[int]) -> None:
    seen: list[int] = []

    def twice(x: Tensor) -> Tensor:
        seen.append(x.shape[1])
        return 2 * x

    x = torch.randn(2, length, 3)
    with torch.set_grad_enabled(gradients):
        assert torch.equal(in_pieces(twice, x, training=training, tokens=tokens), 2 * x)
    assert seen == expected
