"""Questions that a span of a document answers (section 6.1 of the paper: TriviaQA; also SQuAD and QuAC).

An input is the tokenizer's own pair of a question and a window of a document, ``<s> question </s></s>
document </s>`` for RoBERTa. The question is global. In a dialogue, the last turns come before the question,
``earlier question </s> its answer </s> ... question``, and are global with it. Segment ids are not used.
"""

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, takewhile
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from torch import nn
from transformers import PreTrainedTokenizerBase

from longspan.data.examples import AnswerRules, Question
from longspan.data.extractive_qa import dialogue_of
from longspan.metrics.answers import SQUAD, TRIVIAQA, score_answers
from longspan.metrics.quac import score_quac
from longspan.models.longformer_heads import LongformerForQuestionAnswering
from longspan.tasks.models import ModelSettings, call, load_model
from longspan.tasks.spans import best_spans, or_loss
from longspan.tasks.task import Batch, Feature, Loss, Task, TaskSettings, padded
from longspan.tasks.windows import text_tokens, windows

_RULES = {"squad": SQUAD, "triviaqa": TRIVIAQA}
_NOWHERE = -1
"""The document of a token that belongs to none."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ExtractiveQASettings(TaskSettings):
    """What this task can be told."""

    stride: int = 128
    """Tokens that neighbouring windows of a document share."""
    join_documents: bool = False
    """Whether a question's documents are read as one long text, a separator between them, as the paper did
    for TriviaQA. Otherwise each has its own windows."""
    max_windows: int | None = None
    """The most windows of a document (of all together, if joined); what follows is not read. 1 is the
    paper's way with TriviaQA. None reads everything."""
    max_question_tokens: int = 64
    """Longer questions are cut. What a question leaves is for the turns before it, of which the oldest
    words are left out."""
    history: int = 2
    """How many turns of a dialogue are read before the question; data without dialogues have none."""
    max_answer_tokens: int = 30
    """Longer answers are not given; they are learned from all the same."""
    answer_may_be_absent: bool | None = None
    """Whether "no answer" may be given (SQuAD 2.0, QuAC), and is learned from questions that have none. None
    looks whether the training data have such questions."""
    shift: int = 0
    """A document that is learned from begins up to so many positions later, by lot, as if a text stood before
    it (compare arXiv 2109.05644). Answers of short texts stand near the beginning; without this, the same
    paragraph is read worse farther on. Longformers only; 0 for others."""
    no_answer_threshold: float = 0.0
    """"No answer" is given where its score exceeds that of the best span by more than this."""
    rules: AnswerRules | None = None
    """Whose exact match and F1; QuAC's are F1 and how often that is as good as a person's. None takes those
    of the data's format, SQuAD's for our JSONL."""

    def __post_init__(self) -> None:
        # Not super(): a dataclass with slots is another class than the one that its methods know.
        TaskSettings.__post_init__(self)
        least_of = {"stride": 0, "max_question_tokens": 1, "max_answer_tokens": 1, "history": 0, "shift": 0}
        for name, least in least_of.items():
            if getattr(self, name) < least:
                raise ValueError(f"settings.{name} is {getattr(self, name)}; it must be at least {least}")
        if self.max_windows is not None and self.max_windows < 1:
            raise ValueError(f"settings.max_windows is {self.max_windows}; it must be at least 1, or None")
        if self.rules not in (None, *_RULES, "quac"):
            known = ", ".join((*_RULES, "quac"))
            raise ValueError(f"settings.rules is {self.rules!r}; it must be one of {known}")


class PairForm(NamedTuple):
    """The special tokens around a pair of texts."""

    before: list[int]
    between: list[int]
    after: list[int]

    @classmethod
    def of(cls, tokenizer: Any) -> "PairForm":
        """Reads them off a pair that the tokenizer makes."""
        pair = tokenizer("a", "a")
        parts = [
            (place, [token for token, _ in tokens])
            for place, tokens in groupby(
                zip(pair["input_ids"], pair.sequence_ids(0), strict=True), key=lambda item: item[1]
            )
        ]
        if [place for place, _ in parts] != [None, 0, None, 1, None]:
            raise ValueError(
                "the tokenizer puts no special tokens before, between and after a pair of texts; "
                "extractive question answering needs one that does, as RoBERTa's and BERT's do"
            )
        return cls(parts[0][1], parts[2][1], parts[4][1])

    @property
    def tokens(self) -> int:
        """How many there are."""
        return sum(map(len, self))


