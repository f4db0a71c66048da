"""The Sparse Transformer's patterns: as its dense masks say, and everything within two steps."""

from typing import Any

import pytest
import torch

from longspan.nn.kinds.kind import Call
from longspan.nn.kinds.sparse import Sparse, SparseSettings, dense_mask
from tests.nn.kinds.dense import dense_attention, layer_shape, random_qkv

EXACT: dict[str, Any] = {"atol": 1e-12, "rtol": 1e-9}
FORMS = [(form, parts) for form in ("strided", "fixed") for parts in ("heads", "layers", "merged")]


def kind_of(form: Any, parts: Any, *, causal: bool, layer: int = 0, **changes: Any) -> Sparse:
    settings = SparseSettings(form=form, parts=parts, **{"stride": 5, "summary": 2} | changes)
    return Sparse(layer_shape(causal=causal, layer=layer), settings)


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("length", [1, 5, 23])
@pytest.mark.parametrize("layer", [0, 1])
@pytest.mark.parametrize(("form", "parts"), FORMS)
def test_kernel_is_the_dense_mask(form: str, parts: str, layer: int, length: int, causal: bool) -> None:
    kind = kind_of(form, parts, causal=causal, layer=layer)
    q, k, v = (x.requires_grad_() for x in random_qkv(length))
    seen = torch.stack([dense_mask(kind, length, head, causal=causal) for head in range(4)])
    said = kind(q, k, v, Call(causal=causal))
    expected = dense_attention(q, k, v, seen)
    torch.testing.assert_close(said, expected, **EXACT)
    weights = torch.randn_like(said)
    grads = [torch.autograd.grad((out * weights).sum(), (q, k, v)) for out in (said, expected)]
    for one, other in zip(*grads, strict=True):
        torch.testing.assert_close(one, other, **EXACT)


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize(("form", "parts"), FORMS)
def test_padding_changes_nothing(form: str, parts: str, causal: bool) -> None:
    kind, (q, k, v) = kind_of(form, parts, causal=causal), random_qkv(23)
    is_padding = torch.zeros(2, 23, dtype=torch.bool)
    is_padding[:, 17:] = True
    padded = kind(q, k, v, Call(causal=causal, is_padding=is_padding))
    alone = kind(*(x[:, :, :17] for x in (q, k, v)), Call(causal=causal))
    torch.testing.assert_close(padded[:, :, :17], alone, **EXACT)
    assert (padded[:, :, 17:] == 0).all()


@pytest.mark.parametrize("form", ["strided", "fixed"])
def test_everything_is_reached_in_two_steps(form: str) -> None:
    kind = kind_of(form, "heads", causal=True)
    near, far = (dense_mask(kind, 25, head, causal=True).double() for head in (0, 3))
    reached = ((near + far) @ (near + far)) > 0
    wanted = torch.ones(25, 25, dtype=torch.bool).tril()
    if form == "fixed":
        # Through the ends of blocks: what stands before the last two of its own block is passed on by them.
        assert torch.equal(reached & wanted, wanted)
    else:
        assert torch.equal(reached, wanted)


def test_settings_are_checked() -> None:
    with pytest.raises(ValueError, match="summary is 9; it must be at most stride = 8"):
        SparseSettings(stride=8, summary=9)
