"""Questions whose answer is one of given candidates (section 6.1 and appendix of the paper: WikiHop).

An input is ``<s> [q] query [/q] [ent] candidate [/ent] ... </s> support </s> support </s>``; all before the
first separator is global, and a linear layer over each [ent] scores its candidate. Supports that do not fit
are read in chunks, each behind the same query and candidates; a candidate's logit is its mean over them, both
where it is learned from and where it is predicted.

To be learned from, the chunks of an example must be computed at once: they are one feature, and rows of
one batch. Predictions can wait for the other chunks: each is a feature of its own, however many there are.

The four markers are new tokens. A tokenizer that lacks them is extended in place when the task is made, so
whoever saves the tokenizer beside the model saves them too.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from tokenizers import AddedToken
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from longspan.data.examples import CandidateQuestion
from longspan.tasks.models import EncoderWithHead, ModelSettings, grow_embeddings, load_model
from longspan.tasks.task import Batch, Feature, Loss, Task, TaskSettings, padded
from longspan.tasks.windows import text_tokens, windows

MARKERS = ("[q]", "[/q]", "[ent]", "[/ent]")
"""New tokens: around the query, and around each candidate."""
_SEPARATORS = 3
"""Special tokens of an input with one support: the first, the one before the supports, the last."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CandidateSettings(TaskSettings):
    """What this task can be told."""

    stride: int = 0
    """Tokens that neighbouring chunks of the supports share."""
    max_chunks: int | None = None
    """The most chunks of the supports; what follows is not read. None reads everything. Those of an example
    are trained on at once, so this also bounds the memory that training takes."""
    min_support_tokens: int = 64
    """Tokens of every input that are kept for supports. Where the query and the candidates would leave
    fewer, the longest of them are cut."""

    def __post_init__(self) -> None:
        # Not super(): a dataclass with slots is another class than the one that its methods know.
        TaskSettings.__post_init__(self)
        if self.stride < 0:
            raise ValueError(f"settings.stride is {self.stride}; it must be at least 0")
        if self.max_chunks is not None and self.max_chunks < 1:
            raise ValueError(f"settings.max_chunks is {self.max_chunks}; it must be at least 1, or None")
        if not self.stride < self.min_support_tokens < self.max_length:
            raise ValueError(
                f"settings.min_support_tokens is {self.min_support_tokens}; it must be above "
                f"settings.stride, {self.stride}, and below settings.max_length, {self.max_length}"
            )


class CandidateScores(NamedTuple):
    """The logits of the candidates, from the chunks of one feature."""

    logits: list[float]


class CandidateHead(nn.Module):
    """One logit for each candidate, from the hidden states of its first marker in every chunk."""

    def __init__(self, hidden_size: int) -> None:
        super().__init__()
        self.score = nn.Linear(hidden_size, 1, bias=False)

    def forward(self, hidden: Tensor, batch: Batch) -> Tensor:
        """Scores candidates.

        Args:
            hidden: [chunks, length, hidden_size].
            batch: with "candidates" [batch, most]: where each candidate's marker is, -1 for no candidate;
                and "chunks" [batch]: how many of the rows of ``hidden``, one after the other, are each's.

        Returns:
            [batch, most] fp32 logits, each the mean over its chunks; -inf for no candidate.
        """
        places, counts = batch["candidates"].long(), batch["chunks"]
        rows = torch.arange(len(hidden), device=hidden.device)[:, None]
        logits = self.score(hidden[rows, places.clamp(min=0).repeat_interleave(counts, dim=0)]).squeeze(2)
        means = torch.stack([chunks.mean(0) for chunks in logits.float().split(counts.tolist())])
        return means.masked_fill(places < 0, -torch.inf)


