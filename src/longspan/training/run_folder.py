"""The folder of a run: what was asked, with what software, and what came out.

```
config.yaml       the recipe, resolved
versions.json     software and machine, for every time that the run began or went on
metrics.jsonl     losses and scores; tensorboard/ has the same
checkpoints/      to go on from
best/, last/      models with tokenizer and card: for evaluate, predict, from_pretrained
result.json       the scores at the end
```
"""

import json
import os
import platform
import shutil
import sys
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import Any

import torch
import yaml
from torch import nn
from transformers import PreTrainedTokenizerBase

from longspan.conversion.interrupts import uninterrupted
from longspan.conversion.whole_directory import written_whole
from longspan.tasks.task import Task
from longspan.training.recipe import Recipe, as_fields, recipe_of
from longspan.training.run_card import run_card
from longspan.training.write_errors import writing

_SCORES = "scores.json"
_PACKAGES = ("longspan", "torch", "transformers", "tokenizers", "numpy")


class RunFolder:
    """A run's folder.

    Args:
        path: of it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.checkpoints = path / "checkpoints"
        self.tokenizer = path / "tokenizer"
        self.features = path / "features"
        self.best = path / "best"
        self.last = path / "last"

    @property
    def is_new(self) -> bool:
        """Whether nothing is there, but for tokenised data of a run that could not begin."""
        if not self.path.exists():
            return True
        return self.path.is_dir() and all(one == self.features for one in self.path.iterdir())

    @property
    def has_begun(self) -> bool:
        """Whether there is something to go on from, or a result."""
        return any(self.checkpoints.glob("step-*")) or self.result() is not None

    def check_new(self) -> None:
        """Refuses a folder with another run in it.

        Raises:
            ValueError: the folder is not empty.
        """
        if not self.is_new:
            raise ValueError(
                f"out is {self.path}, which is not empty; choose another folder, or go on with --resume"
            )

    def open(self, tokenizer: PreTrainedTokenizerBase) -> None:
        """Makes the folder, with what is needed to prepare a run in it."""
        self.path.mkdir(parents=True, exist_ok=True)
        # What a run left that was killed while it wrote.
        for pattern in (".best.*", ".last.*", "features/.*"):
            for left_over in self.path.glob(pattern):
                shutil.rmtree(left_over)
        tokenizer.save_pretrained(self.tokenizer)

    def begin(self, recipe: Recipe, step: int) -> None:
        """Writes down what was asked, and, below those before it, with what software a run begins or goes on.

        Args:
            recipe: resolved.
            step: where it begins; 0 but for a run that goes on.
        """
        write_whole(self.path / "config.yaml", yaml.safe_dump(as_fields(recipe), sort_keys=False))
        versions = [*self._versions(), _versions(recipe, step)]
        write_whole(self.path / "versions.json", json.dumps(versions, indent=2) + "\n")

    def _versions(self) -> list[Any]:
        path = self.path / "versions.json"
        if not path.exists():
            return []
        found = json.loads(path.read_text(encoding="utf-8"))
        return found if isinstance(found, list) else [found]

    def clear(self) -> None:
        """Removes a run that came to nothing; tokenised data stay, for the next one."""
        for one in self.path.glob("*"):
            if one.is_dir() and one != self.features:
                shutil.rmtree(one, ignore_errors=True)
            elif one.is_file():
                one.unlink()
        for folder in (self.features, self.path):
            with suppress(OSError):  # it is not there, or not empty
                folder.rmdir()

    def recipe(self) -> Recipe:
        """What was asked.

        Raises:
            ValueError: this is no folder of a run.
        """
        path = self.path / "config.yaml"
        if not path.exists():
            raise ValueError(f"{self.path} is no folder of a run: it has no config.yaml")
        try:
            return recipe_of(yaml.safe_load(path.read_text(encoding="utf-8")))
        except (ValueError, yaml.YAMLError) as error:
            raise ValueError(f"{path} is no recipe: {' '.join(str(error).split())}") from error

    def save_model(
        self,
        folder: Path,
        task: Task[Any, Any],
        model: nn.Module,
        recipe: Recipe,
        step: int,
        scores: dict[str, float],
    ) -> None:
        """Writes ``best`` or ``last``: the model after ``step``, its tokenizer, its card, its scores.

        Raises:
            OSError: it cannot be written; the one before it stays.
        """
        with writing(folder, "the model"), written_whole(folder) as new:
            task.save(model, new)
            task.tokenizer.save_pretrained(new)
            (new / "README.md").write_text(run_card(recipe, model, scores), encoding="utf-8")
            (new / _SCORES).write_text(json.dumps({"step": step, "scores": scores}) + "\n")

    def step_of(self, folder: Path) -> int:
        """After which step ``best`` or ``last`` was written; -1 where it is not there."""
        path = folder / _SCORES
        return json.loads(path.read_text())["step"] if path.exists() else -1

    def result(self) -> dict[str, Any] | None:
        """What `finish` wrote, if it did."""
        path = self.path / "result.json"
        return json.loads(path.read_text()) if path.exists() else None

    def finish(self, result: dict[str, Any]) -> None:
        """Writes down what came out."""
        write_whole(self.path / "result.json", json.dumps(result, indent=2) + "\n")


def write_whole(path: Path, content: str | bytes) -> None:
    """Writes a file that is there whole or not at all."""
    new = path.with_name(f".{path.name}.new")
    with uninterrupted():
        try:
            new.write_bytes(content.encode() if isinstance(content, str) else content)
            os.replace(new, path)
        finally:
            new.unlink(missing_ok=True)


def _versions(recipe: Recipe, step: int) -> dict[str, Any]:
    versions: dict[str, str | None] = {}
    for name in _PACKAGES:
        versions[name] = None
        with suppress(metadata.PackageNotFoundError):
            versions[name] = metadata.version(name)
    return {
        "step": step,
        "packages": versions,
        "python": platform.python_version(),
        "system": platform.platform(),
        "threads": torch.get_num_threads(),
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        "processes": int(os.environ.get("WORLD_SIZE", 1)),
        "seed": recipe.run.seed,
        "command": sys.argv,
    }
