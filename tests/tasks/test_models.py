"""The model under a task: cut to its lowest layers, or lengthened in its own class and loaded again."""

from pathlib import Path
from typing import Any

import pytest
import torch
import transformers as hf

from longspan.conversion.in_place import has_window
from longspan.conversion.lengthen import lengthen
from longspan.data.examples import LabelledDocument
from longspan.tasks.candidates import CandidateScoring, CandidateSettings
from longspan.tasks.classification import Classification, ClassificationSettings
from longspan.tasks.models import EncoderWithHead, ModelSettings, call, load_model
from longspan.tasks.task import Batch
from tests.tasks.tiny import tiny_roberta, tiny_tokenizer

LENGTH, WINDOW = 120, 8
_BERT: dict[str, Any] = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 48,
}
CONFIGS: dict[str, hf.PreTrainedConfig] = {
    "albert": hf.AlbertConfig(vocab_size=400, embedding_size=16, max_position_embeddings=64, **_BERT),
    "distilbert": hf.DistilBertConfig(
        vocab_size=400, dim=32, n_layers=2, n_heads=4, hidden_dim=48, max_position_embeddings=64
    ),
    "electra": hf.ElectraConfig(vocab_size=400, embedding_size=16, max_position_embeddings=64, **_BERT),
}


def saved(name: str, folder: Path) -> Path:
    """A tiny model, lengthened in place; the folder."""
    if name == "roberta":
        short: hf.PreTrainedModel = hf.RobertaForMaskedLM.from_pretrained(tiny_roberta(folder / "short"))
    else:
        torch.manual_seed(0)
        short = hf.AutoModelForMaskedLM.from_config(CONFIGS[name])
    for parameter in short.parameters():  # attention as sharp as a trained model's, so that windows show
        parameter.data *= 4
    lengthen(short, LENGTH, WINDOW, into="same").save_pretrained(folder / "long")
    return folder / "long"


def batch() -> Batch:
    """Two inputs, one padded, the first token of each global."""
    ids = torch.randint(5, 400, (2, LENGTH), generator=torch.Generator().manual_seed(0))
    attention_mask = torch.ones_like(ids)
    attention_mask[1, 70:] = 0
    is_global = torch.zeros_like(ids, dtype=torch.bool)
    is_global[:, 0] = True
    return {"input_ids": ids, "attention_mask": attention_mask, "is_global": is_global}


@pytest.mark.parametrize("name", ["roberta", *CONFIGS])
@torch.no_grad()
def test_a_model_lengthened_in_place_keeps_its_window(name: str, tmp_path: Path) -> None:
    folder = saved(name, tmp_path)
    encoder = load_model(ModelSettings(source=str(folder)), None).eval()
    assert has_window(encoder) and type(encoder).__name__.lower() == f"{name}model"
    given = batch()
    del given["is_global"]
    said = call(encoder, given).last_hidden_state
    given["input_ids"][:, 40:] = 7  # two layers of windows see 8 tokens on
    again = call(encoder, given).last_hidden_state
    assert torch.equal(said[:, :32], again[:, :32])
    assert not torch.equal(said[:, 36:40], again[:, 36:40])


@torch.no_grad()
def test_global_tokens_of_a_task_reach_a_model_lengthened_in_place(tmp_path: Path) -> None:
    encoder = load_model(ModelSettings(source=str(saved("roberta", tmp_path))), None).eval()
    given = batch()
    said = call(encoder, given).last_hidden_state
    direct = encoder(
        given["input_ids"],
        attention_mask=given["attention_mask"],
        global_attention_mask=given["is_global"].long(),
    ).last_hidden_state
    assert torch.equal(said, direct)
    del given["is_global"]
    assert not torch.equal(call(encoder, given).last_hidden_state[:, 100], said[:, 100])


@pytest.mark.parametrize("name", ["distilbert", "electra"])
@torch.no_grad()
def test_what_a_task_saves_of_it_predicts_the_same(name: str, tmp_path: Path) -> None:
    source = ModelSettings(source=str(saved(name, tmp_path)))
    given = batch()
    task = Classification(ClassificationSettings(labels=("a", "b"), max_length=LENGTH), tiny_tokenizer())
    model = task.build(source).eval()
    before = call(model, given).logits
    (tmp_path / "trained").mkdir()
    task.save(model, tmp_path / "trained")
    assert torch.equal(call(task.load(tmp_path / "trained").eval(), given).logits, before)
    assert list(task.features(LabelledDocument(id="d", text="a", label="a"), training=True))

    choice = CandidateScoring(CandidateSettings(max_length=LENGTH), tiny_tokenizer())
    with_head = choice.build(source)
    assert isinstance(with_head, EncoderWithHead) and has_window(with_head.encoder)


@torch.no_grad()
def test_the_lowest_layers_alone_say_what_they_say_in_the_whole(tmp_path: Path) -> None:
    source = str(tiny_roberta(tmp_path / "short"))
    given = batch()
    given = {name: x[:, :40] for name, x in given.items()}
    whole = load_model(ModelSettings(source=source), None).eval()
    lowest = load_model(ModelSettings(source=source, layers=1), None).eval()
    inputs = {name: given[name] for name in ("input_ids", "attention_mask")}
    said = whole(**inputs, output_hidden_states=True).hidden_states[1]
    torch.testing.assert_close(lowest(**inputs).last_hidden_state, said)

    long = load_model(ModelSettings(source=source, max_length=LENGTH, window=WINDOW), None)
    long.config.attention_window = [WINDOW, 2 * WINDOW]
    long.save_pretrained(tmp_path / "long")
    cut = load_model(ModelSettings(source=str(tmp_path / "long"), layers=1), None)
    assert cut.config.num_hidden_layers == 1 and cut.config.attention_window == [WINDOW]


@pytest.mark.parametrize("layers", [0, 3])
def test_layers_that_are_not_there_are_refused(layers: int, tmp_path: Path) -> None:
    source = str(tiny_roberta(tmp_path / "short"))
    with pytest.raises(ValueError, match=f"model.layers is {layers}; the model has 2, so it must be 1 to 2"):
        load_model(ModelSettings(source=source, layers=layers), None)
