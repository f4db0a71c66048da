"""Questions over several paragraphs, with supporting facts (section 6 of the paper: HotpotQA).

One model learns four things together: which paragraphs are relevant, which sentences are supporting facts,
where the answer is, and whether it is a span, yes or no. It first reads all paragraphs and keeps the relevant
ones; then it reads the question with these alone and answers. The paper trains a second model for the second
reading; here the one model is trained for both.

Supporting facts come from exactly two paragraphs, as those of HotpotQA do and as the paper has it.
`multihop_features` says what an input is.
"""

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from longspan.data.examples import MultiHopQuestion
from longspan.metrics.hotpotqa import score_hotpotqa
from longspan.tasks.markers import UNKNOWN, yes_or_no_loss
from longspan.tasks.models import EncoderWithHead, ModelSettings, grow_embeddings, load_model
from longspan.tasks.multihop_features import KINDS, SMALLEST_LENGTH, MultiHopReader, Text, texts
from longspan.tasks.multihop_head import MultiHopHead, MultiHopLogits
from longspan.tasks.spans import best_spans, or_loss
from longspan.tasks.task import Batch, Feature, Loss, Task, TaskSettings, padded

_FEWEST_KEPT = 2


@dataclass(frozen=True, kw_only=True, slots=True)
class MultiHopSettings(TaskSettings):
    """What this task can be told."""

    max_paragraphs: int = 5
    """The most paragraphs of the second reading."""
    paragraph_threshold: float = -3.0
    """The second reading has paragraphs whose logit is over it, and two at least."""
    train_second_reading: bool = True
    """Whether an example is also trained on as a second reading would have it: the relevant paragraphs among
    others drawn at random, ``max_paragraphs`` in all."""
    support_paragraphs: int = 2
    """How many paragraphs the supporting facts come from, exactly; 0 for any."""
    max_answer_tokens: int = 30
    """The longest answer."""
    paragraph_weight: float = 1.0
    """Of the loss of relevant paragraphs."""
    sentence_weight: float = 1.0
    """Of the loss of supporting facts."""
    span_weight: float = 1.0
    """Of the loss of the answer's place."""
    kind_weight: float = 1.0
    """Of the loss of span, yes or no."""

    def __post_init__(self) -> None:
        TaskSettings.__post_init__(self)
        least = {"max_length": SMALLEST_LENGTH, "max_paragraphs": _FEWEST_KEPT, "max_answer_tokens": 1}
        least |= dict.fromkeys(("support_paragraphs", "paragraph_weight", "sentence_weight"), 0)
        least |= dict.fromkeys(("span_weight", "kind_weight"), 0)
        for name, fewest in least.items():
            if not getattr(self, name) >= fewest:
                raise ValueError(f"settings.{name} is {getattr(self, name)}; it must be at least {fewest}")


class Answer(NamedTuple):
    """Characters of a text that may be the answer."""

    score: float
    """Comparable between the inputs of an example: how much better than that there is no answer."""
    text: int
    """The number of a title or sentence."""
    start: int
    end: int


class Reading(NamedTuple):
    """What the model says of one input. Titles and sentences are numbered as in `texts`."""

    titles: list[tuple[int, float]]
    """With the logit that the paragraph is relevant."""
    sentences: list[tuple[int, float]]
    """With the logit that it is a supporting fact."""
    answer: Answer | None
    """The best; None where there is nothing but the question."""
    kind: list[float]
    """The logits of span, yes and no."""


