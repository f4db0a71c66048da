"""Our Longformer against that of transformers, with the same weights."""

from typing import Any

import pytest
import torch
import transformers
from torch import Tensor
from transformers.models.longformer import modeling_longformer as stock

import longspan
from tests.models.tiny import config, marks, padding, stock_config, tokens

HEADS = [
    "LongformerModel",
    "LongformerForMaskedLM",
    "LongformerForSequenceClassification",
    "LongformerForQuestionAnswering",
    "LongformerForTokenClassification",
    "LongformerForMultipleChoice",
]


def pair(name: str, **changes: Any) -> tuple[Any, Any]:
    """The model of transformers and ours, with the same weights, in eval mode."""
    torch.manual_seed(0)
    theirs = getattr(transformers, name)(stock_config(**changes)).eval()
    ours = getattr(longspan, name)(config(**changes)).eval()
    ours.load_state_dict(theirs.state_dict())
    return theirs, ours


def inputs_for(name: str, lengths: list[int]) -> dict[str, Tensor]:
    """A batch of examples of these lengths, with separators where a task wants them."""
    ids, mask = tokens(len(lengths), max(lengths)), padding(lengths)
    for example, length in enumerate(lengths):
        ids[example, 0] = 0
        ids[example, [4 + example, 5 + example, length - 1]] = 2
        ids[example, length:] = 1
    if name == "LongformerForMultipleChoice":
        ids, mask = (x.reshape(len(lengths) // 2, 2, -1) for x in (ids, mask))
    return {"input_ids": ids, "attention_mask": mask}


def labels_for(name: str, ids: Tensor) -> dict[str, Tensor]:
    if name == "LongformerForQuestionAnswering":
        return {"start_positions": torch.tensor([3, 500]), "end_positions": torch.tensor([6, 500])}
    if name in ("LongformerForSequenceClassification", "LongformerForMultipleChoice"):
        return {"labels": torch.tensor([1, 0])[: ids.shape[0]]}
    return {"labels": torch.randint(0, 2, ids.shape, generator=torch.Generator().manual_seed(1))}


def assert_equal_where_real(theirs: Any, ours: Any, mask: Tensor | None) -> None:
    """Every output of ``theirs`` in ``ours``; [batch, length, ...] outputs at real tokens only."""
    assert list(theirs.keys()) == list(ours.keys())
    for name in theirs:
        for a, b in zip(
            *(x if isinstance(x, tuple) else (x,) for x in (theirs[name], ours[name])), strict=True
        ):
            assert a.shape == b.shape, name
            if (
                mask is not None
                and name in ("last_hidden_state", "logits", "hidden_states", "start_logits", "end_logits")
                and a.shape[:2] == mask.shape
            ):
                a, b = a[mask.bool()], b[mask.bool()]
            torch.testing.assert_close(
                b, a, atol=1e-5, rtol=1e-5, msg=lambda text, name=name: f"{name}: {text}"
            )


@pytest.mark.parametrize("name", HEADS)
@pytest.mark.parametrize("lengths", [[32, 32], [31, 9], [24, 40]])
def test_every_head_equals_stock(name: str, lengths: list[int]) -> None:
    theirs, ours = pair(name)
    inputs = inputs_for(name, lengths)
    with torch.no_grad():
        expected, actual = theirs(**inputs), ours(**inputs)
    assert_equal_where_real(expected, actual, inputs["attention_mask"])


@pytest.mark.parametrize("name", HEADS[1:])
def test_losses_and_gradients_equal_stocks(name: str) -> None:
    """Without padding, which stock's losses over places count."""
    theirs, ours = pair(name)
    inputs = inputs_for(name, [40, 40])
    inputs |= labels_for(name, inputs["input_ids"])
    losses = [model(**inputs).loss for model in (theirs, ours)]
    torch.testing.assert_close(losses[1], losses[0], atol=1e-5, rtol=1e-5)
    for loss in losses:
        loss.backward()
    expected = dict(theirs.named_parameters())
    for parameter_name, parameter in ours.named_parameters():
        gradient = expected[parameter_name].grad
        assert (gradient is None) == (parameter.grad is None), parameter_name
        if gradient is not None:
            torch.testing.assert_close(
                parameter.grad,
                gradient,
                atol=1e-5,
                rtol=1e-4,
                msg=lambda text, n=parameter_name: f"{n}: {text}",
            )


GLOBALS = {
    "none": [],
    "first": [(0, 0), (1, 0)],
    "scattered": [(0, 0), (0, 7), (0, 29), (1, 3)],
    "one example only": [(1, 5), (1, 6)],
    "on padding": [(0, 2), (1, 35)],
    "many": [(0, i) for i in range(0, 36, 2)],
}


@pytest.mark.parametrize("places", GLOBALS.values(), ids=GLOBALS.keys())
@pytest.mark.parametrize("window", [8, [4, 8, 16]])
def test_any_global_mask_and_list_of_windows(places: list[tuple[int, int]], window: int | list[int]) -> None:
    theirs, ours = pair("LongformerModel", attention_window=window)
    inputs = inputs_for("LongformerModel", [37, 22])
    inputs["global_attention_mask"] = marks(2, 37, *places)
    with torch.no_grad():
        expected, actual = theirs(**inputs), ours(**inputs)
    assert_equal_where_real(expected, actual, inputs["attention_mask"])


@pytest.mark.parametrize("places", [[], [(0, 0), (0, 9), (1, 4)]], ids=["local", "global"])
def test_hidden_states_and_attentions_have_stocks_shapes_and_values(places: list[tuple[int, int]]) -> None:
    theirs, ours = pair("LongformerModel")
    inputs = inputs_for("LongformerModel", [32, 21])
    inputs["global_attention_mask"] = marks(2, 32, *places)
    asked = {"output_attentions": True, "output_hidden_states": True}
    with torch.no_grad():
        expected, actual = theirs(**inputs, **asked), ours(**inputs, **asked)
    real, is_global = inputs["attention_mask"].bool(), inputs["global_attention_mask"].bool()
    for a, b in zip(expected.attentions, actual.attentions, strict=True):
        assert a.shape == b.shape
        torch.testing.assert_close(b.transpose(1, 2)[real], a.transpose(1, 2)[real], atol=1e-5, rtol=1e-5)
    assert (actual.global_attentions is None) == (expected.global_attentions is None) == (not places)
    if places:
        # Where an example has fewer global tokens than another, stock fills up with junk, and we with 0.
        exists = torch.arange(int(is_global.sum(1).max())) < is_global.sum(1)[:, None]
        for a, b in zip(expected.global_attentions, actual.global_attentions, strict=True):
            assert a.shape == b.shape
            a, b = (x.permute(0, 3, 2, 1)[exists] for x in (a, b))
            torch.testing.assert_close(b, a, atol=1e-5, rtol=1e-5)
    for a, b in zip(expected.hidden_states, actual.hidden_states, strict=True):
        torch.testing.assert_close(
            b[inputs["attention_mask"].bool()], a[inputs["attention_mask"].bool()], atol=1e-5, rtol=1e-5
        )


@pytest.mark.parametrize("size", [8, 5])
def test_the_feed_forward_network_in_chunks(size: int) -> None:
    _, whole = pair("LongformerModel")
    _, chunked = pair("LongformerModel", chunk_size_feed_forward=size)
    inputs = inputs_for("LongformerModel", [31, 18])
    with torch.no_grad():
        torch.testing.assert_close(chunked(**inputs)[0], whole(**inputs)[0], atol=1e-5, rtol=1e-5)


def test_tuples_are_stocks() -> None:
    theirs, ours = pair("LongformerForTokenClassification")
    inputs = inputs_for("LongformerForTokenClassification", [16, 16])
    with torch.no_grad():
        expected = theirs(**inputs, return_dict=False, output_hidden_states=True)
        actual = ours(**inputs, return_dict=False, output_hidden_states=True)
    assert len(actual) == len(expected)
    torch.testing.assert_close(actual[0], expected[0], atol=1e-5, rtol=1e-5)


def test_inputs_embeds_and_explicit_positions_and_segments() -> None:
    theirs, ours = pair("LongformerModel")
    embeds = torch.randn(2, 24, 32, generator=torch.Generator().manual_seed(2))
    extra = {
        "position_ids": torch.arange(3, 27).expand(2, -1),
        "token_type_ids": (torch.arange(24) > 10).long().expand(2, -1),
    }
    with torch.no_grad():
        for given in ({}, extra):
            expected, actual = theirs(inputs_embeds=embeds, **given), ours(inputs_embeds=embeds, **given)
            torch.testing.assert_close(actual[0], expected[0], atol=1e-5, rtol=1e-5)


def test_checkpoints_go_both_ways(tmp_path: Any) -> None:
    theirs, ours = pair("LongformerForMaskedLM")
    inputs = inputs_for("LongformerForMaskedLM", [24, 24])
    theirs.save_pretrained(tmp_path / "theirs")
    ours.save_pretrained(tmp_path / "ours")
    loaded = longspan.LongformerForMaskedLM.from_pretrained(tmp_path / "theirs").eval()
    back = transformers.LongformerForMaskedLM.from_pretrained(tmp_path / "ours").eval()
    auto = transformers.AutoModelForMaskedLM.from_pretrained(tmp_path / "ours")
    assert type(auto) is stock.LongformerForMaskedLM
    with torch.no_grad():
        expected = theirs(**inputs).logits
        for model in (loaded, back, auto):
            torch.testing.assert_close(model(**inputs).logits, expected, atol=1e-5, rtol=1e-5)


def test_parameters_are_named_as_stocks() -> None:
    for name in HEADS:
        theirs, ours = pair(name)
        assert list(ours.state_dict()) == list(theirs.state_dict())


@pytest.mark.slow
def test_base_size_equals_stock() -> None:
    sizes = {
        "hidden_size": 768,
        "num_hidden_layers": 12,
        "num_attention_heads": 12,
        "intermediate_size": 3072,
    }
    theirs, ours = pair("LongformerModel", **sizes, attention_window=64, initializer_range=0.02)
    inputs = inputs_for("LongformerModel", [190, 150])
    inputs["global_attention_mask"] = marks(2, 190, (0, 0), (1, 0), (1, 77))
    with torch.no_grad():
        expected, actual = theirs(**inputs), ours(**inputs)
    assert_equal_where_real(expected, actual, inputs["attention_mask"])
