"""Summaries made of a document's own sentences, of the whole or by a query.

A model says of every sentence whether a summary has it; the best ones, in the document's order, are the
summary. It is what a small model can do: nothing is made up, and training takes minutes where writing takes
weeks. The paper does not have this task.

An input is ``<s> sentence <s> sentence ... </s>``, as in BertSum (Liu and Lapata 2019), with a query
``<s> query </s> <s> sentence ... </s>``. Global are the query and the ``<s>`` of every sentence, where the
model says what it thinks of it. It also knows where in the document a sentence stands: the first sentences
are what summaries have to be better than, so a model should begin there. Documents that do not fit are read
in several inputs of whole sentences, each behind the query. Cut off is only the end of a sentence that alone
fills more than an input.

How long a summary is, a model says too, unless it is told: as many words as it expects references to choose.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from transformers import PreTrainedTokenizerBase

from longspan.data.examples import SummarizedDocument
from longspan.metrics.extracts import Budget, chosen
from longspan.metrics.oracle import greedy_oracle
from longspan.metrics.sentences import sentences
from longspan.tasks.markers import (
    UNKNOWN,
    PlaceStates,
    classifier,
    from_marker_to_marker,
    yes_or_no_loss,
)
from longspan.tasks.models import EncoderWithHead, ModelSettings, load_model
from longspan.tasks.summary_scores import BEST_SCORE, SUMMARY_FORMATS, summary_scores
from longspan.tasks.task import Batch, Feature, Loss, Task, TaskSettings, padded

_ORDERS = 6
"""Numbers that say where a sentence stands."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ExtractiveSummarizationSettings(TaskSettings):
    """What this task can be told."""

    summary_words: int | None = None
    """About how many words a summary has. None lets the model say so, unless ``summary_sentences`` is given:
    the words that it expects to be chosen, which are more in some documents than in others."""
    summary_sentences: int | None = None
    """The most sentences of a summary; None for any."""
    block_trigrams: bool = False
    """Whether a sentence is passed over that says three words in a row which better ones say already."""
    max_windows: int | None = None
    """The most inputs of a document; what follows is not read. None reads everything."""

    def __post_init__(self) -> None:
        # Not super(): a dataclass with slots is another class than the one that its methods know.
        TaskSettings.__post_init__(self)
        for name in ("summary_words", "summary_sentences", "max_windows"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"settings.{name} is {value}; it must be at least 1, or None")

    @property
    def budget(self) -> Budget:
        """How long a summary is."""
        return Budget(words=self.summary_words, sentences=self.summary_sentences)


class SentenceScores(NamedTuple):
    """What the model says of the sentences of one input, in their order."""

    logits: list[float]


class SentenceHead(nn.Module):
    """Two layers over sentences: markers, words beside the query's or the document's, and where they stand.

    Args:
        hidden_size: of the encoder.
    """

    def __init__(self, hidden_size: int) -> None:
        super().__init__()
        self.places = PlaceStates(hidden_size)
        # As wide as the rest: among a thousand components a handful of numbers would not be heard at first.
        self.order = nn.Sequential(nn.Linear(_ORDERS, hidden_size), nn.GELU())
        self.layers = classifier(4 * hidden_size, hidden_size, 1)

    def forward(self, hidden: Tensor, batch: Batch) -> Tensor:
        """[batch, sentences] fp32: logits; of padding, anything.

        Args:
            hidden: [batch, length, hidden_size].
            batch: with "attention_mask" [batch, length], and "sentence_at" and "sentence_number" [batch,
                sentences], negative where there is none; "sentence_count" [batch, 1].
        """
        sentence_at, is_token = batch["sentence_at"], batch["attention_mask"].bool()
        in_sentence = from_marker_to_marker(sentence_at, is_token)
        in_query = is_token & ~in_sentence.any(1)
        in_context = in_query | (is_token & ~in_query.any(1, keepdim=True))
        said = self.places(hidden, sentence_at, in_sentence, in_context)
        order = _order(batch["sentence_number"], batch["sentence_count"], in_sentence.sum(-1))
        return self.layers(torch.cat([said, self.order(order.to(said.dtype))], -1)).float().squeeze(-1)


