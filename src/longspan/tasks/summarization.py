"""Summarisation of long documents (section 7 of the paper: arXiv), of the whole or by a query.

The model is an encoder-decoder: LED, BART and its kin, short or lengthened in place, T5. The first token is
global, or all of the query. Predictions are written by beam search.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from longspan.data.examples import SummarizedDocument
from longspan.tasks.models import ModelSettings, inputs_of, load_model
from longspan.tasks.summary_scores import BEST_SCORE, SUMMARY_FORMATS, summary_scores
from longspan.tasks.task import Batch, Feature, Loss, Task, TaskSettings, padded

NO_LABEL = -100
"""Where nothing is to be said."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SummarizationSettings(TaskSettings):
    """What this task can be told."""

    max_summary_length: int = 256
    """The most tokens of a summary, special ones included; references are cut, writing stops."""
    min_summary_length: int = 0
    """The fewest tokens that are written."""
    label_smoothing: float = 0.0
    """The share of every target that is spread over all words."""
    num_beams: int = 4
    """Summaries that are written beside each other; 1 takes the most probable word each time."""
    length_penalty: float = 1.0
    """The power of its length that a beam's score is divided by: above 1 favours long summaries."""
    no_repeat_ngram_size: int = 0
    """A row of so many tokens is never written twice; 0 allows it."""

    def __post_init__(self) -> None:
        # A dataclass with slots is another class than the one that super() without arguments knows.
        TaskSettings.__post_init__(self)
        for name, least in (
            ("max_summary_length", 3),
            ("min_summary_length", 0),
            ("num_beams", 1),
            ("no_repeat_ngram_size", 0),
        ):
            if getattr(self, name) < least:
                raise ValueError(f"settings.{name} is {getattr(self, name)}; it must be at least {least}")
        if self.min_summary_length > self.max_summary_length:
            raise ValueError(
                f"settings.min_summary_length is {self.min_summary_length}; it must be at most "
                f"settings.max_summary_length = {self.max_summary_length}"
            )
        if not 0 <= self.label_smoothing < 1:
            raise ValueError(
                f"settings.label_smoothing is {self.label_smoothing}; it must be from 0 to below 1"
            )


class Written(NamedTuple):
    """What the model wrote about a document."""

    tokens: list[int]


