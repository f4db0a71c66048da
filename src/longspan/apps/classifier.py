"""Classes of documents, by a run of the task `classification` or any model with a head for classes.

A document of any length is read to its end: one that is longer than an input of the model is cut into
several, and the probabilities are their mean, by tokens. `longspan predict` reads the beginning, as in
training.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from longspan.apps.given import Given, document_of_one, documents_of
from longspan.apps.sources import run_of, tokenizer_of
from longspan.data.examples import LabelledDocument
from longspan.models.hub import class_of, model_fields
from longspan.tasks.classification import Classification, ClassificationSettings
from longspan.tasks.models import ModelSettings
from longspan.tasks.task import Feature
from longspan.training.inference import load_trained
from longspan.training.run_folder import RunFolder

_HEAD = "ForSequenceClassification"
_MOST_TOKENS = 16384
"""That are read at once by models whose positions set no limit."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Class:
    """What a model takes a document for."""

    name: str
    """Of the document: a file's path, or what it was called; a text without a name has its number."""
    label: str
    """The most probable one."""
    probabilities: dict[str, float]
    """By label, the most probable first; they sum to 1."""
    tokens: int
    """Of the document."""
    inputs: int
    """In how many pieces it was read."""


class Classifier:
    """A model that tells classes of documents apart.

    Args:
        source: folder of a run of the task classification, or of a model with a head for classes, or a name
            on the Hub.

    Raises:
        ValueError: there is no such model, or it has no classes.
    """

    def __init__(self, source: str | Path) -> None:
        source = str(source)
        run, checkpoint = run_of(source)
        if run is None:
            self._task, self._model = _pretrained(source)
        else:
            task = RunFolder(run).recipe().task
            if task != Classification.name:
                raise ValueError(
                    f"{run} is a run of the task {task}; it must be one of {Classification.name}"
                )
            _, self._task, self._model = load_trained(run, checkpoint)
        self._model.eval()

    @property
    def labels(self) -> tuple[str, ...]:
        """The classes, in the model's order."""
        return self._task.settings.labels

    def __call__(self, document: Given, *, progress: Callable[[float], None] | None = None) -> Class:
        """The class of one document.

        Args:
            document: a text, a file, or a text with a name.
            progress: called with what is done, 0 to 1; what it raises ends the reading.

        Raises:
            ValueError: a file cannot be read.
        """
        given = document_of_one(document)
        features = self._features(given.text)
        tokens = [len(one["input_ids"]) - self._special for one in features]
        logits: list[list[float]] = []
        with torch.inference_mode():
            for done, feature in enumerate(features, start=1):
                batch = self._task.collate([feature], [0])
                logits += [said.logits for said in self._task.outputs(self._model, batch)]
                if progress is not None:
                    progress(done / len(features))
        probabilities = torch.tensor(logits, dtype=torch.float64).softmax(1)
        weights = torch.tensor(tokens, dtype=torch.float64).clamp(min=1)
        mean = ((weights / weights.sum())[:, None] * probabilities).sum(0).tolist()
        ranked = sorted(zip(self.labels, mean, strict=True), key=lambda pair: -pair[1])
        return Class(
            name=given.id,
            label=ranked[0][0],
            probabilities=dict(ranked),
            tokens=sum(tokens),
            inputs=len(features),
        )

    def classify(self, documents: Given | Iterable[Given]) -> tuple[Class, ...]:
        """The class of each document.

        Args:
            documents: texts, files and folders, of any number and length.

        Raises:
            ValueError: a file cannot be read.
        """
        return tuple(map(self, documents_of(documents)))

    @property
    def _special(self) -> int:
        """Tokens that stand around a text."""
        return self._task.tokenizer.num_special_tokens_to_add()

    def _features(self, text: str) -> list[Feature]:
        """What the task makes of the beginning, and the like of what follows."""
        (first,) = self._task.features(LabelledDocument(id="", text=text, label=""), training=False)
        if len(first["input_ids"]) < self._task.settings.max_length:
            return [first]
        pieces = self._task.tokenizer(
            text,
            truncation=True,
            max_length=self._task.settings.max_length,
            split_special_tokens=True,
            return_overflowing_tokens=True,
        )["input_ids"]
        assert pieces[0] == first["input_ids"].tolist()
        return [
            first | {"input_ids": np.array(ids, dtype=np.int32), "is_global": first["is_global"][: len(ids)]}
            for ids in pieces
        ]


def _pretrained(source: str) -> tuple[Classification, nn.Module]:
    """A model without a run, which must have learned classes."""
    fields = model_fields(source)
    kind = class_of(fields)
    if not kind.endswith(_HEAD):
        raise ValueError(
            f"{source!r} is {kind}, which has no classes; it must be a model whose class ends in {_HEAD}, "
            f"or the folder of a run of {Classification.name}"
        )
    names: dict[Any, str] = fields.get("id2label") or {0: "LABEL_0", 1: "LABEL_1"}
    labels = tuple(names[at] for at in sorted(names, key=int))
    if len(labels) < 2 or fields.get("problem_type") not in (None, "single_label_classification"):
        raise ValueError(f"{source!r} does not choose one of several classes; it must")
    task = Classification(ClassificationSettings(labels=labels), tokenizer_of(source))
    model = task.build(ModelSettings(source=source))
    return Classification(replace(task.settings, max_length=_longest(model, fields)), task.tokenizer), model


def _longest(model: nn.Module, fields: dict[str, Any]) -> int:
    """The most tokens of one input."""
    for name, table in model.named_modules():
        if name.endswith("position_embeddings") and isinstance(table, nn.Embedding):
            # RoBERTa and its kin count positions from behind the one of padding.
            return table.num_embeddings - (0 if table.padding_idx is None else table.padding_idx + 1)
    return fields.get("max_position_embeddings") or _MOST_TOKENS
