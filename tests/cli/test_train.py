"""`longspan train`, `evaluate`, `predict` and `plot run` as a user types them, in this process."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from longspan.training.feature_store import FeatureStore
from longspan.training.metrics_log import read_metrics
from tests.cli.running import ends, mistake
from tests.training.runs import GOOD, write_recipe, write_reviews
from tests.training.test_stages import write_staged

Captured = pytest.CaptureFixture[str]
pytestmark = pytest.mark.usefixtures("loudness")


@pytest.fixture(scope="module")
def recipe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    fast = {"lr": 3e-3, "head_lr": 3e-3}
    return write_recipe(tmp_path_factory.mktemp("recipe"), optimizer=fast, model={"dropout": 0.0})


@pytest.fixture(scope="module")
def run(recipe: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run."""
    out = tmp_path_factory.mktemp("runs") / "finished"
    _does("train", recipe, "--out", out)
    return out


def _does(*arguments: object) -> None:
    """Runs a command that must succeed."""
    assert ends(*arguments) == 0


def test_train_prints_the_scores_and_where_the_run_is(recipe: Path, tmp_path: Path, capsys: Captured) -> None:
    out = tmp_path / "run"
    _does("train", recipe, "--run.steps", "3", "--out", out, "--optimizer.lr=1e-3")
    printed = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in printed] == ["accuracy", "macro_f1", "The"]
    assert printed[-1] == f"The run is in {out}."
    assert "lr: 0.001" in (out / "config.yaml").read_text()
    assert json.loads((out / "result.json").read_text())["step"] == 3


