"""Causal attention against Transformer-XL's formula, pair by pair; rotary positions by their distances."""

import math
from collections.abc import Sequence

import pytest
import torch
from torch import Tensor

from longspan.attention.pattern import Pattern
from longspan.nn.causal_attention import CausalSelfAttention, Relative, RelativeBiases
from longspan.nn.rotary import rotate, rotation
from longspan.nn.window_cache import WindowCache

PATTERNS = (
    Pattern(left=3, right=0),
    Pattern(left=3, right=0, dilation=2),
    Pattern(left=5, right=0),
    Pattern(left=5, right=0, dilation=4),
)


def layer(patterns: Sequence[Pattern] = PATTERNS, *, relative: bool = True) -> CausalSelfAttention:
    torch.manual_seed(0)
    return CausalSelfAttention(16, patterns, relative=relative).double().eval()


def biases() -> RelativeBiases:
    torch.manual_seed(1)
    made = RelativeBiases(4, 4).double()
    torch.nn.init.normal_(made.content)
    torch.nn.init.normal_(made.position)
    return made


def by_the_formula(layer: CausalSelfAttention, x: Tensor, biases: RelativeBiases) -> Tensor:
    """A_ij = ((q_i + u) k_j + (q_i + v) W_R R_(i - j)) / sqrt(d), for every pair that is seen."""
    assert layer.position is not None
    length, size = x.shape
    head_dim = size // len(layer.patterns)
    frequencies = 10000 ** (-torch.arange(0, size, 2, dtype=torch.float64) / size)
    out = torch.zeros_like(x)
    for head, pattern in enumerate(layer.patterns):
        of_head = slice(head * head_dim, (head + 1) * head_dim)
        q, k, v = (project(x)[:, of_head] for project in (layer.query, layer.key, layer.value))
        u, w = biases.content[head, 0], biases.position[head, 0]
        for i in range(length):
            seen = [j for j in range(i + 1) if bool(pattern.allows(torch.tensor(i), torch.tensor(j)))]
            scores: list[Tensor] = []
            for j in seen:
                angle = (i - j) * frequencies
                # fp32, as the sinusoids are that the layer has.
                wave = torch.cat([angle.sin(), angle.cos()]).float().double()
                r = layer.position(wave)[of_head]
                scores.append(((q[i] + u) @ k[j] + (q[i] + w) @ r) / math.sqrt(head_dim))
            out[i, of_head] = torch.stack(scores).softmax(0) @ v[seen]
    return layer.output(out)


@torch.no_grad()
def test_relative_attention_is_transformer_xls() -> None:
    one, given = layer(), biases()
    x = torch.randn(30, 16, dtype=torch.float64)
    out = one(x[None], Relative(given, 0.0))
    torch.testing.assert_close(out[0], by_the_formula(one, x, given), atol=1e-10, rtol=1e-10)


@torch.no_grad()
@pytest.mark.parametrize("batch", [1, 3])
def test_a_single_token_takes_the_short_way_to_the_same_end(batch: int) -> None:
    one, positions = layer(), Relative(biases(), 0.0)
    x = torch.randn(batch, 60, 16, dtype=torch.float64)
    whole = one(x, positions)
    cache = WindowCache(one.reach)
    said = [one(token, positions, cache=cache) for token in x.split(1, 1)]
    torch.testing.assert_close(torch.cat(said, 1), whole, atol=1e-12, rtol=1e-12)


@torch.no_grad()
def test_position_keys_are_projected_once() -> None:
    one, positions = layer(), Relative(biases(), 0.0)
    calls: list[int] = []
    assert one.position is not None
    one.position.register_forward_hook(lambda module, given, out: calls.append(given[0].shape[0]))
    cache = WindowCache(one.reach)
    for token in torch.randn(1, 60, 16, dtype=torch.float64).split(1, 1):
        one(token, positions, cache=cache)
    assert calls == [one.reach + 1] == [21]


@torch.no_grad()
def test_rotary_products_depend_on_distances() -> None:
    q, k = torch.randn(2, 8, dtype=torch.float64)
    for base in (0, 1, 100_000):
        where = rotation(torch.tensor([base + 5, base + 2]), 8)
        both = rotate(torch.stack([q, k])[None, None], where)[0, 0]
        near = rotation(torch.tensor([3, 0]), 8)
        expected = rotate(torch.stack([q, k])[None, None], near)[0, 0]
        torch.testing.assert_close(both[0] @ both[1], expected[0] @ expected[1], atol=1e-5, rtol=1e-5)
    still = rotate(q[None, None, None], rotation(torch.tensor([0]), 8))
    torch.testing.assert_close(still[0, 0, 0], q)


def test_windows_that_look_ahead_are_refused() -> None:
    for wrong in (Pattern(left=2, right=1), Pattern(left=None, right=0)):
        with pytest.raises(ValueError, match="it must have a bound to the left, and right=0"):
            layer([wrong] * 4)
    with pytest.raises(ValueError, match="hidden_size is 16; it must be a multiple of 3 heads"):
        layer([Pattern(left=2, right=0)] * 3)


@torch.no_grad()
def test_a_single_token_is_exact_under_autocast() -> None:
    one, given = layer().float(), biases().float()
    # Terms so large that they must not be rounded once more.
    given.position.mul_(100)
    x = torch.randn(1, 12, 16)
    relative = Relative(given, 0.0)
    with torch.autocast("cpu", torch.bfloat16):
        whole = one(x, relative)
        cache = WindowCache(one.reach)
        one(x[:, :-1], relative, cache=cache)
        last = one(x[:, -1:], relative, cache=cache)
    torch.testing.assert_close(last.float(), whole[:, -1:].float(), atol=1e-2, rtol=1e-2)
