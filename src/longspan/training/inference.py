"""A trained model read back from its run, to predict."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self

import torch
from torch import nn

from longspan.conversion.loading import load_tokenizer
from longspan.data.format_names import FormatName
from longspan.data.options import NO_OPTIONS
from longspan.data.parts import read_part
from longspan.tasks.registry import TASKS
from longspan.tasks.task import Task
from longspan.training.evaluation import FeatureList, predict
from longspan.training.processes import Processes
from longspan.training.recipe import Recipe, with_settings
from longspan.training.run_folder import RunFolder
from longspan.training.task_module import TaskModule


class Trained(NamedTuple):
    """A model, and what it was trained for."""

    recipe: Recipe
    task: Task[Any, Any]
    model: nn.Module


def load_trained(
    run: Path, checkpoint: Literal["best", "last"] = "best", overrides: Sequence[str] = ()
) -> Trained:
    """Reads a model of a run back.

    Args:
        run: the folder of a run.
        checkpoint: which of its models.
        overrides: settings of the task to change, as in ``--settings.num_beams 1``.

    Raises:
        ValueError: there is no run, or no such model, or a setting is wrong.
    """
    folder = RunFolder(run)
    recipe = with_settings(folder.recipe(), overrides)
    source = getattr(folder, checkpoint)
    if not source.exists():
        there = [name for name in ("best", "last") if (run / name).exists()]
        raise ValueError(f"{run} has no model {checkpoint!r}; it has {' and '.join(there) or 'none yet'}")
    tokenizer: Any = load_tokenizer(source)
    task = TASKS[recipe.task](recipe.settings, tokenizer)
    try:
        return Trained(recipe, task, task.load(source))
    except (RuntimeError, ValueError) as error:
        if not overrides:
            raise
        raise ValueError(
            f"{source} cannot be loaded with {' '.join(overrides)}: {' '.join(str(error).split())[:300]}"
        ) from error


class Predictor:
    """A model that reads examples of its task.

    Args:
        run: the folder of a run.
        checkpoint: which of its models.
        overrides: settings of the task to change.
        tokens: the most that are read at once; None for as many as in training, whose steps back need more
            memory.

    Raises:
        ValueError: there is no run, or no such model, or a setting or ``tokens`` is wrong.
    """

    def __init__(
        self,
        run: Path,
        checkpoint: Literal["best", "last"] = "best",
        overrides: Sequence[str] = (),
        *,
        tokens: int | None = None,
    ) -> None:
        if tokens is not None and tokens < 1:
            raise ValueError(f"tokens is {tokens}; it must be at least 1, or None")
        self.recipe, self.task, model = load_trained(run, checkpoint, overrides)
        batch = self.recipe.batch
        self._tokens = tokens or batch.micro_tokens or batch.tokens
        self._processes = Processes()
        self._module = TaskModule(self.task, model.to(self._processes.device))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the talk with the other processes, where torchrun started some."""
        self._processes.close()

    @property
    def is_main(self) -> bool:
        """Whether this process is the one to print and write what all of them know."""
        return self._processes.is_main

    def features(self, examples: list[Any]) -> FeatureList:
        """What the model reads of the examples.

        Raises:
            ValueError: an example is not one that the task can read.
        """
        return FeatureList(
            (number, feature)
            for number, example in enumerate(examples)
            for feature in self.task.features(example, training=False)
        )

    def __call__(self, examples: list[Any], features: FeatureList | None = None) -> list[dict[str, Any]]:
        """A prediction for each example.

        Args:
            examples: to read.
            features: what `features` made of them, where that is done already.
        """
        bf16 = self.recipe.run.precision == "bf16"
        return predict(
            self.task,
            self._module,
            examples,
            self.features(examples) if features is None else features,
            processes=self._processes,
            tokens=self._tokens,
            precision=lambda: torch.autocast(self._processes.device.type, torch.bfloat16, enabled=bf16),
        )


def read_examples(
    predictor: Predictor, where: str, format: FormatName | None, *, targets: bool = True
) -> list[Any]:
    """Examples for a predictor.

    Args:
        predictor: that will read them.
        where: a path, or ``path#part``.
        format: of the data; that of the training data if None.
        targets: whether our JSONL must have what is to be predicted: to be scored, it must.

    Raises:
        ValueError: the task does not read this format, or the data are wrong.
    """
    chosen = format or predictor.recipe.data.format
    if chosen not in predictor.task.formats:
        raise ValueError(
            f"format is {chosen!r}; the task {predictor.task.name} reads {', '.join(predictor.task.formats)}"
        )
    data = predictor.recipe.data
    # Options of the training data's reader are for data like them.
    options = data.options if chosen == data.format else NO_OPTIONS
    examples = list(read_part(where, chosen, seed=data.split_seed, targets=targets, options=options))
    if targets and not examples:
        raise ValueError(f"{where} has no examples; a score needs at least one")
    return examples
