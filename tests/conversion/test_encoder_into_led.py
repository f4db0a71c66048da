"""An encoder that becomes half of an LED."""

import math
from typing import Any

import pytest
import torch

from longspan.conversion.encoder_into_led import encoder_into_led
from longspan.tasks.models import head_parameters
from longspan.training.optimizer import make_optimizer
from longspan.training.recipe import OptimizerSettings
from tests.conversion.short_models import short_model
from tests.conversion.tiny_models import tiny
from tests.models import tiny_led


@pytest.mark.parametrize("name", ["RobertaModel", "RobertaForMaskedLM", "BertModel"])
@torch.no_grad()
def test_the_encoder_computes_what_it_did(name: str) -> None:
    short: Any = short_model(name, layer_norm_eps=1e-5)
    long: Any = encoder_into_led(short, max_length=100, window=64, decoder_layers=2)
    ids = torch.randint(5, 99, (2, 30), generator=torch.Generator().manual_seed(3))
    mask = torch.ones_like(ids)
    expected = short.base_model(ids, attention_mask=mask).last_hidden_state
    for is_global in (mask * 0, torch.zeros_like(mask).index_fill_(1, torch.tensor([0, 7]), 1)):
        found = long.get_encoder()(ids, attention_mask=mask, global_attention_mask=is_global)
        torch.testing.assert_close(found.last_hidden_state, expected, atol=1e-5, rtol=1e-5)


@torch.no_grad()
def test_the_decoder_begins_with_layers_of_the_encoder() -> None:
    short: Any = short_model("RobertaModel", num_hidden_layers=4)
    long: Any = encoder_into_led(short, max_length=100, window=8, decoder_layers=2, max_output=70)
    first, last = (short.encoder.layer[at] for at in (0, 3))
    for layer, source in zip(long.led.decoder.layers, (first, last), strict=True):
        assert torch.equal(layer.self_attn.q_proj.weight, source.attention.self.query.weight)
        assert torch.equal(layer.self_attn.out_proj.bias, source.attention.output.dense.bias)
        assert torch.equal(layer.fc2.weight, source.output.dense.weight)
    # No word is much more likely than another before there is training.
    words = torch.arange(10, 60)[None]
    assert abs(float(long(words, labels=words).loss) - math.log(99)) < 1.0
    table = long.led.decoder.embed_positions.weight
    # Positions beyond the source's 40 are repeated.
    assert table.shape == (70, 32) and torch.equal(table[45], table[5])
    ids = torch.randint(5, 99, (1, 90), generator=torch.Generator().manual_seed(3))
    assert long.generate(ids, max_new_tokens=5, min_new_tokens=5, do_sample=False).shape == (1, 6)
    other = encoder_into_led(short, max_length=100, window=8, decoder_layers=2, max_output=70)
    for one, same in zip(long.parameters(), other.parameters(), strict=True):
        assert torch.equal(one, same)


def test_writing_begins_with_what_texts_begin_with() -> None:
    roberta = short_model("RobertaModel", bos_token_id=3, eos_token_id=4)
    bert = short_model("BertModel", sep_token_id=4)
    for source, start, expected in ((roberta, None, 3), (bert, 7, 7), (bert, None, 4)):
        long: Any = encoder_into_led(source, max_length=100, window=8, decoder_layers=1, start=start)
        assert long.config.eos_token_id == 4
        assert long.config.decoder_start_token_id == long.config.bos_token_id == expected
        assert int(long.generate(torch.tensor([[5, 6]]), max_new_tokens=1)[0, 0]) == expected


def test_the_decoder_learns_as_a_head_does() -> None:
    """Nothing of it but the embeddings, which the encoder shares, was learned for this before."""
    long = encoder_into_led(short_model("RobertaModel"), max_length=100, window=8, decoder_layers=1)
    names, heads = {name for name, _ in long.named_parameters()}, head_parameters(long)
    assert heads == {name for name in names if name.startswith("led.decoder.")}
    assert "led.shared.weight" in names - heads and any(name.startswith("led.encoder.") for name in names)
    settings = OptimizerSettings(lr=1e-4, head_lr=1e-3)
    groups = make_optimizer(long, settings, heads=heads, no_decay=()).param_groups
    rates = {id(weight): group["lr"] for group in groups for weight in group["params"]}
    assert {name: rates[id(weight)] for name, weight in long.named_parameters()} == {
        name: 1e-3 if name in heads else 1e-4 for name in names
    }


@pytest.mark.parametrize("name", ["t5", "marian"])
def test_decoders_of_other_models_are_heads_too(name: str) -> None:
    model: Any = tiny(name)
    heads = head_parameters(model)
    assert heads and all(".decoder." in f".{one}" or one.startswith("lm_head") for one in heads)
    shared = model.get_input_embeddings().weight
    assert not any(weight is shared for one, weight in model.named_parameters() if one in heads)


def test_a_head_that_reads_is_the_head() -> None:
    heads = head_parameters(tiny_led.model("LEDForQuestionAnswering"))
    assert heads == {"qa_outputs.weight", "qa_outputs.bias"}


def test_mistakes() -> None:
    with pytest.raises(ValueError, match="decoder_layers is 3; it must be from 1 to the encoder's 2"):
        encoder_into_led(short_model("RobertaModel"), max_length=100, window=8, decoder_layers=3)
