"""Adaptive spans: the paper's mask, a fixed span at the end of its range, and a loss that shortens."""

from typing import Any

import pytest
import torch
from torch import Tensor

from longspan.nn.kinds.adaptive_span import AdaptiveSpan, AdaptiveSpanSettings
from longspan.nn.kinds.kind import Call
from tests.models.relatives import causal_lm, tokens
from tests.nn.kinds.dense import dense_attention, layer_shape, random_qkv

EXACT: dict[str, Any] = {"atol": 1e-12, "rtol": 1e-9}


def kind_of(shares: list[float], **changes: Any) -> AdaptiveSpan:
    settings = AdaptiveSpanSettings(max_span=10, ramp=4, **changes)
    kind = AdaptiveSpan(layer_shape(causal=True), settings).double()
    with torch.no_grad():
        kind.share.copy_(torch.tensor(shares))
    return kind


def papers(kind: AdaptiveSpan, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Softmax, times the mask, divided by its sum; the token itself is not there, an empty slot is."""
    settings = kind.settings
    if not settings.sees_itself:
        k, v = (torch.cat([torch.zeros_like(x[:, :, :1]), x[:, :, :-1]], 2) for x in (k, v))
    n = q.shape[2]
    x = (torch.arange(n)[:, None] - torch.arange(n)).double()
    mask = ((settings.ramp + kind.spans[:, None, None] - x) / settings.ramp).clamp(0, 1)
    mask = mask * (x >= 0) * (x < settings.max_span)
    scores = (q @ k.transpose(-1, -2)) / q.shape[-1] ** 0.5
    p = torch.where((x >= 0) & (x < settings.max_span), scores, -torch.inf).softmax(-1) * mask
    return (p / p.sum(-1, keepdim=True)) @ v


@pytest.mark.parametrize("sees_itself", [True, False])
@pytest.mark.parametrize("trims", [True, False])
def test_mask_is_the_papers(sees_itself: bool, trims: bool) -> None:
    kind = kind_of([0.03, 0.25, 0.47, 1.0], sees_itself=sees_itself, trims=trims)
    q, k, v = (x.requires_grad_() for x in random_qkv(31))
    said, expected = kind(q, k, v, Call(causal=True)), papers(kind, q, k, v)
    torch.testing.assert_close(said, expected, **EXACT)
    weights = torch.randn_like(said)
    over = (q, k, v, kind.share)
    grads = [torch.autograd.grad((out * weights).sum(), over) for out in (said, expected)]
    for one, other in zip(*grads, strict=True):
        torch.testing.assert_close(one, other, atol=1e-10, rtol=1e-7)


def test_trimmed_is_untrimmed() -> None:
    given = random_qkv(31)
    said = [
        kind_of([0.0, 0.09, 0.33, 0.6], trims=trims)(*given, Call(causal=True)) for trims in (True, False)
    ]
    torch.testing.assert_close(said[0], said[1], **EXACT)
    assert [one.left for one in kind_of([0.0, 0.09, 0.33, 0.6]).patterns(True)] == [3, 4, 7, 9]


def test_the_whole_range_is_a_fixed_span() -> None:
    """With z = S nothing within S is masked."""
    kind, (q, k, v) = kind_of([1.0] * 4, sees_itself=True), random_qkv(31)
    x = torch.arange(31)[:, None] - torch.arange(31)
    expected = dense_attention(q, k, v, (x >= 0) & (x < 10))
    torch.testing.assert_close(kind(q, k, v, Call(causal=True)), expected, **EXACT)


def test_shares_stay_in_their_range_and_the_loss_shortens_them() -> None:
    settings = {"max_span": 16, "ramp": 4, "initial": 0.5, "loss": 1.0}
    model, ids = (
        causal_lm("adaptive-span", attention_settings=settings, positions="none").train(),
        tokens(1, 30),
    )
    kinds = [one for one in model.modules() if isinstance(one, AdaptiveSpan)]
    optimizer = torch.optim.SGD([one.share for one in kinds], lr=0.1)
    for _ in range(8):
        optimizer.zero_grad()
        said = model(ids, labels=ids)
        assert float(said.losses["span"].detach()) == pytest.approx(
            sum(16 * float(one.share.detach().clamp(0, 1).mean()) for one in kinds)
        )
        said.loss.backward()
        optimizer.step()
    model(ids)
    for one in kinds:
        assert float(one.share.detach().max()) < 0.5
        assert float(one.share.detach().min()) >= 0


def test_learned_key_positions_are_added_by_distance() -> None:
    model = causal_lm("adaptive-span", positions="learned", learned_distances=12)
    ids = tokens(1, 30)
    model(ids, labels=ids).loss.backward()
    assert model.model.distances is not None and model.model.distances.weight.grad is not None
    assert model.model.distances.weight.grad.abs().sum(1).gt(0).any()
