"""Reversible layers: the gradients of stored ones, dropout and hashes replayed."""

from typing import Any, cast

import pytest
import torch

from longspan.models import long_range
from tests.models.relatives import EXACT, SETTINGS, causal_lm, config, encoder, logits, tokens


def stored(layers: Any, x: torch.Tensor, reading: Any, caches: Any = None) -> torch.Tensor:
    """The same, with everything stored."""
    y1, y2 = x, x
    for layer in layers:
        y1 = y1 + layer.attention_half(y2, reading)
        y2 = y2 + layer.feed_forward_half(y1)
    return (y1 + y2) / 2


@pytest.mark.parametrize("dropout", [0.0, 0.2])
@pytest.mark.parametrize("name", ["reformer", "full", "window", "performer", "bp"])
def test_gradients_are_those_of_stored_layers(
    name: str, dropout: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = tokens(2, 40)
    grads: list[dict[str, torch.Tensor]] = []
    for reversible in (True, False):
        if not reversible:
            monkeypatch.setattr(long_range, "run_reversibly", stored)
        of_attention = 0.0 if name == "performer" else dropout
        model = encoder(
            name, reversible=True, hidden_dropout_prob=dropout, attention_probs_dropout_prob=of_attention
        ).train()
        torch.manual_seed(1)
        model(ids, labels=ids).loss.backward()
        grads.append({key: one.grad for key, one in model.named_parameters() if one.grad is not None})
    assert grads[0].keys() == grads[1].keys()
    for key, one in grads[0].items():
        torch.testing.assert_close(one, grads[1][key], atol=1e-10, rtol=1e-8, msg=key)


def test_relative_biases_are_trained_too() -> None:
    model, ids = causal_lm("full", reversible=True, positions="relative").train(), tokens(1, 20)
    model(ids, labels=ids).loss.backward()
    for name, one in model.named_parameters():
        assert one.grad is not None and one.grad.abs().sum() > 0, name


def test_reads_on_with_a_cache() -> None:
    model, ids = causal_lm("full", reversible=True, positions="rotary"), tokens(2, 20)
    cache = model.model.new_cache()
    said = [logits(model, piece, past_key_values=cache) for piece in ids.split([7, 1, 12], 1)]
    torch.testing.assert_close(torch.cat(said, 1), logits(model, ids, use_cache=False), **EXACT)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"norm": "post"}, "reversible is True with norm 'post'"),
        ({"memory": "xl", "positions": "relative"}, "reversible is True with memory 'xl'"),
        (
            {"attention": "routing", "attention_settings": SETTINGS["routing"]},
            "whose own loss would be lost",
        ),
    ],
)
def test_what_it_cannot_is_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        config(**cast(Any, {"attention": "full", "reversible": True} | fields))
