"""Our LED against that of transformers, with the same weights."""

from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from torch import Tensor

import longspan
from tests.models.test_longformer_parity import assert_equal_where_real
from tests.models.tiny import marks, padding, tokens
from tests.models.tiny_led import SIZES, documents, model, pair

NAMES = ["LEDModel", "LEDForConditionalGeneration", "LEDForQuestionAnswering"]


def answers(outputs: Any, mask: Tensor) -> dict[str, Any]:
    """All but the cache; what belongs to padded tokens of the document is 0."""
    said = {name: value for name, value in outputs.items() if name != "past_key_values"}
    for name in ("encoder_last_hidden_state", "encoder_hidden_states"):
        if name in said:
            states = said[name] if isinstance(said[name], tuple) else (said[name],)
            said[name] = tuple(state * mask[..., None] for state in states)
    return said


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("lengths", [[32, 32], [31, 9], [24, 40]], ids=str)
def test_every_class_equals_stock(name: str, lengths: list[int]) -> None:
    theirs, ours = pair(name)
    inputs = documents(lengths)
    with torch.no_grad():
        expected, actual = theirs(**inputs), ours(**inputs)
    mask = inputs["attention_mask"]
    assert_equal_where_real(answers(expected, mask), answers(actual, mask), mask)


@pytest.mark.parametrize("name", NAMES[1:])
def test_losses_and_gradients_equal_stocks(name: str) -> None:
    theirs, ours = pair(name)
    inputs = documents([40, 24])
    if name == "LEDForQuestionAnswering":
        inputs |= {"start_positions": torch.tensor([3, 500]), "end_positions": torch.tensor([6, 500])}
    else:
        labels = tokens(2, 11, seed=3)
        labels[1, 6:] = -100
        inputs["labels"] = labels
    losses = [one(**inputs).loss for one in (theirs, ours)]
    torch.testing.assert_close(losses[1], losses[0], atol=1e-5, rtol=1e-5)
    for loss in losses:
        loss.backward()
    expected = dict(theirs.named_parameters())
    assert [*expected] == [one for one, _ in ours.named_parameters()]
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


# As many global tokens in each document: stock fills the columns of missing ones with 1 / length.
@pytest.mark.parametrize("globals_", [[], [(0, 0), (0, 7), (1, 3), (1, 9)], [(0, 2), (1, 5)]], ids=str)
@pytest.mark.parametrize("masked", [False, True], ids=["all seen", "output padded"])
def test_everything_that_can_be_asked_for(globals_: list[tuple[int, int]], masked: bool) -> None:
    theirs, ours = pair()
    inputs = documents([32, 32])
    inputs["global_attention_mask"] = marks(2, 32, *globals_)
    inputs["decoder_input_ids"] = tokens(2, 9, seed=2)
    if masked:
        inputs["decoder_attention_mask"] = padding([9, 5])
    asked = {"output_attentions": True, "output_hidden_states": True}
    with torch.no_grad():
        expected, actual = theirs(**inputs, **asked), ours(**inputs, **asked)
    mask = inputs["attention_mask"]
    expected, actual = answers(expected, mask), answers(actual, mask)
    if masked:
        # A padded token sees nothing here, and something there; nobody looks at it.
        for name in ("logits", "decoder_hidden_states", "decoder_attentions", "cross_attentions"):
            for said in (expected, actual):
                value = said[name]
                rows = value if isinstance(value, tuple) else (value,)
                dim = 2 if name in ("decoder_attentions", "cross_attentions") else 1
                said[name] = tuple(
                    torch.cat([row[:1].flatten(), row[1:].narrow(dim, 0, 5).flatten()]) for row in rows
                )
    assert_equal_where_real(expected, actual, None)