class ExtractiveSummarization(Task[SummarizedDocument, SentenceScores]):
    """The sentences of a document that summarise it."""

    Settings = ExtractiveSummarizationSettings
    name = "extractive-summarization"
    formats = SUMMARY_FORMATS
    best_score = BEST_SCORE

    settings: ExtractiveSummarizationSettings

    def __init__(self, settings: ExtractiveSummarizationSettings, tokenizer: PreTrainedTokenizerBase) -> None:
        super().__init__(settings, tokenizer)
        for name in ("cls_token_id", "sep_token_id"):
            if getattr(tokenizer, name) is None:
                raise ValueError(
                    f"the tokenizer's {name} is None; sentences are marked by these tokens, which those of "
                    "RoBERTa and BERT have"
                )
        # The first call sets the tokenizer up, which must not happen while another thread is using it.
        self._tokenized([""])

    def features(self, example: SummarizedDocument, *, training: bool) -> Iterator[Feature]:
        """Inputs of whole sentences; in training with the sentences that the references would choose.

        Yields:
            "input_ids" int32, "is_global" bool; of each sentence "sentence_at" int32: its marker,
            "sentence_number" int32: its place in the document, and "is_chosen" int64: `UNKNOWN` without
            training; "sentence_count" int32 [1]: of the document.
        """
        texts = sentences(example.text)
        front = self._query(example)
        room = self.settings.max_length - len(front) - 1
        tokens = [ids[: room - 1] for ids in self._tokenized(texts)]
        groups = list(_packed(tokens, room))[: self.settings.max_windows]
        is_chosen = np.full(len(texts), UNKNOWN, dtype=np.int64)
        if training:
            if not example.summaries:
                raise ValueError(f"{example.id}: summaries is empty; it must have one to learn from")
            # What is not read cannot be chosen: the best of the rest is.
            read = texts[: sum(map(len, groups))]
            is_chosen[:] = 0
            is_chosen[greedy_oracle(read, example.summaries)] = 1
        at = 0
        for group in groups:
            if group or not training:
                yield self._feature(front, group, is_chosen[at : at + len(group)], at, len(texts))
            at += len(group)

    def collate(self, features: Sequence[Feature], seeds: Sequence[int]) -> Batch:
        """With "sentence_at", "sentence_number" and "is_chosen", each [batch, sentences], negative where
        there is none, and "sentence_count" [batch, 1]."""
        batch = super().collate(features, seeds)
        for name in ("sentence_at", "sentence_number", "sentence_count", "is_chosen"):
            batch[name] = padded([one[name] for one in features], UNKNOWN).long()
        return batch

    def build(self, model: ModelSettings) -> nn.Module:
        """The encoder, and a head for sentences."""
        encoder = load_model(model, None, global_tokens=self.settings.global_tokens)
        if encoder.config.is_encoder_decoder:
            raise ValueError(
                f"model.source is {model.source!r}, which has a decoder; sentences are chosen by an encoder, "
                "and summaries written by the task summarization"
            )
        return EncoderWithHead(encoder, SentenceHead(encoder.config.hidden_size))

    def loss(self, model: nn.Module, batch: Batch) -> Loss:
        """The binary cross entropy, a target a sentence."""
        total = yes_or_no_loss(model(batch), batch["is_chosen"])
        return Loss(total, (batch["is_chosen"] != UNKNOWN).sum())

    def outputs(self, model: nn.Module, batch: Batch) -> list[SentenceScores]:
        """The logits of each input's sentences."""
        counts = (batch["sentence_at"] >= 0).sum(1).tolist()
        rows = model(batch).tolist()
        return [SentenceScores(row[:count]) for row, count in zip(rows, counts, strict=True)]

    def prediction(self, example: SummarizedDocument, outputs: Sequence[SentenceScores]) -> dict[str, Any]:
        """{"id", "summary", "sentences"}: a sentence a line, and their places among those of the document."""
        texts = sentences(example.text)
        scores = [logit for one in outputs for logit in one.logits]
        budget = self.settings.budget
        if budget == Budget():
            budget = Budget(words=_expected_words(texts, scores))
        best = chosen(texts, scores, budget, block_trigrams=self.settings.block_trigrams)
        return {"id": example.id, "summary": "\n".join(texts[at] for at in best), "sentences": best}

    def score(
        self, examples: Sequence[SummarizedDocument], predictions: Sequence[Mapping[str, Any]]
    ) -> dict[str, float]:
        """F1 of ROUGE-1, 2, L and Lsum; of several references, the best counts."""
        return summary_scores(examples, predictions)

    def _query(self, example: SummarizedDocument) -> list[int]:
        """What stands before the sentences of every input; nothing where nothing is asked."""
        if not example.query:
            return []
        (ids,) = self._tokenized([example.query])
        front = [self.tokenizer.cls_token_id, *ids, self.tokenizer.sep_token_id]
        if len(front) > self.settings.max_length // 2:
            raise ValueError(
                f"{example.id}: query has {len(front)} tokens; it must have at most half of "
                f"settings.max_length = {self.settings.max_length}"
            )
        return front

    def _tokenized(self, texts: Sequence[str]) -> list[list[int]]:
        """Each as if a space were before it, as words in the middle of a text have; no special tokens."""
        if not texts:
            return []
        return self.tokenizer(
            [f" {text}" for text in texts],
            add_special_tokens=False,
            split_special_tokens=True,
            return_attention_mask=False,
            return_token_type_ids=False,
            padding=False,
            truncation=False,
            verbose=False,
        )["input_ids"]

    def _feature(
        self, front: list[int], group: Sequence[list[int]], is_chosen: np.ndarray, begin: int, count: int
    ) -> Feature:
        ids = list(front)
        at: list[int] = []
        for sentence in group:
            at.append(len(ids))
            ids += [self.tokenizer.cls_token_id, *sentence]
        # Of a document without words, an input has to have something to see.
        ids = [*(ids or [self.tokenizer.cls_token_id]), self.tokenizer.sep_token_id]
        is_global = np.zeros(len(ids), dtype=bool)
        is_global[: len(front)] = self.settings.global_tokens
        is_global[at] = self.settings.global_tokens
        return {
            "input_ids": np.array(ids, dtype=np.int32),
            "is_global": is_global,
            "sentence_at": np.array(at, dtype=np.int32),
            "sentence_number": np.arange(begin, begin + len(group), dtype=np.int32),
            "sentence_count": np.array([count], dtype=np.int32),
            "is_chosen": is_chosen,
        }


