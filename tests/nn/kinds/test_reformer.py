"""Reformer's attention: two chunks are full attention, and rounds, chunks and padding are as specified."""

from typing import Any

import pytest
import torch
from torch.nn import functional as F

from longspan.nn.kinds.kind import Call, LayerShape
from longspan.nn.kinds.reformer import Reformer, ReformerSettings
from tests.nn.kinds.dense import layer_shape, random_qkv

EXACT: dict[str, Any] = {"atol": 1e-12, "rtol": 1e-9}


def kind_of(*, causal: bool = False, **settings: Any) -> Reformer:
    torch.manual_seed(0)
    return Reformer(layer_shape(causal=causal), ReformerSettings(**settings)).double()


def dense(q: torch.Tensor, v: torch.Tensor, seen: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Shared queries and keys: keys of length 1, no scale, itself only where there is nothing else."""
    scores = q @ F.normalize(q, dim=-1).transpose(-1, -2)
    itself = torch.eye(q.shape[2], dtype=torch.bool)
    scores = torch.where(itself, -1e5, scores).masked_fill(~seen, -1e9)
    return scores.softmax(-1) @ v, scores.logsumexp(-1)


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize(("length", "chunk"), [(16, 16), (16, 8), (13, 16), (13, 7)])
def test_two_chunks_are_full_attention(length: int, chunk: int, causal: bool) -> None:
    kind = kind_of(causal=causal, chunk=chunk, rounds=1, buckets=4)
    q, _, v = random_qkv(length)
    seen = torch.ones(length, length, dtype=torch.bool)
    expected, _ = dense(q, v, seen.tril() if causal else seen)
    torch.testing.assert_close(kind(q, q, v, Call(causal=causal)), expected, **EXACT)


@pytest.mark.parametrize("causal", [True, False])
def test_chunks_and_rounds_written_out(causal: bool) -> None:
    kind, (q, _, v) = kind_of(causal=causal, chunk=4, rounds=3, buckets=6), random_qkv(21, batch=1)
    outs, sums = list[torch.Tensor](), list[torch.Tensor]()
    for r in range(3):
        seen = torch.zeros(1, 4, 21, 21, dtype=torch.bool)
        for h in range(4):
            turned = q[0, h] @ kind.directions[h, r]
            bucket = torch.cat([turned, -turned], -1).argmax(-1).tolist()
            order = sorted(range(21), key=lambda t: (bucket[t], t))
            chunk_of = {token: at // 4 for at, token in enumerate(order)}
            for i in range(21):
                for j in range(21):
                    near = chunk_of[j] in (chunk_of[i], (chunk_of[i] - 1) % 6)
                    seen[0, h, i, j] = near and (j <= i or not causal)
        out, lse = dense(q, v, seen)
        outs.append(out)
        sums.append(lse)
    weights = torch.stack(sums).softmax(0)
    expected = (torch.stack(outs) * weights[..., None]).sum(0)
    torch.testing.assert_close(kind(q, q, v, Call(causal=causal)), expected, **EXACT)


def test_padding_has_its_own_bucket() -> None:
    kind, (q, _, v) = kind_of(chunk=4, rounds=2, buckets=6), random_qkv(30)
    is_padding = torch.arange(30)[None].expand(2, -1) >= torch.tensor([[30], [17]])
    padded = kind(q, q, v, Call(is_padding=is_padding))
    alone = kind(q[1:, :, :17], q[1:, :, :17], v[1:, :, :17], Call())
    torch.testing.assert_close(padded[1:, :, :17], alone, **EXACT)
    assert (padded[1, :, 17:] == 0).all()


def test_many_buckets_are_two_hashes() -> None:
    kind, (q, _, v) = kind_of(chunk=4, rounds=2, buckets=256), random_qkv(30)
    assert kind.hashes == (16, 16) and kind.directions.shape == (4, 2, 8, 16)
    turned = torch.einsum("bhnd,hrde->bhrne", q, kind.directions)
    low, high = (torch.cat([x, -x], -1).argmax(-1) for x in turned.split(8, -1))
    bucket = low + 16 * high
    order = kind._sorted(q, None)
    assert torch.equal(order, bucket.argsort(dim=-1, stable=True))
    assert int(bucket.max()) > 128
    assert kind(q, q, v, Call()).isfinite().all()
    # As trax shares them out; what is not a multiple of four is rounded down where nobody asked for it.
    for length, hashes in ((64 * 64, (128,)), (64 * 256, (32, 16)), (64 * 65, (16, 8))):
        shape = LayerShape(heads=1, head_dim=4, causal=False, max_length=length)
        assert Reformer(shape, ReformerSettings()).hashes == hashes


def test_half_precision_sums_in_single() -> None:
    kind, (q, _, v) = kind_of(chunk=4, rounds=3, buckets=6), random_qkv(30)
    notes: dict[str, torch.Tensor] = {}
    expected = kind(q, q, v, Call(replay=notes))
    said = kind.bfloat16()(q.bfloat16(), q.bfloat16(), v.bfloat16(), Call(replay=notes))
    assert said.dtype == torch.bfloat16
    assert float((said.double() - expected).norm() / expected.norm()) < 0.01


def test_order_is_replayed() -> None:
    kind, (q, _, v) = kind_of(chunk=4), random_qkv(30)
    notes: dict[str, torch.Tensor] = {}
    first = kind(q, q, v, Call(replay=notes))
    kind.begin_pass()
    assert torch.equal(kind(q, q, v, Call(replay=notes)), first)
    assert not torch.equal(kind(q, q, v, Call()), first)


def test_settings_are_checked() -> None:
    with pytest.raises(ValueError, match="buckets is 5; it must be even"):
        ReformerSettings(buckets=5)
    with pytest.raises(ValueError, match="buckets is 130; above 128 it must be a multiple of 4"):
        ReformerSettings(buckets=130)
    assert kind_of(chunk=8).buckets == 16
