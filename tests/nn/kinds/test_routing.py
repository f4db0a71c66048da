"""Routing: one cluster of all is full attention, centroids follow, padding is nobody's neighbour."""

from typing import Any

import pytest
import torch
from torch.nn import functional as F

from longspan.nn.kinds.kind import Call
from longspan.nn.kinds.routing import Routing, RoutingSettings
from tests.models.relatives import causal_lm, encoder, tokens
from tests.nn.kinds.dense import dense_attention, layer_shape, random_qkv

EXACT: dict[str, Any] = {"atol": 1e-12, "rtol": 1e-9}


def kind_of(*, causal: bool, **settings: Any) -> Routing:
    torch.manual_seed(0)
    return Routing(layer_shape(causal=causal), RoutingSettings(**settings)).double()


@pytest.mark.parametrize("causal", [True, False])
def test_one_cluster_is_full_attention(causal: bool) -> None:
    kind, (q, k, v) = kind_of(causal=causal, clusters=1, size=23), random_qkv(23)
    qn, kn = F.layer_norm(q, (8,)), F.layer_norm(k, (8,))
    seen = torch.ones(23, 23, dtype=torch.bool)
    expected = dense_attention(qn, qn if causal else kn, v, seen.tril() if causal else seen)
    torch.testing.assert_close(kind(q, k, v, Call(causal=causal)), expected, **EXACT)


def test_clusters_written_out() -> None:
    kind, (q, k, v) = kind_of(causal=False, clusters=3, size=5), random_qkv(17)
    qn, kn = F.layer_norm(q, (8,)), F.layer_norm(k, (8,))
    out, times = torch.zeros_like(q), torch.zeros(2, 4, 17)
    for b in range(2):
        for h in range(4):
            for c in range(3):
                centre = kind.centroids[h, c]
                rows = (qn[b, h] @ centre).topk(5).indices
                columns = (kn[b, h] @ centre).topk(5).indices
                p = (qn[b, h, rows] @ kn[b, h, columns].T / 8**0.5).softmax(-1)
                out[b, h, rows] += p @ v[b, h, columns]
                times[b, h, rows] += 1
    assert (times == 0).any() and (times > 1).any()
    torch.testing.assert_close(kind(q, k, v, Call()), out / times.clamp_min(1)[..., None], **EXACT)


def test_centroids_follow_the_tokens_of_the_last_pass() -> None:
    settings = {"clusters": 3, "size": 10, "decay": 0.5, "accept_leak": True}
    model, ids = causal_lm("routing", attention_settings=settings, positions="none").train(), tokens(2, 30)
    kind = next(one for one in model.modules() if isinstance(one, Routing))
    first = kind.centroids.clone()
    model(ids, labels=ids).loss.backward()
    assert torch.equal(kind.centroids, first)
    assert float(kind.pending_counts.sum()) == 4 * 60
    model(ids)
    assert not torch.equal(kind.centroids, first)
    moved = kind.centroids.clone()
    model.eval()(ids)
    assert torch.equal(kind.centroids, moved)


def test_padding_moves_no_centroid_and_costs_nothing() -> None:
    model, ids = encoder("routing").train(), tokens(1, 30)
    kind = next(one for one in model.modules() if isinstance(one, Routing))
    mask = torch.ones_like(ids)
    mask[0, 18:] = 0
    padded = model(ids, attention_mask=mask, labels=ids).losses["commitment"]
    assert float(kind.pending_counts.sum()) == 2 * 4 * 18
    sums = kind.pending_sums.clone()
    for one in model.modules():
        if isinstance(one, Routing):
            one.pending_counts.zero_()
    alone = model(ids[:, :18], labels=ids[:, :18]).losses["commitment"]
    torch.testing.assert_close(padded, alone, **EXACT)
    torch.testing.assert_close(kind.pending_sums, sums, **EXACT)


def test_commitment_reaches_queries_and_keys_alone() -> None:
    model, ids = encoder("routing").train(), tokens(1, 30)
    model(ids, labels=ids).losses["commitment"].backward()
    last = {
        name.split(".")[-2]
        for name, one in model.named_parameters()
        if one.grad is not None and one.grad.abs().sum() and "layers.2." in name
    }
    assert last == {"query", "key", "attention_norm"}


def test_local_heads_have_a_window() -> None:
    kind, (q, k, v) = kind_of(causal=True, clusters=2, size=4, local_heads=3, window=5), random_qkv(17)
    x = torch.arange(17)[:, None] - torch.arange(17)
    expected = dense_attention(q, k, v, (x >= 0) & (x <= 5))
    torch.testing.assert_close(kind(q, k, v, Call(causal=True))[:, :3], expected[:, :3], **EXACT)
    with pytest.raises(ValueError, match="at least one head must be routed"):
        kind_of(causal=True, local_heads=4)
