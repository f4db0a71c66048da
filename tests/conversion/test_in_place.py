"""Models lengthened in place against the short ones, and against transformers' dense attention."""

import copy
import pickle
from pathlib import Path
from typing import Any, cast

import pytest
import torch
import transformers as hf
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from longspan.conversion.architectures import ARCHITECTURES, REFUSED, architecture_of
from longspan.conversion.in_place import lengthen_in_place, load_in_place
from tests.conversion.tiny_models import (
    LOCAL_ATTENTION,
    MODELS,
    OLD_LENGTH,
    Batch,
    answer,
    batch,
    decoder_ids,
    dense_twin,
    is_seq2seq,
    tiny,
)

LONG = 100
WINDOW = 12
CAUSAL = ("gpt2", "llama", "roberta decoder", "bart decoder")
SEQ2SEQ = ("bart", "mbart", "pegasus", "marian", "t5")
WRITERS = ("gpt2", "llama", *SEQ2SEQ)


def lengthened(name: str, window: int = WINDOW, **more: Any) -> hf.PreTrainedModel:
    return lengthen_in_place(tiny(name), max_length=LONG, window=window, **more)


def assert_close(actual: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(actual, expected, atol=1e-5, rtol=1e-5)


def test_every_architecture_has_a_model_here() -> None:
    assert set(ARCHITECTURES) <= set(MODELS)


@pytest.mark.parametrize("name", MODELS)
@torch.no_grad()
def test_short_inputs_give_what_the_short_model_gave(name: str) -> None:
    model = tiny(name)
    given = batch(24)
    before = answer(model, given)
    long = lengthen_in_place(model, max_length=LONG, window=64)
    assert long is model
    assert_close(answer(long, given), before)


def seen(name: str, given: Batch, is_global: Tensor | None) -> Tensor:
    """[2, length, length] bool: who sees whom, from the definition."""
    length = given.is_real.shape[1]
    query, key = torch.arange(length)[:, None], torch.arange(length)
    near = (query >= key) & (query - key < WINDOW) if name in CAUSAL else (query - key).abs() <= WINDOW // 2
    sees = near.expand(2, -1, -1)
    if is_global is not None:
        sees = sees | is_global[:, :, None] | is_global[:, None, :]
        if name in CAUSAL:
            sees = sees & (key <= query)
    return sees & given.is_real[:, None]


def additive(sees: Tensor) -> Tensor:
    return torch.where(sees, 0.0, torch.finfo(torch.float32).min)[:, None]


def dense_mask(name: str, given: Batch, is_global: Tensor | None = None) -> Any:
    """What transformers' eager attention needs to see the same."""
    sees = seen(name, given, is_global)
    if name != "modernbert":
        return additive(sees)
    distance = (torch.arange(sees.shape[1])[:, None] - torch.arange(sees.shape[1])).abs()
    local = distance <= LOCAL_ATTENTION // 2
    if is_global is not None:
        local = local | is_global[:, :, None] | is_global[:, None, :]
    return {"full_attention": additive(sees), "sliding_attention": additive(sees & local)}


def reader(model: hf.PreTrainedModel) -> hf.PreTrainedModel:
    """The part that reads long inputs: the encoder of an encoder-decoder model, or all of it."""
    return cast(Any, model).get_encoder() if is_seq2seq(model) else model


@pytest.mark.parametrize("with_globals", [False, True], ids=["window", "globals"])
@pytest.mark.parametrize("name", MODELS)
@torch.no_grad()
def test_long_inputs_agree_with_a_dense_mask(name: str, with_globals: bool) -> None:
    model = lengthened(name)
    given = batch(LONG, padding=17)
    is_global = None
    more: dict[str, Tensor] = {}
    if with_globals:
        is_global = torch.zeros(2, LONG, dtype=torch.bool)
        is_global[0, [0, 50]] = is_global[1, [0, 3, 70]] = True
        more["global_attention_mask"] = is_global.long()
    actual = reader(model)(**given.inputs, **more)[0]
    mask = dense_mask(name, given, is_global)
    expected = reader(dense_twin(model))(given.inputs["input_ids"], attention_mask=mask)[0]
    assert_close(actual[given.is_real], expected[given.is_real])


@pytest.mark.parametrize("name", SEQ2SEQ)
@torch.no_grad()
def test_decoders_see_all_of_themselves_and_of_the_encoder(name: str) -> None:
    model = lengthened(name)
    given = batch(LONG, padding=17)
    decoder_mask = torch.ones(2, 30, dtype=torch.long)
    decoder_mask[1, -4:] = 0
    more = {"decoder_input_ids": decoder_ids(30), "decoder_attention_mask": decoder_mask}
    encoded = cast(Any, model).get_encoder()(**given.inputs)[0]
    actual = model(**given.inputs, **more)[0]
    mask = given.inputs["attention_mask"]
    expected = dense_twin(model)(encoder_outputs=(encoded,), attention_mask=mask, **more)[0]
    assert_close(actual[decoder_mask.bool()], expected[decoder_mask.bool()])


class LargestTensor(TorchDispatchMode):
    """Remembers the largest tensor that any operation made."""

    numel = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        for tensor in made if isinstance(made, tuple | list) else (made,):
            if isinstance(tensor, Tensor):
                self.numel = max(self.numel, tensor.numel())
        return made


@pytest.mark.parametrize("name", MODELS)
@torch.no_grad()
def test_nothing_is_quadratic(name: str) -> None:
    length = 2000
    model = lengthen_in_place(tiny(name), max_length=length, window=WINDOW)
    with LargestTensor() as largest:
        answer(model, batch(length))
    assert largest.numel < length**2 / 4


def write(model: hf.PreTrainedModel, **more: Any) -> Any:
    """Twelve tokens, greedily, and the logits they were chosen by."""
    options = {
        "max_new_tokens": 12,
        "do_sample": False,
        "output_logits": True,
        "return_dict_in_generate": True,
    }
    return cast(Any, model).generate(**options, **more)


@pytest.mark.parametrize("name", WRITERS)
def test_generate_writes_what_the_short_model_wrote(name: str) -> None:
    inputs = batch(16, left=name not in SEQ2SEQ).inputs
    short, long = write(tiny(name), **inputs), write(lengthened(name, window=64), **inputs)
    assert torch.equal(short.sequences, long.sequences)
    assert_close(torch.stack(short.logits), torch.stack(long.logits))


def test_generate_with_global_tokens_takes_the_encoder_s_output() -> None:
    model = lengthened("bart")
    inputs = batch(LONG).inputs
    is_global = torch.eye(2, LONG)
    with torch.no_grad():
        encoded = cast(Any, model).get_encoder()(**inputs, global_attention_mask=is_global)
        first = model(**inputs, global_attention_mask=is_global, decoder_input_ids=torch.full((2, 1), 3))
    written = write(model, encoder_outputs=encoded, attention_mask=inputs["attention_mask"])
    assert_close(written.logits[0], first.logits[:, 0])


@pytest.mark.parametrize("name", ["gpt2", "llama", "bart decoder"])
def test_generate_beyond_the_window_agrees_with_and_without_a_cache(name: str) -> None:
    model = lengthened(name, window=6)
    inputs = batch(16, left=True).inputs
    options: tuple[dict[str, Any], ...] = ({"use_cache": False}, {}, {"cache_implementation": "static"})
    without, *others = [torch.stack(write(model, **inputs, **option).logits) for option in options]
    for logits in others:
        assert_close(logits, without)


@pytest.mark.parametrize("name", MODELS)
@torch.no_grad()
def test_saved_models_come_back(name: str, tmp_path: Path) -> None:
    model = lengthened(name)
    given = batch(LONG)
    model.save_pretrained(tmp_path)
    back = load_in_place(tmp_path).eval()
    assert type(back) is type(model)
    old_length = None if name.startswith("t5") else OLD_LENGTH
    assert back.config.longspan == {"window": WINDOW, "max_length": LONG, "source_length": old_length}
    assert torch.equal(answer(back, given), answer(model, given))


@pytest.mark.parametrize("name", ["roberta", "t5", "gpt2"])
@torch.no_grad()
def test_copies_and_pickles_stay_long(name: str) -> None:
    model = lengthened(name)
    given = batch(LONG)
    expected = answer(model, given)
    assert torch.equal(answer(copy.deepcopy(model), given), expected)
    assert torch.equal(answer(pickle.loads(pickle.dumps(model)), given), expected)


def gradients(model: hf.PreTrainedModel, given: Batch, **inputs: Any) -> dict[str, Tensor]:
    out = model(given.inputs["input_ids"], **inputs)[0]
    (out * torch.linspace(-1, 1, out.shape[-1]))[given.is_real].square().sum().backward()
    return {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


@pytest.mark.parametrize("name", ["roberta", "t5 encoder", "gpt2", "modernbert"])
def test_gradients_are_those_of_the_dense_mask(name: str) -> None:
    model = lengthened(name)
    given = batch(LONG)
    actual = gradients(model, given, attention_mask=given.inputs["attention_mask"])
    expected = gradients(dense_twin(model), given, attention_mask=dense_mask(name, given))
    assert actual.keys() == expected.keys()
    # Some gradients are 0 but for rounding, as of key biases; all are compared on one scale.
    largest = max(gradient.abs().max().item() for gradient in expected.values())
    for parameter, gradient in expected.items():
        torch.testing.assert_close(
            actual[parameter],
            gradient,
            atol=1e-5 * largest,
            rtol=1e-4,
            msg=lambda text, parameter=parameter: f"{parameter}: {text}",
        )


@pytest.mark.parametrize("name", ["roberta", "t5 encoder", "bert", "gpt2", "modernbert", "distilbert"])
def test_global_tokens_survive_gradient_checkpointing(name: str) -> None:
    model = lengthened(name).train()
    given = batch(LONG)
    more = {"attention_mask": given.inputs["attention_mask"], "global_attention_mask": torch.eye(2, LONG)}
    plain = gradients(model, given, **more)
    model.zero_grad()
    model.gradient_checkpointing_enable()
    again = gradients(model, given, **more)
    assert plain.keys() == again.keys()
    for parameter in plain:
        torch.testing.assert_close(again[parameter], plain[parameter])
    model.zero_grad()
    without = gradients(model, given, attention_mask=more["attention_mask"])
    assert any(not torch.allclose(without[parameter], plain[parameter], rtol=1e-2) for parameter in plain)


@pytest.mark.parametrize("positions", ["copy", "random", "interpolate"])
def test_positions_are_extended(positions: Any) -> None:
    model = cast(Any, lengthened("roberta", positions=positions, seed=3))
    table = model.embeddings.position_embeddings
    assert table.weight.shape == (LONG + 2, 32)
    assert table.num_embeddings == model.config.max_position_embeddings == LONG + 2
    assert table.weight.requires_grad and table.padding_idx == 1
    assert torch.equal(table.weight[:2], cast(Any, tiny("roberta")).embeddings.position_embeddings.weight[:2])
    assert torch.equal(model.embeddings.position_ids, torch.arange(LONG + 2)[None])
    assert torch.equal(model.embeddings.token_type_ids, torch.zeros(1, LONG + 2, dtype=torch.long))
    if positions == "copy":
        assert torch.equal(table.weight[2 + OLD_LENGTH], table.weight[2])
    again = cast(Any, lengthened("roberta", positions=positions, seed=3))
    assert torch.equal(again.embeddings.position_embeddings.weight, table.weight)


@pytest.mark.parametrize("name", ["marian", "sinusoidal distilbert"])
def test_sinusoids_are_those_of_a_model_made_long(name: str) -> None:
    model = lengthened(name)
    made = dict(type(model)(copy.deepcopy(model.config)).named_parameters())
    tables = {name: p for name, p in model.named_parameters() if "position" in name}
    assert tables
    for parameter, table in tables.items():
        assert table.shape[0] == LONG
        assert_close(table, made[parameter])
        assert table.requires_grad == made[parameter].requires_grad


def test_a_long_model_can_be_made_longer() -> None:
    model = lengthen_in_place(lengthened("bart"), max_length=LONG + 50, window=64)
    assert model.config.max_position_embeddings == LONG + 50
    given = batch(24)
    assert_close(answer(model, given), answer(tiny("bart"), given))


@pytest.mark.parametrize("name", REFUSED)
def test_architectures_that_ignore_the_hook_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match=f"'{name}', which cannot be lengthened in place: it "):
        architecture_of(hf.AutoConfig.for_model(name))


def test_a_model_that_ignores_the_hook_is_refused() -> None:
    sizes: dict[str, Any] = {
        "hidden_size": 32,
        "num_hidden_layers": 1,
        "num_attention_heads": 4,
        "intermediate_size": 32,
    }
    model = hf.MPNetModel(hf.MPNetConfig(vocab_size=60, **sizes))
    with pytest.raises(ValueError, match="'mpnet', which cannot be lengthened in place: it computes its att"):
        lengthen_in_place(model, max_length=1000, window=WINDOW)


def test_unknown_architectures_are_refused() -> None:
    config = hf.OPTConfig(
        vocab_size=60,
        hidden_size=32,
        num_hidden_layers=1,
        num_attention_heads=4,
        ffn_dim=32,
        word_embed_proj_dim=32,
    )
    with pytest.raises(ValueError, match="'opt', which is not known to honour"):
        lengthen_in_place(hf.OPTModel(config), max_length=LONG, window=WINDOW)


def test_rotary_positions_that_depend_on_the_length_are_refused() -> None:
    model = tiny("llama")
    model.config.rope_parameters["rope_type"] = "dynamic"
    with pytest.raises(ValueError, match="rope_type 'dynamic'"):
        lengthen_in_place(model, max_length=LONG, window=WINDOW)


@pytest.mark.parametrize(
    ("name", "wrong", "message"),
    [
        ("roberta", {"max_length": 30}, f"max_length is 30; this model reads {OLD_LENGTH} tokens already"),
        ("llama", {"max_length": 30}, f"max_length is 30; this model reads {OLD_LENGTH} tokens already"),
        ("roberta", {"window": 7}, "window is 7; it must be even"),
        ("gpt2", {"window": 0}, "window is 0; it must be at least 1"),
        ("bart", {"positions": "repeat"}, "method is 'repeat'"),
    ],
)
@torch.no_grad()
def test_wrong_arguments_leave_the_model_as_it_was(name: str, wrong: dict[str, Any], message: str) -> None:
    model = tiny(name)
    given = batch(24)
    before = answer(model, given)
    with pytest.raises(ValueError, match=message):
        lengthen_in_place(model, **cast(Any, {"max_length": LONG, "window": WINDOW} | wrong))
    assert torch.equal(answer(model, given), before)
    assert not hasattr(model.config, "longspan")


def test_a_decoder_alone_has_no_window() -> None:
    with pytest.raises(ValueError, match="T5Stack has no self-attention that could look through a window"):
        lengthen_in_place(cast(Any, tiny("t5")).decoder, max_length=LONG, window=WINDOW)


@pytest.mark.parametrize("name", MODELS)
def test_probabilities_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match="output_attentions is True"):
        answer(lengthened(name), batch(8), output_attentions=True)