def test_a_run_without_a_name_is_called_as_its_recipe(
    recipe: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    monkeypatch.chdir(tmp_path)
    _does("train", recipe, "--run.steps", "3")
    assert "The run is in runs/recipe." in capsys.readouterr().out
    assert (tmp_path / "runs" / "recipe" / "last" / "config.json").exists()


@pytest.mark.parametrize(
    ("overrides", "hint"),
    [
        (["--optimizer.rl", "1"], "optimizer.rl is no field of a recipe; did you mean optimizer.lr?"),
        (["--setings.max_length", "64"], "did you mean settings?"),
        (["--run.steps", "many"], "run.steps is 'many'; it must be an integer"),
        (["--data.train", "none.jsonl"], "none.jsonl does not exist"),
        (["--model.source", "no/such/model"], "no/such/model"),
        (["--parallel", "fsdp"], "needs torchrun"),
        (["--parallel", "dpp"], "ddp"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_mistakes_are_one_line(
    overrides: list[str], hint: str, recipe: Path, tmp_path: Path, capsys: Captured
) -> None:
    assert hint in mistake(capsys, "train", recipe, *overrides, "--out", tmp_path / "run")


def test_a_recipe_that_is_not_there(tmp_path: Path, capsys: Captured) -> None:
    assert "none.yaml cannot be read" in mistake(capsys, "train", tmp_path / "none.yaml")


def test_a_folder_that_is_not_empty_is_left_alone(recipe: Path, tmp_path: Path, capsys: Captured) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    said = mistake(capsys, "train", recipe, "--out", tmp_path)
    assert "not empty; choose another folder, or go on with --resume" in said
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_resume_goes_on_after_a_stop(recipe: Path, tmp_path: Path, capsys: Captured) -> None:
    out = tmp_path / "run"
    command = ["train", str(recipe), "--out", str(out)]
    _does(*command, "--run.minutes", "0")
    _does(*command, "--resume")
    assert "Going on from step-00000001." in capsys.readouterr().err
    assert [line["step"] for line in read_metrics(out) if line["kind"] == "train"] == list(range(1, 13))


def test_resume_of_a_finished_run_keeps_its_scores(recipe: Path, tmp_path: Path, capsys: Captured) -> None:
    command = ["train", str(recipe), "--out", str(tmp_path / "run"), "--run.steps", "3"]
    _does(*command)
    first = capsys.readouterr().out
    _does(*command, "--resume")
    assert capsys.readouterr().out == first


def test_without_a_step_the_model_is_scored_as_it_is(recipe: Path, tmp_path: Path, capsys: Captured) -> None:
    _does("train", recipe, "--run.steps", "0", "--schedule.warmup", "0", "--out", tmp_path / "run")
    assert "macro_f1" in capsys.readouterr().out
    assert (tmp_path / "run" / "last" / "config.json").exists()


def test_a_path_that_is_not_there_is_said_in_full(
    recipe: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    monkeypatch.chdir(tmp_path)
    out = tmp_path / "run"
    said = mistake(capsys, "train", recipe, "--data.dev", "a.jsonl", "--data.root", "in", "--out", out)
    assert f"data.dev is 'a.jsonl': {tmp_path}/in/a.jsonl does not exist; it must be a file or a fol" in said
    assert f"in the format classification; data.root is 'in', seen from {tmp_path}" in said
    said = mistake(capsys, "train", recipe, "--model.source", "no/such/model", "--out", out)
    assert f"has no tokenizer: there is no folder {tmp_path}/no/such/model, and the Hub" in said
    assert not out.exists()


def test_a_limit_of_the_test_data(recipe: Path, tmp_path: Path) -> None:
    test = write_reviews(tmp_path / "test.jsonl", 6)
    limits = ("--data.test", test, "--data.test_limit", "2", "--data.cache", "null")
    _does("train", recipe, "--run.steps", "3", *limits, "--out", tmp_path / "run")
    stores = [FeatureStore(folder) for folder in (tmp_path / "run" / "features").iterdir()]
    assert sorted(len(store) for store in stores) == [2, 6, 20]


def test_evaluate_prints_scores(run: Path, tmp_path: Path, capsys: Captured) -> None:
    data, out = write_reviews(tmp_path / "more.jsonl", 6), tmp_path / "said.jsonl"
    _does("evaluate", run, "--data", data, "--out", out)
    assert capsys.readouterr().out == "accuracy  1.0000\nmacro_f1  1.0000\n"
    assert len(out.read_text().splitlines()) == 6


def test_predict_reads_documents_without_labels(run: Path, tmp_path: Path, capsys: Captured) -> None:
    new, out = tmp_path / "new.jsonl", tmp_path / "said.jsonl"
    new.write_text(json.dumps({"id": "a", "text": GOOD}) + "\n")
    _does("predict", run, "--input", new)
    printed = json.loads(capsys.readouterr().out)
    assert (printed["id"], printed["label"]) == ("a", "good")
    _does("predict", run, "--input", new, "--out", out, "--checkpoint", "last")
    assert capsys.readouterr().out == ""
    assert json.loads(out.read_text())["label"] == "good"
    assert "label is missing" in mistake(capsys, "evaluate", run, "--data", new)


def test_the_folder_of_predictions_is_made_before_they_are(
    run: Path, tmp_path: Path, capsys: Captured
) -> None:
    new, out = write_reviews(tmp_path / "new.jsonl", 2), tmp_path / "no" / "such" / "said.jsonl"
    _does("predict", run, "--input", new, "--out", out)
    assert len(out.read_text().splitlines()) == 2
    _does("evaluate", run, "--data", new, "--out", out.parent / "again" / "said.jsonl")
    capsys.readouterr()
    for command in (("evaluate", run, "--data", new), ("predict", run, "--input", new)):
        assert "a folder; it must be a file" in mistake(capsys, *command, "--out", tmp_path)
        assert "cannot be written: Not a directory" in mistake(capsys, *command, "--out", new / "in" / "x")


def test_settings_are_changed_to_score(tmp_path: Path, capsys: Captured) -> None:
    recipe, out = write_staged(tmp_path), tmp_path / "run"
    _does("train", recipe, "--out", out)
    capsys.readouterr()
    command = ("evaluate", out, "--data", f"{tmp_path / 'text.txt'}#test", "--settings.evaluation_limit")
    _does(*command, "20")
    printed = capsys.readouterr().out.splitlines()
    assert printed[0].startswith("bits_per_byte")
    assert printed[-1] == "Scored: 19 tokens of 1 document: settings.evaluation_limit is 20"
    sliding = {"evaluation": "sliding", "evaluation_length": 16, "evaluation_step": 1}
    _does(*command, "null", *(f"--settings.{name}={value}" for name, value in sliding.items()))
    other = capsys.readouterr().out.splitlines()
    assert len(other) == 4 and other[0] != printed[0]
    predicted = ("predict", out, "--input", tmp_path / "text.txt", "--format", "bytes")
    _does(*predicted, "--settings.evaluation_limit", "3")
    assert json.loads(capsys.readouterr().out)["tokens"] == 2


@pytest.mark.parametrize(
    ("override", "hint"),
    [
        (["--settings.max_lenght", "64"], "settings.max_lenght is no field of a recipe; did you mean"),
        (["--settings.max_length", "2"], "settings.max_length is 2; it must be at least 8"),
        (["--settings.labels", "[a, b]"], "--settings.labels cannot be changed"),
        (["--optimizer.lr", "1"], "--optimizer.lr is no option here"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_settings_are_checked(
    override: list[str], hint: str, run: Path, tmp_path: Path, capsys: Captured
) -> None:
    data = write_reviews(tmp_path / "more.jsonl", 2)
    assert hint in mistake(capsys, "evaluate", run, "--data", data, *override)
    assert hint in mistake(capsys, "predict", run, *override, "--input", data)


def test_one_of_several_processes_prints_and_writes(run: Path, tmp_path: Path) -> None:
    data, out = write_reviews(tmp_path / "more.jsonl", 6), tmp_path / "said.jsonl"
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    command += ["-m", "longspan", "evaluate", str(run), "--data", str(data), "--out", str(out)]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"OMP_NUM_THREADS": "1"})
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout == "accuracy  1.0000\nmacro_f1  1.0000\n"
    assert "destroy_process_group" not in done.stderr
    assert len(out.read_text().splitlines()) == 6


def test_a_folder_without_a_run(run: Path, tmp_path: Path, capsys: Captured) -> None:
    said = mistake(capsys, "predict", tmp_path, "--input", "new.jsonl")
    assert "is no folder of a run: it has no config.yaml" in said
    said = mistake(capsys, "evaluate", run, "--data", "none.jsonl")
    assert "none.jsonl does not exist" in said
    said = mistake(capsys, "evaluate", run, "--data", "none.jsonl", "--format", "hotpotqa")
    assert "the task classification reads classification, imdb, hyperpartisan, peerread" in said


def test_plot_run_draws_it(run: Path, tmp_path: Path, capsys: Captured) -> None:
    picture = tmp_path / "run.png"
    _does("plot", "run", run, "--out", picture)
    assert capsys.readouterr().out == f"Picture: {picture}\n"
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert "metrics.jsonl" in mistake(capsys, "plot", "run", tmp_path, "--out", picture)


def test_mistakes_that_are_not_the_users_are_called_ours(
    recipe: Path, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ValueError("deep inside")

    with monkeypatch.context() as patch:
        patch.setattr(torch.nn.utils, "clip_grad_norm_", broken)
        _is_a_fault(capsys, "train", recipe, "--out", tmp_path / "run")
    monkeypatch.setattr(torch.nn.Linear, "forward", broken)
    data = write_reviews(tmp_path / "more.jsonl", 2)
    for command in (["evaluate", "--data"], ["predict", "--input"]):
        _is_a_fault(capsys, command[0], run, command[1], data)
        _is_a_fault(capsys, command[0], run, command[1], data, "--debug")


def _is_a_fault(capsys: Captured, *words: object) -> None:
    """A command ends as with any fault of longspan, and shows where if it is asked to."""
    assert ends(*words) == 70
    said = capsys.readouterr().err
    assert "unexpected ValueError: deep inside" in said
    assert ("Traceback" in said) == ("--debug" in words)


def test_data_that_turn_out_wrong_while_training_are_named(tmp_path: Path, capsys: Captured) -> None:
    recipe = write_recipe(tmp_path / "recipe")
    with (tmp_path / "recipe" / "dev.jsonl").open("a") as file:
        file.write(json.dumps({"id": "x", "text": "a"}) + "\n")
    assert ends("train", recipe, "--out", tmp_path / "run") == 2
    assert "dev.jsonl, line 7: label is missing" in capsys.readouterr().err.splitlines()[-1]
