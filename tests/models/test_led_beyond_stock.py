"""What our LED does, or refuses clearly, where stock crashes or is silent."""

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModel, AutoModelForQuestionAnswering, AutoModelForSeq2SeqLM, EncoderDecoderCache
from transformers.cache_utils import DynamicCache

import longspan
from tests.models.tiny import padding, tokens
from tests.models.tiny_led import config, documents, model, pair


def test_the_first_token_is_global_by_default() -> None:
    ours, inputs = model(), documents([40, 17])
    marked = dict(inputs)
    first = marked.pop("global_attention_mask")
    with torch.no_grad():
        assert torch.equal(ours(**marked).logits, ours(**inputs).logits)
        none = ours(**marked, global_attention_mask=torch.zeros_like(first)).logits
        embedded = ours(
            inputs_embeds=ours.led.shared(inputs["input_ids"]),
            attention_mask=inputs["attention_mask"],
            decoder_input_ids=ours.prepare_decoder_input_ids_from_labels(inputs["input_ids"]),
        ).logits
    assert not torch.allclose(none, ours(**marked).logits, atol=1e-3)
    torch.testing.assert_close(embedded, ours(**inputs).logits, atol=1e-5, rtol=1e-5)


def test_padding_on_the_left_moves_the_first_token() -> None:
    ours = model()
    inputs = documents([20, 13], left=True)
    first = inputs.pop("global_attention_mask")
    with torch.no_grad():
        by_default = ours(**inputs, decoder_input_ids=tokens(2, 5)).logits
        named = ours(**inputs, global_attention_mask=first, decoder_input_ids=tokens(2, 5)).logits
    assert first[1].argmax() == 7
    assert torch.equal(by_default, named)


