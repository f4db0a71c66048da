"""What a task is: everything that the training loop, `evaluate` and `predict` need to know of it.

A task cuts examples into features (one feature is one input of the model), collates features into
batches, computes a loss, and turns the model's outputs back into predictions that are scored. It knows
nothing of files, devices, processes, optimizers or steps.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Generic, NamedTuple, TypeAlias, TypeVar, cast

import numpy as np
import torch
from torch import Tensor, nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from longspan.conversion.loading import load_tokenizer
from longspan.data.format_names import FormatName
from longspan.models.byte_tokenizer import marked_byte_tokenizer
from longspan.tasks.models import EncoderWithHead, ModelSettings, save_pretrained

Feature: TypeAlias = dict[str, np.ndarray]
"""One input of the model, as arrays of one dimension: "input_ids" and whatever the task adds.

Every feature of a task has the same names with the same dtypes (they are stored by name in one file each);
lengths are free, and an array may be empty. A single number is an array of length 1.
"""
Batch: TypeAlias = dict[str, Tensor]
NO_LABEL = -100
"""In place of a token to be said, where none is; what torch's cross entropy leaves out."""

ExampleT = TypeVar("ExampleT")
OutputT = TypeVar("OutputT")


class Loss(NamedTuple):
    """The loss of a batch, not yet divided, so that a mean over many batches is a true one."""

    total: Tensor
    """[] fp32: the sum over all targets."""
    targets: Tensor
    """[] : how many there are; may be 0."""
    parts: Mapping[str, Tensor] = {}
    """Parts of ``total``, detached, for the log: where several losses are added up."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TaskSettings:
    """What all tasks can be told; each adds its own."""

    max_length: int = 4096
    """The most tokens of one input; longer examples are cut, or read in several windows."""
    global_tokens: bool = True
    """Whether the tokens that the task marks as global are; False is the paper's ablation."""

    def __post_init__(self) -> None:
        if self.max_length < 8:
            raise ValueError(f"settings.max_length is {self.max_length}; it must be at least 8")


class Task(ABC, Generic[ExampleT, OutputT]):
    """One kind of work on documents.

    Args:
        settings: an instance of ``Settings``.
        tokenizer: a fast tokenizer, as it was saved with the model.
    """

    Settings: ClassVar[type[TaskSettings]] = TaskSettings
    name: ClassVar[str]
    """What recipes call it."""
    formats: ClassVar[tuple[FormatName, ...]]
    """The formats of data that it reads, our JSONL first."""
    best_score: ClassVar[str]
    """The name in `score`'s result that chooses the best checkpoint."""
    higher_is_better: ClassVar[bool] = True
    trains_everything: bool = True
    """Whether every loss has a gradient, be it 0, for every parameter that is not frozen. Several processes
    must look for those without one otherwise, which takes time."""
    worth_processes: bool = True
    """Whether making features takes longer than sending examples to another process and features back."""

    def __init__(self, settings: Any, tokenizer: PreTrainedTokenizerBase) -> None:
        self.settings = settings
        self.tokenizer: Any = tokenizer

    @classmethod
    def resolved(cls, settings: Any, examples: Iterable[ExampleT]) -> Any:
        """``settings`` completed by a look at the training examples (a list of labels, say)."""
        return settings

    @classmethod
    def load_tokenizer(cls, source: str) -> PreTrainedTokenizerBase | None:
        """The tokenizer of the model that a recipe names; None where it has none.

        That of a configuration alone is beside it; without one, tokens are bytes.
        """
        if source.endswith(".json"):
            return load_tokenizer(Path(source).parent) or marked_byte_tokenizer()
        return load_tokenizer(source)

    @abstractmethod
    def features(self, example: ExampleT, *, training: bool) -> Iterator[Feature]:
        """The inputs that an example becomes: one, or several windows; none if it cannot be learned from.

        Args:
            example: of this task's kind.
            training: whether targets are wanted. Without, targets may be unknown, every example must
                give at least one feature, and the features have the same names all the same.
        """

    def collate(self, features: Sequence[Feature], seeds: Sequence[int]) -> Batch:
        """A batch: "input_ids", "attention_mask" and "is_global", each [batch, length].

        Args:
            features: at least one.
            seeds: a number for each, for what is drawn at random (masked words): the same feature gets
                another one in every epoch, and always the same one in an evaluation.
        """
        lengths = torch.tensor([len(one["input_ids"]) for one in features])
        padding: int = self.tokenizer.pad_token_id or 0
        batch = {
            "input_ids": padded([one["input_ids"] for one in features], padding).long(),
            "attention_mask": (torch.arange(int(lengths.max()))[None] < lengths[:, None]).long(),
        }
        if "is_global" in features[0]:
            batch["is_global"] = padded([one["is_global"] for one in features], False)
        return batch

    @abstractmethod
    def build(self, model: ModelSettings) -> nn.Module:
        """The model with this task's head, from a pretrained one; new heads are drawn from torch's
        generator."""

    def save(self, model: nn.Module, folder: Path) -> None:
        """Writes the model, without the tokenizer, into an existing folder."""
        if isinstance(model, EncoderWithHead):
            model.save(folder)
        else:
            save_pretrained(cast(PreTrainedModel, model), folder)

    def load(self, folder: Path) -> nn.Module:
        """Reads what `save` wrote."""
        model = self.build(ModelSettings(source=str(folder)))
        if isinstance(model, EncoderWithHead):
            model.restore(folder)
        return model

    def widen(self, model: nn.Module, windows: Sequence[int]) -> None:
        """Gives the layers of the model other windows, lowest first, as a phase of a recipe wants it.

        Raises:
            ValueError: the task's models have none to change, or not so many.
        """
        raise ValueError(f"phases.windows is {tuple(windows)}; the task {self.name} has no windows to change")

    @abstractmethod
    def loss(self, model: nn.Module, batch: Batch) -> Loss:
        """The loss of a batch. The loop has this run inside the forward pass of a module, so that
        hooks for several processes see all of it; ``model`` is what `build` made."""

    @abstractmethod
    def outputs(self, model: nn.Module, batch: Batch) -> list[OutputT]:
        """What `prediction` needs of each feature of the batch: small, on the CPU, picklable."""

    def second_features(self, example: ExampleT, outputs: Sequence[OutputT]) -> Iterator[Feature]:
        """What a second look at the example reads, after the outputs of the first; none by default.

        Where there are some, `prediction` gets their outputs in place of the first ones.
        """
        return iter(())

    @abstractmethod
    def prediction(self, example: ExampleT, outputs: Sequence[OutputT]) -> dict[str, Any]:
        """What the model says about an example, as JSON with its "id".

        Args:
            example: without targets, perhaps.
            outputs: of its features, in their order.
        """

    @abstractmethod
    def score(
        self, examples: Sequence[ExampleT], predictions: Sequence[Mapping[str, Any]]
    ) -> dict[str, float]:
        """Named scores, ``best_score`` among them; fractions of 1, not percent."""

    def extent(self, predictions: Sequence[Mapping[str, Any]]) -> str:
        """What was scored, in a line, where settings leave a part of the examples out; "" otherwise."""
        return ""


def padded(rows: Sequence[np.ndarray], fill: float | bool) -> Tensor:
    """[rows, longest]: rows of different lengths as one tensor, of their dtype."""
    longest = max(len(row) for row in rows)
    out = np.full((len(rows), longest), fill, dtype=rows[0].dtype)
    for at, row in enumerate(rows):
        out[at, : len(row)] = row
    return torch.from_numpy(out)
