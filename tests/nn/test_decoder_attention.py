"""A decoder's attention against the plain formula, with and without a cache."""

import pytest
import torch
from torch import Tensor

from longspan.attention.pattern import Pattern
from longspan.nn.decoder_attention import CrossAttention, DecoderSelfAttention
from longspan.nn.window_cache import WindowCache

WINDOWS = [None, Pattern(left=1, right=0), Pattern(left=3, right=0), Pattern(left=50, right=0)]


def tokens(rows: int, length: int, seed: int = 0) -> Tensor:
    return torch.randn(rows, length, 16, generator=torch.Generator().manual_seed(seed))


def layer(pattern: Pattern | None) -> DecoderSelfAttention:
    torch.manual_seed(0)
    return DecoderSelfAttention(16, 2, pattern=pattern).eval()


def plain(one: DecoderSelfAttention | CrossAttention, x: Tensor, y: Tensor, seen: Tensor) -> Tensor:
    """Softmax over the keys of ``y`` where ``seen``, [rows or 1, queries, keys]."""
    q, k, v = (
        project(z).unflatten(-1, (2, 8)).transpose(1, 2)
        for project, z in ((one.q_proj, x), (one.k_proj, y), (one.v_proj, y))
    )
    scores = (q @ k.transpose(2, 3) / 8**0.5).masked_fill(~seen[:, None], float("-inf"))
    return one.out_proj((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))


def causal(length: int, pattern: Pattern | None) -> Tensor:
    """[1, length, length]."""
    back = torch.arange(length)[:, None] - torch.arange(length)
    left = length if pattern is None or pattern.left is None else pattern.left
    return ((back >= 0) & (back <= left))[None]


@pytest.mark.parametrize("pattern", WINDOWS, ids=str)
@pytest.mark.parametrize("padded", [False, True])
def test_self_attention_looks_back(pattern: Pattern | None, padded: bool) -> None:
    one, x = layer(pattern), tokens(2, 9).requires_grad_()
    is_padding = None
    seen = causal(9, pattern)
    if padded:
        is_padding = torch.zeros(2, 9, dtype=torch.bool)
        is_padding[1, 6:] = True
        seen = seen & ~is_padding[:, None]
        seen = seen | torch.eye(9, dtype=torch.bool)
    out = one(x, is_padding=is_padding).context
    expected = plain(one, x, x, seen)
    real = slice(None) if is_padding is None else ~is_padding
    torch.testing.assert_close(out[real], expected[real], atol=1e-5, rtol=1e-5)
    weights = tokens(2, 9, seed=1)
    gradients = [
        torch.autograd.grad((answer[real] * weights[real]).sum(), x, retain_graph=True)[0]
        for answer in (out, expected)
    ]
    torch.testing.assert_close(gradients[0], gradients[1], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("pattern", WINDOWS, ids=str)
def test_a_cache_gives_what_reading_at_once_gives(pattern: Pattern | None) -> None:
    one, x = layer(pattern), tokens(2, 12)
    cache = WindowCache(12 if pattern is None or pattern.left is None else pattern.left)
    is_padding = torch.zeros(2, 12, dtype=torch.bool)
    is_padding[1, :2] = True
    with torch.no_grad():
        whole = one(x, is_padding=is_padding).context
        done, parts = 0, list[Tensor]()
        for piece in x.split([4, 1, 1, 3, 1, 2], 1):
            done += piece.shape[1]
            parts.append(one(piece, is_padding=is_padding[:, :done], cache=cache).context)
    real = ~is_padding
    torch.testing.assert_close(torch.cat(parts, 1)[real], whole[real], atol=1e-5, rtol=1e-5)


def test_probabilities_are_of_what_is_seen() -> None:
    one, x = layer(WINDOWS[2]), tokens(2, 9)
    with torch.no_grad():
        asked = one(x, return_probabilities=True)
        torch.testing.assert_close(asked.context, one(x).context, atol=1e-5, rtol=1e-5)
    assert asked.probabilities is not None
    assert bool((asked.probabilities[:, :, ~causal(9, WINDOWS[2])[0]] == 0).all())
    torch.testing.assert_close(asked.probabilities.sum(-1), torch.ones(2, 2, 9))


@pytest.mark.parametrize("beams", [1, 3])
@pytest.mark.parametrize("asked", [False, True])
def test_rows_read_their_own_document(beams: int, asked: bool) -> None:
    torch.manual_seed(0)
    one = CrossAttention(16, 2).eval()
    x, documents = tokens(2 * beams, 5), tokens(2, 7, seed=1)
    is_padding = torch.zeros(2, 7, dtype=torch.bool)
    is_padding[1, 4:] = True
    with torch.no_grad():
        read = one(x, one.document_keys(documents), is_padding=is_padding, return_probabilities=asked)
        repeated = documents.repeat_interleave(beams, 0)
        seen = ~is_padding.repeat_interleave(beams, 0)[:, None].expand(-1, 5, -1)
        torch.testing.assert_close(read.context, plain(one, x, repeated, seen), atol=1e-5, rtol=1e-5)
    if asked:
        assert read.probabilities is not None and read.probabilities.shape == (2 * beams, 2, 5, 7)


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(ValueError, match="hidden_size is 16; it must be a multiple of 3 heads"):
        CrossAttention(16, 3)
    with pytest.raises(ValueError, match="it must look only back"):
        DecoderSelfAttention(16, 2, pattern=Pattern(left=1, right=1))