class CandidateScoring(Task[CandidateQuestion, CandidateScores]):
    """The best of a question's candidates."""

    Settings = CandidateSettings
    name = "candidates"
    formats = ("candidates", "wikihop")
    best_score = "accuracy"

    settings: CandidateSettings

    def __init__(self, settings: CandidateSettings, tokenizer: PreTrainedTokenizerBase) -> None:
        super().__init__(settings, tokenizer)
        if self.tokenizer.cls_token_id is None or self.tokenizer.sep_token_id is None:
            raise ValueError("the tokenizer lacks cls_token or sep_token; candidates need one that has both")
        # Without effect on a tokenizer that has them.
        self.tokenizer.add_tokens([AddedToken(one, special=True, normalized=False) for one in MARKERS])
        self.markers: list[int] = self.tokenizer.convert_tokens_to_ids(list(MARKERS))

    def features(self, example: CandidateQuestion, *, training: bool) -> Iterator[Feature]:
        """The chunks of the supports, each behind the query and the candidates: for training, as one."""
        if training and example.answer is None:
            return
        front, places = self._front(example)
        separator: int = self.tokenizer.sep_token_id
        supports: list[int] = []
        for support in example.supports:
            supports += [separator] * bool(supports) + text_tokens(
                self.tokenizer, support, plain=True
            ).ids.tolist()
        room = self.settings.max_length - len(front) - 2
        chunks = [
            [*front, separator, *supports[chunk.start : chunk.stop], separator]
            for chunk in windows(len(supports), room, self.settings.stride)[: self.settings.max_chunks]
        ]
        for together in [chunks] if training else ([chunk] for chunk in chunks):
            is_front = [at < len(front) for chunk in together for at in range(len(chunk))]
            yield {
                "input_ids": np.concatenate(together).astype(np.int32),
                "is_global": np.array(is_front) & self.settings.global_tokens,
                "chunk_lengths": np.array([len(chunk) for chunk in together], dtype=np.int32),
                "candidates": np.array(places, dtype=np.int32),
                "answer": np.array([-1 if example.answer is None else example.answer], dtype=np.int64),
            }

    def collate(self, features: Sequence[Feature], seeds: Sequence[int]) -> Batch:
        """A row of "input_ids", "attention_mask" and "is_global" is a chunk, [chunks, length].

        "chunks" [batch] says how many each feature has, "candidates" [batch, most] where the markers are in
        each of these, -1 for none, and "answer" [batch] which one is right, -1 for unknown.
        """
        chunks: list[Feature] = []
        for feature in features:
            borders = np.cumsum(feature["chunk_lengths"])[:-1]
            parts = (np.split(feature[name], borders) for name in ("input_ids", "is_global"))
            chunks += [
                {"input_ids": ids, "is_global": is_global} for ids, is_global in zip(*parts, strict=True)
            ]
        return super().collate(chunks, seeds) | {
            "chunks": torch.tensor([len(one["chunk_lengths"]) for one in features]),
            "candidates": padded([one["candidates"] for one in features], -1),
            "answer": torch.from_numpy(np.concatenate([one["answer"] for one in features])),
        }

    def build(self, model: ModelSettings) -> nn.Module:
        """The encoder with embeddings for the markers, and a new head."""
        encoder = load_model(model, None, global_tokens=self.settings.global_tokens)
        grow_embeddings(encoder, len(self.tokenizer))
        return self._with_head(encoder)

    def loss(self, model: nn.Module, batch: Batch) -> Loss:
        """Cross entropy over the candidates' mean logits, a target an example."""
        total = F.cross_entropy(model(batch), batch["answer"], ignore_index=-1, reduction="sum")
        return Loss(total, (batch["answer"] >= 0).sum())

    def outputs(self, model: nn.Module, batch: Batch) -> list[CandidateScores]:
        """The logits."""
        counts = (batch["candidates"] >= 0).sum(1).tolist()
        logits = model(batch).tolist()
        return [CandidateScores(row[:count]) for row, count in zip(logits, counts, strict=True)]

    def prediction(self, example: CandidateQuestion, outputs: Sequence[CandidateScores]) -> dict[str, Any]:
        """{"id", "answer", "scores": {candidate: its mean logit over the chunks, a feature each}}."""
        means = np.mean([one.logits for one in outputs], axis=0).tolist()
        scores: dict[str, float] = dict(zip(example.candidates, means, strict=True))
        return {"id": example.id, "answer": max(scores, key=scores.__getitem__), "scores": scores}

    def score(
        self, examples: Sequence[CandidateQuestion], predictions: Sequence[Mapping[str, Any]]
    ) -> dict[str, float]:
        """Accuracy."""
        right = 0
        for example, prediction in zip(examples, predictions, strict=True):
            if example.answer is None:
                raise ValueError(f"{example.id}: answer is unknown; a question with an answer can be scored")
            right += prediction["answer"] == example.candidates[example.answer]
        return {"accuracy": right / len(examples)}

    def _front(self, example: CandidateQuestion) -> tuple[list[int], list[int]]:
        """The tokens before the supports, without a separator, and where each candidate's marker is."""
        query_begins, query_ends, begins, ends = self.markers
        texts = [
            text_tokens(self.tokenizer, text, plain=True).ids.tolist()
            for text in (example.query, *example.candidates)
        ]
        room = self.settings.max_length - self.settings.min_support_tokens - _SEPARATORS - 2 * len(texts)
        longest = _common_limit([len(text) for text in texts], room)
        if longest < 1:
            raise ValueError(
                f"{example.id}: settings.max_length is {self.settings.max_length}; that is too little for "
                f"{len(example.candidates)} candidates and settings.min_support_tokens, "
                f"{self.settings.min_support_tokens}"
            )
        query, *candidates = (text[:longest] for text in texts)
        front = [self.tokenizer.cls_token_id, query_begins, *query, query_ends]
        places: list[int] = []
        for candidate in candidates:
            places.append(len(front))
            front += [begins, *candidate, ends]
        return front, places

    def _with_head(self, encoder: PreTrainedModel) -> EncoderWithHead:
        return EncoderWithHead(encoder, CandidateHead(encoder.config.hidden_size))


def _common_limit(lengths: Sequence[int], room: int) -> int:
    """The largest number such that texts of these lengths, none longer than it, fit into ``room``.

    0, or less, where there is no such number.
    """
    limit = max(*lengths, 1)
    while limit > 0 and sum(min(length, limit) for length in lengths) > room:
        limit -= 1
    return limit