class Summarization(Task[SummarizedDocument, Written]):
    """A summary of a document, cut at ``max_length``."""

    Settings = SummarizationSettings
    name = "summarization"
    formats = SUMMARY_FORMATS
    best_score = BEST_SCORE

    settings: SummarizationSettings

    def features(self, example: SummarizedDocument, *, training: bool) -> Iterator[Feature]:
        """The query, where there is one, and the document; in training, once for each of its summaries."""
        read = self._reads(example)
        summaries = example.summaries if training else example.summaries[:1]
        if training and not summaries:
            raise ValueError(f"{example.id}: summaries is empty; it must have one to learn from")
        for summary in summaries or ("",):
            yield read | {"labels": np.array(self._tokens_of(summary), dtype=np.int32)}

    def collate(self, features: Sequence[Feature], seeds: Sequence[int]) -> Batch:
        """With "labels" [batch, length of the summaries], `NO_LABEL` behind their ends."""
        labels = padded([one["labels"] for one in features], NO_LABEL).long()
        return super().collate(features, seeds) | {"labels": labels}

    def build(self, model: ModelSettings) -> nn.Module:
        """The model with its own head.

        Raises:
            ValueError: it cannot write so long a summary, among others.
        """
        loaded: Any = load_model(model, "Seq2SeqLM", global_tokens=self.settings.global_tokens)
        fields = loaded.config
        most = getattr(fields, "max_decoder_position_embeddings", None) or getattr(
            fields, "max_position_embeddings", None
        )
        if most is not None and self.settings.max_summary_length > most:
            raise ValueError(
                f"settings.max_summary_length is {self.settings.max_summary_length}; "
                f"{type(loaded).__name__} writes at most {most} tokens"
            )
        return loaded

    def loss(self, model: nn.Module, batch: Batch) -> Loss:
        """Cross entropy, a target a token of a summary."""
        labels, writer = batch["labels"], cast(Any, model)
        if bool((labels[:, 0] == writer.config.decoder_start_token_id).all()):
            # What the tokenizer begins a text with is what the decoder begins with: given, not to be said.
            labels = labels[:, 1:]
        given: Tensor = writer.prepare_decoder_input_ids_from_labels(labels)
        logits: Tensor = model(
            **inputs_of(model, batch), decoder_input_ids=given, use_cache=False, return_dict=True
        ).logits
        total = F.cross_entropy(
            logits.flatten(0, 1).float(),
            labels.flatten(),
            ignore_index=NO_LABEL,
            label_smoothing=self.settings.label_smoothing,
            reduction="sum",
        )
        return Loss(total, (labels != NO_LABEL).sum())

    def outputs(self, model: nn.Module, batch: Batch) -> list[Written]:
        """The best beam of every document."""
        settings, writer = self.settings, cast(Any, model)
        inputs = inputs_of(model, batch)
        # The encoder by itself: `generate` of models lengthened in place takes no global tokens.
        encoded = writer.get_encoder()(**inputs, return_dict=True)
        written = writer.generate(
            encoder_outputs=encoded,
            attention_mask=inputs["attention_mask"],
            max_new_tokens=settings.max_summary_length,
            min_new_tokens=settings.min_summary_length or None,
            num_beams=settings.num_beams,
            length_penalty=settings.length_penalty,
            no_repeat_ngram_size=settings.no_repeat_ngram_size,
            do_sample=False,
            # Processes that share a model's weights have to take as many steps as each other.
            synced_gpus=torch.distributed.is_available() and torch.distributed.is_initialized(),
        )
        return [Written(row) for row in written.tolist()]

    def prediction(self, example: SummarizedDocument, outputs: Sequence[Written]) -> dict[str, Any]:
        """{"id", "summary"}."""
        return {
            "id": example.id,
            "summary": self.tokenizer.decode(outputs[0].tokens, skip_special_tokens=True),
        }

    def score(
        self, examples: Sequence[SummarizedDocument], predictions: Sequence[Mapping[str, Any]]
    ) -> dict[str, float]:
        """F1 of ROUGE-1, 2, L and Lsum; of several references, the best counts."""
        return summary_scores(examples, predictions)

    def _reads(self, example: SummarizedDocument) -> Feature:
        """What the model reads of an example: tokens, and which of them are global."""
        settings: dict[str, Any] = {"max_length": self.settings.max_length, "split_special_tokens": True}
        if not example.query:
            ids = self.tokenizer(example.text, truncation=True, **settings)["input_ids"]
            marked = 1
        else:
            # Behind the query stands what ends a text; a pair begins with the same.
            marked = len(self.tokenizer(example.query, split_special_tokens=True)["input_ids"])
            if marked > self.settings.max_length // 2:
                raise ValueError(
                    f"{example.id}: query has {marked} tokens; it must have at most half of "
                    f"settings.max_length = {self.settings.max_length}"
                )
            pair = self.tokenizer(example.query, example.text, truncation="only_second", **settings)
            ids = pair["input_ids"]
        is_global = np.zeros(len(ids), dtype=bool)
        is_global[:marked] = self.settings.global_tokens
        return {"input_ids": np.array(ids, dtype=np.int32), "is_global": is_global}

    def _tokens_of(self, summary: str) -> list[int]:
        # Ends of lines are sentences' ends, which a summary's words say as well.
        return self.tokenizer(
            text_target=" ".join(summary.split()),
            truncation=True,
            max_length=self.settings.max_summary_length,
            split_special_tokens=True,
        )["input_ids"]
