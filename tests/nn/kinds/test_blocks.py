"""BlockBERT and BigBird: as their dense masks say, whatever the length and the padding."""

from typing import Any

import pytest
import torch

from longspan.nn.kinds.bigbird import BigBird, BigBirdSettings
from longspan.nn.kinds.blockwise import Blockwise, BlockwiseSettings
from longspan.nn.kinds.kind import Call, LayerShape
from tests.nn.kinds.dense import dense_attention, layer_shape, random_qkv

EXACT: dict[str, Any] = {"atol": 1e-12, "rtol": 1e-9}


@pytest.mark.parametrize("blocks", [1, 2, 3])
@pytest.mark.parametrize("length", [24, 17, 5])
def test_blockwise_is_its_dense_mask(blocks: int, length: int) -> None:
    kind = Blockwise(layer_shape(causal=False, max_length=24), BlockwiseSettings(blocks=blocks))
    q, k, v = (x.requires_grad_() for x in random_qkv(length))
    at = torch.arange(length) // kind.size
    seen = torch.stack([(at[:, None] + shift) % blocks == at for shift in kind.shifts])
    said, expected = kind(q, k, v, Call()), dense_attention(q, k, v, seen)
    torch.testing.assert_close(said, expected, **EXACT)
    weights = torch.randn_like(said)
    grads = [torch.autograd.grad((out * weights).sum(), (q, k, v)) for out in (said, expected)]
    for one, other in zip(*grads, strict=True):
        torch.testing.assert_close(one, other, **EXACT)
    if blocks == 1:
        torch.testing.assert_close(said, dense_attention(q, k, v, torch.ones(1).bool()), **EXACT)


def test_blockwise_heads_are_the_papers() -> None:
    shape = LayerShape(heads=12, head_dim=8, causal=False, max_length=24)
    for blocks, counts in ((2, [10, 2]), (3, [8, 2, 2])):
        shifts = Blockwise(shape, BlockwiseSettings(blocks=blocks)).shifts
        assert [shifts.count(shift) for shift in range(blocks)] == counts
    with pytest.raises(ValueError, match="it must add up to 12 heads"):
        Blockwise(shape, BlockwiseSettings(blocks=2, heads_by_shift=(4, 4)))


def test_blockwise_padding_changes_nothing() -> None:
    kind = Blockwise(layer_shape(causal=False, max_length=24), BlockwiseSettings(blocks=3))
    q, k, v = random_qkv(24)
    is_padding = torch.arange(24)[None].expand(2, -1) >= torch.tensor([[13], [7]])
    padded = kind(q, k, v, Call(is_padding=is_padding))
    for row, length in enumerate((13, 7)):
        alone = kind(*(x[row : row + 1, :, :length] for x in (q, k, v)), Call())
        torch.testing.assert_close(padded[row : row + 1, :, :length], alone, **EXACT)


def bigbird(**changes: Any) -> BigBird:
    settings = BigBirdSettings(**{"block": 4, "random_blocks": 2} | changes)
    return BigBird(layer_shape(causal=False), settings)


@pytest.mark.parametrize("random_blocks", [0, 2, 50])
@pytest.mark.parametrize("length", [1, 4, 7, 11, 37, 48])
def test_bigbird_is_its_dense_mask(random_blocks: int, length: int) -> None:
    kind = bigbird(random_blocks=random_blocks)
    q, k, v = (x.requires_grad_() for x in random_qkv(length))
    at = torch.arange(length) // 4
    seen = kind.seen_blocks(int(at.max()) + 1)[:, at[:, None], at]
    said, expected = kind(q, k, v, Call()), dense_attention(q, k, v, seen)
    torch.testing.assert_close(said, expected, **EXACT)
    weights = torch.randn_like(said)
    grads = [torch.autograd.grad((out * weights).sum(), (q, k, v)) for out in (said, expected)]
    for one, other in zip(*grads, strict=True):
        torch.testing.assert_close(one, other, **EXACT)


def test_bigbird_blocks_are_what_they_should_be() -> None:
    kind, blocks = bigbird(random_blocks=2), 12
    seen = kind.seen_blocks(blocks)
    assert seen[:, 0].all() and seen[:, -1].all() and seen[:, :, 0].all() and seen[:, :, -1].all()
    for block in range(1, blocks - 1):
        assert seen[:, block, block - 1 : block + 2].all()
        # Three of the window, the two ends, and two at random, none counted twice.
        near = {0, blocks - 1, block - 1, block, block + 1}
        assert seen[:, block].sum(1).tolist() == [len(near) + 2] * 4
    # Heads draw for themselves, and from the whole text; the same every time.
    assert not torch.equal(seen[0], seen[1])
    assert torch.equal(seen, kind.seen_blocks(blocks))
    many = bigbird(random_blocks=3).seen_blocks(64)
    far = many[:, 1:31, 33:63].sum() + many[:, 33:63, 1:31].sum()
    assert int(far) > 100


def test_bigbird_padding_changes_nothing() -> None:
    kind, (q, k, v) = bigbird(), random_qkv(40)
    is_padding = torch.arange(40)[None].expand(2, -1) >= torch.tensor([[40], [22]])
    padded = kind(q, k, v, Call(is_padding=is_padding))
    for row, length in enumerate((40, 22)):
        alone = kind(*(x[row : row + 1, :, :length] for x in (q, k, v)), Call())
        torch.testing.assert_close(padded[row : row + 1, :, :length], alone, **EXACT)
    assert (padded[1, :, 22:] == 0).all()
