"""A Longformer made of another model computes what that computed, and knows more positions."""

from typing import Any

import pytest
import torch
import transformers
from transformers import PreTrainedModel

from longspan.conversion.into_longformer import into_longformer, obstacles
from longspan.conversion.position_tables import Method, extend
from longspan.models import longformer_heads
from longspan.models.longformer import LongformerModel, LongformerPreTrainedModel
from longspan.models.longformer_config import LongformerConfig
from tests.conversion.short_models import (
    BEGINNINGS,
    ENDINGS,
    LENGTH,
    SEPARATOR,
    assert_same,
    inputs,
    outputs,
    short_model,
)


def lengthened(short: PreTrainedModel) -> LongformerPreTrainedModel:
    """Not to a multiple of the 40 tokens of the short model; a window of 80 sees all of 40."""
    return into_longformer(short, max_length=101, window=80)


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("beginning", BEGINNINGS)
def test_long_model_computes_what_the_short_one_did(beginning: str, ending: str) -> None:
    short = short_model(beginning + ending, num_labels=2 if ending == "ForQuestionAnswering" else 3)
    long = lengthened(short)
    assert type(long).__name__ == f"Longformer{ending}"
    given = inputs(short)
    assert_same(outputs(long, given), outputs(short, given))


@pytest.mark.parametrize("beginning", BEGINNINGS)
def test_inputs_of_every_length_run_up_to_the_new_one(beginning: str) -> None:
    short = short_model(f"{beginning}ForSequenceClassification")
    long = into_longformer(short, max_length=101, window=7)
    for lengths in ((LENGTH, 39), (LENGTH + 1, 11), (101, 64)):
        assert outputs(long, inputs(short, lengths))["logits"].isfinite().all()
    with pytest.raises(ValueError, match="at most 101 tokens"):
        long(**inputs(short, (102,)))


@pytest.mark.parametrize("method", ["copy", "random", "interpolate"])
@pytest.mark.parametrize("max_length", [40, 41, 100, 120])
@pytest.mark.parametrize(
    ("name", "pad", "offset"), [("RobertaModel", 1, 2), ("BertModel", 0, 0), ("BertModel", 3, 0)]
)
def test_token_i_gets_the_row_of_position_i(
    name: str, pad: int, offset: int, max_length: int, method: Method
) -> None:
    short = short_model(name, pad_token_id=pad)
    old = short.get_parameter("embeddings.position_embeddings.weight").detach()
    long = into_longformer(short, max_length=max_length, window=8, positions=method, seed=5)
    new = long.get_parameter("embeddings.position_embeddings.weight").detach()
    assert len(new) == long.config.max_position_embeddings == max_length + pad + 1
    assert isinstance(long, LongformerModel)
    at = long.embeddings.position_ids(torch.full((1, max_length), 9), None)[0]
    rows, learned = new[at], old[offset:]
    if method == "interpolate":
        torch.testing.assert_close(rows[[0, -1]], learned[[0, -1]])
    else:
        assert torch.equal(rows[:LENGTH], learned)
    if method == "copy":
        assert all(torch.equal(rows[i], learned[i % LENGTH]) for i in range(max_length))
    generator = torch.Generator().manual_seed(5)
    whole = extend(old, max_length + offset, offset=offset, method=method, generator=generator)
    assert torch.equal(rows, whole[offset:])
    # The rows of padding: kept, or where BERT has none, harmless.
    assert torch.equal(new[: pad + 1], old[: pad + 1] if offset else torch.zeros(pad + 1, 32))


def test_global_projections_are_the_local_ones() -> None:
    weights = lengthened(short_model("RobertaModel")).state_dict()
    own = [name for name in weights if "_global." in name]
    assert len(own) == 2 * 6
    for name in own:
        local = weights[name.replace("_global", "")]
        assert torch.equal(weights[name], local)
        assert weights[name].data_ptr() != local.data_ptr()


@pytest.mark.parametrize("name", ["RobertaForMaskedLM", "BertForMaskedLM", "BertModel"])
def test_source_is_not_changed(name: str) -> None:
    short = short_model(name)
    before = {name: weight.clone() for name, weight in short.state_dict().items()}
    config = short.config.to_dict()
    long = lengthened(short)
    with torch.no_grad():
        for parameter in long.parameters():
            parameter.zero_()
    assert short.config.to_dict() == config
    after = short.state_dict()
    assert all(torch.equal(after[name], weight) for name, weight in before.items())


def test_pooler_is_there_when_the_source_has_one() -> None:
    for pooler in (True, False):
        long = lengthened(short_model("RobertaModel", pooler=pooler))
        assert (long.pooler is not None) == pooler


