"""Hugging Face's own Longformer and LED models, made fast in place."""

import copy
import pickle
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from torch import Tensor
from transformers import LEDConfig

import longspan
from longspan.nn.longformer import LongformerSelfAttention
from tests.models.test_longformer_parity import HEADS, assert_equal_where_real, inputs_for, labels_for
from tests.models.test_longformer_training import trainer
from tests.models.tiny import marks, padding, stock_config, tokens


def longformer(name: str) -> Any:
    torch.manual_seed(0)
    return getattr(transformers, name)(stock_config()).eval()


def led(name: str = "LEDForConditionalGeneration", **changes: Any) -> Any:
    torch.manual_seed(0)
    sizes: dict[str, Any] = {
        "vocab_size": 99,
        "d_model": 32,
        "encoder_layers": 2,
        "decoder_layers": 2,
        "encoder_attention_heads": 4,
        "decoder_attention_heads": 4,
        "encoder_ffn_dim": 48,
        "decoder_ffn_dim": 48,
        "max_encoder_position_embeddings": 128,
        "max_decoder_position_embeddings": 32,
        "attention_window": 8,
        "init_std": 0.2,
    } | changes
    return getattr(transformers, name)(LEDConfig(**sizes)).eval()


def led_inputs() -> dict[str, Tensor]:
    ids, mask = tokens(2, 32), padding([32, 21])
    return {
        "input_ids": ids.masked_fill(mask == 0, 1),
        "attention_mask": mask,
        "global_attention_mask": marks(2, 32, (0, 0), (1, 0), (1, 7)),
    }


@pytest.mark.parametrize("name", HEADS)
def test_a_longformer_gives_the_same_and_goes_back(name: str) -> None:
    model = longformer(name)
    inputs, names = inputs_for(name, [31, 18]), list(model.state_dict())
    with torch.no_grad():
        before = model(**inputs)
        assert longspan.speed_up(model) is model
        fast = model(**inputs)
        assert list(model.state_dict()) == names
        assert any(isinstance(module, LongformerSelfAttention) for module in model.modules())
        assert longspan.restore(model) is model
        after = model(**inputs)
    assert_equal_where_real(before, fast, inputs["attention_mask"])
    assert not any("longspan" in type(module).__module__ for module in model.modules())
    for name in before:
        torch.testing.assert_close(after[name], before[name], atol=0, rtol=0)