def _packed(tokens: Iterable[list[int]], room: int) -> Iterator[list[list[int]]]:
    """Sentences in groups that fit into an input with a marker each, in their order; at least one group."""
    group: list[list[int]] = []
    used = 0
    for sentence in tokens:
        if group and used + 1 + len(sentence) > room:
            yield group
            group, used = [], 0
        group.append(sentence)
        used += 1 + len(sentence)
    yield group


def _order(number: Tensor, count: Tensor, tokens: Tensor) -> Tensor:
    """[batch, sentences, `_ORDERS`] fp32: where sentences stand, most exactly near the beginning; lengths.

    Args:
        number: [batch, sentences], from 0; of padding, anything.
        count: [batch, 1], the document's sentences.
        tokens: [batch, sentences].
    """
    at, all_, long = number.clamp(min=0).float(), count.clamp(min=1).float(), tokens.float()
    columns = (
        at.log1p() / 2,
        1 / (1 + at),
        (-at / 4).exp(),
        at / all_,
        (all_.log() / 4).expand_as(at),
        long.log1p() / 4,
    )
    return torch.stack(columns, -1)


def _expected_words(texts: Sequence[str], logits: Sequence[float]) -> int:
    """How many words the chosen sentences have by what a model thinks of each: a mean over all choices."""
    each = (
        len(text.split()) / (1 + math.exp(-min(max(logit, -50.0), 50.0)))
        for text, logit in zip(texts, logits, strict=False)
    )
    return max(round(sum(each)), 1)
