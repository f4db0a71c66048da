"""The cache of a window: the newest positions, in order, in bounded memory."""

import random

import pytest
import torch

from longspan.nn.window_cache import WindowCache


@pytest.mark.parametrize("reach", [1, 2, 7, 30])
@pytest.mark.parametrize("most", [1, 3, 50])
def test_keys_are_all_that_is_visible_in_order(reach: int, most: int) -> None:
    generator = random.Random(reach)
    text = torch.arange(200.0)[None, None, :, None].expand(2, 3, -1, 4)
    cache, at = WindowCache(reach), 0
    while at < 200:
        new = min(generator.randint(1, most), 200 - at)
        part = text[:, :, at : at + new]
        k, v = cache.extend(part, -part)
        assert torch.equal(k, text[:, :, max(0, at - reach) : at + new])
        assert torch.equal(v, -k)
        at += new
        assert cache.seen == at
        assert len(cache) == min(at, reach)
        assert cache._buffer is not None and cache._buffer.shape[3] <= 2 * reach + 1


def test_a_new_token_gets_views() -> None:
    cache, token = WindowCache(8), torch.zeros(1, 1, 1, 2)
    for _ in range(30):
        cache.extend(token, token)
    moved = 0
    for _ in range(90):
        before = cache._buffer
        k, _ = cache.extend(token, token)
        moved += cache._buffer is not before
        if cache._buffer is before:
            assert (
                before is not None and k.untyped_storage().data_ptr() == before.untyped_storage().data_ptr()
            )
    assert moved == 9  # once in reach + 2 tokens


def test_a_short_text_takes_little_room() -> None:
    cache = WindowCache(100_000)
    cache.extend(torch.zeros(1, 1, 10, 2), torch.zeros(1, 1, 10, 2))
    assert cache._buffer is not None and cache._buffer.shape[3] < 25


def test_examples_are_selected_and_forgotten() -> None:
    cache = WindowCache(4)
    x = torch.arange(3.0).view(3, 1, 1, 1)
    cache.select(torch.tensor([0]))  # nothing was read yet
    cache.extend(x, x)
    cache.select(torch.tensor([2, 2, 0, 1]))
    k, _ = cache.extend(torch.full((4, 1, 1, 1), 9.0), torch.zeros(4, 1, 1, 1))
    assert k[:, 0, :, 0].tolist() == [[2, 9], [2, 9], [0, 9], [1, 9]]
    cache.position_keys = x
    cache.reset()
    assert (len(cache), cache.seen, cache.position_keys) == (0, 0, None)
    assert cache.extend(x, x)[0].shape[2] == 1


def test_negative_reach_is_refused() -> None:
    with pytest.raises(ValueError, match="reach is -1"):
        WindowCache(-1)
