"""An encoder that becomes half of an LED."""

import math
from typing import Any

import pytest
import torch

from longspan.conversion.encoder_into_led import encoder_into_led
from tests.conversion.short_models import short_model


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


def test_mistakes() -> None:
    with pytest.raises(ValueError, match="decoder_layers is 3; it must be from 1 to the encoder's 2"):
        encoder_into_led(short_model("RobertaModel"), max_length=100, window=8, decoder_layers=3)
