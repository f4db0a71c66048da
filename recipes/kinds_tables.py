"""Runs the same small model with one kind of attention after the other, and writes quality against cost.

Byte models on enwik8; encoders on ListOps, which is drawn when it is missing, and on IMDB as bytes. A model
is a configuration that this script writes; all of a table have the same shape and see the same batches.

    python recipes/kinds_tables.py --data data [--only enwik8 ...]
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from experiments import Experiment, arguments, run, tables

from longspan.data.listops import SYMBOLS
from longspan.models.symbol_tokenizer import symbol_tokenizer

SEEDS = (0, 1, 2)
_DECODER: dict[str, Any] = {
    "vocab_size": 259,
    "hidden_size": 128,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "intermediate_size": 512,
    "positions": "rotary",
    "is_decoder": True,
}
_ENCODER: dict[str, Any] = {
    # The affordable configuration for the Long Range Arena.
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 128,
    "positions": "absolute",
    "pooling": "mean",
}
_MEMORY: dict[str, Any] = {"positions": "relative", "segment_length": 128, "memory_length": 128}
LANGUAGE_MODELS: dict[str, dict[str, Any]] = {
    "full": {"attention": "full"},
    "window": {"attention": "window", "attention_settings": {"window": 128}},
    "xl": {"attention": "full", "memory": "xl", **_MEMORY},
    "compressive": {
        "attention": "full",
        "memory": "compressive",
        "compressed_length": 64,
        "compression_ratio": 2,
        **_MEMORY,
    },
    "performer": {"attention": "performer", "attention_settings": {"features": 128}},
    "routing": {
        "attention": "routing",
        "positions": "infused",
        "attention_settings": {
            "clusters": 8,
            "size": 128,
            "local_heads": 2,
            "window": 128,
            "accept_leak": True,
        },
    },
    "sparse": {"attention": "sparse", "attention_settings": {"stride": 64, "summary": 8}},
    "adaptive-span": {
        "attention": "adaptive-span",
        "positions": "learned",
        "learned_distances": 512,
        "attention_settings": {"max_span": 512, "initial": 0.1, "loss": 2e-6},
    },
    "infused": {
        "attention": "full",
        "memory": "xl",
        "positions": "infused",
        "segment_length": 128,
        "memory_length": 128,
    },
}
ENCODERS: dict[str, dict[str, Any]] = {
    "full": {"attention": "full"},
    "window": {"attention": "window", "attention_settings": {"window": 128}},
    "linformer": {"attention": "linformer", "attention_settings": {"rank": 128}},
    "performer": {"attention": "performer", "attention_settings": {"features": 128}},
    "reformer": {"attention": "reformer", "attention_settings": {"chunk": 64, "rounds": 2}},
    "bigbird": {"attention": "bigbird", "attention_settings": {"block": 32, "random_blocks": 2}},
}
EXPERIMENTS = tuple(
    Experiment(table=table, name=name, title=name, recipe=f"kinds-{table}", seeds=SEEDS)
    for table, kinds in (("enwik8", LANGUAGE_MODELS), ("listops", ENCODERS), ("imdb", ENCODERS))
    for name in kinds
)


def config(experiment: Experiment) -> dict[str, Any]:
    """The configuration of an experiment's model."""
    if experiment.table == "enwik8":
        shape = _DECODER | LANGUAGE_MODELS[experiment.name]
    elif experiment.table == "listops":
        shape = _ENCODER | ENCODERS[experiment.name]
        shape |= {"vocab_size": 4 + len(SYMBOLS), "max_position_embeddings": 2048, "pad_token_id": 0}
    else:
        shape = _ENCODER | ENCODERS[experiment.name]
        shape |= {"vocab_size": 259, "max_position_embeddings": 1024, "pad_token_id": 256}
    return {"model_type": "longspan_long_range", **shape}


def model(experiment: Experiment, where: argparse.Namespace) -> list[str]:
    """The configuration's file."""
    return ["--model.source", str(where.runs / "kinds" / experiment.table / f"{experiment.name}.json")]


def write_configs(runs: Path) -> None:
    """All configurations; those of ListOps have a tokenizer beside them, the others read bytes."""
    for experiment in EXPERIMENTS:
        folder = runs / "kinds" / experiment.table
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{experiment.name}.json").write_text(json.dumps(config(experiment), indent=1) + "\n")
    symbol_tokenizer(SYMBOLS).save_pretrained(runs / "kinds" / "listops")


def page(where: argparse.Namespace) -> str:
    """The page with all tables."""
    from longspan.benchmarks.machine import describe

    machine = describe()
    said = argparse.Namespace(data=Path("data"), runs=Path("runs"), precision=where.precision)
    lines = [
        "# Kinds of attention, in small",
        "",
        "Written by `recipes/kinds_tables.py`: the same small model, batches and steps for every kind.",
        "Minutes are those that a processor worked in training, where a run says so. enwik8 is scored on",
        "the first 100,000 bytes of the dev part, in windows of 1,024 that slide by 512. Runs are so short",
        "that they say how fast a kind begins to learn, not where it ends; differences within the spread",
        "over seeds say nothing.",
        "Routing is not strictly causal: its bits per byte profit from what it lets through.",
        "ListOps has ten classes; who has learned nothing says the commonest, right for 18 %. Models",
        "stay there for the first thousand steps: the arena's own took 5,000 steps of 32 examples to 36 %,",
        "and some stayed at 17 and 18. IMDB has two classes, as bytes, cut at 1,024. Rates and steps of both",
        "were chosen with `window`, by the scores that are shown here.",
        f"Machine: {machine['cpu']}, {machine['threads']} threads, which other work shared at times.",
        *tables(EXPERIMENTS, where, said, model),
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Runs what is missing, and writes the page."""
    where = arguments(__doc__, "benchmarks/results/kinds.md").parse_args()
    write_configs(where.runs)
    if not (where.data / "listops" / "train.tsv").exists() and not where.write_only:
        words = ["longspan", "data", "listops", str(where.data / "listops"), "--train", "8000"]
        subprocess.run([sys.executable, "-m", *words, "--dev", "500", "--test", "500"], check=True)
    run(EXPERIMENTS, where, model, page)


if __name__ == "__main__":
    main()
