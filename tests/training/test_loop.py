"""The loop learns, goes on to the same bits, and trains the same with any number of processes."""

import json
import os
import random
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from longspan.training.inference import Predictor, read_examples
from longspan.training.loop import prepared, train
from longspan.training.metrics_log import read_metrics
from longspan.training.recipe import read_recipe
from tests.training.runs import write_recipe, write_reviews


def _train(recipe: Path, out: Path, *overrides: str, **arguments: Any) -> dict[str, float]:
    return train(read_recipe(recipe, overrides), out, **arguments)


def _losses(run: Path) -> list[float]:
    return [line["loss"] for line in read_metrics(run) if line["kind"] == "train"]


def _weights(run: Path) -> dict[str, torch.Tensor]:
    return load_file(run / "last" / "model.safetensors")


@pytest.fixture(scope="module")
def recipe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_recipe(tmp_path_factory.mktemp("recipe"))


@pytest.fixture(scope="module")
def finished(recipe: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run to the end."""
    out = tmp_path_factory.mktemp("runs") / "finished"
    _train(recipe, out)
    return out


def test_a_run_leaves_everything_behind(finished: Path) -> None:
    names = {path.name for path in finished.iterdir()}
    assert names >= {
        "config.yaml", "versions.json", "metrics.jsonl", "tensorboard", "checkpoints", "best", "last",
        "result.json", "tokenizer",
    }  # fmt: skip
    assert [path.name for path in sorted((finished / "checkpoints").iterdir())] == [
        "step-00000009",
        "step-00000012",
    ]
    assert "good" in (finished / "config.yaml").read_text()
    assert json.loads((finished / "versions.json").read_text())[0]["seed"] == 0
    card = (finished / "best" / "README.md").read_text()
    assert "classification" in card and "macro_f1" in card
    kinds = [line["kind"] for line in read_metrics(finished)]
    assert (kinds.count("train"), kinds.count("dev")) == (12, 2)


FAST = ("--model.dropout", "0", "--optimizer.lr", "3e-3", "--optimizer.head_lr", "3e-3")


def test_a_run_learns(recipe: Path, tmp_path: Path) -> None:
    assert _train(recipe, tmp_path / "run", *FAST)["macro_f1"] == 1
    losses = _losses(tmp_path / "run")
    assert losses[:4] == pytest.approx([0.630, 0.311, 1.400, 0.854], rel=5e-3)
    assert losses[-1] < 0.2


def test_a_run_is_the_same_twice(recipe: Path, finished: Path, tmp_path: Path) -> None:
    _train(recipe, tmp_path / "again")
    assert _losses(tmp_path / "again") == _losses(finished)


def test_a_trained_model_predicts(finished: Path, tmp_path: Path) -> None:
    predictor = Predictor(finished)
    examples = read_examples(predictor, str(write_reviews(tmp_path / "new.jsonl", 4)), None)
    said = predictor(examples)
    assert [one["id"] for one in said] == [example.id for example in examples]
    assert set(predictor.task.score(examples, said)) == {"accuracy", "macro_f1"}


def test_parts_of_a_file_are_learned_from_and_scored(tmp_path: Path) -> None:
    reviews = write_reviews(tmp_path / "reviews.jsonl", 60)
    recipe = write_recipe(tmp_path / "recipe", data={"train": f"{reviews}#train", "dev": f"{reviews}#dev"})
    out = tmp_path / "run"
    scores = _train(recipe, out, "--data.train_limit", "20", "--run.steps", "3")
    predictor = Predictor(out, "last")
    examples = read_examples(predictor, f"{reviews}#dev", None)
    assert len(examples) == 6
    assert predictor.task.score(examples, predictor(examples)) == pytest.approx(scores)


def test_a_run_goes_on_to_the_same_bits(recipe: Path, finished: Path, tmp_path: Path) -> None:
    whole, cut = _weights(finished), tmp_path / "cut"
    _train(recipe, cut, "--run.minutes", "0")  # one step, then time is over
    assert len(_losses(cut)) == 1
    _train(recipe, cut, resume=True)
    assert _losses(cut) == _losses(finished)
    resumed = _weights(cut)
    assert all(torch.equal(resumed[name], whole[name]) for name in whole)


def _killed(recipe: Path, out: Path, losses: int) -> Path | None:
    """The folder of a run that was killed when it had so many losses; None if it was over."""
    command = [sys.executable, "-m", "longspan", "train", str(recipe), "--out", str(out)]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    while process.poll() is None and (not (out / "metrics.jsonl").exists() or len(_losses(out)) < losses):
        time.sleep(0.01)
    process.kill()
    return None if process.wait() == 0 else out


def test_a_killed_run_goes_on_to_the_same_bits(recipe: Path, finished: Path, tmp_path: Path) -> None:
    lot = random.Random(os.getpid())
    # A run is short, and may be over before it can be killed: then another one is.
    killed = (_killed(recipe, tmp_path / f"killed-{at}", lot.randrange(3, 11)) for at in range(20))
    out = next(filter(None, killed), None)
    assert out is not None, "no run was killed"
    _train(recipe, out, resume=True)
    assert _losses(out) == _losses(finished)
    whole, resumed = _weights(finished), _weights(out)
    assert all(torch.equal(resumed[name], whole[name]) for name in whole)


def _together(recipe: Path, out: Path, *arguments: str) -> list[float]:
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    command += ["-m", "longspan", "train", str(recipe), "--out", str(out), "--model.dropout", "0", *arguments]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    run = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300)
    assert run.returncode == 0, run.stderr[-3000:]
    assert "Warning" not in run.stderr, run.stderr[-3000:]
    return _losses(out)


def test_nothing_of_the_processes_outlives_the_run(
    recipe: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def talking() -> list[str]:
        names: list[str] = []
        for task in Path("/proc/self/task").glob("*/comm"):
            with suppress(FileNotFoundError, ProcessLookupError):  # of a thread that has just ended
                names.append(task.read_text())
        return [name for name in names if "gloo" in name]

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address, port = free.getsockname()
    # One process that talks to itself, as torchrun starts it.
    for name, value in {"RANK": 0, "WORLD_SIZE": 1, "MASTER_ADDR": address, "MASTER_PORT": port}.items():
        monkeypatch.setenv(name, str(value))
    with prepared(read_recipe(recipe, ["--run.steps", "3"]), tmp_path / "run") as run:
        run.train()
        assert talking()
    assert not talking()


@pytest.mark.parametrize("parallel", ["ddp", "fsdp"])
def test_two_processes_train_as_one(recipe: Path, tmp_path: Path, parallel: str) -> None:
    _train(recipe, tmp_path / "one", "--model.dropout", "0", "--run.steps", "4")
    # Scores before the last step, which are seldom better ones, come between steps and checkpoints.
    often = ("--run.evaluate_every", "1", "--run.checkpoint_every", "1")
    losses = _together(recipe, tmp_path / "two", "--run.steps", "4", "--parallel", parallel, *often)
    assert losses == pytest.approx(_losses(tmp_path / "one"), rel=2e-4)
    one, two = _weights(tmp_path / "one"), _weights(tmp_path / "two")
    for name in one:
        # Softmax does not see a bias of keys: its gradients are rounding errors, which Adam makes steps of.
        if not name.endswith(("key.bias", "key_global.bias")):
            torch.testing.assert_close(two[name], one[name], rtol=1e-3, atol=1e-4)


def test_the_mean_does_not_depend_on_pieces(recipe: Path, tmp_path: Path) -> None:
    for name, tokens in (("whole", 300), ("pieces", 60)):
        _train(
            recipe, tmp_path / name, "--model.dropout", "0", f"--batch.micro_tokens={tokens}", "--run.steps=3"
        )
    assert _losses(tmp_path / "pieces") == pytest.approx(_losses(tmp_path / "whole"), rel=1e-5)


def test_going_back_leaves_nothing_of_the_other_branch(recipe: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    _train(recipe, out, *FAST)
    back = out / "checkpoints" / "step-00000009"
    slow = (
        "--optimizer.lr",
        "0",
        "--optimizer.head_lr",
        "0",
        "--run.steps",
        "11",
        "--run.evaluate_every",
        "1",
    )
    _train(recipe, out, "--model.dropout", "0", *slow, resume=back)
    names = [path.name for path in sorted((out / "checkpoints").iterdir())]
    assert names == ["step-00000009", "step-00000011"]
    assert json.loads((out / "best" / "scores.json").read_text())["step"] <= 11
    assert [line["step"] for line in read_metrics(out) if line["kind"] == "train"] == list(range(1, 12))


def test_a_finished_run_is_not_scored_again(recipe: Path, tmp_path: Path) -> None:
    first = _train(recipe, tmp_path / "run", "--run.steps", "2", "--schedule.warmup", "0")
    lines = read_metrics(tmp_path / "run")
    again = _train(recipe, tmp_path / "run", "--run.steps", "2", "--schedule.warmup", "0", resume=True)
    assert again == first and read_metrics(tmp_path / "run") == lines


def test_a_gradient_that_is_no_number_does_not_move_the_weights(
    recipe: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    norms = iter([1.0, 1.0, 1.0, float("nan")])
    monkeypatch.setattr(torch.nn.utils, "clip_grad_norm_", lambda *_: torch.tensor(next(norms)))
    with pytest.raises(FloatingPointError, match="norm is nan"):
        _train(recipe, tmp_path / "run")
    assert json.loads((tmp_path / "run" / "not-a-number.json").read_text())["step"] == 3
    assert [path.name for path in (tmp_path / "run" / "checkpoints").iterdir()] == ["step-00000003"]


def test_a_folder_with_a_run_is_refused(recipe: Path, finished: Path) -> None:
    with pytest.raises(ValueError, match="not empty; choose another folder, or go on with --resume"):
        _train(recipe, finished)


def test_a_broken_checkpoint_is_named_with_the_one_before(recipe: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    _train(recipe, out, "--run.steps", "6")
    newest = out / "checkpoints" / "step-00000006"
    weights = max(newest.iterdir(), key=lambda file: file.stat().st_size)
    weights.write_bytes(weights.read_bytes()[:-100])
    with pytest.raises(ValueError, match=r"step-00000006 is broken: .* --resume-from .*step-00000003"):
        _train(recipe, out, "--run.steps", "6", resume=True)
    _train(recipe, out, "--run.steps", "6", resume=out / "checkpoints" / "step-00000003")


def test_a_loss_that_is_no_number_stops_the_run(tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path / "recipe", optimizer={"lr": 1e30, "clip": None, "head_lr": 1e30})
    with pytest.raises(FloatingPointError, match="names its inputs"):
        _train(recipe, tmp_path / "run")
    said = json.loads((tmp_path / "run" / "not-a-number.json").read_text())
    assert all(name.startswith("review-") for name in said["examples"]) and said["examples"]


def test_bad_data_stop_the_run_with_their_error(tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path / "recipe")
    (tmp_path / "recipe" / "dev.jsonl").write_text('{"id": "x"}\n')
    with pytest.raises(ValueError, match="dev.jsonl, line 1: .* is missing"):
        _train(recipe, tmp_path / "run")


@pytest.mark.parametrize(
    "changes", [{"run": {"precision": "bf16"}}, {"model": {"gradient_checkpointing": True}}]
)
def test_other_ways_to_compute_train_too(tmp_path: Path, changes: dict[str, Any]) -> None:
    _train(write_recipe(tmp_path / "recipe", **changes), tmp_path / "run", *FAST)
    assert _losses(tmp_path / "run")[-1] < 0.2
