"""Recipes: YAML over typed dataclasses, with overrides from the command line.

A recipe says everything that decides a run's result. What it does not know it refuses, with the name that
was probably meant.
"""

import dataclasses
import difflib
import types
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

import yaml

from longspan.checks import at_least
from longspan.data.format_names import FormatName
from longspan.data.options import NO_OPTIONS, ReaderOptions
from longspan.tasks.models import ModelSettings
from longspan.tasks.registry import TASKS
from longspan.tasks.task import TaskSettings
from longspan.tasks.trainable import Part
from longspan.training.schedules import Schedule

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True, slots=True)
class DataSettings:
    """What is learned from, and what it is measured on: paths, or ``path#part`` (`longspan.data.parts`)."""

    format: FormatName
    train: str
    dev: str | None = None
    """Scored while training; chooses the best checkpoint."""
    test: str | None = None
    """Scored once, with the best checkpoint."""
    root: str = "."
    """What the paths are relative to."""
    options: ReaderOptions = NO_OPTIONS
    """Of the format's reader, where it takes any."""
    split_seed: int = 0
    """Of parts that are not official, and of the examples that limits leave."""
    train_limit: int | None = None
    """Only so many examples, drawn by ``split_seed``."""
    dev_limit: int | None = None
    test_limit: int | None = None
    cache: str | None = None
    """A folder for tokenised data, shared by runs; None keeps them in the run's own folder."""
    workers: int | None = None
    """Processes that tokenise, 0 for a thread of the run; None lets the size of the data decide."""

    def __post_init__(self) -> None:
        at_least(0, workers=self.workers)
        self.options.of_format(self.format)
        at_least(1, train_limit=self.train_limit, dev_limit=self.dev_limit, test_limit=self.test_limit)


@dataclass(frozen=True, kw_only=True, slots=True)
class BatchSettings:
    """How much is read before the weights move."""

    tokens: int = 16384
    """The most tokens of a step, over all processes; a single longer input still makes a step."""
    examples: int | None = None
    """The most inputs of a step, where that is fewer."""
    micro_tokens: int | None = None
    """The most tokens that a process computes at once, padding included; more are accumulated. None is
    ``tokens``."""

    def __post_init__(self) -> None:
        at_least(1, tokens=self.tokens, examples=self.examples, micro_tokens=self.micro_tokens)


@dataclass(frozen=True, kw_only=True, slots=True)
class OptimizerSettings:
    """AdamW. Norms and biases do not decay."""

    lr: float = 3e-5
    head_lr: float | None = None
    """Of what is not the pretrained encoder: heads, and decoders of models that write; None is ``lr``."""
    weight_decay: float = 0.01
    beta1: float = 0.9
    beta2: float = 0.999
    eps: float = 1e-8
    clip: float | None = 1.0
    """The most that the gradient's norm may be."""
    train_only: Part = "all"
    """Which weights learn."""

    def __post_init__(self) -> None:
        at_least(0, lr=self.lr, head_lr=self.head_lr, weight_decay=self.weight_decay, clip=self.clip)


