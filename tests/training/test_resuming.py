"""A run goes on with the recipe that it was begun with; a run that could not begin leaves its folder."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from longspan.training.checkpoints import Checkpoints
from longspan.training.inference import Predictor
from longspan.training.loop import train
from longspan.training.recipe import Recipe, read_recipe
from longspan.training.resuming import check_same
from tests.training.runs import write_recipe


def _train(recipe: Path, out: Path, *overrides: str, **arguments: Any) -> dict[str, float]:
    return train(read_recipe(recipe, overrides), out, **arguments)


@pytest.fixture(scope="module")
def recipe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_recipe(tmp_path_factory.mktemp("recipe"), run={"steps": 3})


@pytest.fixture(scope="module")
def finished(recipe: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "finished"
    _train(recipe, out)
    return out


def _files(folder: Path) -> dict[str, bytes]:
    return {name: (folder / name).read_bytes() for name in ("config.yaml", "versions.json", "metrics.jsonl")}


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        (["--optimizer.lr", "3e-5"], "optimizer.lr is 3e-05 and was 0.001"),
        (["--run.seed", "7"], "run.seed is 7 and was 0"),
        (["--settings.max_length", "128"], "settings.max_length is 128 and was 256"),
        (
            ["--settings.labels", "[a, bad, good]"],
            r"settings.labels is \['a', 'bad', 'good'\] and was \['bad', 'good'\]",
        ),
        (["--data.train_limit", "5", "--run.precision", "bf16"], "data.train_limit is 5 and was None, run"),
    ],
)
def test_another_recipe_is_refused_before_anything_is_written(
    overrides: list[str], said: str, recipe: Path, finished: Path
) -> None:
    before = _files(finished)
    with pytest.raises(ValueError, match=f"was begun with another recipe: .*{said}"):
        _train(recipe, finished, *overrides, resume=True)
    assert _files(finished) == before
    Predictor(finished)  # it can still be used


def test_what_may_change_does(recipe: Path, finished: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    shutil.copytree(finished, out)
    data = recipe.parent
    _train(
        recipe,
        out,
        *("--run.steps", "4", "--run.log_every", "2", "--run.evaluate_every", "2", "--run.minutes", "9"),
        *("--run.checkpoint_every", "1", "--run.keep_checkpoints", "3", "--batch.micro_tokens", "100"),
        *("--data.cache", str(tmp_path / "cache"), "--data.workers", "0", "--data.root", str(data)),
        *("--model.gradient_checkpointing", "true"),
        resume=True,
    )
    assert "steps: 4" in (out / "config.yaml").read_text()
    versions = json.loads((out / "versions.json").read_text())
    assert [(one["step"], one["seed"]) for one in versions] == [(0, 0), (3, 0)]
    before, after = (json.loads((run / "result.json").read_text()) for run in (finished, out))
    assert 0 < before["seconds"] < after["seconds"]
    assert 0 < before["processor_seconds"] < after["processor_seconds"]


def test_a_checkpoint_that_does_not_say_the_processors_time(
    recipe: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of earlier versions."""
    save = Checkpoints.save

    def save_less(self: Checkpoints, step: int, model: Any, optimizer: Any, progress: Any) -> None:
        known = {name: value for name, value in progress.items() if name != "processor_seconds"}
        save(self, step, model, optimizer, known)

    with monkeypatch.context() as patch:
        patch.setattr(Checkpoints, "save", save_less)
        _train(recipe, tmp_path / "run", "--run.minutes", "0")
    _train(recipe, tmp_path / "run", resume=True)
    assert json.loads((tmp_path / "run" / "result.json").read_text())["step"] == 3


def test_phases_are_compared_one_by_one(tmp_path: Path) -> None:
    def of(**changes: Any) -> Recipe:
        phase = {"steps": 2, "max_length": 64, "examples": 2, "lr": 1e-3}
        path = write_recipe(tmp_path, phases=[phase, phase | changes])
        fields = yaml.safe_load(path.read_text())
        del fields["run"]["steps"]
        path.write_text(yaml.safe_dump(fields))
        return read_recipe(path)

    check_same(of(), of(), tmp_path)
    with pytest.raises(ValueError, match=r"phases\[1\].lr is 0.1 and was 0.001;"):
        check_same(of(lr=0.1), of(), tmp_path)


def test_a_run_without_a_checkpoint_begins_with_any_recipe(recipe: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    _train(recipe, out, "--run.steps", "1", "--run.seed", "3", "--schedule.warmup", "0", resume=True)
    shutil.rmtree(out / "checkpoints")
    (out / "result.json").unlink()
    _train(recipe, out, "--run.steps", "1", "--schedule.warmup", "0", resume=True)
    assert yaml.safe_load((out / "config.yaml").read_text())["run"]["seed"] == 0


def test_a_checkpoint_of_another_model_is_one_line_and_leaves_the_folder(
    recipe: Path, finished: Path, tmp_path: Path
) -> None:
    before = _files(finished)
    checkpoint = finished / "checkpoints" / "step-00000003"
    with pytest.raises(ValueError, match="is not one of the model of this recipe: Size mismatch") as caught:
        _train(recipe, finished, "--settings.labels", "[a, bad, good]", resume=checkpoint)
    assert len(str(caught.value)) < 400 and "\n" not in str(caught.value)
    assert _files(finished) == before


def test_a_checkpoint_that_is_not_there(recipe: Path, finished: Path, tmp_path: Path) -> None:
    none = tmp_path / "step-00000007"
    with pytest.raises(ValueError, match=r"step-00000007 does not exist \(/"):
        _train(recipe, tmp_path / "run", resume=none)
    with pytest.raises(ValueError, match="finished is no checkpoint; it must be a folder such as RUN/check"):
        _train(recipe, tmp_path / "run", resume=finished)
    assert not (tmp_path / "run").exists()


def test_a_run_that_could_not_begin_leaves_its_folder(recipe: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    own = ("--data.cache", "null")
    with pytest.raises(ValueError, match="warmup"):
        _train(recipe, out, "--schedule.warmup", "100", *own)
    # What was tokenised is of use to the next one.
    assert [path.name for path in out.iterdir()] == ["features"]
    with pytest.raises(ValueError, match="no/such"):
        _train(recipe, out, "--model.source", "no/such/model", *own)
    _train(recipe, out, *own)
    assert (out / "result.json").exists()


def test_wrong_dev_data_leave_the_folder_too(tmp_path: Path) -> None:
    recipe, out = write_recipe(tmp_path / "recipe", run={"steps": 3}), tmp_path / "run"
    dev = tmp_path / "recipe" / "dev.jsonl"
    right = dev.read_text()
    dev.write_text('{"id": "x"}\n')
    with pytest.raises(ValueError, match="dev.jsonl, line 1: .* is missing"):
        _train(recipe, out)
    assert not out.exists()
    dev.write_text(right)
    _train(recipe, out)