def test_gradients_are_the_same() -> None:
    model = longformer("LongformerForTokenClassification")
    inputs = inputs_for("LongformerForTokenClassification", [40, 40])
    inputs |= labels_for("LongformerForTokenClassification", inputs["input_ids"])
    inputs["global_attention_mask"] = marks(2, 40, (0, 0), (1, 0))
    gradients: list[list[Tensor]] = []
    for change in (longspan.restore, longspan.speed_up):
        change(model).zero_grad()
        model(**inputs).loss.backward()
        gradients.append([p.grad.clone() for p in model.parameters()])
    for expected, actual in zip(*gradients, strict=True):
        torch.testing.assert_close(actual, expected, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("name", ["LEDModel", "LEDForConditionalGeneration", "LEDForQuestionAnswering"])
def test_an_led_gives_the_same(name: str) -> None:
    model = led(name)
    inputs = led_inputs() | {"decoder_input_ids": tokens(2, 6, seed=1)}
    with torch.no_grad():
        before, fast = model(**inputs), longspan.speed_up(model)(**inputs)
    for key in before:
        if key == "past_key_values":
            continue
        a, b = before[key], fast[key]
        if key == "encoder_last_hidden_state":
            a, b = (x[inputs["attention_mask"].bool()] for x in (a, b))
        torch.testing.assert_close(b, a, atol=1e-5, rtol=1e-5, msg=lambda text, key=key: f"{key}: {text}")


def test_an_led_returns_hidden_states_and_attentions() -> None:
    model = led()
    inputs = led_inputs() | {"decoder_input_ids": tokens(2, 6, seed=1)}
    asked = {"output_attentions": True, "output_hidden_states": True}
    with torch.no_grad():
        before, fast = model(**inputs, **asked), longspan.speed_up(model)(**inputs, **asked)
    real = inputs["attention_mask"].bool()
    for key in ("encoder_hidden_states", "encoder_attentions", "encoder_global_attentions"):
        for a, b in zip(before[key], fast[key], strict=True):
            assert a.shape == b.shape
            if key == "encoder_attentions":
                a, b = a.transpose(1, 2), b.transpose(1, 2)
            elif key == "encoder_global_attentions":  # of the second example, which has most
                a, b = (
                    a[1].transpose(0, 1)[None].expand(2, -1, -1, -1),
                    b[1].transpose(0, 1)[None].expand(2, -1, -1, -1),
                )
            torch.testing.assert_close(b[real], a[real], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("beams", [1, 3])
def test_an_led_generates_the_same(beams: int) -> None:
    model = led()
    inputs = led_inputs()
    settings = {"max_new_tokens": 8, "num_beams": beams, "do_sample": False}
    before = model.generate(**inputs, **settings)
    assert torch.equal(longspan.speed_up(model).generate(**inputs, **settings), before)


def test_training_goes_on_after_the_change() -> None:
    model = longspan.speed_up(longformer("LongformerForSequenceClassification"))
    model.gradient_checkpointing_enable()
    inputs = inputs_for("LongformerForSequenceClassification", [30, 22]) | {"labels": torch.tensor([0, 1])}
    with torch.no_grad():
        before = model(**inputs).loss
    optimizer = torch.optim.AdamW(model.train().parameters(), lr=1e-3)
    for _ in range(12):
        model(**inputs).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    with torch.no_grad():
        assert model.eval()(**inputs).loss < before
    trained = longspan.restore(model).eval()
    with torch.no_grad():
        expected = trained(**inputs).logits
        torch.testing.assert_close(
            longspan.speed_up(trained)(**inputs).logits, expected, atol=1e-5, rtol=1e-5
        )


def test_a_second_time_changes_nothing() -> None:
    model = longspan.speed_up(longformer("LongformerModel"))
    kinds = [type(module) for module in model.modules()]
    assert [type(module) for module in longspan.speed_up(model).modules()] == kinds


def test_copies_pickles_and_saved_models_are_whole(tmp_path: Path) -> None:
    model = longspan.speed_up(longformer("LongformerForMaskedLM"))
    inputs = inputs_for("LongformerForMaskedLM", [24, 24])
    model.save_pretrained(tmp_path)
    copies = [copy.deepcopy(model), pickle.loads(pickle.dumps(model))]
    copies.append(transformers.LongformerForMaskedLM.from_pretrained(tmp_path).eval())
    with torch.no_grad():
        expected = model(**inputs).logits
        for each in copies:
            torch.testing.assert_close(each(**inputs).logits, expected, atol=1e-5, rtol=1e-5)


def test_trainer_trains_it(tmp_path: Path) -> None:
    model = longspan.speed_up(longformer("LongformerForSequenceClassification"))
    before = copy.deepcopy(model.state_dict())
    trainer(model, tmp_path, max_steps=2).train()
    assert any(not torch.equal(before[name], weight) for name, weight in model.state_dict().items())


def test_models_under_hooks_of_accelerate_are_refused() -> None:
    from accelerate.hooks import ModelHook, add_hook_to_module

    model = longformer("LongformerModel")
    add_hook_to_module(model.encoder, ModelHook())
    with pytest.raises(ValueError, match="hooks of accelerate"):
        longspan.speed_up(model)


def test_nothing_quadratic_is_left() -> None:
    """The mask alone would take 4 n^2 bytes: 1.6 GB at 20,000 tokens."""
    sizes = {"hidden_size": 8, "num_attention_heads": 1, "intermediate_size": 8, "num_hidden_layers": 1}
    model = transformers.LongformerModel(stock_config(**sizes, max_position_embeddings=20002)).eval()
    longspan.speed_up(model)
    largest = 0

    class Watch(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            nonlocal largest
            out = func(*args, **(kwargs or {}))
            if isinstance(out, Tensor):
                largest = max(largest, out.numel())
            return out

    with torch.no_grad(), Watch():
        model(tokens(1, 20000), global_attention_mask=marks(1, 20000, (0, 0)))
    assert largest < 50 * 20000


def test_models_without_longformer_attention_are_refused() -> None:
    model = transformers.RobertaModel(
        transformers.RobertaConfig(
            vocab_size=20, hidden_size=8, num_hidden_layers=1, num_attention_heads=1, intermediate_size=8
        )
    )
    with pytest.raises(ValueError, match="RobertaModel without anything to speed up"):
        longspan.speed_up(model)
    assert longspan.restore(model) is model