@dataclass(frozen=True, kw_only=True, slots=True)
class RunSettings:
    """How long, how exactly, and what is written down."""

    steps: int | None = None
    epochs: float | None = None
    """Give one of the two."""
    seed: int = 0
    precision: Literal["fp32", "bf16"] = "fp32"
    """bf16 is autocast: weights stay fp32."""
    evaluate_every: int | None = None
    """Steps between scores on the dev data; None is once an epoch, and at the end."""
    checkpoint_every: int = 500
    keep_checkpoints: int = 2
    log_every: int = 10
    minutes: float | None = None
    """Stop, with a checkpoint, after so many minutes of training; the schedule does not follow."""

    def __post_init__(self) -> None:
        at_least(0, steps=self.steps, epochs=self.epochs, minutes=self.minutes, seed=self.seed)
        at_least(
            1,
            evaluate_every=self.evaluate_every,
            checkpoint_every=self.checkpoint_every,
            keep_checkpoints=self.keep_checkpoints,
            log_every=self.log_every,
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Phase:
    """A part of staged training: so many steps on inputs of one length."""

    steps: int
    max_length: int
    """In place of ``settings.max_length``, to learn from."""
    examples: int
    """Inputs of a step: ``batch.tokens`` is then that many of this length."""
    lr: float
    """In place of ``optimizer.lr``. The schedule runs anew in every phase."""
    windows: tuple[int, ...] = ()
    """Tokens that each layer sees, lowest first; two are those of the lowest and of the highest layer, with
    even steps between. Given in every phase or in none, which leaves the model's own."""

    def __post_init__(self) -> None:
        at_least(1, steps=self.steps, examples=self.examples)
        at_least(8, max_length=self.max_length)
        at_least(0, lr=self.lr)


@dataclass(frozen=True, kw_only=True, slots=True)
class Recipe:
    """A run."""

    task: str
    model: ModelSettings
    data: DataSettings
    settings: TaskSettings = field(default_factory=TaskSettings)
    """Of the task; which fields there are depends on it."""
    batch: BatchSettings = field(default_factory=BatchSettings)
    optimizer: OptimizerSettings = field(default_factory=OptimizerSettings)
    schedule: Schedule = field(default_factory=Schedule)
    run: RunSettings = field(default_factory=RunSettings)
    phases: tuple[Phase, ...] = ()
    """Of staged training, one after the other; then they say how many steps there are."""

    def __post_init__(self) -> None:
        given = [name for name in ("steps", "epochs") if getattr(self.run, name) is not None]
        if self.phases and given:
            raise ValueError(
                f"run.{given[0]} is {getattr(self.run, given[0])}, but phases have steps of their own; "
                f"leave run.{given[0]} out"
            )
        if len({bool(phase.windows) for phase in self.phases}) > 1:
            without = [at for at, phase in enumerate(self.phases) if not phase.windows]
            raise ValueError(
                f"phases[{without[0]}].windows is missing; give windows in every phase, or in none"
            )
        if self.phases and not self.optimizer.lr > 0:
            raise ValueError(f"optimizer.lr is {self.optimizer.lr}; with phases it must be above 0")
        if not self.phases and (self.run.steps is None) == (self.run.epochs is None):
            raise ValueError(
                f"run.steps is {self.run.steps} and run.epochs is {self.run.epochs}; give exactly one of them"
            )
        formats = TASKS[self.task].formats
        if self.data.format not in formats:
            raise ValueError(
                f"data.format is {self.data.format!r}; the task {self.task} reads {', '.join(formats)}"
            )


def read_recipe(path: Path, overrides: Sequence[str] = ()) -> Recipe:
    """Reads a recipe.

    Args:
        path: a YAML file.
        overrides: ``--field value`` or ``--field=value``, with fields such as ``optimizer.lr``.

    Raises:
        ValueError: a field is unknown, missing, or has a value that it cannot have.
    """
    try:
        fields = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ValueError(f"the recipe {path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ValueError(f"the recipe {path} is no text; it must be YAML in UTF-8") from error
    except yaml.YAMLError as error:
        raise ValueError(f"the recipe {path} is not YAML: {' '.join(str(error).split())}") from error
    if not isinstance(fields, dict):
        raise ValueError(f"the recipe {path} holds no fields; it must be a mapping with task, model and data")
    for name, value in _pairs(overrides):
        _set(fields, name, value)
    return recipe_of(fields)


def with_settings(recipe: Recipe, overrides: Sequence[str]) -> Recipe:
    """A trained model's recipe with other settings of its task, to score or predict with.

    Args:
        recipe: that the model was trained with.
        overrides: ``--settings.field value`` or ``--settings.field=value``.

    Raises:
        ValueError: a field is not one of the settings, decides what the model is, or has a wrong value.
    """
    fields = as_fields(recipe)
    for name, value in _pairs(overrides):
        if not name.startswith("settings."):
            raise ValueError(
                f"--{name} is no option here: of a trained model's recipe only settings of the task can be "
                "changed, as in --settings.max_length 4096"
            )
        if name == "settings.labels":
            raise ValueError("--settings.labels cannot be changed: the model was trained to tell these apart")
        _set(fields, name, value)
    return recipe_of(fields)


def recipe_of(fields: Mapping[str, Any]) -> Recipe:
    """A recipe from nested mappings, as YAML gives them."""
    task = str(fields.get("task"))
    if task not in TASKS:
        raise ValueError(f"task is {task!r}; it must be one of {', '.join(TASKS)}{_meant(task, TASKS)}")
    return _build(Recipe, fields, "", {"settings": TASKS[task].Settings})


def as_fields(recipe: Recipe) -> dict[str, Any]:
    """The recipe as nested mappings that YAML and JSON can write."""
    return _plain(dataclasses.asdict(recipe))


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in value.items()}
    return [_plain(one) for one in value] if isinstance(value, tuple | list) else value


def _pairs(overrides: Sequence[str]) -> list[tuple[str, Any]]:
    pairs: list[tuple[str, Any]] = []
    rest = list(overrides)
    while rest:
        name = rest.pop(0)
        if not name.startswith("--"):
            raise ValueError(f"{name!r} is no field; overrides are written --field value")
        name, equals, value = name[2:].partition("=")
        if not equals:
            if not rest:
                raise ValueError(f"--{name} has no value; overrides are written --field value")
            value = rest.pop(0)
        pairs.append((name.replace("-", "_"), _loaded(value)))
    return pairs


def _loaded(value: str) -> Any:
    """A value of the command line as YAML has it; names of files such as *conll mean something else there."""
    try:
        return yaml.safe_load(value)
    except yaml.YAMLError:
        return value


def _set(fields: dict[str, Any], name: str, value: Any) -> None:
    *path, last = name.split(".")
    at = fields
    for step in path:
        at = at.setdefault(step, {})
        if not isinstance(at, dict):
            raise ValueError(f"--{name}: {step} holds no fields")
    at[last] = value


def _build(kind: type[T], fields: Any, where: str, kinds: Mapping[str, type]) -> T:
    """A dataclass from a mapping, every field checked against its annotation."""
    if not isinstance(fields, Mapping):
        raise ValueError(f"{where.rstrip('.')} is {fields!r}; it must hold fields")
    hints = get_type_hints(kind)
    known = {one.name: one for one in dataclasses.fields(cast(Any, kind))}
    values: dict[str, Any] = {}
    for name, value in fields.items():
        if name not in known:
            raise ValueError(f"{where}{name} is no field of a recipe{_meant(name, known, where)}")
        values[name] = _value(kinds.get(name, hints[name]), value, f"{where}{name}")
    for name, one in known.items():
        required = one.default is dataclasses.MISSING and one.default_factory is dataclasses.MISSING
        if name not in values and required:
            raise ValueError(f"{where}{name} is missing; a recipe must give it")
        if name not in values and name in kinds:
            values[name] = kinds[name]()
    try:
        return kind(**values)
    except ValueError as error:
        # A settings class names its own field; a recipe's reader wants to know where it stands.
        message = str(error)
        raise ValueError(
            message if not where or message.startswith(where) else f"{where}{message}"
        ) from error


def _value(hint: Any, value: Any, where: str) -> Any:
    origin, choices = get_origin(hint), get_args(hint)
    if dataclasses.is_dataclass(hint):
        return _build(cast(type, hint), value, f"{where}.", {})
    if origin in (Union, types.UnionType):
        if value is None and type(None) in choices:
            return None
        options = [one for one in choices if one is not type(None)]
        for option in options:
            try:
                return _value(option, value, where)
            except ValueError:
                if option is options[-1]:
                    raise
    if origin is Literal:
        if value in choices:
            return value
        raise ValueError(
            f"{where} is {value!r}; it must be one of {', '.join(map(str, choices))}{_meant(value, choices)}"
        )
    if origin is tuple:
        if not isinstance(value, list | tuple):
            raise ValueError(f"{where} is {value!r}; it must be a list")
        inner = [choices[0]] * len(value) if choices[-1] is Ellipsis else list(choices)
        if len(inner) != len(value):
            raise ValueError(f"{where} is {value!r}; it must have {len(inner)} items")
        return tuple(
            _value(one, item, f"{where}[{at}]")
            for at, (one, item) in enumerate(zip(inner, value, strict=True))
        )
    return _scalar(hint, value, where)


def _scalar(hint: type, value: Any, where: str) -> Any:
    if hint is float and not isinstance(value, bool):
        try:  # YAML reads 3e-5, without a point, as text
            return float(value)
        except (TypeError, ValueError):
            pass
    elif hint is str and isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    elif isinstance(value, hint) and (hint is bool or not isinstance(value, bool)):
        return value
    names = {int: "an integer", float: "a number", bool: "true or false", str: "a text"}
    raise ValueError(f"{where} is {value!r}; it must be {names.get(hint, hint.__name__)}")


def _meant(name: object, known: Any, where: str = "") -> str:
    close = difflib.get_close_matches(str(name), [str(one) for one in known], n=1, cutoff=0.5)
    return f"; did you mean {where}{close[0]}?" if close else ""
