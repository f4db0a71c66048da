"""Document classification (section 6.2 of the paper: IMDB, Hyperpartisan news): the first token is global."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F
from transformers import PreTrainedTokenizerBase

from longspan.data.examples import LabelledDocument
from longspan.metrics.classification import score_classes
from longspan.tasks.models import ModelSettings, call, load_model
from longspan.tasks.own_losses import own_losses, with_own_losses
from longspan.tasks.task import Batch, Feature, Loss, Task, TaskSettings


@dataclass(frozen=True, kw_only=True, slots=True)
class ClassificationSettings(TaskSettings):
    """What this task can be told."""

    labels: tuple[str, ...] = ()
    """The classes, in order; empty takes those of the training examples."""
    positive: str | None = None
    """The class whose own F1, precision and recall are wanted too, as Hyperpartisan's is scored."""


class ClassScores(NamedTuple):
    """The logits of a document."""

    logits: list[float]


class Classification(Task[LabelledDocument, ClassScores]):
    """One label for a document, cut at ``max_length``."""

    Settings = ClassificationSettings
    name = "classification"
    formats = ("classification", "imdb", "hyperpartisan", "peerread", "listops")
    best_score = "macro_f1"

    settings: ClassificationSettings

    def __init__(self, settings: ClassificationSettings, tokenizer: PreTrainedTokenizerBase) -> None:
        super().__init__(settings, tokenizer)
        if settings.positive is not None and settings.positive not in settings.labels:
            raise ValueError(
                f"settings.positive is {settings.positive!r}; it must be one of the labels "
                f"{', '.join(settings.labels)}"
            )

    @classmethod
    def resolved(
        cls, settings: ClassificationSettings, examples: Iterable[LabelledDocument]
    ) -> ClassificationSettings:
        """With the labels of the examples, sorted."""
        if settings.labels:
            return settings
        return replace(settings, labels=tuple(sorted({example.label for example in examples})))

    def features(self, example: LabelledDocument, *, training: bool) -> Iterator[Feature]:
        """The beginning of the document; without a known label, -1."""
        labels = self.settings.labels
        if training and example.label not in labels:
            raise ValueError(
                f"{example.id}: label is {example.label!r}; settings.labels are {', '.join(labels)}"
            )
        ids = self.tokenizer(
            example.text,
            truncation=True,
            max_length=self.settings.max_length,
            split_special_tokens=True,  # <s> is struck-through text in a document from the web
        )["input_ids"]
        is_global = np.zeros(len(ids), dtype=bool)
        is_global[0] = self.settings.global_tokens
        label = labels.index(example.label) if example.label in labels else -1
        yield {
            "input_ids": np.array(ids, dtype=np.int32),
            "is_global": is_global,
            "label": np.array([label], dtype=np.int64),
        }

    def collate(self, features: Sequence[Feature], seeds: Sequence[int]) -> Batch:
        """With "label" [batch]."""
        labels = torch.from_numpy(np.concatenate([one["label"] for one in features]))
        return super().collate(features, seeds) | {"label": labels}

    def build(self, model: ModelSettings) -> nn.Module:
        """The model with a classifier of as many classes as there are labels."""
        labels = dict(enumerate(self.settings.labels))
        ids = {label: at for at, label in labels.items()}
        return load_model(
            model,
            "SequenceClassification",
            global_tokens=self.settings.global_tokens,
            num_labels=len(ids),
            id2label=labels,
            label2id=ids,
        )

    def loss(self, model: nn.Module, batch: Batch) -> Loss:
        """Cross entropy, a target a document."""
        said = call(model, batch)
        total = F.cross_entropy(said.logits.float(), batch["label"], reduction="sum")
        return with_own_losses(total, batch["label"].new_tensor(len(batch["label"])), own_losses(said))

    def outputs(self, model: nn.Module, batch: Batch) -> list[ClassScores]:
        """The logits."""
        return [ClassScores(row) for row in call(model, batch).logits.float().tolist()]

    def prediction(self, example: LabelledDocument, outputs: Sequence[ClassScores]) -> dict[str, Any]:
        """{"id", "label", "probabilities": {label: probability}}."""
        probabilities = torch.tensor(outputs[0].logits).softmax(0).tolist()
        by_label = dict(zip(self.settings.labels, probabilities, strict=True))
        return {"id": example.id, "label": max(by_label, key=by_label.__getitem__), "probabilities": by_label}

    def score(
        self, examples: Sequence[LabelledDocument], predictions: Sequence[Mapping[str, Any]]
    ) -> dict[str, float]:
        """Accuracy, and F1 averaged over the classes; of a positive class its F1, precision and recall."""
        scores = score_classes(
            [one["label"] for one in predictions],
            [example.label for example in examples],
            labels=self.settings.labels,
            positive=self.settings.positive,
        )
        named = {"accuracy": scores.accuracy, "macro_f1": scores.macro_f1}
        if scores.positive is not None:
            names = ("f1", "precision", "recall")
            named |= {name: getattr(scores.positive, name) for name in names}
        return named