@pytest.mark.parametrize("window", [7, 2, [6, 8, 5]], ids=str)
def test_any_window_and_any_length(window: int | list[int]) -> None:
    ours = model(attention_window=window)
    together = documents([31, 9, 1])
    with torch.no_grad():
        packed = ours(**together, decoder_input_ids=tokens(3, 5)).logits
        for at, length in enumerate([31, 9, 1]):
            alone = {name: value[at : at + 1, :length] for name, value in together.items()}
            single = ours(**alone, decoder_input_ids=tokens(3, 5)[at : at + 1]).logits
            torch.testing.assert_close(packed[at : at + 1], single, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        (
            {"input_ids": tokens(1, 201)},
            "the document has 201 tokens, and max_encoder_position_embeddings is 200",
        ),
        ({"input_ids": tokens(1, 65)}, "the output has 65 tokens, and max_decoder_position_embeddings is 64"),
        ({"input_ids": tokens(2, 9), "decoder_input_ids": tokens(3, 4)}, "3 rows for 2 documents"),
        (
            {"input_ids": tokens(2, 9), "attention_mask": padding([8, 3])},
            r"attention_mask has shape \(2, 8\)",
        ),
        (
            {
                "input_ids": tokens(2, 9),
                "decoder_input_ids": tokens(2, 4),
                "decoder_attention_mask": padding([5, 3]),
            },
            r"decoder_attention_mask has shape \(2, 5\); it must be \(2, 4\)",
        ),
        ({"inputs_embeds": torch.zeros(1, 4, 32)}, "and so is input_ids"),
        ({}, "give one of them"),
        ({"input_ids": tokens(1, 4), "use_cache": True}, "torch.no_grad"),
    ],
    ids=str,
)
def test_mistakes_are_named(inputs: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        model()(**inputs)


def test_a_cache_of_another_kind_is_refused() -> None:
    cache = EncoderDecoderCache(DynamicCache(), DynamicCache())
    with torch.no_grad(), pytest.raises(ValueError, match="is a EncoderDecoderCache; it must be an LEDCache"):
        model()(input_ids=tokens(1, 4), past_key_values=cache)


def test_assisted_generation_is_refused() -> None:
    ours, inputs = model(), documents([31])
    asked: Any = ours
    with pytest.raises(ValueError, match="prompt_lookup_num_tokens is 2; assisted generation takes back"):
        asked.generate(**inputs, prompt_lookup_num_tokens=2, max_new_tokens=5)
    with pytest.raises(ValueError, match="assistant_model is given; .* LEDForConditionalGeneration cannot"):
        asked.generate(**inputs, assistant_model=model(), max_new_tokens=5)


def test_generate_stops_at_the_last_position() -> None:
    ours = model(max_decoder_position_embeddings=8)
    with pytest.raises(ValueError, match="the output has 9 tokens"):
        ours.generate(**documents([12]), min_new_tokens=12, max_new_tokens=12, do_sample=False)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"d_model": 30}, "d_model is 30; it must be a multiple of encoder_attention_heads = 4"),
        ({"attention_window": 1}, "attention_window is 1 in layer 0"),
        ({"attention_window": [8, 8]}, "attention_window has 2 items"),
        ({"causal_window": 0}, "causal_window is 0 in layer 0; it must be an integer >= 1, or None"),
        ({"causal_window": [4]}, "causal_window has 1 items"),
    ],
    ids=str,
)
def test_configurations_that_cannot_be(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        config(**fields)


@pytest.mark.parametrize(
    ("changes", "kind"),
    [
        ({}, "led"),
        ({"attention_window": [8, 4, 8]}, "led"),
        ({"attention_window": 7}, "longspan_led"),
        ({"attention_dilation": 2}, "longspan_led"),
        ({"causal_window": 4}, "longspan_led"),
    ],
    ids=str,
)
def test_what_stock_cannot_compute_has_a_type_of_its_own(
    changes: dict[str, Any], kind: str, tmp_path: Path
) -> None:
    ours = model(**changes)
    assert ours.config.to_dict()["model_type"] == kind
    ours.save_pretrained(tmp_path)
    again = longspan.LEDForConditionalGeneration.from_pretrained(tmp_path)
    assert {**again.config.to_dict(), "_name_or_path": ""} == {**ours.config.to_dict(), "dtype": "float32"}
    inputs = documents([31, 9])
    with torch.no_grad():
        assert torch.equal(again(**inputs).logits, ours(**inputs).logits)


def test_auto_classes_find_ours(tmp_path: Path) -> None:
    for name, auto in (
        ("LEDModel", AutoModel),
        ("LEDForConditionalGeneration", AutoModelForSeq2SeqLM),
        ("LEDForQuestionAnswering", AutoModelForQuestionAnswering),
    ):
        model(name, causal_window=4).save_pretrained(tmp_path / name)
        assert type(auto.from_pretrained(tmp_path / name)) is getattr(longspan, name)


@pytest.mark.parametrize("reentrant", [False, True])
def test_gradient_checkpointing_gives_the_same_gradients(reentrant: bool) -> None:
    inputs = {**documents([31, 9]), "labels": tokens(2, 7, seed=1)}
    gradients = []
    for checkpointing in (False, True):
        ours = model(dropout=0.0, causal_window=3).train()
        if checkpointing:
            ours.gradient_checkpointing_enable({"use_reentrant": reentrant})
        ours(**inputs).loss.backward()
        gradients.append({name: one.grad for name, one in ours.named_parameters() if one.grad is not None})
    assert gradients[0].keys() == gradients[1].keys()
    for name, gradient in gradients[0].items():
        torch.testing.assert_close(gradients[1][name], gradient, msg=name)


def test_training_is_seeded_and_bf16_runs() -> None:
    inputs = {**documents([31, 9]), "labels": tokens(2, 7, seed=1)}
    ours = model(dropout=0.2, attention_dropout=0.1, encoder_layerdrop=0.2, decoder_layerdrop=0.2).train()
    losses = []
    for _ in range(2):
        torch.manual_seed(3)
        losses.append(ours(**inputs).loss)
    assert torch.equal(losses[0], losses[1])
    with torch.no_grad():
        half, full = model().to(torch.bfloat16)(**inputs).loss, model()(**inputs).loss
    torch.testing.assert_close(half.float(), full, atol=0.1, rtol=0.0)


def test_tuples_are_stocks() -> None:
    theirs, ours = pair()
    inputs = documents([16, 16])
    with torch.no_grad():
        expected, actual = (one(**inputs, use_cache=False, return_dict=False) for one in (theirs, ours))
    assert len(expected) == len(actual)
    torch.testing.assert_close(actual[0], expected[0], atol=1e-5, rtol=1e-5)
