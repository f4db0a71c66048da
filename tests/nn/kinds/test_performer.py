"""Performer as a layer: when directions change, and what is refused."""

from typing import Any

import pytest
import torch

from longspan.nn.kinds.performer import Performer
from tests.models.relatives import EXACT, causal_lm, config, encoder, logits, tokens


def performers(model: torch.nn.Module) -> list[Performer]:
    return [one for one in model.modules() if isinstance(one, Performer)]


@pytest.mark.parametrize("form", ["positive", "hyperbolic", "trigonometric", "relu"])
def test_all_forms_are_causal_and_ignore_padding(form: str) -> None:
    settings = {"features": 24, "form": form}
    model, ids = causal_lm("performer", attention_settings=settings, positions="rotary"), tokens(1, 40)
    other = ids.clone()
    other[:, 25:] = (other[:, 25:] + 1) % 64
    assert torch.equal(logits(model, ids)[:, :25], logits(model, other)[:, :25])
    both = encoder("performer", attention_settings=settings, positions="rotary")
    mask = torch.ones_like(ids)
    mask[0, 29:] = 0
    padded = logits(both, ids, attention_mask=mask)[:, :29]
    torch.testing.assert_close(padded, logits(both, ids[:, :29]), **EXACT)


def test_many_features_are_near_softmax() -> None:
    ids = tokens(1, 30)
    full = encoder("full", positions="none", initializer_range=0.05)
    near = encoder(
        "performer", attention_settings={"features": 4096}, positions="none", initializer_range=0.05
    )
    near.load_state_dict(full.state_dict(), strict=False)
    error = (logits(near, ids) - logits(full, ids)).norm() / logits(full, ids).norm()
    assert float(error) < 0.02


def test_directions_are_redrawn_in_training_alone() -> None:
    settings = {"features": 8, "redraw_every": 2}
    model, ids = causal_lm("performer", attention_settings=settings, positions="none"), tokens(1, 10)
    first = performers(model)[0].directions.clone()
    for _ in range(5):
        assert torch.equal(logits(model, ids), logits(model, ids))
    assert torch.equal(performers(model)[0].directions, first)
    model.train()
    drawn = [first]
    for _ in range(5):
        model(ids)
        drawn.append(performers(model)[0].directions.clone())
    # Before the third pass, and before the fifth.
    assert [torch.equal(one, after) for one, after in zip(drawn, drawn[1:], strict=False)] == [
        True,
        True,
        False,
        True,
        False,
    ]
    assert int(performers(model)[0].passes) == 5
    never = causal_lm("performer", attention_settings={"redraw_every": 0}, positions="none").train()
    before = performers(never)[0].directions
    never(ids)
    assert torch.equal(performers(never)[0].directions, before)


def test_directions_are_as_many_as_asked() -> None:
    shapes = [
        performers(causal_lm("performer", attention_settings=one, positions="none"))[0].directions.shape
        for one in ({"features": 5}, {})
    ]
    assert shapes == [(5, 8), (16, 8)]


@pytest.mark.parametrize("chunk", [1, 5, 64])
def test_chunk_changes_nothing(chunk: int) -> None:
    ids = tokens(2, 30)
    said = [
        logits(
            causal_lm("performer", attention_settings={"features": 16, "chunk": size}, positions="none"), ids
        )
        for size in (8, chunk)
    ]
    torch.testing.assert_close(said[0], said[1], **EXACT)


def test_a_memory_is_read_too() -> None:
    ids = tokens(1, 40)
    settings: dict[str, Any] = {"positions": "rotary"}
    whole = causal_lm("performer", **settings)
    pieces = causal_lm("performer", **settings, memory="xl", segment_length=7, memory_length=100)
    torch.testing.assert_close(logits(pieces, ids), logits(whole, ids), **EXACT)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"positions": "relative"}, "relative terms are added to scores"),
        ({"attention_probs_dropout_prob": 0.1}, "there are no attention probabilities to drop"),
        ({"attention_settings": {"features": 0}}, "attention_settings.features is 0"),
    ],
)
def test_what_it_cannot_is_refused(fields: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        config("performer", **fields)
