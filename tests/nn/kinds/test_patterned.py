"""Full attention and windows: as their dense masks say, and no farther than their reach in any number of
layers."""

from typing import Any

import pytest
import torch
from torch import Tensor

from longspan.nn.kinds.kind import Call
from longspan.nn.kinds.patterned import Full, Window, WindowSettings
from tests.models.relatives import EXACT, causal_lm, encoder, tokens
from tests.nn.kinds.dense import dense_attention, layer_shape, random_qkv


def mask(length: int, window: int, dilation: int, *, causal: bool) -> Tensor:
    """[length, length]: written out, pair by pair."""
    seen = torch.zeros(length, length, dtype=torch.bool)
    for i in range(length):
        for j in range(length):
            steps, rest = divmod(abs(i - j), dilation)
            seen[i, j] = not rest and (steps <= window and j <= i if causal else steps <= window // 2)
    return seen


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("dilation", [1, 3])
@pytest.mark.parametrize("length", [1, 5, 23])
def test_window_is_its_dense_mask(length: int, dilation: int, causal: bool) -> None:
    kind = Window(layer_shape(causal=causal), WindowSettings(window=4, dilation=dilation))
    q, k, v = (x.requires_grad_() for x in random_qkv(length))
    said = kind(q, k, v, Call(causal=causal))
    expected = dense_attention(q, k, v, mask(length, 4, dilation, causal=causal))
    torch.testing.assert_close(said, expected, **EXACT)
    weights = torch.randn_like(said)
    grads = [torch.autograd.grad((out * weights).sum(), (q, k, v)) for out in (said, expected)]
    for one, other in zip(*grads, strict=True):
        torch.testing.assert_close(one, other, **EXACT)


def test_global_tokens_see_all_and_all_see_them() -> None:
    kind, (q, k, v) = Window(layer_shape(causal=False), WindowSettings(window=4)), random_qkv(23)
    is_global = torch.zeros(2, 23, dtype=torch.bool)
    is_global[0, [0, 17]] = True
    seen = mask(23, 4, 1, causal=False) | is_global[:, None, None, :] | is_global[:, None, :, None]
    torch.testing.assert_close(
        kind(q, k, v, Call(is_global=is_global)), dense_attention(q, k, v, seen), **EXACT
    )


def test_a_span_bounds_what_is_seen() -> None:
    """With keys before the queries, as a memory has them."""
    q, k, v = random_qkv(23)
    at = torch.arange(23)[15:, None] - torch.arange(23)
    kind = Full(layer_shape(causal=True), None)
    said = kind(q[:, :, 15:], k, v, Call(causal=True, query_offset=15, span=6))
    torch.testing.assert_close(said, dense_attention(q[:, :, 15:], k, v, (at >= 0) & (at <= 6)), **EXACT)


@pytest.mark.parametrize("layers", [1, 2, 3])
@pytest.mark.parametrize("dilation", [1, 2])
@pytest.mark.parametrize("causal", [True, False])
def test_receptive_field_grows_with_layers(causal: bool, dilation: int, layers: int) -> None:
    """By the support of a gradient: window * dilation a layer back, or half of it on each side."""
    settings: dict[str, Any] = {"attention_settings": {"window": 4, "dilation": dilation}}
    model = (causal_lm if causal else encoder)(
        "window", positions="none", num_hidden_layers=layers, **settings
    )
    ids, at = tokens(1, 61), 30
    x = model.get_input_embeddings()(ids).detach().requires_grad_()
    model(inputs_embeds=x).logits[0, at].sum().backward()
    assert x.grad is not None
    felt = x.grad[0].abs().sum(1).nonzero().flatten() - at
    back = layers * dilation * (4 if causal else 2)
    assert (int(felt.min()), int(felt.max())) == (-back, 0 if causal else back)


def test_a_window_with_an_odd_number_has_no_two_sides() -> None:
    assert causal_lm("window", attention_settings={"window": 5}, positions="none")
    with pytest.raises(ValueError, match="window is 5, and half of it is on each side: it must be even"):
        encoder("window", attention_settings={"window": 5})
