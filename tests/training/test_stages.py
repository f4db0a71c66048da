"""Staged training: phases change what they say, carry the rest on, and can be cut off anywhere."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from safetensors.torch import load_file

from longspan.training.inference import Predictor, read_examples
from longspan.training.loop import train
from longspan.training.metrics_log import read_metrics
from longspan.training.recipe import read_recipe
from longspan.training.stages import stage_at, stages_of
from tests.tasks.tiny import tiny_causal_lm
from tests.training.runs import write_recipe

PHASES = [
    {"steps": 5, "max_length": 32, "examples": 4, "lr": 1e-2, "windows": [2, 4]},
    {"steps": 4, "max_length": 64, "examples": 2, "lr": 5e-3, "windows": [4, 8]},
    {"steps": 3, "max_length": 100, "examples": 1, "lr": 2.5e-3, "windows": [8, 16]},
]
LOSSES = [5.553, 4.981, 4.456, 3.985, 3.565, 3.176, 3.017, 2.897, 2.766, 2.632, 2.622, 2.557]
"""Of every step of the run below: they change when the model, the data or the order of a run does."""


def write_staged(folder: Path, **changes: Any) -> Path:
    """A recipe of three phases for a tiny model of bytes."""
    folder.mkdir(parents=True, exist_ok=True)
    text = folder / "text.txt"
    text.write_text("the sea, the sea, the long grey sea; " * 40, encoding="utf-8")
    fields: dict[str, Any] = {
        "task": "causal-lm",
        "model": {"source": str(tiny_causal_lm(folder / "model")), "dropout": 0.1},
        "data": {
            "format": "bytes",
            "train": f"{text}#train",
            "dev": f"{text}#dev",
            "test": f"{text}#test",
            "cache": str(folder / "cache"),
        },
        "batch": {"micro_tokens": 64},
        "optimizer": {"lr": 1e-2, "clip": 0.25},
        "schedule": {"kind": "constant", "warmup": 0.4, "most_warmup": 1},
        "run": {"checkpoint_every": 1, "keep_checkpoints": 20, "log_every": 1},
        "phases": PHASES,
    }
    path = folder / "recipe.yaml"
    path.write_text(yaml.safe_dump(fields | changes), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def recipe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_staged(tmp_path_factory.mktemp("recipe"))


@pytest.fixture(scope="module")
def finished(recipe: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "finished"
    train(read_recipe(recipe), out)
    return out


@pytest.fixture(scope="module")
def plain(recipe: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same without dropout, which depends on what was built and on the number of processes."""
    out = tmp_path_factory.mktemp("runs") / "plain"
    train(read_recipe(recipe, ["--model.dropout", "0"]), out)
    return out


def lines(run: Path, kind: str = "train") -> list[dict[str, Any]]:
    return [line for line in read_metrics(run) if line["kind"] == kind]


def test_phases_change_what_they_say(finished: Path) -> None:
    steps = lines(finished)
    tokens = [line["tokens"] for line in steps]
    assert [max(tokens[:5]), max(tokens[5:9]), max(tokens[9:])] == [4 * 32, 2 * 64, 100]
    # A warm-up of one step at most: none of the steps is below its phase's rate.
    assert [line["lr"] for line in steps] == pytest.approx([1e-2] * 5 + [5e-3] * 4 + [2.5e-3] * 3)
    assert [line["step"] for line in lines(finished, "dev")] == [5, 9, 12]
    config = json.loads((finished / "last" / "config.json").read_text())
    assert config["attention_window"] == [8, 16]


def test_losses_are_what_they_were(plain: Path) -> None:
    assert [line["loss"] for line in lines(plain)] == pytest.approx(LOSSES, abs=2e-3)


def test_a_run_reads_back_what_it_scored(finished: Path) -> None:
    predictor = Predictor(finished)
    examples = read_examples(predictor, predictor.recipe.data.test or "", None)
    scores = predictor.task.score(examples, predictor(examples))
    assert scores["bits_per_byte"] == pytest.approx(lines(finished, "test")[0]["bits_per_byte"])


