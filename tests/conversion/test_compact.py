"""A folder of a model made small and loaded again: by our classes and tasks, not by stock transformers."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from torch import Tensor, nn
from transformers import (
    AutoModel,
    AutoModelForCausalLM,
    AutoModelForSeq2SeqLM,
    DistilBertConfig,
    DistilBertModel,
)

import longspan
from longspan.conversion.compact import compact
from longspan.conversion.in_place import has_window, load_in_place
from longspan.conversion.lengthen import lengthen
from longspan.conversion.loading import load_source
from longspan.conversion.saving import save_lengthened
from longspan.models.compact_weights import FILE
from longspan.tasks.models import ModelSettings, load_model
from longspan.training.inference import load_trained
from longspan.training.loop import prepared
from longspan.training.recipe import read_recipe
from tests.cli.running import ends, mistake
from tests.tasks.tiny import tiny_bart, tiny_causal_lm, tiny_led, tiny_longformer, tiny_roberta
from tests.training.runs import write_recipe

GRANITE = Path(__file__).parents[2].parent / "shared" / "models" / "granite-30m-english"
# Matrices of the tiny models are so small that they would be kept.
WIDE = {"hidden_size": 96, "intermediate_size": 96}
WIDE_SEQ2SEQ: dict[str, Any] = {"d_model": 96, "encoder_ffn_dim": 96, "decoder_ffn_dim": 96, "init_std": 0.05}


def relative_error(x: Tensor, again: Tensor) -> float:
    return float((x - again).norm() / x.norm())


def hidden(model: nn.Module, ids: Tensor) -> Tensor:
    with torch.no_grad():
        return model.eval()(input_ids=ids, output_hidden_states=False)[0]


def words(length: int = 70) -> Tensor:
    return torch.randint(5, 250, (2, length), generator=torch.Generator().manual_seed(0))


def test_a_small_folder_loads_as_the_large_one_did(tmp_path: Path) -> None:
    source = tiny_longformer(tmp_path / "large", **WIDE)
    (source / "README.md").write_text("# Large\n")
    made = compact(source, tmp_path / "small")
    assert made.bytes_after < 0.35 * made.bytes_before
    assert made.bytes_after == (tmp_path / "small" / FILE).stat().st_size
    assert len(made.errors) == 2 * 9 + 3 and max(made.errors.values()) < 0.01
    kept = {path.name for path in source.iterdir()} - {"model.safetensors"}
    assert {path.name for path in (tmp_path / "small").iterdir()} == kept | {FILE}
    card = (tmp_path / "small" / "README.md").read_text()
    assert card.startswith("# Large\n") and "## Compact weights" in card
    pretty, plain = ((folder / "tokenizer.json").read_text() for folder in (source, tmp_path / "small"))
    assert json.loads(pretty) == json.loads(plain) and len(plain.splitlines()) == 1 < len(pretty.splitlines())

    large = longspan.LongformerForMaskedLM.from_pretrained(source)
    small = longspan.LongformerForMaskedLM.from_pretrained(tmp_path / "small")
    assert small.name_or_path == small.config.name_or_path == str(tmp_path / "small")
    assert 1e-4 < relative_error(hidden(large, words()), hidden(small, words())) < 0.05
    assert small.lm_head.decoder.weight is small.longformer.embeddings.word_embeddings.weight

    # Once loaded it is a model as any other.
    small.save_pretrained(tmp_path / "again")
    again = transformers.LongformerForMaskedLM.from_pretrained(tmp_path / "again")
    assert all(x.equal(again.state_dict()[name]) for name, x in small.state_dict().items())


def test_what_from_pretrained_takes_is_taken(tmp_path: Path) -> None:
    compact(tiny_longformer(tmp_path / "large", **WIDE), tmp_path / "small")
    kind: Any = longspan.LongformerForSequenceClassification
    wanted = {"num_labels": 7, "dtype": torch.bfloat16}
    model, info = kind.from_pretrained(tmp_path / "small", output_loading_info=True, **wanted)
    assert model.config.num_labels == 7 and model.dtype == torch.bfloat16
    assert {name.split(".")[0] for name in info["missing_keys"]} == {"classifier"}


@pytest.mark.parametrize(
    ("build", "auto"),
    [
        (lambda folder: tiny_longformer(folder, **WIDE), AutoModel),
        (lambda folder: tiny_led(folder, **WIDE_SEQ2SEQ), AutoModelForSeq2SeqLM),
        (lambda folder: tiny_causal_lm(folder, **WIDE), AutoModelForCausalLM),
    ],
    ids=["longformer", "led", "causal"],
)
def test_our_models_are_found_by_auto_classes(build: Any, auto: Any, tmp_path: Path) -> None:
    source = build(tmp_path / "large")
    compact(source, tmp_path / "small")
    small = auto.from_pretrained(tmp_path / "small")
    assert type(small).__module__.startswith("longspan.")
    large = type(small).from_pretrained(source)
    assert 1e-5 < relative_error(hidden(large, words(40)), hidden(small, words(40))) < 0.1
    if small.can_generate():
        assert small.generation_config.to_dict() == large.generation_config.to_dict()


def test_models_of_transformers_are_loaded_by_tasks_and_by_lengthen(tmp_path: Path) -> None:
    source = tiny_roberta(tmp_path / "large", **WIDE)
    compact(source, tmp_path / "small")
    small = load_model(ModelSettings(source=str(tmp_path / "small")), "QuestionAnswering")
    assert isinstance(small, transformers.RobertaForQuestionAnswering)
    large = load_model(ModelSettings(source=str(source)), None)
    assert relative_error(hidden(large, words(60)), hidden(small.base_model, words(60))) < 0.05
    long = lengthen(tmp_path / "small", 200, 16)
    assert isinstance(long, longspan.LongformerForMaskedLM)
    assert type(load_source(tmp_path / "small")) is transformers.RobertaForMaskedLM


def test_encoder_decoders_of_transformers_are_loaded_by_tasks(tmp_path: Path) -> None:
    compact(tiny_bart(tmp_path / "large", **WIDE_SEQ2SEQ), tmp_path / "small")
    model = load_model(ModelSettings(source=str(tmp_path / "small")), "Seq2SeqLM")
    assert isinstance(model, transformers.BartForConditionalGeneration)


def test_a_model_that_was_lengthened_in_place_keeps_its_window(tmp_path: Path) -> None:
    short = DistilBertModel(DistilBertConfig(vocab_size=300, dim=96, hidden_dim=96, n_layers=1, n_heads=4))
    save_lengthened(lengthen(short, 600, 16), tmp_path / "large")
    compact(tmp_path / "large", tmp_path / "small")
    small = load_in_place(tmp_path / "small")
    assert has_window(small)
    assert relative_error(hidden(load_in_place(tmp_path / "large"), words()), hidden(small, words())) < 0.05


def test_stock_transformers_refuses_it(tmp_path: Path) -> None:
    compact(tiny_longformer(tmp_path / "large", **WIDE), tmp_path / "small")
    compact(tiny_roberta(tmp_path / "short", **WIDE), tmp_path / "short-small")
    with pytest.raises(OSError, match=r"no file named model\.safetensors"):
        transformers.LongformerModel.from_pretrained(tmp_path / "small")
    with pytest.raises(OSError, match=r"no file named model\.safetensors"):
        AutoModel.from_pretrained(tmp_path / "short-small")
    # Where longspan was never imported, the type is not known either.
    program = f"from transformers import AutoModel; AutoModel.from_pretrained({str(tmp_path / 'small')!r})"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode and "longspan_longformer" in done.stderr


def test_a_run_becomes_a_run(tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path, run={"steps": 3})
    with prepared(read_recipe(recipe, ()), tmp_path / "run") as run:
        run.train()
    compact(tmp_path / "run", tmp_path / "small")
    assert {path.name for path in (tmp_path / "small").iterdir()} == {"config.yaml", "best"}
    assert type(load_trained(tmp_path / "small").model) is type(load_trained(tmp_path / "run").model)


def test_many_files_become_one(tmp_path: Path) -> None:
    model = longspan.LongformerForMaskedLM.from_pretrained(tiny_longformer(tmp_path / "large", **WIDE))
    model.save_pretrained(tmp_path / "parts", max_shard_size="100KB")
    assert len(list((tmp_path / "parts").glob("model-*.safetensors"))) > 2
    made = compact(tmp_path / "parts", tmp_path / "small")
    assert not list((tmp_path / "small").glob("model-*"))
    assert not (tmp_path / "small" / "model.safetensors.index.json").exists()
    assert made.errors == compact(tmp_path / "large", tmp_path / "small-too").errors


def test_what_has_no_weights_is_refused_and_nothing_is_left(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match=r"no folder of a model: it has no config\.json"):
        compact(tmp_path / "empty", tmp_path / "out")
    (tmp_path / "empty" / "config.json").write_text("{}")
    with pytest.raises(ValueError, match=r"has no model\.safetensors"):
        compact(tmp_path / "empty", tmp_path / "out")
    source = tiny_longformer(tmp_path / "large", **WIDE)
    compact(source, tmp_path / "small")
    with pytest.raises(ValueError, match="compact already"):
        compact(tmp_path / "small", tmp_path / "out")
    with pytest.raises(ValueError, match="not empty"):
        compact(source, tmp_path / "small")
    with pytest.raises(ValueError, match="where the source is"):
        compact(source, source, overwrite=True)
    content = (source / "model.safetensors").read_bytes()
    (source / "model.safetensors").write_bytes(content[:-4])
    with pytest.raises(ValueError, match=r"model\.safetensors cannot be read"):
        compact(source, tmp_path / "out")
    assert not [path for path in tmp_path.iterdir() if path.name not in ("empty", "large", "small")]


def test_the_command_says_what_it_did(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = tiny_longformer(tmp_path / "large", **WIDE)
    capsys.readouterr()
    assert ends("compact", source, tmp_path / "small", "--json") == 0
    said = json.loads(capsys.readouterr().out)
    assert said["bytes_after"] < said["bytes_before"]
    assert 0 < said["mean_error"] <= said["largest_error"] < 0.01
    assert "not empty" in mistake(capsys, "compact", source, tmp_path / "small")


@pytest.mark.skipif(not GRANITE.exists(), reason="the weights of granite-30m-english are not here")
def test_granite_made_long_fits_into_40_mb_and_answers_alike(tmp_path: Path) -> None:
    long = lengthen(GRANITE, 16384, 512)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in long.parameters():  # as far from what was published as training would take them
            noise = torch.randn(parameter.shape, generator=generator) * parameter.float().std() * 0.05
            if len(parameter) < 10000:
                parameter.add_(noise.to(parameter.dtype))
    save_lengthened(long, tmp_path / "large")
    made = compact(tmp_path / "large", tmp_path / "small")
    assert made.bytes_after < 36e6
    assert made.mean_error < 0.007 and max(made.errors.values()) < 0.01
    answers: list[Tensor] = []
    ids = torch.randint(5, 50000, (1, 600), generator=generator)
    for folder in ("large", "small"):
        torch.manual_seed(0)  # of the new head
        model = longspan.LongformerForQuestionAnswering.from_pretrained(
            tmp_path / folder, dtype=torch.float32
        )
        mask = (torch.arange(600) < 12).long()[None]
        with torch.no_grad():
            said = model.eval()(ids, global_attention_mask=mask)
        answers.append(torch.stack([said.start_logits, said.end_logits]))
    assert relative_error(*answers) < 0.05