@pytest.mark.parametrize("name", ["RobertaForMaskedLM", "BertForMaskedLM"])
@pytest.mark.parametrize("tied", [True, False])
def test_words_stay_tied_or_not(name: str, tied: bool) -> None:
    short = short_model(name, tie_word_embeddings=tied)
    long = lengthened(short)
    words, scores = long.get_input_embeddings(), long.get_output_embeddings()
    assert isinstance(words, torch.nn.Embedding) and isinstance(scores, torch.nn.Linear)
    assert (words.weight is scores.weight) == tied == long.config.tie_word_embeddings
    given = inputs(short)
    assert_same(outputs(long, given), outputs(short, given))


def test_configuration_comes_along() -> None:
    fields: dict[str, Any] = {
        "hidden_act": "relu",
        "hidden_dropout_prob": 0.3,
        "attention_probs_dropout_prob": 0.2,
        "layer_norm_eps": 1e-3,
        "type_vocab_size": 5,
        "bos_token_id": 11,
        "eos_token_id": 12,
        "pad_token_id": 13,
        "sep_token_id": 14,
        "id2label": {0: "good", 1: "bad", 2: "ugly"},
        "label2id": {"good": 0, "bad": 1, "ugly": 2},
        "problem_type": "single_label_classification",
    }
    short = short_model("BertForSequenceClassification", **fields).bfloat16().train()
    long = lengthened(short)
    assert {name: getattr(long.config, name) for name in fields} == fields
    assert long.config.attention_window == 80
    assert long.dtype == torch.bfloat16
    assert long.training
    short = short_model("RobertaModel", sep_token_id=None, eos_token_id=6)
    assert lengthened(short).config.sep_token_id == 6


@pytest.mark.parametrize("stock", [True, False])
def test_longformer_becomes_longer(stock: bool) -> None:
    # A window of 8 cannot see all of 30 tokens: own windows and global projections must come along.
    own = into_longformer(short_model("RobertaForSequenceClassification"), max_length=60, window=8)
    with torch.no_grad():
        for parameter in own.parameters():
            noise = torch.randn(parameter.shape, generator=torch.Generator().manual_seed(0))
            parameter.add_(noise, alpha=0.1)
    given = inputs(own)
    wanted = outputs(own, given)
    short: PreTrainedModel = own
    if stock:
        fields: dict[str, Any] = {**own.config.to_dict(), "attention_window": 8}
        config = transformers.LongformerConfig(**fields)
        short = transformers.LongformerForSequenceClassification(config).eval()
        short.load_state_dict(own.state_dict())
    long = into_longformer(short, max_length=77, window=8)
    assert_same(outputs(long, given), wanted)
    assert outputs(long, inputs(own, (77,)))["logits"].isfinite().all()


def test_what_only_our_longformer_has_stays() -> None:
    config = LongformerConfig(
        vocab_size=99,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=48,
        max_position_embeddings=42,
        attention_dilation=[1, 2],
        causal=True,
    )
    long = lengthened(longformer_heads.LongformerForMaskedLM(config))
    assert (long.config.attention_dilation, long.config.causal) == ([1, 2], True)


@pytest.mark.parametrize(
    ("name", "fields", "hint"),
    [
        ("BertModel", {"is_decoder": True}, "config.is_decoder is True"),
        ("RobertaModel", {"add_cross_attention": True, "is_decoder": True}, "add_cross_attention is True"),
        ("BertModel", {"position_embedding_type": "relative_key"}, "'relative_key'"),
        ("BertForMaskedLM", {"hidden_act": "relu"}, "config.hidden_act is 'relu'"),
        ("BertForNextSentencePrediction", {}, "BertForNextSentencePrediction.*BertForMaskedLM"),
        ("BertForPreTraining", {}, "BertForPreTraining"),
    ],
)
def test_what_cannot_come_along_is_refused(name: str, fields: dict[str, Any], hint: str) -> None:
    short = short_model(name, **fields)
    assert obstacles(short)
    with pytest.raises(ValueError, match=hint):
        lengthened(short)


def test_other_architectures_are_refused() -> None:
    config = transformers.ElectraConfig(vocab_size=99, hidden_size=32, num_hidden_layers=1)
    with pytest.raises(ValueError, match=r"'electra'.*roberta"):
        lengthened(transformers.ElectraModel(config))


def test_shorter_is_refused() -> None:
    for name in ("RobertaModel", "BertModel"):
        with pytest.raises(ValueError, match="max_length is 39; this model reads 40"):
            into_longformer(short_model(name), max_length=39, window=8)


def test_separator_of_the_inputs_is_what_heads_look_for() -> None:
    long = lengthened(short_model("BertForQuestionAnswering"))
    assert long.config.sep_token_id == SEPARATOR