def test_a_run_goes_on_in_and_between_phases_to_the_same_bits(
    recipe: Path, finished: Path, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    # Out of time at once: every run makes one step, and leaves a checkpoint.
    one_step = read_recipe(recipe, ["--run.minutes", "0"])
    for step in range(1, 13):
        train(one_step, out, resume=True)
        assert [line["step"] for line in lines(out)] == [*range(1, step + 1)]
    assert [line["loss"] for line in lines(out)] == [line["loss"] for line in lines(finished)]
    whole, again = (load_file(run / "last" / "model.safetensors") for run in (finished, out))
    assert all(torch.equal(whole[name], again[name]) for name in whole)


def test_the_best_model_is_tested_with_its_own_windows(recipe: Path, tmp_path: Path) -> None:
    # A rate that ruins the model leaves that of the first phase the best.
    asked = yaml.safe_load(recipe.read_text())
    asked["phases"][1]["lr"] = asked["phases"][2]["lr"] = 3.0
    path = tmp_path / "recipe.yaml"
    path.write_text(yaml.safe_dump(asked), encoding="utf-8")
    scores = train(read_recipe(path, ["--optimizer.clip", "null"]), tmp_path / "run")
    config = json.loads((tmp_path / "run" / "best" / "config.json").read_text())
    assert config["attention_window"] == [2, 4]
    predictor = Predictor(tmp_path / "run")
    examples = read_examples(predictor, predictor.recipe.data.test or "", None)
    assert predictor.task.score(examples, predictor(examples)) == pytest.approx(scores)


@pytest.mark.parametrize("parallel", ["ddp", "fsdp"])
def test_processes_train_phases_alike(parallel: str, recipe: Path, plain: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    command += [
        "-m",
        "longspan",
        "train",
        str(recipe),
        "--out",
        str(tmp_path / "run"),
        "--parallel",
        parallel,
    ]
    command += ["--model.dropout", "0"]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"OMP_NUM_THREADS": "1"})
    assert done.returncode == 0, done.stderr[-3000:]
    together = [line["loss"] for line in lines(tmp_path / "run")]
    assert together == pytest.approx([line["loss"] for line in lines(plain)], rel=1e-4)
    config = json.loads((tmp_path / "run" / "last" / "config.json").read_text())
    assert config["attention_window"] == [8, 16]


def test_stages_are_a_function_of_the_step(recipe: Path, tmp_path: Path) -> None:
    stages = stages_of(read_recipe(recipe))
    assert [(stage.begin, stage.end) for stage in stages] == [(0, 5), (5, 9), (9, 12)]
    found = [stages.index(stage_at(stages, step)) for step in (0, 4, 5, 8, 9, 11, 12)]
    assert found == [0, 0, 1, 1, 2, 2, 2]
    (only,) = stages_of(read_recipe(write_recipe(tmp_path)))
    assert (only.begin, only.end) == (0, 12)
    assert stage_at([only], 12) is only


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"run": {"steps": 3}}, "run.steps is 3, but phases have steps of their own"),
        ({"optimizer": {"lr": 0}}, "optimizer.lr is 0.0; with phases"),
        ({"phases": [PHASES[0] | {"steps": 0}]}, r"phases\[0\].steps is 0"),
        ({"phases": [PHASES[0] | {"window": [3]}]}, r"did you mean phases\[0\].windows"),
        ({"phases": [*PHASES[:2], {**PHASES[2], "windows": []}]}, r"phases\[2\].windows is missing"),
        ({"phases": [{"steps": 3}]}, r"phases\[0\].max_length is missing"),
    ],
)
def test_wrong_phases_are_refused(changes: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=message):
        read_recipe(write_staged(tmp_path, **changes))


def test_windows_that_do_not_fit_are_refused_at_once(tmp_path: Path) -> None:
    phases = [*PHASES[:2], PHASES[2] | {"windows": [4, 5, 6]}]
    with pytest.raises(ValueError, match="attention_window has 3 items"):
        train(read_recipe(write_staged(tmp_path, phases=phases)), tmp_path / "run")
    recipe = write_recipe(tmp_path / "other", phases=PHASES[:1])
    fields = yaml.safe_load(recipe.read_text())
    fields["run"].pop("steps")
    recipe.write_text(yaml.safe_dump(fields))
    with pytest.raises(ValueError, match="the task classification has no windows"):
        train(read_recipe(recipe), tmp_path / "classes")
