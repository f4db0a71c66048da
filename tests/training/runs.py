"""A small recipe with data and a model, for the tests of the loop."""

import json
from pathlib import Path
from typing import Any

import yaml

from tests.tasks.tiny import tiny_longformer

GOOD = "It was a good film, a very good film, and I liked it."
BAD = "The worst book of the year: nobody liked it, nobody read it."


def write_reviews(path: Path, count: int) -> Path:
    """``count`` reviews of different lengths, half of them good."""
    with path.open("w", encoding="utf-8") as file:
        for at in range(count):
            text = " ".join([GOOD if at % 2 else BAD] * (1 + at % 5))
            record = {"id": f"review-{at}", "text": text, "label": "good" if at % 2 else "bad"}
            file.write(json.dumps(record) + "\n")
    return path


def write_recipe(folder: Path, **changes: Any) -> Path:
    """A recipe that trains a tiny classifier for 12 steps; ``changes`` are merged into its groups."""
    folder.mkdir(parents=True, exist_ok=True)
    fields: dict[str, Any] = {
        "task": "classification",
        "model": {"source": str(tiny_longformer(folder / "model")), "dropout": 0.1},
        "data": {
            "format": "classification",
            "train": str(write_reviews(folder / "train.jsonl", 20)),
            "dev": str(write_reviews(folder / "dev.jsonl", 6)),
            "cache": str(folder / "cache"),
        },
        "settings": {"max_length": 256},
        "batch": {"tokens": 300, "micro_tokens": 160},
        "optimizer": {"lr": 1e-3, "head_lr": 3e-3},
        "schedule": {"kind": "linear", "warmup": 2},
        "run": {"steps": 12, "checkpoint_every": 3, "log_every": 1, "evaluate_every": 6},
    }
    for group, values in changes.items():
        fields[group] = {**fields[group], **values} if isinstance(values, dict) else values
    path = folder / "recipe.yaml"
    path.write_text(yaml.safe_dump(fields), encoding="utf-8")
    return path