class MultiHopQA(Task[MultiHopQuestion, Reading]):
    """An answer, and the sentences that it follows from.

    Args:
        settings: of this task.
        tokenizer: a fast tokenizer; the markers that it lacks are added to it, in place.
    """

    Settings = MultiHopSettings
    name = "hotpotqa"
    formats = ("multihop", "hotpotqa")
    best_score = "joint_f1"

    settings: MultiHopSettings

    def __init__(self, settings: MultiHopSettings, tokenizer: PreTrainedTokenizerBase) -> None:
        super().__init__(settings, tokenizer)
        self.reader = MultiHopReader(
            tokenizer, max_length=settings.max_length, global_tokens=settings.global_tokens
        )

    def features(self, example: MultiHopQuestion, *, training: bool) -> Iterator[Feature]:
        """The first reading; in training the second as well, and nothing where nothing is known."""
        if training and example.answer is None and not example.supporting_facts:
            return
        everything = range(len(example.paragraphs))
        yield from self.reader.features(example, everything)
        if not (training and self.settings.train_second_reading):
            return
        kept = {fact.paragraph for fact in example.supporting_facts}
        more = self.settings.max_paragraphs - len(kept)
        # Without known facts, what is kept might miss the answer; without others, nothing is left out.
        if kept and len(kept) + max(more, 0) < len(everything):
            others = [at for at in everything if at not in kept]
            # The id as the seed: the same others on every machine and in every process.
            kept.update(random.Random(example.id).sample(others, max(more, 0)))
            yield from self.reader.features(example, kept)

    def second_features(self, example: MultiHopQuestion, outputs: Sequence[Reading]) -> Iterator[Feature]:
        """The second reading, after the first; no feature where the first keeps all paragraphs.

        Args:
            example: as `features` got it.
            outputs: of its features, without training.
        """
        kept = self._kept(_paragraph_logits(outputs, texts(example)))
        if len(kept) < len(example.paragraphs):
            yield from self.reader.features(example, kept)

    def collate(self, features: Sequence[Feature], seeds: Sequence[int]) -> Batch:
        """With the arrays of the features, padded: by no place and unknown targets."""
        batch = super().collate(features, seeds)
        for name in ("text", "start", "end", "title_at", "is_relevant", "sentence_at", "is_support", "kind"):
            batch[name] = padded([one[name] for one in features], UNKNOWN).long()
        for name in ("is_start", "is_end"):
            batch[name] = padded([one[name] for one in features], False)
        return batch

    def build(self, model: ModelSettings) -> nn.Module:
        """The encoder with embeddings for the markers, which are drawn from torch's generator, and a head."""
        encoder = load_model(model, None, global_tokens=self.settings.global_tokens)
        grow_embeddings(encoder, len(self.tokenizer))
        return _with_head(encoder)

    def loss(self, model: nn.Module, batch: Batch) -> Loss:
        """The weighted sum of four losses, each a sum over all decisions of a feature; a target a feature.

        With weights of 1 it is the negative logarithm of the probability of all that is right.
        """
        logits: MultiHopLogits = model(batch)
        settings = self.settings
        first_token = torch.arange(batch["start"].shape[1], device=batch["start"].device) == 0
        span = or_loss(
            logits.start, logits.end, batch["is_start"], batch["is_end"], (batch["start"] >= 0) | first_token
        )
        kind = F.cross_entropy(logits.kind, batch["kind"][:, 0], ignore_index=UNKNOWN, reduction="sum")
        parts = {
            "paragraphs": settings.paragraph_weight * yes_or_no_loss(logits.relevant, batch["is_relevant"]),
            "sentences": settings.sentence_weight * yes_or_no_loss(logits.support, batch["is_support"]),
            "span": settings.span_weight * span.sum(),
            "answer_kind": settings.kind_weight * kind,
        }
        total = torch.stack(list(parts.values())).sum()
        count = torch.tensor(len(batch["input_ids"]), device=total.device)
        return Loss(total, count, {name: part.detach() for name, part in parts.items()})

    def outputs(self, model: nn.Module, batch: Batch) -> list[Reading]:
        """All logits of paragraphs and sentences, and the best span."""
        logits: MultiHopLogits = model(batch)
        allowed = batch["start"] >= 0
        # Tokens of one text stand between markers, which are not allowed: no span leaves its text.
        spans = best_spans(logits.start, logits.end, allowed, self.settings.max_answer_tokens, 1)
        no_answer = (logits.start[:, 0] + logits.end[:, 0]).tolist()
        texts_of, starts, ends = (batch[name].tolist() for name in ("text", "start", "end"))
        titles = _numbered(logits.relevant, batch["title_at"], batch["text"])
        sentences = _numbered(logits.support, batch["sentence_at"], batch["text"])
        out: list[Reading] = []
        for at, kind in enumerate(logits.kind.tolist()):
            answer = None
            if spans[at]:
                score, first, last = spans[at][0]
                answer = Answer(score - no_answer[at], texts_of[at][first], starts[at][first], ends[at][last])
            out.append(Reading(titles[at], sentences[at], answer, kind))
        return out

    def prediction(self, example: MultiHopQuestion, outputs: Sequence[Reading]) -> dict[str, Any]:
        """{"id", "answer", "supporting_facts": [[title, sentence], ...], "paragraphs": [title, ...]}.

        The input with the most relevant paragraph says whether the answer is a span; the best span of all
        inputs is the answer then. "paragraphs" are those that were kept.

        Args:
            example: without targets, perhaps.
            outputs: of the second reading; of the first, if that kept everything or is to be the only one.
        """
        all_texts = texts(example)
        paragraphs = _paragraph_logits(outputs, all_texts)
        if len(paragraphs) == len(example.paragraphs):
            paragraphs = {at: paragraphs[at] for at in self._kept(paragraphs)}
        titles = [example.paragraphs[at].title for at in sorted(paragraphs)]
        facts = self._support(outputs, all_texts, paragraphs)
        return {
            "id": example.id,
            "answer": _answer(outputs, all_texts),
            "supporting_facts": [[example.paragraphs[one.paragraph].title, one.sentence] for one in facts],
            "paragraphs": titles,
        }

    def score(
        self, examples: Sequence[MultiHopQuestion], predictions: Sequence[Mapping[str, Any]]
    ) -> dict[str, float]:
        """Exact match and F1, of the answer, of the supporting facts and of both jointly."""
        gold: dict[str, str] = {}
        for example in examples:
            if example.answer is None:
                raise ValueError(f"{example.id}: answer is None; only questions with answers can be scored")
            gold[example.id] = example.answer
        scores = score_hotpotqa(
            answers={one["id"]: one["answer"] for one in predictions},
            facts={one["id"]: one["supporting_facts"] for one in predictions},
            gold_answers=gold,
            gold_facts={example.id: example.named_facts for example in examples},
        )
        return {
            "answer_em": scores.answer.exact_match,
            "answer_f1": scores.answer.f1,
            "support_em": scores.facts.exact_match,
            "support_f1": scores.facts.f1,
            "joint_em": scores.joint.exact_match,
            "joint_f1": scores.joint.f1,
        }

    def _kept(self, paragraphs: Mapping[int, float]) -> list[int]:
        """The paragraphs of the second reading, in their order, by the logits of the first."""
        best = sorted(paragraphs, key=lambda at: -paragraphs[at])[: self.settings.max_paragraphs]
        over = [at for at in best if paragraphs[at] > self.settings.paragraph_threshold]
        return sorted(over if len(over) >= _FEWEST_KEPT else best[:_FEWEST_KEPT])

    def _support(
        self, outputs: Sequence[Reading], all_texts: Sequence[Text], paragraphs: Mapping[int, float]
    ) -> list[Text]:
        """Sentences with a positive logit, of paragraphs that were kept.

        With ``support_paragraphs``, they are of the paragraphs where the logit of the paragraph and the
        highest of a sentence have the highest sum, and each of these gives its best sentence at least.
        Without, the two best sentences where no logit is positive.
        """
        sentences: dict[int, dict[int, float]] = {}
        for reading in outputs:
            for number, logit in reading.sentences:
                if all_texts[number].paragraph in paragraphs:
                    sentences.setdefault(all_texts[number].paragraph, {})[number] = logit
        if self.settings.support_paragraphs:
            by_score = sorted(sentences, key=lambda at: -paragraphs[at] - max(sentences[at].values()))
            groups = [sentences[at] for at in by_score[: self.settings.support_paragraphs]]
            fewest = 1
        else:
            groups = [{number: logit for group in sentences.values() for number, logit in group.items()}]
            fewest = 2
        chosen: list[int] = []
        for group in groups:
            positive = [number for number, logit in group.items() if logit > 0]
            chosen += positive or sorted(group, key=lambda number: -group[number])[:fewest]
        return [all_texts[number] for number in sorted(chosen)]


