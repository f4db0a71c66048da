"""Linformer: the same as full attention where it must be, and padding that counts for nothing."""

from typing import Any, cast

import pytest
import torch

from longspan import LongRangeConfig, LongRangeForCausalLM, LongRangeModel
from longspan.nn.kinds.kind import Call, LayerShape
from longspan.nn.kinds.linformer import Linformer, LinformerSettings, Summaries
from tests.models.relatives import EXACT, encoder, logits, tokens

SHARINGS = ("none", "headwise", "key-value", "layerwise")
PROJECTIONS = ("linear", "mean", "max", "conv")


def shape() -> LayerShape:
    return LayerShape(heads=4, head_dim=8, causal=False, max_length=24)


@pytest.mark.parametrize("sharing", SHARINGS)
def test_identity_is_full_attention(sharing: str) -> None:
    ids = tokens(2, 24)
    settings = {"rank": 24, "sharing": sharing}
    model = encoder("linformer", attention_settings=settings, max_position_embeddings=24)
    for one in model.modules():
        if isinstance(one, Summaries):
            assert one.weight is not None
            with torch.no_grad():
                one.weight.copy_(torch.eye(24).expand_as(one.weight))
    full = encoder("full", max_position_embeddings=24)
    full.load_state_dict({k: v for k, v in model.state_dict().items() if k in full.state_dict()})
    torch.testing.assert_close(logits(model, ids), logits(full, ids), **EXACT)
    # Shorter inputs use the first columns; the summaries of what is not there are 0, and are looked at.
    assert logits(model, ids[:, :10]).shape == (2, 10, 64)


@pytest.mark.parametrize(("sharing", "count"), [*zip(SHARINGS, (288, 24, 12, 1), strict=True)])
def test_matrices_are_as_many_as_the_papers(sharing: str, count: int) -> None:
    config = LongRangeConfig(
        attention="linformer",
        attention_settings={"rank": 4, "sharing": sharing},
        hidden_size=24,
        num_attention_heads=12,
        num_hidden_layers=12,
        intermediate_size=8,
        max_position_embeddings=16,
    )
    model = LongRangeModel(config)
    assert sum(one.matrices for one in model.modules() if isinstance(one, Summaries)) == count


@pytest.mark.parametrize("projection", PROJECTIONS)
@pytest.mark.parametrize("sharing", SHARINGS)
def test_padding_changes_nothing(projection: str, sharing: str) -> None:
    settings = {"rank": 6, "sharing": sharing, "projection": projection}
    model, ids = encoder("linformer", attention_settings=settings), tokens(2, 40)
    mask = torch.ones_like(ids)
    mask[1, 23:] = 0
    padded = logits(model, ids, attention_mask=mask)
    torch.testing.assert_close(padded[1:, :23], logits(model, ids[1:, :23]), **EXACT)
    torch.testing.assert_close(padded[:1], logits(model, ids[:1]), **EXACT)


@pytest.mark.parametrize("projection", PROJECTIONS[1:])
def test_neighbours_are_summarised(projection: str) -> None:
    settings = LinformerSettings(rank=5, projection=cast(Any, projection), sharing="key-value")
    kind = Linformer(shape(), settings).double()
    assert kind.summaries is not None and kind.summaries.group == 5
    x = torch.randn(2, 4, 24, 8, dtype=torch.float64)
    summary, _, empty = kind.summaries(x, x, None)
    assert summary.shape == (2, 4, 5, 8) and empty is not None and not empty.any()
    group = x[:, :, 5:10]
    if projection == "conv":
        conv = cast(Any, kind.summaries.convolutions)[0]
        expected = torch.einsum("bhtd,edt->bhe", group, conv.weight) + conv.bias
    else:
        expected = group.mean(2) if projection == "mean" else group.amax(2)
    torch.testing.assert_close(summary[:, :, 1], expected, **EXACT)
    last = x[:, :, 20:]
    if projection != "conv":
        torch.testing.assert_close(
            summary[:, :, 4], last.mean(2) if projection == "mean" else last.amax(2), **EXACT
        )


def test_ranks_may_differ_by_layer() -> None:
    model = encoder("linformer", attention_settings={"ranks": [8, 4, 2]})
    assert [one.rank for one in model.modules() if isinstance(one, Summaries)] == [8, 4, 2]


def test_layers_that_share_have_the_same_settings() -> None:
    config = LongRangeConfig(
        attention="linformer",
        attention_settings=[{"rank": rank, "sharing": "layerwise"} for rank in (8, 4)],
        hidden_size=32,
        num_hidden_layers=2,
        max_position_embeddings=16,
    )
    with pytest.raises(ValueError, match="attention_settings of layers 0 and 1 differ; layers of"):
        LongRangeModel(config)


@pytest.mark.parametrize("length", [24, 10, 1])
@pytest.mark.parametrize("sharing", ("none", "headwise", "key-value"))
def test_summaries_written_out(sharing: str, length: int) -> None:
    """Section 4: softmax(Q (E K)^T / sqrt(d)) (F V), with the first columns of E and F for shorter inputs."""
    kind = Linformer(shape(), LinformerSettings(rank=6, sharing=cast(Any, sharing))).double()
    assert kind.summaries is not None and kind.summaries.weight is not None
    kind.summaries.draw_weights()
    q, k, v = torch.randn(3, 2, 4, length, 8, dtype=torch.float64)
    said, weight = kind(q, k, v, Call()), kind.summaries.weight
    for head in range(4):
        e, f = (weight[which % len(weight), head % weight.shape[1], :, :length] for which in (0, 1))
        p = (q[:, head] @ (e @ k[:, head]).transpose(1, 2) / 8**0.5).softmax(-1)
        torch.testing.assert_close(said[:, head], p @ (f @ v[:, head]), **EXACT)


def test_frozen_projections_stay() -> None:
    model, ids = encoder("linformer", attention_settings={"rank": 4, "frozen": True}), tokens(1, 20)
    model(ids, labels=ids).loss.backward()
    for name, one in model.named_parameters():
        assert (one.grad is None) == ("summaries" in name)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"positions": "rotary"}, "positions is 'rotary', which attention 'linformer' cannot: turned keys"),
        ({"attention_settings": {"rank": 0}}, "attention_settings.rank is 0; it must be at least 1"),
        (
            {"attention_settings": {"ranks": [4, 2], "sharing": "layerwise"}},
            "layers that share a projection have one rank",
        ),
        ({"attention_settings": {"sharing": "some"}}, "it must be one of none, headwise"),
    ],
)
def test_mistakes_are_named(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        LongRangeConfig(**cast(Any, {"attention": "linformer", "num_hidden_layers": 2} | fields))


def test_causality_is_refused_with_the_reason() -> None:
    with pytest.raises(ValueError, match="every summary mixes all positions"):
        LongRangeForCausalLM(LongRangeConfig(attention="linformer", num_hidden_layers=2))


def test_longer_inputs_are_refused() -> None:
    kind = Linformer(shape(), LinformerSettings(rank=4))
    x = torch.randn(1, 4, 25, 8)
    with pytest.raises(ValueError, match="the input has 25 tokens; this linformer has weights for"):
        kind(x, x, x, Call())
