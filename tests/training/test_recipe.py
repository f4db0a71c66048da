"""Recipes are read strictly, and say what is wrong with them."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from longspan.data.options import ReaderOptions
from longspan.tasks.classification import ClassificationSettings
from longspan.training.recipe import as_fields, read_recipe, recipe_of

FIELDS: dict[str, Any] = {
    "task": "classification",
    "model": {"source": "granite"},
    "data": {"format": "imdb", "train": "imdb.jsonl#train"},
    "run": {"steps": 10},
}


def _write(tmp_path: Path, fields: Any) -> Path:
    path = tmp_path / "recipe.yaml"
    path.write_text(yaml.safe_dump(fields) if not isinstance(fields, str) else fields)
    return path


def test_a_recipe_has_defaults_and_the_settings_of_its_task(tmp_path: Path) -> None:
    recipe = read_recipe(_write(tmp_path, FIELDS))
    assert isinstance(recipe.settings, ClassificationSettings)
    assert (recipe.batch.tokens, recipe.run.steps, recipe.model.window) == (16384, 10, 512)


def test_a_recipe_survives_being_written(tmp_path: Path) -> None:
    recipe = read_recipe(_write(tmp_path, {**FIELDS, "settings": {"labels": ["a", "b"]}}))
    assert recipe_of(yaml.safe_load(yaml.safe_dump(as_fields(recipe)))) == recipe


def test_overrides(tmp_path: Path) -> None:
    overrides = ["--optimizer.lr", "3e-5", "--run.steps=7", "--model.gradient-checkpointing", "true"]
    recipe = read_recipe(_write(tmp_path, FIELDS), overrides)
    assert (recipe.optimizer.lr, recipe.run.steps, recipe.model.gradient_checkpointing) == (3e-5, 7, True)


def test_readers_can_be_told_what_they_take(tmp_path: Path) -> None:
    columns = {"format": "conll-tags", "train": "train.txt", "options": {"word": 1, "tag": 3}}
    fields = FIELDS | {"task": "tagging", "data": columns}
    recipe = read_recipe(_write(tmp_path, fields), ["--data.options.names", "*.txt"])
    assert recipe.data.options == ReaderOptions(word=1, tag=3, names="*.txt")
    assert recipe_of(yaml.safe_load(yaml.safe_dump(as_fields(recipe)))) == recipe
    with pytest.raises(ValueError, match=r"data\.options\.word is 'one'; it must be an integer"):
        read_recipe(_write(tmp_path, fields), ["--data.options.word", "one"])
    with pytest.raises(ValueError, match=r"data\.options\.column is no field.*"):
        read_recipe(_write(tmp_path, fields), ["--data.options.column", "1"])


@pytest.mark.parametrize(
    "overrides, message",
    [
        (["--optimizer.rl", "1"], r"optimizer\.rl is no field of a recipe; did you mean optimizer\.lr\?"),
        (["--optimiser.lr", "1"], r"optimiser is no field of a recipe; did you mean optimizer\?"),
        (["--run.steps", "many"], r"run\.steps is 'many'; it must be an integer"),
        (["--run.steps", "true"], r"run\.steps is True; it must be an integer"),
        (
            ["--run.precision", "fp23"],
            r"run\.precision is 'fp23'; it must be one of fp32, bf16; did you mean fp32\?",
        ),
        (["--task", "clasification"], r"task is 'clasification'.*did you mean classification\?"),
        (["--data.format", "hotpotqa"], r"data\.format is 'hotpotqa'; the task classification reads"),
        (["--run.epochs", "2"], r"run\.steps is 10 and run\.epochs is 2\.0; give exactly one"),
        (["--settings.max_length", "2"], r"max_length is 2; it must be at least 8"),
        (["--run.log_every", "0"], r"run\.log_every is 0; it must be at least 1"),
        (["--optimizer.lr", "-1"], r"optimizer\.lr is -1\.0; it must be at least 0"),
        (["--data.train_limit", "0"], r"data\.train_limit is 0; it must be at least 1"),
        (["--data.dev_limit", "-3"], r"data\.dev_limit is -3; it must be at least 1"),
        (["--data.test_limit", "0"], r"data\.test_limit is 0; it must be at least 1"),
        (["--batch.tokens", "0"], r"batch\.tokens is 0; it must be at least 1"),
        (["--run.steps"], r"--run\.steps has no value"),
        (["steps", "3"], r"'steps' is no field"),
        (["--data", "3"], r"data is 3; it must hold fields"),
        (["--data.options.tag", "1"], r"data\.options\.tag is 1; the format imdb takes no options"),
        (["--settings.labels", "a"], r"settings\.labels is 'a'; it must be a list"),
    ],
)
def test_mistakes_are_named(tmp_path: Path, overrides: list[str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read_recipe(_write(tmp_path, FIELDS), overrides)


@pytest.mark.parametrize(
    "text, message",
    [
        ("task: classification\nmodel: {source: x}\n", "data is missing"),
        ("task: classification\nmodel: {}\n", r"model\.source is missing"),
        ("- a\n- b\n", "holds no fields"),
        ("a: [", "is not YAML"),
    ],
)
def test_files_that_are_no_recipe(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read_recipe(_write(tmp_path, text))


def test_a_recipe_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="cannot be read"):
        read_recipe(tmp_path / "none.yaml")
