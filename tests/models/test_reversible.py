"""Reversible layers: gradients of stored ones, dropout and hashes replayed, the memory of a single layer."""

from typing import Any, cast

import pytest
import torch
from torch import Tensor

from longspan.models import long_range
from longspan.nn.kinds.reformer import Reformer
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


class Saved:
    """What backward passes keep, in bytes: now, and at most."""

    now, most = 0, 0

    def __init__(self) -> None:
        saved = self

        class Kept:
            def __init__(self, x: Tensor) -> None:
                self.x, self.size = x, x.nbytes
                saved.now += self.size
                saved.most = max(saved.most, saved.now)

            def __del__(self) -> None:
                saved.now -= self.size

        self.hooks = torch.autograd.graph.saved_tensors_hooks(Kept, lambda kept: kept.x)


def saved_by(name: str, layers: int) -> tuple[int, int]:
    """Bytes that a model's forward pass saves, and the most that are held until its backward pass ends."""
    model, ids, saved = (
        encoder(name, reversible=True, num_hidden_layers=layers).train(),
        tokens(2, 40),
        Saved(),
    )
    with saved.hooks:
        loss = model(ids, labels=ids).loss
        after_forward = saved.now
        loss.backward()
    assert saved.now == 0
    return after_forward, saved.most


@pytest.mark.parametrize("name", ["reformer", "full", "window", "performer", "bp"])
def test_memory_is_that_of_one_layer(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert saved_by(name, 2) == saved_by(name, 7)
    monkeypatch.setattr(long_range, "run_reversibly", stored)
    few, many = saved_by(name, 2), saved_by(name, 7)
    assert many[0] > 3 * few[0] / 2 and many[1] > 3 * few[1] / 2


def test_what_is_noted_of_a_layer_is_less_than_its_states() -> None:
    """A hash's order and random states are kept layer by layer."""
    model, ids = encoder("reformer", reversible=True, hidden_dropout_prob=0.1).train(), tokens(2, 60)
    node = model.model(ids).last_hidden_state.grad_fn
    while not hasattr(node, "notes"):
        node = node.next_functions[0][0]
    assert len(node.notes) == 3
    for *_, replay in node.notes:
        assert list(replay) == ["order"]
        assert replay["order"].nbytes <= 2 * 60 * 32 * 4


def test_tokens_are_hashed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """States that are made again differ in their last bits, and so might buckets."""
    calls: list[Tensor] = []
    hash_ = Reformer._sorted

    def counted(self: Reformer, x: Tensor, is_padding: Tensor | None) -> Tensor:
        calls.append(x)
        return hash_(self, x, is_padding)

    monkeypatch.setattr(Reformer, "_sorted", counted)
    model, ids = encoder("reformer", reversible=True).train(), tokens(1, 40)
    model(ids, labels=ids).loss.backward()
    assert len(calls) == 3


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