@pytest.mark.parametrize("name", ["roberta", "gpt2", "t5"])
@torch.no_grad()
def test_eager_attention_can_be_had_back(name: str) -> None:
    model = lengthened(name, window=64)
    given = batch(24)
    before = answer(model, given)
    model.set_attn_implementation("eager")
    assert_close(answer(model, given, output_attentions=True), before)


def test_masks_of_other_shapes_are_refused() -> None:
    model = lengthened("roberta")
    ids = batch(8).inputs["input_ids"]
    with pytest.raises(ValueError, match=r"attention_mask has shape \[2, 1, 8, 8\]"):
        model(ids, attention_mask=torch.ones(2, 1, 8, 8))
    with pytest.raises(ValueError, match=r"attention_mask has shape \[2, 8, 8\]"):
        model(ids, attention_mask=torch.ones(2, 8, 8))
    with pytest.raises(ValueError, match=r"global_attention_mask has shape \[2, 7\]; it must be \[2, 8\]"):
        model(ids, global_attention_mask=torch.ones(2, 7))


def test_packed_documents_are_refused() -> None:
    packed = torch.arange(8).remainder(4)[None].expand(2, -1)
    with pytest.raises(ValueError, match="packed documents"):
        lengthened("llama")(batch(8).inputs["input_ids"], position_ids=packed, use_cache=False)


def test_models_that_were_not_lengthened_are_refused(tmp_path: Path) -> None:
    tiny("roberta").save_pretrained(tmp_path)
    with pytest.raises(ValueError, match="has no entry 'longspan'"):
        load_in_place(tmp_path)
    model = hf.RobertaModel.from_pretrained(tmp_path, attn_implementation="longspan")
    with pytest.raises(ValueError, match="was not lengthened"):
        model(**batch(8).inputs)