class WindowAnswer(NamedTuple):
    """What the model says about one window."""

    no_answer: float
    """The score of the first token as the answer."""
    score: float
    """That of the best span; -inf where the window has none."""
    document: int
    start: int
    end: int
    """The span's characters, the end exclusive."""


class _Text(NamedTuple):
    """Tokens to cut windows from: a document, or several joined. All arrays are [tokens]."""

    ids: np.ndarray
    document: np.ndarray
    """Which document it belongs to, -1 for a separator."""
    first: np.ndarray
    """Its first character in that document."""
    end: np.ndarray
    """The character after its last."""
    answers: list[tuple[int, int]]
    """First and last tokens of the answers, both inclusive."""


class ExtractiveQA(Task[Question, WindowAnswer]):
    """The span of a document that answers a question, or none."""

    Settings = ExtractiveQASettings
    name = "qa"
    formats = ("qa", "squad", "triviaqa", "quac")
    best_score = "f1"

    settings: ExtractiveQASettings

    def __init__(self, settings: ExtractiveQASettings, tokenizer: PreTrainedTokenizerBase) -> None:
        super().__init__(settings, tokenizer)
        self.form = PairForm.of(tokenizer)
        least = settings.max_question_tokens + self.form.tokens + settings.stride + 1
        if settings.max_length < least:
            rest = f"max_question_tokens {settings.max_question_tokens} and stride {settings.stride}"
            raise ValueError(
                f"settings.max_length is {settings.max_length}; with {rest} it must be at least {least}"
            )

    @classmethod
    def resolved(cls, settings: ExtractiveQASettings, examples: Iterable[Question]) -> ExtractiveQASettings:
        """With whether answers may be absent, by the examples."""
        if settings.answer_may_be_absent is not None:
            return settings
        # TriviaQA has an answer to every question: there is no need to read all its documents for that.
        asked = takewhile(lambda example: example.scored_by != "triviaqa", examples)
        return replace(settings, answer_may_be_absent=any(example.is_impossible for example in asked))

    def features(self, example: Question, *, training: bool) -> Iterator[Feature]:
        """The windows of the documents; for training, those with something to learn.

        Raises:
            ValueError: a question to learn from has no answer, which the settings say cannot be.
        """
        may_be_absent = bool(self.settings.answer_may_be_absent)
        is_known = example.is_impossible or bool(example.answers) or bool(example.spans)
        if training and example.is_impossible and not may_be_absent:
            raise ValueError(
                f"{example.id}: is_impossible is true, but settings.answer_may_be_absent is "
                f"{self.settings.answer_may_be_absent}; it must be true for data with such questions"
            )
        if training and not (is_known and (may_be_absent or example.spans)):
            return
        front = [*self.form.before, *self._question(example), *self.form.between]
        room = self.settings.max_length - len(front) - len(self.form.after)
        cut = [
            (text, window)
            for text in self._texts(example)
            for window in windows(len(text.ids), room, self.settings.stride)[: self.settings.max_windows]
        ]
        # Windows are compared by how much likelier their spans are than <s>, which must be learned for that.
        # With one window nothing is compared: all probability is the document's, as in the paper.
        with_none = may_be_absent or len(cut) > 1
        for text, window in cut:
            inside = [
                (len(front) + first - window.start, len(front) + last - window.start)
                for first, last in text.answers
                if window.start <= first and last < window.stop
            ]
            if not inside and with_none and is_known:
                inside = [(0, 0)]
            if inside or not training:
                yield self._feature(front, text, window, inside, with_none=with_none)

    def collate(self, features: Sequence[Feature], seeds: Sequence[int]) -> Batch:
        """With "is_start", "is_end", "may_answer", "document", "first_character", "end_character", each
        [batch, length], and "shift", [batch]."""
        batch = super().collate(features, seeds)
        for name in ("is_start", "is_end", "may_answer"):
            batch[name] = padded([one[name] for one in features], False)
        batch["document"] = padded([one["document"] for one in features], _NOWHERE)
        for name in ("first_character", "end_character"):
            batch[name] = padded([one[name] for one in features], 0)
        drawn = [int(np.random.default_rng(seed).integers(self.settings.shift + 1)) for seed in seeds]
        batch["shift"] = torch.tensor(drawn)
        return batch

    def build(self, model: ModelSettings) -> nn.Module:
        """The model with a linear layer for starts and ends.

        Raises:
            ValueError: the settings do not fit the model.
        """
        built = load_model(model, "QuestionAnswering", global_tokens=self.settings.global_tokens)
        if self.settings.shift and not isinstance(built, LongformerForQuestionAnswering):
            raise ValueError(
                f"settings.shift is {self.settings.shift}, but {model.source} is a {type(built).__name__}; "
                "it must be 0 for all but Longformers"
            )
        return built

    def loss(self, model: nn.Module, batch: Batch) -> Loss:
        """The OR-loss over all answers of a window; a target a window with any."""
        shifted = {}
        if self.settings.shift:
            is_in_document = (batch["document"] != _NOWHERE).cumsum(1) > 0
            places = torch.arange(is_in_document.shape[1], device=is_in_document.device)
            places = places + batch["shift"][:, None] * is_in_document
            longformer = cast(LongformerForQuestionAnswering, model).longformer
            shifted = {"position_ids": longformer.embeddings.rows_of(places)}
        said = call(model, batch, **shifted)
        losses = or_loss(
            said.start_logits, said.end_logits, batch["is_start"], batch["is_end"], batch["may_answer"]
        )
        return Loss(losses.sum(), batch["is_start"].any(1).sum())

    def outputs(self, model: nn.Module, batch: Batch) -> list[WindowAnswer]:
        """The best span of each window, and the score of "no answer"."""
        said = call(model, batch)
        start, end = said.start_logits.float(), said.end_logits.float()
        # An answer may contain white space, but neither begin nor end with it.
        is_blank = batch["first_character"] == batch["end_character"]
        ranked = best_spans(
            start.masked_fill(is_blank, -torch.inf),
            end.masked_fill(is_blank, -torch.inf),
            batch["document"] != _NOWHERE,
            self.settings.max_answer_tokens,
            count=1,
        )
        found: list[WindowAnswer] = []
        for row, (no_answer, spans) in enumerate(zip((start + end)[:, 0].tolist(), ranked, strict=True)):
            if spans:
                best = spans[0]
                document = int(batch["document"][row, best.start])
                first = int(batch["first_character"][row, best.start])
                last = int(batch["end_character"][row, best.end])
                found.append(WindowAnswer(no_answer, best.score, document, first, last))
            else:
                found.append(WindowAnswer(no_answer, -np.inf, _NOWHERE, 0, 0))
        return found

    def prediction(self, example: Question, outputs: Sequence[WindowAnswer]) -> dict[str, Any]:
        """{"id", "answer", "document", "start", "end", "score"}, of the best window.

        ``document[start:end]`` is the answer, the document a place in the list. Without an answer it is "",
        and the three are None. The best window is the one whose span exceeds its own "no answer" most: logits
        of different windows have no common zero, their differences do.
        """
        best = max(outputs, key=lambda one: one.score - one.no_answer)
        gap = best.no_answer - best.score
        is_absent = self.settings.answer_may_be_absent and gap > self.settings.no_answer_threshold
        if is_absent or best.document == _NOWHERE:
            nowhere = dict.fromkeys(("document", "start", "end"))
            return {"id": example.id, "answer": "", **nowhere, "score": best.no_answer}
        return {
            "id": example.id,
            "answer": example.documents[best.document].text[best.start : best.end],
            "document": best.document,
            "start": best.start,
            "end": best.end,
            "score": best.score,
        }

    def score(
        self, examples: Sequence[Question], predictions: Sequence[Mapping[str, Any]]
    ) -> dict[str, float]:
        """Exact match and F1 of words, by the data set's rules; for QuAC, see `score_quac`."""
        rules = self._rules(examples)
        impossible = sum(example.is_impossible for example in examples)
        if impossible and not self.settings.answer_may_be_absent:
            logging.getLogger(__name__).warning(
                "%d of %d questions have no answer; with settings.answer_may_be_absent %s that is never said "
                "and each counts as wrong",
                *(impossible, len(examples), self.settings.answer_may_be_absent),
            )
        for example in examples:
            if not example.answers and not example.is_impossible:
                raise ValueError(
                    f"{example.id}: answers is empty and is_impossible is false; "
                    "a question can be scored where its answers are known"
                )
        # By place, not by id: published data sets may ask one question twice.
        answers = {str(at): one["answer"] for at, one in enumerate(predictions)}
        golds = {str(at): example.answers for at, example in enumerate(examples)}
        if rules == "quac":
            dialogues = {str(at): dialogue_of(example) for at, example in enumerate(examples)}
            quac = score_quac(answers, golds, dialogues)
            names = ("f1", "human_f1", "heq_q", "heq_d", "unfiltered_f1")
            return {name: getattr(quac, name) for name in names}
        scores = score_answers(answers, golds, _RULES[rules])
        return {"exact_match": scores.exact_match, "f1": scores.f1}

    def _rules(self, examples: Sequence[Question]) -> AnswerRules:
        """The settings', or else those of the data."""
        if self.settings.rules is not None:
            return self.settings.rules
        found: set[AnswerRules] = {example.scored_by for example in examples}
        if len(found) != 1:
            raise ValueError(
                f"the questions are from data with the rules of {', '.join(sorted(found)) or 'nobody'}; "
                "settings.rules must say whose to score them by"
            )
        return found.pop()

    def _question(self, example: Question) -> list[int]:
        """The tokens of the question, those of the last turns before it."""
        most = self.settings.max_question_tokens
        question = text_tokens(self.tokenizer, example.question, plain=True).ids[:most].tolist()
        history: list[int] = []
        for turn in example.history[max(len(example.history) - self.settings.history, 0) :]:
            for text in turn:
                history += [
                    *text_tokens(self.tokenizer, text, plain=True).ids.tolist(),
                    self.form.between[-1],
                ]
        room = most - len(question)
        return [*history[max(len(history) - room, 0) :], *question]

    def _texts(self, example: Question) -> list[_Text]:
        """What windows are cut from: at least one, be it empty."""
        texts: list[_Text] = []
        for at, document in enumerate(example.documents):
            tokens = text_tokens(self.tokenizer, document.text, plain=True)
            spans = [tokens.span(one.start, one.end) for one in example.spans if one.document == at]
            owner = np.full(len(tokens.ids), at, dtype=np.int32)
            answers = sorted({span for span in spans if span is not None})
            texts.append(_Text(tokens.ids, owner, tokens.starts, tokens.ends, answers))
        if self.settings.join_documents or not texts:
            return [_joined(texts, self.form.between[-1])]
        return texts

    def _feature(
        self,
        front: list[int],
        text: _Text,
        window: range,
        answers: list[tuple[int, int]],
        *,
        with_none: bool,
    ) -> Feature:
        """One input.

        Args:
            front: tokens up to the document.
            text: where the window is cut from.
            window: its tokens there.
            answers: first and last tokens of the right answers, counted from the input's first token.
            with_none: whether the first token stands for "not here".
        """
        after = self.form.after
        part = slice(window.start, window.stop)
        size = (len(front), len(after))
        ids = np.concatenate([front, text.ids[part], after]).astype(np.int32)
        is_global = np.zeros(len(ids), dtype=bool)
        is_global[: len(front) - len(self.form.between)] = self.settings.global_tokens
        is_start, is_end = np.zeros((2, len(ids)), dtype=bool)
        is_start[[first for first, _ in answers]] = True
        is_end[[last for _, last in answers]] = True
        document = np.pad(text.document[part], size, constant_values=_NOWHERE)
        may_answer = document != _NOWHERE
        may_answer[0] = with_none
        return {
            "input_ids": ids,
            "is_global": is_global,
            "is_start": is_start,
            "is_end": is_end,
            "may_answer": may_answer,
            "document": document,
            "first_character": np.pad(text.first[part], size),
            "end_character": np.pad(text.end[part], size),
        }


def _joined(texts: Sequence[_Text], separator: int) -> _Text:
    """The texts one after another, with a separator between each and the next."""
    parts: list[_Text] = []
    answers: list[tuple[int, int]] = []
    nothing = np.zeros(1, dtype=np.int32)
    at = 0
    for text in texts:
        if parts:
            parts.append(_Text(nothing + separator, nothing + _NOWHERE, nothing, nothing, []))
            at += 1
        parts.append(text)
        answers += [(first + at, last + at) for first, last in text.answers]
        at += len(text.ids)
    empty = np.zeros(0, dtype=np.int32)
    ids, document, first, end = (np.concatenate([empty, *(part[n] for part in parts)]) for n in range(4))
    return _Text(ids, document, first, end, answers)
