"""Every kind of attention, cut off in training and gone on with, ends at the same bits; so do pooled and
reversible layers, and what is drawn anew between passes.

Language models of every kind and memory are in `tests/training/test_relatives.py`.
"""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from longspan.nn.kinds.registry import KINDS
from longspan.tasks.registry import TASKS
from longspan.training.loop import train
from longspan.training.recipe import Recipe, read_recipe
from tests.models.relatives import ENCODERS, SETTINGS, SIZES, can
from tests.tasks.tiny import tiny_tokenizer
from tests.training.runs import write_recipe

TEXT = "The sea, the sea, the long grey sea. " * 7
REDRAWN: dict[str, Any] = {"features": 24, "chunk": 7, "redraw_every": 3}
"""With two passes a step, the third step goes on with what the second drew, and the fourth draws anew."""
CHECKPOINTED = ("routing", "performer that redraws")
"""Whose activations are computed again in the backward pass, where nothing may be drawn or counted twice."""

LANGUAGE_MODELS: dict[str, dict[str, Any]] = {
    "adaptive-span": {"attention": "adaptive-span"},
    "routing": {"attention": "routing"},
    "performer that redraws": {"attention": "performer", "attention_settings": REDRAWN},
    "reversible reformer": {"attention": "reformer", "reversible": True},
    "shortformer": {
        "attention": "full",
        "positions": "infused",
        "memory": "xl",
        "segment_length": 8,
        "memory_length": 8,
    },
}
MASKED_MODELS: dict[str, dict[str, Any]] = {name: {"attention": name} for name in ENCODERS} | {
    "linformer of one projection": {
        "attention": "linformer",
        "attention_settings": {"rank": 8, "sharing": "layerwise"},
    },
    "performer that redraws": {"attention": "performer", "attention_settings": REDRAWN},
    "reversible performer that redraws": {
        "attention": "performer",
        "attention_settings": REDRAWN,
        "reversible": True,
    },
    "reversible reformer": {"attention": "reformer", "reversible": True},
    "funnel": {"attention": "full", "positions": "relative", "block_sizes": [1, 1], "decoder_layers": 1},
}
CASES = [("causal-lm", name) for name in LANGUAGE_MODELS] + [("masked-lm", name) for name in MASKED_MODELS]


def recipe_of(folder: Path, task: str, name: str) -> Recipe:
    """Four steps of two passes each, with dropout wherever the kind can have it."""
    of_bytes = task == "causal-lm"
    fields = (LANGUAGE_MODELS if of_bytes else MASKED_MODELS)[name]
    attention = fields["attention"]
    config = SIZES | {
        "model_type": "longspan_long_range",
        "initializer_range": 0.02,
        "num_hidden_layers": 2,
        "positions": "none",
        "attention_settings": SETTINGS[attention],
        "hidden_dropout_prob": 0.1,
        "attention_probs_dropout_prob": 0.1 * can(attention, "dropout", causal=of_bytes),
    }
    source, text = folder / "new" / "config.json", folder / ("text.txt" if of_bytes else "text.jsonl")
    source.parent.mkdir(parents=True)
    if of_bytes:
        config["vocab_size"] = 259
        text.write_text(TEXT[:256])  # eight inputs
    else:
        tokenizer = tiny_tokenizer()
        tokenizer.save_pretrained(source.parent)
        config["vocab_size"] = len(tokenizer)
        text.write_text("".join(json.dumps({"id": str(at), "text": TEXT[at:]}) + "\n" for at in range(8)))
    source.write_text(json.dumps(config | fields))
    changes: dict[str, Any] = {
        "task": task,
        "model": {
            "source": str(source),
            "dropout": None,
            "gradient_checkpointing": of_bytes and name in CHECKPOINTED,
        },
        "data": {"format": "bytes" if of_bytes else "text", "train": str(text), "dev": None, "workers": 0},
        "settings": {"max_length": 32} | ({"evaluation": "sliding"} if of_bytes else {}),
        "batch": {"tokens": 64, "micro_tokens": 36},
        "run": {"steps": 4, "checkpoint_every": 2, "evaluate_every": None},
    }
    return read_recipe(write_recipe(folder, **changes))


def trained(run: Path) -> dict[str, Tensor]:
    return load_file(run / "last" / "model.safetensors")


def test_every_kind_is_tested() -> None:
    assert {fields["attention"] for fields in (*LANGUAGE_MODELS.values(), *MASKED_MODELS.values())} == set(
        KINDS
    )


@pytest.mark.parametrize(("task", "name"), CASES)
def test_a_run_that_was_cut_off_ends_at_the_same_bits(task: str, name: str, tmp_path: Path) -> None:
    recipe, run = recipe_of(tmp_path / "recipe", task, name), tmp_path / "run"
    train(recipe, run)
    whole = trained(run)
    train(recipe, run, resume=run / "checkpoints" / "step-00000002")
    again = trained(run)
    assert whole.keys() == again.keys()
    for key, one in whole.items():
        assert torch.equal(one, again[key]), key
    # What is loaded is what was trained, with what the kind drew and counted.
    tokenizer = TASKS[task].load_tokenizer(str(run / "last"))
    assert tokenizer is not None
    loaded = TASKS[task](recipe.settings, tokenizer).load(run / "last").state_dict()
    for key, one in whole.items():
        assert torch.equal(one, loaded[key]), key
    assert {int(one) for key, one in whole.items() if key.endswith("passes")} <= {8}