def _with_head(encoder: PreTrainedModel) -> EncoderWithHead:
    return EncoderWithHead(encoder, MultiHopHead(encoder.config.hidden_size))


def _numbered(logits: Tensor, at: Tensor, text: Tensor) -> list[list[tuple[int, float]]]:
    """Of each row, the number of the text at each place [batch, places] that is one, and its logit."""
    rows = zip(at.tolist(), text.tolist(), logits.tolist(), strict=True)
    return [
        [(numbers[place], logit) for place, logit in zip(places, row, strict=True) if place >= 0]
        for places, numbers, row in rows
    ]


def _paragraph_logits(outputs: Sequence[Reading], all_texts: Sequence[Text]) -> dict[int, float]:
    """The logit of every paragraph that was read; the highest where one was read in several pieces."""
    out: dict[int, float] = {}
    for reading in outputs:
        for number, logit in reading.titles:
            paragraph = all_texts[number].paragraph
            out[paragraph] = max(logit, out.get(paragraph, logit))
    return out


def _answer(outputs: Sequence[Reading], all_texts: Sequence[Text]) -> str:
    deciding = max(outputs, key=lambda reading: max((logit for _, logit in reading.titles), default=0.0))
    kind = KINDS[max(range(len(KINDS)), key=deciding.kind.__getitem__)]
    if kind != "span":
        return kind
    answers = [reading.answer for reading in outputs if reading.answer is not None]
    if not answers:
        return ""
    _, number, start, end = max(answers, key=lambda answer: answer.score)
    return all_texts[number].text[start:end].strip()