def test_reading_piece_by_piece_equals_stock() -> None:
    theirs, ours = pair()
    inputs, written = documents([31, 9]), tokens(2, 12, seed=4)
    with torch.no_grad():
        expected = theirs(**inputs, decoder_input_ids=written).logits
        first = ours(**inputs, decoder_input_ids=written[:, :5])
        said, cache = [first.logits], first.past_key_values
        for piece in written[:, 5:].split([1, 1, 4, 1], 1):
            out = ours(
                attention_mask=inputs["attention_mask"],
                encoder_outputs=(first.encoder_last_hidden_state,),
                decoder_input_ids=piece,
                past_key_values=cache,
            )
            said.append(out.logits)
    torch.testing.assert_close(torch.cat(said, 1), expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("name", NAMES)
def test_checkpoints_go_both_ways(name: str, tmp_path: Path) -> None:
    theirs, ours = pair(name)
    inputs = documents([24, 17])
    theirs.save_pretrained(tmp_path / "theirs")
    ours.save_pretrained(tmp_path / "ours")
    for loaded in (
        getattr(longspan, name).from_pretrained(tmp_path / "theirs"),
        getattr(longspan, name).from_pretrained(tmp_path / "ours"),
        getattr(transformers, name).from_pretrained(tmp_path / "ours"),
    ):
        loaded.eval()
        assert loaded.state_dict().keys() == theirs.state_dict().keys()
        with torch.no_grad():
            torch.testing.assert_close(loaded(**inputs)[0], ours(**inputs)[0], atol=1e-5, rtol=1e-5)


def test_a_bare_model_goes_into_a_head_and_back(tmp_path: Path) -> None:
    bare = model("LEDModel")
    bare.save_pretrained(tmp_path / "bare")
    head = longspan.LEDForConditionalGeneration.from_pretrained(tmp_path / "bare")
    assert torch.equal(head.led.shared.weight, bare.shared.weight)
    assert head.lm_head.weight is head.led.shared.weight
    head.save_pretrained(tmp_path / "head")
    again = longspan.LEDModel.from_pretrained(tmp_path / "head")
    for key, value in again.state_dict().items():
        assert torch.equal(value, bare.state_dict()[key]), key


@pytest.mark.parametrize("pickled", [False, True], ids=["safetensors", "pickle"])
def test_checkpoints_of_the_original_repository_load(tmp_path: Path, pickled: bool) -> None:
    """BART's names, one-sided windows, and two rows before the first position."""
    import json

    from safetensors.torch import save_file

    ours = model()
    weights = {}
    for name, weight in ours.state_dict().items():
        if name == "lm_head.weight" or name.endswith("coder.embed_tokens.weight"):
            continue
        if name.endswith("embed_positions.weight"):
            weight = torch.cat([torch.full((2, weight.shape[1]), torch.nan), weight])
        weights[name.replace("led.", "model.", 1) if name.startswith("led.") else name] = weight.clone()
    if pickled:
        torch.save(weights, tmp_path / "pytorch_model.bin")
    else:
        save_file(weights, tmp_path / "model.safetensors")
    fields = {
        **SIZES,
        "model_type": "bart",
        "attention_mode": "sliding_chunks",
        "autoregressive": False,
        "attention_window": [4, 4, 4],
        "attention_dilation": [1, 1, 1],
    }
    (tmp_path / "config.json").write_text(json.dumps(fields))
    loaded = longspan.LEDForConditionalGeneration.from_pretrained(tmp_path)
    assert loaded.config.attention_window == [8, 8, 8]
    inputs = documents([24, 17])
    with torch.no_grad():
        assert torch.equal(loaded(**inputs).logits, ours(**inputs).logits)
    fields["max_encoder_position_embeddings"] = 150
    (tmp_path / "config.json").write_text(json.dumps(fields))
    with pytest.raises(ValueError, match="has 202 rows, and max_encoder_position_embeddings is 150"):
        longspan.LEDForConditionalGeneration.from_pretrained(tmp_path)


def test_more_words_go_into_a_model() -> None:
    ours = model()
    ours.final_logits_bias.normal_()
    before = ours.final_logits_bias.clone()
    ours.resize_token_embeddings(105)
    assert ours.final_logits_bias.shape == (1, 105)
    assert torch.equal(ours.final_logits_bias[:, :99], before)
    assert ours(**documents([12])).logits.shape[-1] == 105
