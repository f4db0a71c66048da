"""`generate` of our LED: what stock's says, without repeating a document for every beam."""

from typing import Any, cast

import pytest
import torch
from torch import Tensor

from longspan.models.led_cache import LEDCache
from tests.models.tiny import marks, tokens
from tests.models.tiny_led import documents, model, pair


def generated(one: Any, inputs: dict[str, Tensor], **settings: Any) -> Tensor:
    torch.manual_seed(0)
    return cast(Tensor, one.generate(**inputs, **{"max_new_tokens": 20, **settings}))


SETTINGS: dict[str, dict[str, Any]] = {
    "greedy": {"do_sample": False},
    "beams": {"num_beams": 4, "do_sample": False},
    "several of the beams": {"num_beams": 4, "num_return_sequences": 3, "do_sample": False},
    "length penalty": {"num_beams": 3, "length_penalty": 2.0, "min_new_tokens": 4, "do_sample": False},
    "no repeats": {"num_beams": 2, "no_repeat_ngram_size": 2, "do_sample": False},
    "sampling": {"do_sample": True, "temperature": 0.8, "top_k": 20, "num_return_sequences": 3},
    "sampled beams": {"do_sample": True, "num_beams": 3},
    "forced ends": {"num_beams": 2, "forced_bos_token_id": 5, "forced_eos_token_id": 2, "do_sample": False},
}


@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("lengths", [[32, 32], [31, 9]], ids=str)
def test_every_way_of_writing_is_stocks(settings: str, lengths: list[int]) -> None:
    theirs, ours = pair()
    inputs = documents(lengths)
    expected = generated(theirs, inputs, **SETTINGS[settings])
    said = generated(ours, inputs, **SETTINGS[settings])
    if SETTINGS[settings]["do_sample"]:
        # Stock draws a number for each encoder layer, though nothing is dropped: its words are others.
        assert len(said) == len(expected)
    else:
        assert torch.equal(said, expected)


@pytest.mark.parametrize("settings", ["greedy", "beams", "sampling"])
@pytest.mark.parametrize("window", [None, 3, [1, 50]], ids=str)
def test_a_cache_changes_nothing(settings: str, window: int | list[int] | None) -> None:
    ours, inputs = model(causal_window=window), documents([31, 9])
    cached = generated(ours, inputs, **SETTINGS[settings], max_new_tokens=40)
    assert torch.equal(
        cached, generated(ours, inputs, **SETTINGS[settings], max_new_tokens=40, use_cache=False)
    )


def test_global_tokens_are_carried_along() -> None:
    theirs, ours = pair()
    inputs = documents([40, 40])
    by_default = generated(
        ours, {name: inputs[name] for name in ("input_ids", "attention_mask")}, num_beams=2
    )
    assert torch.equal(by_default, generated(theirs, inputs, num_beams=2))
    inputs["global_attention_mask"] = marks(2, 40, *((example, at) for example in (0, 1) for at in range(12)))
    many = generated(ours, inputs, num_beams=2)
    assert torch.equal(many, generated(theirs, inputs, num_beams=2))
    assert not torch.equal(many, by_default)


def test_beams_share_the_document() -> None:
    """Keys and values of two documents, not of eight beams; the beams move within their documents."""
    ours, inputs = model(), documents([31, 9])
    out = ours.generate(**inputs, num_beams=4, max_new_tokens=6, return_dict_in_generate=True)
    cache = out.past_key_values
    assert isinstance(cache, LEDCache)
    assert cache.documents[0] is not None
    assert cache.documents[0].keys.shape == (2, 2, 31, 16)
    before = cache.documents[0].keys
    cache.reorder_cache(cast(Any, torch.tensor([1, 0, 3, 2, 4, 4, 4, 5])))
    assert cache.documents[0].keys is before
    cache.reset()
    assert cache.documents == [None, None] and cache.get_seq_length() == 0


def test_rows_of_a_document_are_those_of_repeated_documents() -> None:
    ours, inputs = model(), documents([31, 9])
    written = tokens(6, 7, seed=5)
    with torch.no_grad():
        shared = ours(**inputs, decoder_input_ids=written, output_attentions=True)
        repeated = {name: value.repeat_interleave(3, 0) for name, value in inputs.items()}
        each = ours(**repeated, decoder_input_ids=written, output_attentions=True)
    torch.testing.assert_close(shared.logits, each.logits, atol=1e-5, rtol=1e-5)
    for a, b in zip(shared.cross_attentions, each.cross_attentions, strict=True):
        torch.testing.assert_close(a, b, atol=1e-5, rtol=1e-5)


def test_encoded_documents_are_written_about() -> None:
    ours, inputs = model(), documents([31, 9])
    with torch.no_grad():
        encoded = ours.led.encoder(**inputs)
    given = {"encoder_outputs": encoded, "attention_mask": inputs["attention_mask"]}
    assert torch.equal(generated(ours, given, num_beams=3), generated(ours, inputs, num_beams=3))


def test_a_window_of_the_decoder_hides_what_is_far() -> None:
    """Two layers of windows of 2 reach 4 back: the fifth-last token changes nothing."""
    ours, inputs = model(causal_window=2), documents([20])
    written = tokens(1, 12, seed=6)
    other = written.clone()
    other[0, 3] = 9
    with torch.no_grad():
        a, b = (ours(**inputs, decoder_input_ids=one).logits[0] for one in (written, other))
    assert torch.equal(a[8:], b[8:])
    assert not torch.allclose(a[7], b[7], atol=1e-6)


def test_a_wide_window_of_the_decoder_is_everything() -> None:
    inputs, written = documents([20, 13]), tokens(2, 12, seed=6)
    with torch.no_grad():
        windowed, full = (
            model(causal_window=window)(**inputs, decoder_input_ids=written).logits for window in (11, None)
        )
    torch.testing.assert_close(windowed, full, atol=1e-5, rtol=1e-5)
