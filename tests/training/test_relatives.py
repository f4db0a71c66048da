"""Every relative learns in the one loop, is saved and loaded, and goes on to the same bits."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from longspan.models.byte_tokenizer import byte_tokenizer
from longspan.tasks.registry import TASKS
from longspan.training.loop import train
from longspan.training.recipe import read_recipe
from tests.models.relatives import CAUSAL, ENCODERS, SETTINGS, SIZES, can
from tests.tasks.tiny import tiny_tokenizer
from tests.training.runs import write_recipe

TEXT = b"The sea, the sea, the long grey sea. " * 20
MEMORIES: dict[str, dict[str, Any]] = {
    "xl": {"memory": "xl"},
    "compressive": {"memory": "compressive", "compressed_length": 4, "compression_ratio": 2},
    "through time": {
        "memory": "compressive",
        "compressed_length": 4,
        "compression_ratio": 2,
        "compression_loss": "bptt",
    },
    "most used": {
        "memory": "compressive",
        "compressed_length": 4,
        "compression_ratio": 2,
        "compression": "most-used",
        "compression_loss": "none",
    },
}
CASES: dict[str, dict[str, Any]] = {name: {"attention": name} for name in CAUSAL} | {
    f"full, {name}": {
        "attention": "full",
        "positions": "relative",
        "segment_length": 8,
        "memory_length": 8,
        **fields,
    }
    for name, fields in MEMORIES.items()
}


def write_config(folder: Path, attention: str, **fields: Any) -> Path:
    """A configuration without weights."""
    folder.mkdir(parents=True, exist_ok=True)
    sizes = SIZES | {"vocab_size": 259, "initializer_range": 0.02, "max_position_embeddings": 128}
    said = sizes | {"model_type": "longspan_long_range", "attention": attention} | fields
    path = folder / "config.json"
    path.write_text(json.dumps(said | {"attention_settings": SETTINGS[attention]}))
    return path


def byte_recipe(folder: Path, fields: dict[str, Any], **run: Any) -> Path:
    text = folder / "text.txt"
    folder.mkdir(parents=True, exist_ok=True)
    text.write_bytes(TEXT)
    fields = {"positions": "none"} | fields
    streams = fields.get("memory") or can(fields["attention"], "cache", causal=True)
    return write_recipe(
        folder,
        task="causal-lm",
        model={"source": str(write_config(folder / "new", **fields)), "dropout": None},
        data={"format": "bytes", "train": str(text), "dev": str(text)},
        settings={
            "max_length": 48,
            "evaluation": "streaming" if streams else "sliding",
            "evaluation_length": 48,
            "evaluation_step": 48,
            "evaluation_limit": 200,
        },
        batch={"tokens": 192, "micro_tokens": 96},
        run={"steps": 4, "checkpoint_every": 2, "evaluate_every": 4, "log_every": 1, **run},
    )


def weights(run: Path) -> dict[str, torch.Tensor]:
    return load_file(run / "last" / "model.safetensors")


@pytest.mark.parametrize("case", CASES)
def test_language_models_learn_and_go_on_to_the_same_bits(case: str, tmp_path: Path) -> None:
    recipe = read_recipe(byte_recipe(tmp_path / "recipe", CASES[case]))
    scores = train(recipe, tmp_path / "whole")
    assert 0 < scores["bits_per_byte"] < 8.5
    # Cut off after two steps, then gone on with.
    (checkpoint,) = (tmp_path / "whole" / "checkpoints").glob("step-00000002")
    train(recipe, tmp_path / "whole", resume=checkpoint)
    again = weights(tmp_path / "whole")
    train(recipe, tmp_path / "other")
    for name, one in weights(tmp_path / "other").items():
        assert torch.equal(one, again[name]), name
    # What was saved is what a user loads.
    task = TASKS["causal-lm"](recipe.settings, byte_tokenizer())
    model = task.load(tmp_path / "whole" / "last")
    assert model.config.attention == CASES[case]["attention"]  # pyright: ignore


@pytest.mark.parametrize("name", ENCODERS)
def test_classifiers_learn(name: str, tmp_path: Path) -> None:
    source = write_config(tmp_path / "new", name)
    path = write_recipe(
        tmp_path / "recipe",
        model={"source": str(source), "dropout": None},
        settings={"max_length": 128},
        run={"steps": 3, "checkpoint_every": 3, "evaluate_every": 3},
    )
    scores = train(read_recipe(path), tmp_path / "run")
    assert 0 <= scores["accuracy"] <= 1


@pytest.mark.parametrize("task", ["masked-lm", "classification"])
@pytest.mark.parametrize("name", ["funnel", "bp"])
def test_encoders_go_on_to_the_same_bits(name: str, task: str, tmp_path: Path) -> None:
    tokenizer = tiny_tokenizer()
    tokenizer.save_pretrained(tmp_path / "new")
    fields: dict[str, Any] = {"attention": "bp"}
    if name == "funnel":
        fields = {"attention": "full", "positions": "relative", "block_sizes": [2, 1], "decoder_layers": 2}
    source = write_config(tmp_path / "new", vocab_size=len(tokenizer), **fields)
    text = tmp_path / "text.jsonl"
    text.write_text(
        "".join(json.dumps({"id": str(at), "text": TEXT[at:].decode()}) + "\n" for at in range(8))
    )
    data = {"format": "text", "train": str(text), "dev": str(text)}
    path = write_recipe(
        tmp_path / "recipe",
        task=task,
        model={"source": str(source), "dropout": 0.1},
        settings={"max_length": 128},
        run={"steps": 4, "checkpoint_every": 2, "evaluate_every": 4},
        **({"data": data} if task == "masked-lm" else {}),
    )
    recipe = read_recipe(path)
    train(recipe, tmp_path / "whole")
    first = weights(tmp_path / "whole")
    (checkpoint,) = (tmp_path / "whole" / "checkpoints").glob("step-00000002")
    train(recipe, tmp_path / "whole", resume=checkpoint)
    for key, one in weights(tmp_path / "whole").items():
        assert torch.equal(one, first[key]), key
    assert any("decoder.1" in key for key in first) == (name == "funnel" and task == "masked-lm")


def test_kinds_without_a_cache_do_not_stream(tmp_path: Path) -> None:
    without = [name for name in CAUSAL if not can(name, "cache", causal=True)]
    for name in without:
        path = byte_recipe(tmp_path / name, {"attention": name})
        recipe = read_recipe(path, ["--settings.evaluation", "streaming"])
        with pytest.raises(ValueError, match="settings.evaluation is 'streaming', which attention"):
            train(recipe, tmp_path / f"{name}-run")


def test_a_configuration_of_another_type_is_named(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"model_type": "bert"}))
    recipe = write_recipe(tmp_path / "recipe", model={"source": str(path), "dropout": None})
    with pytest.raises(ValueError, match="a configuration of type 'bert'"):
        train(read_recipe(recipe), tmp_path / "run")
