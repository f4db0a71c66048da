"""The data of a run: where its parts are, and their features, tokenised in the background."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from longspan.data.parts import read_part
from longspan.tasks.task import Task
from longspan.training.feature_store import FeatureStore
from longspan.training.processes import Processes
from longspan.training.recipe import Recipe
from longspan.training.run_folder import RunFolder
from longspan.training.stages import Stage
from longspan.training.tokenising import Source, Tokenising

PARTS = ("train", "dev", "test")


def check_parts(recipe: Recipe) -> None:
    """Refuses data that are not there, before anything is computed or written.

    Raises:
        ValueError: a path does not exist, or has no such part; the message names the field.
    """
    data = recipe.data
    for part in PARTS:
        where = getattr(data, part)
        try:
            if where:
                read_part(where, data.format, root=Path(data.root))
        except ValueError as error:
            seen_from = "" if Path(data.root).is_absolute() else f", seen from {Path.cwd()}"
            root = "" if Path(where).is_absolute() else f"; data.root is {data.root!r}{seen_from}"
            raise ValueError(f"data.{part} is {where!r}: {error}{root}") from error


def training_examples(recipe: Recipe, folder: RunFolder) -> Iterator[Any]:
    """Read only when somebody asks for the first one."""
    yield from _source(recipe, folder, "train").examples()


class RunData:
    """The parts of a run's data.

    Args:
        recipe: resolved.
        stages: of the run, which learn from inputs of different lengths.
        task: that reads them.
        folder: of the run; its tokenizer is there already.
        processes: of the run. One sees to the work; the others find the stores when it says that they are
            there.
        stack: gives up, in the end, what is not finished.
        say: tells the user what is waited for.
    """

    def __init__(
        self,
        recipe: Recipe,
        stages: Sequence[Stage],
        task: Task[Any, Any],
        folder: RunFolder,
        processes: Processes,
        stack: ExitStack,
        say: Callable[[str], None],
    ) -> None:
        self._recipe, self._folder, self._processes, self._say = recipe, folder, processes, say
        cache = Path(recipe.data.cache) if recipe.data.cache else folder.features
        sources = [_source(stage.recipe, folder, "train") for stage in stages]
        sources += [_source(recipe, folder, part) for part in PARTS[1:] if getattr(recipe.data, part)]
        self._making: dict[Source, Tokenising] = {}
        for source in dict.fromkeys(sources):
            self._making[source] = Tokenising(
                source,
                task,
                cache,
                works=processes.is_main,
                processes=recipe.data.workers,
                after=next(reversed(self._making.values()), None),
            )
            stack.callback(self._making[source].close)
        self._held: dict[str, list[Any]] = {}

    def check(self) -> None:
        """Mistakes in data that are used later stop a run as soon as they are found."""
        for making in self._making.values():
            making.check()

    def features(self, part: str, stage: Stage | None = None) -> FeatureStore:
        """The features of a part, when they are finished; of the training data, those of a stage."""
        source = _source(stage.recipe if stage else self._recipe, self._folder, part)
        making = self._making[source]
        if self._processes.is_main:
            if making.is_running:
                self._say(f"Waiting for the tokeniser of {source.where} ...")
            making.store()
        self._processes.wait()
        return making.store()

    def examples(self, part: str) -> list[Any]:
        """All examples of a part that is scored."""
        held = self._held.setdefault(part, [])
        if not held:
            held += _source(self._recipe, self._folder, part).examples()
        return held

    def names(self, numbers: set[int]) -> list[str]:
        """The ids of training examples, by their numbers."""
        examples = enumerate(_source(self._recipe, self._folder, "train").examples())
        return [example.id for number, example in examples if number in numbers]


def _source(recipe: Recipe, folder: RunFolder, part: str) -> Source:
    data = recipe.data
    return Source(
        task=recipe.task,
        settings=recipe.settings,
        tokenizer=str(folder.tokenizer),
        where=getattr(data, part),
        format=data.format,
        root=data.root,
        split_seed=data.split_seed,
        limit=getattr(data, f"{part}_limit"),
        training=part == "train",
        options=data.options,
    )
