"""An LED made of BART computes what that computed, and reads longer documents."""

from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from torch import Tensor
from transformers import PreTrainedModel

import longspan
from longspan.conversion.into_led import into_led, obstacles
from longspan.conversion.lengthen import lengthen
from longspan.conversion.position_tables import Method, extend
from longspan.conversion.saving import save_lengthened
from tests.conversion.test_lengthen import load_as_the_card_says, save_short
from tests.models.tiny_led import documents

LENGTH = 40
ENDINGS = ["Model", "ForConditionalGeneration", "ForQuestionAnswering"]


def bart(ending: str = "ForConditionalGeneration", **fields: Any) -> Any:
    """A tiny BART, in eval mode; no weight is 0 or 1 by default."""
    sizes: dict[str, Any] = {
        "vocab_size": 99,
        "d_model": 32,
        "encoder_layers": 2,
        "decoder_layers": 3,
        "encoder_attention_heads": 4,
        "decoder_attention_heads": 2,
        "encoder_ffn_dim": 48,
        "decoder_ffn_dim": 40,
        "max_position_embeddings": LENGTH,
        "activation_function": "relu",
    }
    config = transformers.BartConfig(**(sizes | fields))
    torch.manual_seed(0)
    model = getattr(transformers, f"Bart{ending}")(config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.1)
        if ending == "ForConditionalGeneration":
            model.final_logits_bias.normal_()
    return model.eval()


def said(model: PreTrainedModel, lengths: list[int]) -> Tensor:
    inputs = documents(lengths)
    inputs.pop("global_attention_mask")
    with torch.no_grad():
        return model(**inputs)[0]


@pytest.mark.parametrize("ending", ENDINGS)
def test_the_long_model_computes_what_the_short_one_did(ending: str) -> None:
    short = bart(ending)
    before = {name: weight.clone() for name, weight in short.state_dict().items()}
    long = into_led(short, max_length=101, window=80)
    assert type(long) is getattr(longspan, f"LED{ending}")
    torch.testing.assert_close(said(long, [40, 17]), said(short, [40, 17]), atol=1e-5, rtol=1e-5)
    assert all(torch.equal(weight, before[name]) for name, weight in short.state_dict().items())


def test_it_writes_what_the_short_one_wrote() -> None:
    short: Any = bart()
    short.generation_config.forced_bos_token_id = 7
    long: Any = into_led(short, max_length=101, window=80)
    inputs = documents([40, 17])
    inputs.pop("global_attention_mask")
    settings: dict[str, Any] = {"num_beams": 3, "max_new_tokens": 15, "do_sample": False}
    expected = short.generate(**inputs, **settings)
    assert torch.equal(long.generate(**inputs, **settings), expected)
    assert bool((expected[:, 1] == 7).all())


@pytest.mark.parametrize("method", ["copy", "random", "interpolate"])
def test_only_the_encoder_s_positions_grow(method: Method) -> None:
    short = bart("Model")
    long: Any = into_led(short, max_length=101, window=8, positions=method)
    learned = short.encoder.embed_positions.weight[2:]
    generator = torch.Generator().manual_seed(0)
    wanted = extend(learned, 101, offset=0, method=method, generator=generator)
    assert torch.equal(long.encoder.embed_positions.weight, wanted)
    assert torch.equal(long.decoder.embed_positions.weight, short.decoder.embed_positions.weight[2:])
    assert long.config.max_decoder_position_embeddings == LENGTH
    with torch.no_grad():
        out = long(**documents([101, 64]), decoder_input_ids=documents([9, 9])["input_ids"])
    assert out.last_hidden_state.isfinite().all()
    with pytest.raises(ValueError, match="the document has 102 tokens"):
        long(**documents([102]))


def test_an_led_becomes_a_longer_one() -> None:
    led = into_led(bart(), max_length=60, window=7)
    longer = into_led(led, max_length=130, window=80)
    assert longer.config.max_encoder_position_embeddings == 130
    torch.testing.assert_close(said(longer, [40, 17]), said(bart(), [40, 17]), atol=1e-5, rtol=1e-5)
    fields: dict[str, Any] = {**led.config.to_dict(), "attention_window": 8}
    stock = transformers.LEDModel(transformers.LEDConfig(**fields))
    assert type(lengthen(stock, 70, 8)) is longspan.LEDModel


def test_from_folder_to_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    short = bart()
    save_short(short, tmp_path / "short")
    long = lengthen(tmp_path / "short", 100, 80)
    tokenizer = save_lengthened(long, tmp_path / "long", tokenizer_source=tmp_path / "short")
    assert tokenizer is not None and tokenizer.model_max_length == 100
    assert "that of transformers loads it too" in (tmp_path / "long" / "README.md").read_text()
    loaded = load_as_the_card_says(tmp_path / "long", monkeypatch)
    stock = transformers.LEDForConditionalGeneration.from_pretrained(tmp_path / "long")
    for model in (loaded, stock):
        torch.testing.assert_close(said(model.eval(), [40, 17]), said(short, [40, 17]), atol=1e-5, rtol=1e-5)


def test_other_heads_stay_in_place() -> None:
    short = bart("ForSequenceClassification", eos_token_id=2, num_labels=3)
    assert "its class is BartForSequenceClassification" in obstacles(short)[0]
    assert lengthen(short, 100, 16) is short


@pytest.mark.parametrize(
    ("model", "arguments", "message"),
    [
        ({"scale_embedding": True}, {}, "config.scale_embedding is True, and must be False"),
        ({}, {"max_length": 39}, "this model reads 40 tokens already"),
        ({"ending": "ForCausalLM"}, {}, "its class is BartForCausalLM"),
    ],
)
def test_what_cannot_be_is_refused(model: dict[str, Any], arguments: dict[str, Any], message: str) -> None:
    how: dict[str, Any] = {"max_length": 100, "window": 8, **arguments}
    with pytest.raises(ValueError, match=message):
        into_led(bart(**model), **how)


def test_a_roberta_is_no_led() -> None:
    roberta = transformers.RobertaModel(transformers.RobertaConfig(num_hidden_layers=1, hidden_size=24))
    with pytest.raises(ValueError, match="its model_type is 'roberta', and must be one of bart"):
        lengthen(roberta, 600, 8, into="led")
